"""A SQLite database that nobody closes: its threads and its memory go when the last user does."""

from __future__ import annotations

import asyncio
import gc
import sqlite3
import threading
import weakref
from collections.abc import Callable
from pathlib import Path

import pytest

from memalchemy import Checkpointer, Database, Store
from waiting import until


@pytest.fixture
def started() -> Callable[[], set[threading.Thread]]:
    """The threads of databases that have come to be since the test began."""
    before = set(threading.enumerate())

    def started() -> set[threading.Thread]:
        return {
            thread
            for thread in set(threading.enumerate()) - before
            if thread.name in ("memalchemy-writer", "memalchemy-reader")
        }

    return started


async def expect_in_time(condition: Callable[[], bool]) -> None:
    """The threads of what was dropped end one after the other."""

    def holds() -> bool:
        gc.collect()
        return condition()

    await until(holds)


async def expect_the_end_of(threads: set[threading.Thread]) -> None:
    await expect_in_time(lambda: not any(thread.is_alive() for thread in threads))


Started = Callable[[], set[threading.Thread]]


async def use(db: Database) -> None:
    checkpointer = Checkpointer(db)
    await checkpointer.save({"say": "kettle"}, "t")
    await asyncio.gather(*(checkpointer.load("t") for _ in range(8)))
    await Store(db).put(("place",), "key", "value")
    async with db.transaction() as tx:
        await checkpointer.save({"say": "pot"}, "t", connection=tx)


async def test_a_database_that_is_dropped_ends_its_threads(own_url: str, started: Started) -> None:
    db = Database(own_url)
    await use(db)
    threads = started()
    backend = weakref.ref(db._backend._executor)
    assert threads

    del db

    await expect_the_end_of(threads)
    await expect_in_time(lambda: backend() is None)


async def test_a_database_that_was_only_read_or_written_ends_its_threads(
    own_url: str, started: Started
) -> None:
    db = Database(own_url)
    await Checkpointer(db).save({"say": "kettle"}, "t")
    writing = started()
    del db
    await expect_the_end_of(writing)

    db = Database(own_url)
    await Checkpointer(db).load("t")
    reading = started()
    del db
    await expect_the_end_of(reading)


async def test_what_shares_a_database_keeps_it(own_url: str, started: Started) -> None:
    acme = Checkpointer(Database(own_url).for_tenant("acme"))
    await acme.save({"say": "kettle"}, "t", "one")
    gc.collect()
    await acme.save({"say": "pot"}, "t", "two")

    assert await acme.load("t", "one") == {"say": "kettle"}
    threads = started()
    del acme
    await expect_the_end_of(threads)


async def test_a_database_that_was_closed_is_dropped_without_a_word(
    own_url: str, started: Started
) -> None:
    db = Database(own_url)
    await use(db)
    threads = started()
    await db.close()
    assert not started()

    del db
    await expect_the_end_of(threads)


async def test_a_dropped_database_leaves_its_file_to_others(
    tmp_path: Path, started: Started
) -> None:
    file = tmp_path / "agent.db"
    db = Database(f"sqlite:///{file}")
    await use(db)
    threads = started()
    del db
    await expect_the_end_of(threads)

    # The last connection to close a file in WAL mode empties the log and removes it.
    await expect_in_time(lambda: [one.name for one in tmp_path.iterdir()] == ["agent.db"])
    with sqlite3.connect(file) as connection:
        assert connection.execute("SELECT count(*) FROM checkpoints").fetchone() == (2,)
    connection.close()
