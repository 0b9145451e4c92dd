"""A SQLite file below a running process: removed, replaced, rewritten, or locked."""

from __future__ import annotations

import asyncio
import sqlite3
import subprocess
import sys
from collections.abc import Awaitable, Callable
from contextlib import closing
from pathlib import Path

import pytest

from memalchemy import Checkpointer, Database, DatabaseUnreachable, Store, ThreadLog
from waiting import A_WHILE

pytestmark = pytest.mark.unsigned_only("it makes databases of its own")

WITH_LOGS = ("", "-wal", "-shm")


def remove(file: Path) -> None:
    file.unlink()


def remove_with_logs(file: Path) -> None:
    for end in WITH_LOGS:
        file.with_name(file.name + end).unlink(missing_ok=True)


def rename(file: Path) -> None:
    file.rename(file.with_name("renamed.db"))


def replace_by_a_backup(file: Path) -> None:
    file.with_name("backup.db").replace(file)


def replace_by_an_empty_file(file: Path) -> None:
    remove_with_logs(file)
    file.touch()


def rename_the_directory(file: Path) -> None:
    file.parent.rename(file.parent.with_name("elsewhere"))


def put_a_link_to_another_file(file: Path) -> None:
    file.unlink()
    file.symlink_to(file.with_name("backup.db"))


CHANGES = [
    remove,
    remove_with_logs,
    rename,
    replace_by_a_backup,
    replace_by_an_empty_file,
    rename_the_directory,
    put_a_link_to_another_file,
]


async def save(db: Database) -> None:
    await Checkpointer(db).save({"n": 2}, "t")


async def put(db: Database) -> None:
    await Store(db).put(("a",), "new", 1)


async def append(db: Database) -> None:
    await ThreadLog(db).append("log", ["new"])


async def delete(db: Database) -> None:
    await Checkpointer(db).delete("t")


async def in_a_transaction(db: Database) -> None:
    async with db.transaction() as tx:
        await Store(db).put(("a",), "new", 1, connection=tx)


async def load(db: Database) -> None:
    await Checkpointer(db).load("t")


async def take_a_snapshot(db: Database) -> None:
    async with db.snapshot():
        pass


@pytest.mark.parametrize(
    "use", [save, put, append, delete, in_a_transaction, load, take_a_snapshot]
)
@pytest.mark.parametrize("change", CHANGES)
async def test_nothing_is_acknowledged_in_a_file_that_nobody_finds(
    tmp_path: Path, change: Callable[[Path], None], use: Callable[[Database], Awaitable[None]]
) -> None:
    file = tmp_path / "place" / "agent.db"
    file.parent.mkdir()
    async with Database(f"sqlite:///{file}") as db:
        await save(db)
        await load(db)
        await db.backup(str(file.with_name("backup.db")))
        change(file)
        size = file.stat().st_size if file.exists() else None

        for _ in range(2):
            with pytest.raises(DatabaseUnreachable, match=r"was re.* while it was open"):
                await use(db)
        assert (file.stat().st_size if file.exists() else None) == size


async def test_after_a_close_the_file_that_is_there_then_is_used(tmp_path: Path) -> None:
    file = tmp_path / "agent.db"
    async with Database(f"sqlite:///{file}") as db:
        await Checkpointer(db).save({"n": 1}, "t")
        await db.backup(str(tmp_path / "backup.db"))
        await Checkpointer(db).save({"n": 2}, "t")
        await db.close()
        replace_by_a_backup(file)
        assert await Checkpointer(db).load("t") == {"n": 1}
        await Checkpointer(db).save({"n": 3}, "t")


@pytest.mark.parametrize("migrate", ["auto", "upgrade", "check", "off"])
async def test_a_file_that_is_up_to_date_is_opened_and_read_beside_a_writer(
    tmp_path: Path, migrate: str
) -> None:
    file = tmp_path / "agent.db"
    async with Database(f"sqlite:///{file}") as db:
        await save(db)
    with closing(sqlite3.connect(file, isolation_level=None)) as other:
        other.execute("BEGIN IMMEDIATE")
        async with Database(f"sqlite:///{file}", migrate=migrate, statement_timeout=0.05) as db:
            assert await Checkpointer(db).load("t") == {"n": 2}


async def test_a_new_file_is_its_owners_alone_and_one_that_is_there_keeps_its_rights(
    tmp_path: Path,
) -> None:
    file = tmp_path / "agent.db"
    async with Database(f"sqlite:///{file}") as db:
        await save(db)
        rights = [path.stat().st_mode & 0o777 for path in tmp_path.iterdir()]  # noqa: ASYNC240
    assert rights == [0o600] * 3
    file.chmod(0o640)
    async with Database(f"sqlite:///{file}") as db:
        await save(db)
    assert file.stat().st_mode & 0o777 == 0o640


REWRITER = """
import asyncio, sys
from memalchemy import Database, Store

async def main():
    async with Database(sys.argv[1]) as db:
        store = Store(db)
        print("ready", flush=True)
        while True:
            await store.put(("f",), "k", 1)
            await store.forget_namespace(("f",))

asyncio.run(main())
"""


async def test_new_handles_delete_while_another_process_rewrites_the_file(tmp_path: Path) -> None:
    url = f"sqlite:///{tmp_path / 'agent.db'}"
    async with Database(url) as db:
        for n in range(60):
            await Store(db).put(("a",), f"k{n}", n)
    with subprocess.Popen(  # noqa: ASYNC220 - it starts at once
        [sys.executable, "-c", REWRITER, url], stdout=subprocess.PIPE
    ) as rewriter:
        try:
            assert rewriter.stdout is not None
            await asyncio.wait_for(asyncio.to_thread(rewriter.stdout.readline), A_WHILE)
            for n in range(60):
                async with Database(url) as db:
                    assert await Store(db).delete(("a",), f"k{n}")
        finally:
            rewriter.kill()
