"""A backup of a SQLite database: whole, of one moment, while others write, over no other file."""

from __future__ import annotations

import asyncio
import os
import signal
import sqlite3
import subprocess
import sys
from pathlib import Path

import pytest
from contents import everything, fill

from memalchemy import CapabilityMissing, Checkpointer, Conflict, Corrupt, Database
from memalchemy.database.sqlite.backup import back_up
from memalchemy.errors import DatabaseUnreachable

WRITER = """
import asyncio, os, sys
from memalchemy import Checkpointer, Database

async def main():
    async with Database(sys.argv[1]) as db:
        agent = Checkpointer(db)
        for number in range(1, 10**6):
            state = {"n": number, "m": [str(n) for n in range(number % 90)]}
            await agent.save(state, "t", f"{number}")
            os.write(1, f"{number}\\n".encode())

asyncio.run(main())
"""


@pytest.fixture
def file(tmp_path: Path) -> Path:
    return tmp_path / "agent.db"


def opened(file: Path) -> Database:
    return Database(f"sqlite:///{file}", tenant="acme")


def mode(file: Path) -> int:
    return file.stat().st_mode


def save_for_ever(file: Path) -> subprocess.Popen[str]:
    return subprocess.Popen(
        [sys.executable, "-c", WRITER, f"sqlite:///{file}"], stdout=subprocess.PIPE, text=True
    )


async def test_a_backup_is_equal_and_one_file(file: Path) -> None:
    copied = file.with_name("backup.db")
    async with opened(file) as db:
        await fill(db)
        size = await db.backup(copied)

        assert sorted(file.parent.glob("*backup*")) == [copied]
        assert os.path.getsize(copied) == size  # noqa: ASYNC240 - nobody else waits
        assert mode(copied) == mode(file)
        async with opened(copied) as back:
            assert await everything(back) == await everything(db)
            assert await Checkpointer(back).search("word3")


async def test_a_backup_taken_while_another_process_writes_holds_all_it_was_told_of(
    file: Path,
) -> None:
    await opened(file).migrate()
    with save_for_ever(file) as writer:
        assert writer.stdout is not None
        try:
            for number in range(4):
                for _ in range(30):
                    told = int(writer.stdout.readline())
                copied = file.with_name(f"{number}.db")
                async with Database(f"sqlite:///{file}") as db:
                    await db.backup(copied)
                await is_a_prefix(copied, told)
        finally:
            writer.kill()


async def is_a_prefix(copied: Path, told: int) -> None:
    with sqlite3.connect(copied) as raw:
        assert raw.execute("PRAGMA integrity_check").fetchall() == [("ok",)]
    raw.close()
    async with Database(f"sqlite:///{copied}") as db:
        agent = Checkpointer(db)
        infos = [info async for info in agent.history("t")]
        numbers = [int(info.checkpoint_id) for info in reversed(infos)]
        assert numbers == list(range(1, len(numbers) + 1))
        assert len(numbers) >= told
        for number in numbers[:: max(1, len(numbers) // 10)]:
            state = await agent.load("t", f"{number}")
            assert state["n"] == number


async def test_a_backup_ends_though_somebody_commits_at_every_step(
    file: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("memalchemy.database.sqlite.backup.STEP_PAGES", 5)
    copied = file.with_name("backup.db")
    async with opened(file) as db:
        await Checkpointer(db).save({"n": 1}, "t")
    source, other = (sqlite3.connect(file, isolation_level=None) for _ in range(2))
    steps = 0

    def commit(done: int, pages: int) -> None:
        nonlocal steps
        steps += 1
        assert steps <= pages, "it starts again and again"
        other.execute("UPDATE threads SET version = version + 1")

    back_up(source, copied, commit)

    now = other.execute("SELECT version FROM threads").fetchone()
    source.close()
    other.close()
    with sqlite3.connect(copied) as raw:
        assert raw.execute("SELECT version FROM threads").fetchone() == (1,)
    raw.close()
    assert now == (1 + steps,)
    assert steps > 3


async def test_progress_ends_with_all_pages(file: Path) -> None:
    seen: list[tuple[int, int]] = []
    async with opened(file) as db:
        await fill(db)
        size = await db.backup(
            file.with_name("backup.db"), progress=lambda done, pages: seen.append((done, pages))
        )
        await asyncio.sleep(0)
    assert seen[-1] == (size // 4096, size // 4096)


async def test_a_backup_never_takes_the_place_of_a_file_without_force(file: Path) -> None:
    copied = file.with_name("backup.db")
    copied.write_text("somebody's")
    async with opened(file) as db:
        await Checkpointer(db).save({"n": 1}, "t")
        with pytest.raises(Conflict, match="is there already"):
            await db.backup(copied)
        assert copied.read_text() == "somebody's"

        await db.backup(copied, force=True)

    async with opened(copied) as back:
        assert await Checkpointer(back).load("t") == {"n": 1}


async def test_a_database_that_is_in_use_is_not_replaced_even_by_force(file: Path) -> None:
    async with opened(file) as db, opened(file.with_name("used.db")) as used:
        await Checkpointer(used).save({"n": 1}, "t")
        for name in ("used.db", "agent.db"):
            with pytest.raises(Conflict, match="in use"):
                await db.backup(file.with_name(name), force=True)
        assert await Checkpointer(used).load("t") == {"n": 1}


def damage(file: Path) -> None:
    with file.open("r+b") as raw:
        raw.seek(file.stat().st_size // 2)
        raw.write(b"\xff" * 8192)


async def test_a_damaged_database_leaves_no_backup(file: Path) -> None:
    async with opened(file) as db:
        await fill(db)
    damage(file)
    db = opened(file)

    with pytest.raises(Corrupt):
        await db.backup(file.with_name("backup.db"))

    await db.close()
    assert [p.name for p in file.parent.iterdir() if "backup" in p.name] == []


async def test_a_backup_that_is_killed_leaves_nothing_under_its_name(file: Path) -> None:
    async with opened(file) as db:
        await fill(db)
    script = (
        "import asyncio, os, memalchemy.database.sqlite.backup as b\n"
        "from memalchemy import Database\n"
        "b.os.link = b.Path.replace = lambda *a: os.kill(os.getpid(), 9)\n"
        f"asyncio.run(Database('sqlite:///{file}').backup({str(file.with_name('backup.db'))!r}))\n"
    )
    died = await asyncio.create_subprocess_exec(sys.executable, "-c", script)
    await died.wait()

    assert died.returncode == -signal.SIGKILL
    assert not file.with_name("backup.db").exists()
    async with opened(file) as db:
        await db.backup(file.with_name("backup.db"))


async def test_a_database_in_memory_is_backed_up_too(file: Path) -> None:
    async with Database("sqlite://", tenant="acme") as db:
        await fill(db)
        await db.backup(file)
        async with opened(file) as back:
            assert await everything(back) == await everything(db)


async def test_no_backup_makes_the_database_it_is_of(file: Path) -> None:
    with pytest.raises(DatabaseUnreachable, match="no file"):
        await opened(file).backup(file.with_name("backup.db"))

    assert list(file.parent.iterdir()) == []


async def test_a_backup_is_of_the_schema_that_is_there(file: Path) -> None:
    with sqlite3.connect(file) as raw:
        raw.execute("CREATE TABLE theirs (n)")
    raw.close()
    db = opened(file)

    await db.backup(file.with_name("backup.db"))

    await db.close()
    with sqlite3.connect(file.with_name("backup.db")) as raw:
        assert raw.execute("SELECT name FROM sqlite_master").fetchall() == [("theirs",)]
    raw.close()


@pytest.mark.parametrize(
    ("url", "schema", "command"),
    [
        (
            "postgresql+psycopg://me:secret@host:5433/agents?sslmode=require",
            "memory_a",
            "pg_dump --format=custom --file=out --host=host --port=5433 --username=me "
            "--dbname=agents --table=memory_a.checkpoints --table=memory_a.deltas "
            "--table=memory_a.embeddings --table=memory_a.memalchemy_version "
            "--table=memory_a.store_items --table=memory_a.threads",
        ),
        (
            "oracle://me:secret@host:1522/agents",
            "memory_a",
            "expdp me@//host:1522/agents directory=DATA_PUMP_DIR dumpfile=out "
            "tables=MEMORY_A.CHECKPOINTS,MEMORY_A.DELTAS,MEMORY_A.EMBEDDINGS,"
            "MEMORY_A.MEMALCHEMY_VERSION,MEMORY_A.STORE_ITEMS,MEMORY_A.THREADS "
            "flashback_time=systimestamp",
        ),
    ],
)
async def test_a_server_names_the_command_to_run_instead(
    url: str, schema: str, command: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    with pytest.raises(CapabilityMissing) as refused:
        await Database(url, schema=schema).backup("out")

    assert str(refused.value).endswith(f"Run: {command}")
    assert "secret" not in str(refused.value)
    assert not any(os.scandir(tmp_path))
