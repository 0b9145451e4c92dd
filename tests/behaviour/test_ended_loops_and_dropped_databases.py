"""Connections, threads and files of event loops that have ended and of databases that were dropped.

The cyclic garbage collector is off: nobody waits for it.
"""

from __future__ import annotations

import asyncio
import contextlib
import gc
import os
import subprocess
import sys
import threading
from collections.abc import Awaitable, Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import psycopg
import pytest

from ended_loops import drop_in_last_step
from garbage import no_collector
from memalchemy import Checkpointer, Database, Store, ThreadLog, sync
from servers import Postgres, migrated_database
from waiting import A_WHILE, until, wait_until

ROUNDS = 100
POOL = 15
"""Connections that SQLAlchemy's pool opens at most, without options."""
LOADS = 5
"""Loads at once, each on a connection."""

pytestmark = [
    pytest.mark.asyncio_only(reason="the loops are its own, and so is who drops what"),
    pytest.mark.usefixtures("frozen_heap"),
]

COLLECTOR = "garbage collector is trying to clean up"


@dataclass
class Place:
    """Where the tests put their data, and what a process holds there."""

    url: str
    server: Postgres | None

    def held(self) -> int:
        """Return the number of connections to the server, or of threads and open files."""
        if self.server is None:
            threads = [one for one in threading.enumerate() if one.name.startswith("memalchemy")]
            return len(threads) + sum("agent.db" in name for name in open_files())
        name = self.url.partition("?")[0].rpartition("/")[2]
        query = f"SELECT count(*) FROM pg_stat_activity WHERE datname = '{name}'"
        return int(self.server.execute(query)[0][0])

    @property
    def most(self) -> int:
        """The most of one pool, or of the five threads of a SQLite file with three files each."""
        return POOL if self.server is not None else 5 * (1 + 3)


def open_files() -> list[str]:
    found = []
    for number in os.listdir("/proc/self/fd"):
        with contextlib.suppress(OSError):
            found.append(os.readlink(f"/proc/self/fd/{number}"))
    return found


@pytest.fixture(params=["sqlite", "asyncpg", "psycopg"])
def place(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Place]:
    if request.param == "sqlite":
        yield Place(f"sqlite:///{tmp_path}/agent.db", None)
        return
    server: Postgres = request.getfixturevalue("postgres")
    with migrated_database(server) as name:
        yield Place(server.url(name, driver=request.param), server)


@pytest.fixture(autouse=True)
def silent_without_collector(caplog: pytest.LogCaptureFixture) -> Iterator[None]:
    """Warnings are errors here, those of objects that are collected in the end too."""
    with no_collector():
        yield
    assert COLLECTOR not in caplog.text


async def use(db: Database) -> None:
    checkpointer = Checkpointer(db)
    await checkpointer.save({"say": "kettle"}, "t")
    await asyncio.gather(*(checkpointer.load("t") for _ in range(LOADS)))


async def use_a_transaction(db: Database) -> None:
    async with db.transaction() as tx:
        await Store(db).put(("place",), "key", "value", connection=tx)
    assert await Store(db).get(("place",), "key") is not None


async def leave_something_undone(db: Database) -> None:
    """End while another task is in the middle of a transaction."""
    inside = asyncio.Event()

    async def wait_for_ever() -> None:
        async with db.transaction() as tx:
            await ThreadLog(db).append("t", ["entry"], connection=tx)
            inside.set()
            await asyncio.Event().wait()

    running = asyncio.create_task(wait_for_ever())
    await inside.wait()
    assert not running.done()


USES = [use, use_a_transaction, leave_something_undone]
Use = Callable[[Database], Awaitable[None]]


def run(work: Any) -> None:
    asyncio.run(work)


def run_in_a_thread(work: Any) -> None:
    thread = threading.Thread(target=run, args=(work,))
    thread.start()
    thread.join(A_WHILE)
    assert not thread.is_alive()


def run_in_a_loop_that_is_only_closed(work: Any) -> None:
    """Without the steps of `asyncio.run` before the end."""
    loop = asyncio.new_event_loop()
    try:
        loop.run_until_complete(work)
        for task in asyncio.all_tasks(loop):
            task.cancel()
            with contextlib.suppress(asyncio.CancelledError):
                loop.run_until_complete(task)
    finally:
        loop.close()


LOOPS = [run, run_in_a_thread, run_in_a_loop_that_is_only_closed]


def named(function: Any) -> str:
    return str(function.__name__)


@pytest.mark.parametrize("how", LOOPS, ids=named)
@pytest.mark.parametrize("work", USES, ids=named)
def test_ended_loops_leave_no_more_than_one_pool(
    place: Place, work: Use, how: Callable[[Any], None]
) -> None:
    """One `Database` of a module, and a loop for each job, as with `asyncio.run` in a worker."""
    db = Database(place.url)
    rounds = ROUNDS if work is use and how is run else ROUNDS // 10
    for _ in range(rounds):
        how(work(db))
        wait_until(lambda: place.held() <= place.most, "ended loops keep what they have opened")
    del db
    wait_until(lambda: place.held() == 0, "a dropped database keeps what it has opened")


@pytest.mark.parametrize("steps", [0, 1])
def test_loops_that_nobody_closes_leave_no_more_than_one_pool(place: Place, steps: int) -> None:
    """Each takes so many steps before it is closed in the end."""
    db = Database(place.url)
    loops = []
    for _ in range(ROUNDS // 10):
        loop = asyncio.new_event_loop()
        loop.run_until_complete(use(db))
        loops.append(loop)
        wait_until(lambda: place.held() <= place.most)

    for loop in loops:  # each goes on with new connections
        loop.run_until_complete(use(db))
        wait_until(lambda: place.held() <= place.most)
    del db
    wait_until(lambda: place.held() == 0)
    for loop in loops:
        for _ in range(steps):
            loop.run_until_complete(asyncio.sleep(0))
        loop.close()
    del loop, loops
    gc.collect()


@pytest.mark.parametrize("work", USES[:2], ids=named)
def test_dropped_databases_leave_nothing(place: Place, work: Use) -> None:
    """A database for each request, in one loop."""

    async def main() -> None:
        for _ in range(ROUNDS if work is use else ROUNDS // 10):
            await work(Database(place.url))
            await until(lambda: place.held() == 0, "a dropped database is open")

    asyncio.run(main())


def test_a_database_that_is_dropped_beside_its_running_loop_leaves_nothing(place: Place) -> None:
    for _ in range(ROUNDS // 10):
        db = Database(place.url)
        is_used, ends = threading.Event(), threading.Event()

        async def main(given: list[Database], used: threading.Event, end: threading.Event) -> None:
            await use(given.pop())
            used.set()
            await asyncio.to_thread(end.wait)

        thread = threading.Thread(target=asyncio.run, args=(main([db], is_used, ends),))
        thread.start()
        assert is_used.wait(A_WHILE)
        del db
        wait_until(lambda: place.held() == 0)
        ends.set()
        thread.join(A_WHILE)


def test_a_close_that_is_cancelled_anywhere_leaves_nothing(place: Place) -> None:
    """A timeout, or the end of the loop, may cancel it at any of its steps."""

    async def cancelled_after(steps: int) -> bool:
        db = Database(place.url)
        await use(db)
        closing = asyncio.create_task(db.close())
        for _ in range(steps):
            await asyncio.sleep(0)
        is_closed = closing.done()
        closing.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            await closing
        return is_closed

    steps = 0
    while not asyncio.run(cancelled_after(steps)):
        steps += 1 + steps // 8  # most of them wait for the server
        gc.collect()
        wait_until(lambda: place.held() == 0)
    assert steps


@pytest.mark.parametrize("is_cancelled", [False, True])
@pytest.mark.parametrize("is_closed", [False, True])
def test_a_loop_that_ends_in_the_middle_of_calls_leaves_nothing(
    place: Place, is_cancelled: bool, is_closed: bool
) -> None:
    """Its end cancels them, at any of their steps, and perhaps not for the first time."""

    async def end_after(steps: int) -> bool:
        db = Database(place.url)
        await use(db)
        loads = [asyncio.create_task(Checkpointer(db).load("t")) for _ in range(LOADS)]
        for _ in range(steps):
            await asyncio.sleep(0)
        are_over = all(load.done() for load in loads)
        if is_cancelled:
            for load in loads:
                load.cancel()
            await asyncio.wait(loads, return_when=asyncio.FIRST_COMPLETED)
        if is_closed:
            await db.close()
        return are_over

    steps = 0
    while not asyncio.run(end_after(steps)):
        steps += 1 + steps // 8
        gc.collect()
        wait_until(lambda: place.held() == 0, "an ended loop keeps what it has opened")
    assert steps


@pytest.mark.parametrize("is_closed", [False, True])
def test_a_loop_that_ends_wherever_psycopg_waits_leaves_nothing(
    postgres: Postgres, monkeypatch: pytest.MonkeyPatch, is_closed: bool
) -> None:
    """Its end cancels the load, or the task in which SQLAlchemy returns the connection."""
    original = psycopg.AsyncConnection.wait

    async def end_at(url: str, wait: int) -> bool:
        """End after so many waits of a load; return whether it was over before."""
        db, reached, waits = Database(url), asyncio.Event(), 0
        await use(db)

        async def held_up(self: Any, *args: Any, **more: Any) -> Any:
            nonlocal waits
            waits += 1
            if waits > wait:
                reached.set()
                await asyncio.Event().wait()
            return await original(self, *args, **more)

        monkeypatch.setattr(psycopg.AsyncConnection, "wait", held_up)
        load = asyncio.create_task(Checkpointer(db).load("t"))
        holding = asyncio.create_task(reached.wait())
        await asyncio.wait([load, holding], return_when=asyncio.FIRST_COMPLETED)
        monkeypatch.undo()
        if is_closed:
            await db.close()
        return load.done()

    with migrated_database(postgres) as name:
        place, wait = Place(postgres.url(name, driver="psycopg"), postgres), 0
        while not asyncio.run(end_at(place.url, wait)):
            wait += 1
            gc.collect()
            wait_until(lambda: place.held() == 0, f"wait {wait} of a load keeps a connection")
    assert wait > 2


def test_a_database_that_is_dropped_in_the_last_step_of_its_loop_leaves_nothing(
    place: Place,
) -> None:
    for _ in range(5):
        given = [Database(place.url)]
        loop = asyncio.new_event_loop()
        loop.run_until_complete(use(given[0]))
        drop_in_last_step(loop, given)
        del loop
        gc.collect()
        wait_until(lambda: place.held() == 0)


@pytest.mark.parametrize("steps", [0, 1, 2, 3])
def test_a_database_that_is_dropped_beside_a_loop_that_ends_leaves_nothing(
    place: Place, steps: int
) -> None:
    """The loop takes so many steps after the database was dropped."""
    for _ in range(5):
        db = Database(place.url)
        is_used, ends = threading.Event(), threading.Event()

        async def main(given: list[Database], used: threading.Event, end: threading.Event) -> None:
            await use(given.pop())
            used.set()
            end.wait()  # the loop takes no step meanwhile
            for _ in range(steps):
                await asyncio.sleep(0)
            asyncio.get_running_loop().stop()

        loop = asyncio.new_event_loop()
        work = loop.create_task(main([db], is_used, ends))
        thread = threading.Thread(target=loop.run_forever)
        thread.start()
        assert is_used.wait(A_WHILE)
        del db
        ends.set()
        thread.join(A_WHILE)
        loop.close()
        assert work.done()
        del loop, work
        gc.collect()
        wait_until(lambda: place.held() == 0)


def test_dropped_synchronous_databases_leave_nothing(place: Place) -> None:
    for _ in range(ROUNDS):
        checkpointer = sync.Checkpointer(sync.Database(place.url))
        checkpointer.save({"say": "kettle"}, "t")
        assert checkpointer.load("t") == {"say": "kettle"}
        del checkpointer
        wait_until(lambda: place.held() == 0)


PROGRAM = """
import asyncio, sys
from memalchemy import Checkpointer, Database
db = Database(sys.argv[1])
for _ in range(3):
    asyncio.run(Checkpointer(db).save({"say": "kettle"}, "t"))
loop = asyncio.new_event_loop()
loop.run_until_complete(Checkpointer(db).save({"say": "pot"}, "t"))
loop.close()
"""


def test_a_process_that_closes_nothing_ends_without_a_word(place: Place) -> None:
    done = subprocess.run(
        [sys.executable, "-W", "always", "-c", PROGRAM, place.url],
        capture_output=True,
        text=True,
        timeout=2 * A_WHILE,
    )
    assert done.returncode == 0, done.stderr
    assert done.stderr == ""
