"""A SQLite file that is opened read-only: where nothing may be written, and beside a writer."""

from __future__ import annotations

import asyncio
import os
import signal
import sqlite3
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest
from sqlalchemy.engine import URL

from memalchemy import (
    Checkpointer,
    Database,
    DatabaseUnreachable,
    SchemaOutdated,
    UnknownURL,
)
from unwritable import (
    can_mount,
    python,
    run_on_read_only_mount,
    run_without_overrides,
    write_protected,
)

pytestmark = pytest.mark.own_keys  # the file is read by processes of their own

Confined = Callable[..., "subprocess.CompletedProcess[str]"]

READ = """
import asyncio, sys
from memalchemy import Checkpointer, Database

async def main():
    async with Database(sys.argv[1], read_only=True) as db:
        print(await Checkpointer(db).load("thread"))

asyncio.run(main())
"""

SAVE_AND_WAIT = """
import asyncio, sys
from memalchemy import Checkpointer, Database

async def main():
    db = Database(sys.argv[1])
    await Checkpointer(db).save({"n": 1}, "thread")
    print("saved", flush=True)
    sys.stdin.read()

asyncio.run(main())
"""

SAVE_OFTEN = """
import asyncio, sys
from memalchemy import Checkpointer, Database

async def main():
    n = 0
    while True:  # each time the file is opened, written and closed: it is at rest in between
        async with Database(sys.argv[1]) as db:
            await Checkpointer(db).save({"n": n, "again": [n] * 500}, "thread")
        n += 1

asyncio.run(main())
"""


def url(file: Path) -> str:
    return f"sqlite:///{file}"


async def save(file: Path, n: int) -> None:
    async with Database(url(file)) as db:
        await Checkpointer(db).save({"n": n}, "thread")


async def load(file: Path) -> object:
    async with Database(url(file), read_only=True) as db:
        return await Checkpointer(db).load("thread")


def contents(file: Path) -> bytes:
    return file.read_bytes()


def beside(file: Path) -> list[str]:
    """The names of all files in the directory of *file*."""
    return sorted(one.name for one in file.parent.iterdir())


@pytest.fixture
def file(tmp_path: Path) -> Path:
    directory = tmp_path / "data"
    directory.mkdir()
    return directory / "agent.db"


def _by_rights(file: Path) -> subprocess.CompletedProcess[str]:
    with write_protected(file.parent):
        return run_without_overrides(*python(READ, url(file)))


def _by_mount(file: Path) -> subprocess.CompletedProcess[str]:
    return run_on_read_only_mount(file.parent, *python(READ, url(file)))


@pytest.fixture(
    params=[
        pytest.param(_by_rights, id="by rights"),
        pytest.param(
            _by_mount,
            id="by mount",
            marks=pytest.mark.skipif(not can_mount(), reason="this process may not mount"),
        ),
    ]
)
def confined(request: pytest.FixtureRequest) -> Confined:
    """Read the thread in a process that cannot write the file, nor anything beside it."""
    read: Confined = request.param
    return read


async def test_a_file_at_rest_is_read_where_nothing_may_be_written(
    file: Path, confined: Confined
) -> None:
    await save(file, 1)
    before = contents(file)

    read = confined(file)

    assert (read.stdout, read.stderr) == ("{'n': 1}\n", "")
    assert contents(file) == before
    assert beside(file) == ["agent.db"]


async def test_what_a_living_writer_has_saved_is_read_where_nothing_may_be_written(
    file: Path, confined: Confined
) -> None:
    await save(file, 0)
    async with Database(url(file)) as writer:
        await Checkpointer(writer).save({"n": 1}, "thread")
        assert "agent.db-wal" in beside(file)

        assert confined(file).stdout == "{'n': 1}\n"

        await Checkpointer(writer).save({"n": 2}, "thread")
    assert await load(file) == {"n": 2}


def _killed(file: Path) -> None:
    with subprocess.Popen(
        python(SAVE_AND_WAIT, url(file)), stdin=subprocess.PIPE, stdout=subprocess.PIPE
    ) as writer:
        assert writer.stdout is not None
        assert writer.stdout.readline() == b"saved\n"
        writer.send_signal(signal.SIGKILL)
    assert Path(f"{file}-wal").stat().st_size > 0


def test_what_a_killed_writer_has_saved_is_read_where_nothing_may_be_written(
    file: Path, confined: Confined
) -> None:
    _killed(file)

    assert confined(file).stdout == "{'n': 1}\n"


def test_a_log_that_cannot_be_read_is_an_error_and_never_left_out(
    file: Path, confined: Confined
) -> None:
    _killed(file)
    Path(f"{file}-shm").unlink()  # as in a copy of the two files that hold data

    read = confined(file)

    assert read.stdout == ""
    assert "DatabaseUnreachable" in read.stderr
    assert "agent.db-wal into a directory that may be written" in read.stderr


async def test_a_backup_is_read_where_nothing_may_be_written(
    file: Path, tmp_path: Path, confined: Confined
) -> None:
    async with Database("sqlite://") as db:
        await Checkpointer(db).save({"n": 1}, "thread")
        await db.backup(file)

    assert confined(file).stdout == "{'n': 1}\n"


def test_a_file_that_may_not_be_read_is_an_error(file: Path) -> None:
    asyncio.run(save(file, 1))
    file.chmod(0)

    read = run_without_overrides(*python(READ, url(file)))

    assert "DatabaseUnreachable" in read.stderr
    assert "Check the rights" in read.stderr


async def test_nothing_is_created_beside_the_file(file: Path) -> None:
    await save(file, 1)
    before = contents(file)

    async with Database(url(file), read_only=True) as db:
        assert await Checkpointer(db).load("thread") == {"n": 1}
        async with db.snapshot() as then:
            assert await Checkpointer(db).load("thread", connection=then) == {"n": 1}
        await db.backup(file.parent / "backup.db")
        assert beside(file) == ["agent.db", "backup.db"]

    assert beside(file) == ["agent.db", "backup.db"]
    assert contents(file) == before


async def test_an_open_reader_sees_every_later_save(file: Path) -> None:
    await save(file, 0)
    async with Database(url(file), read_only=True) as db:
        for n in range(1, 6):
            await save(file, n)
            assert await Checkpointer(db).load("thread") == {"n": n}


async def test_a_file_that_is_replaced_is_read_anew(file: Path, tmp_path: Path) -> None:
    await save(file, 1)
    await save(tmp_path / "other.db", 2)
    async with Database(url(file), read_only=True) as db:
        assert await Checkpointer(db).load("thread") == {"n": 1}
        os.replace(tmp_path / "other.db", file)
        assert await Checkpointer(db).load("thread") == {"n": 2}


@pytest.mark.unsigned_only("another process writes without the key")
async def test_a_reader_beside_a_writer_that_comes_and_goes_reads_only_what_was_saved(
    file: Path,
) -> None:
    await save(file, 0)
    seen: list[int] = []
    with subprocess.Popen(python(SAVE_OFTEN, url(file))) as writer:  # noqa: ASYNC220
        try:
            async with asyncio.timeout(60):
                while len(set(seen)) < 25:
                    async with Database(url(file), read_only=True) as db:
                        for _ in range(5):
                            state = await Checkpointer(db).load("thread")
                            assert state is not None
                            assert state.get("again", []) in ([], [state["n"]] * 500)
                            seen.append(state["n"])
            assert writer.poll() is None
        finally:
            writer.kill()
    assert seen == sorted(seen)


async def test_a_snapshot_into_which_a_writer_comes_is_an_error(file: Path) -> None:
    await save(file, 1)
    async with Database(url(file), read_only=True) as db:
        snapshot = db.snapshot()
        then = await snapshot.__aenter__()
        await Checkpointer(db).load("thread", connection=then)
        await save(file, 2)
        with pytest.raises(DatabaseUnreachable, match="without locks") as raised:
            await snapshot.__aexit__(None, None, None)
        assert raised.value.busy
        async with db.snapshot() as then:
            assert await Checkpointer(db).load("thread", connection=then) == {"n": 2}


async def test_mode_ro_in_the_url_says_the_same(file: Path) -> None:
    await save(file, 1)
    async with Database(f"{url(file)}?mode=ro") as db:
        assert db.read_only
        assert await Checkpointer(db).load("thread") == {"n": 1}


async def test_other_parameters_of_a_url_are_refused(file: Path) -> None:
    with pytest.raises(UnknownURL, match="mode in a SQLite URL is ro"):
        Database(f"{url(file)}?mode=rwc")
    with pytest.raises(UnknownURL, match="no parameters but mode=ro, got cache"):
        Database(f"{url(file)}?mode=ro&cache=shared")


def test_a_database_in_memory_cannot_be_opened_read_only() -> None:
    with pytest.raises(ValueError, match="new and empty"):
        Database("sqlite://", read_only=True)
    with pytest.raises(ValueError, match="new and empty"):
        Database("sqlite://?mode=ro")


async def test_a_file_that_is_not_there_is_not_made(file: Path) -> None:
    with pytest.raises(SchemaOutdated, match="there is no file"):
        await load(file)
    assert beside(file) == []


async def test_a_file_in_a_rollback_mode_is_read_beside_its_writer(file: Path) -> None:
    await save(file, 1)
    other = sqlite3.connect(file, isolation_level=None)
    other.execute("PRAGMA journal_mode = DELETE")
    other.execute("BEGIN IMMEDIATE")
    other.execute("CREATE TABLE theirs (x)")
    assert "agent.db-journal" in beside(file)

    assert await load(file) == {"n": 1}

    other.execute("ROLLBACK")
    other.close()


async def test_a_name_with_characters_that_mean_something_in_a_uri(tmp_path: Path) -> None:
    file = tmp_path / "a #%41 b" / "agent.db"
    file.parent.mkdir()
    async with Database(URL.create("sqlite", database=str(file))) as db:
        await Checkpointer(db).save({"n": 1}, "thread")
    async with Database(URL.create("sqlite", database=str(file)), read_only=True) as db:
        assert await Checkpointer(db).load("thread") == {"n": 1}
