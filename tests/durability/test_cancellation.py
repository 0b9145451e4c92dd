"""Cancelled work is whole or absent, harms no neighbour, and gives back what it held."""

from __future__ import annotations

import asyncio
import gc
import random
import sqlite3
import threading
import time
from collections.abc import Awaitable, Callable
from contextlib import closing, suppress
from pathlib import Path

import pytest
from sqlalchemy import text
from workers import proof
from workers.states import name_of, state_of

from memalchemy import Checkpointer, Database, Store, ThreadLog
from memalchemy.database.sqlite.aiosqlite_connection import AioSQLiteConnection
from waiting import A_WHILE, give_time_to_go_wrong, until

pytestmark = pytest.mark.usefixtures("frozen_heap")

TASKS, ROUNDS = 40, 6


async def cancelled_at_random(
    work: Callable[[int], Awaitable[object]], numbers: range, seed: int
) -> set[int]:
    """Start *work* for all numbers at once and cancel half of it now and then; what came through.

    Whatever else ends one of them is raised.
    """
    chance = random.Random(seed)
    tasks = {number: asyncio.ensure_future(work(number)) for number in numbers}
    for number in chance.sample(list(tasks), len(tasks) // 2):
        await asyncio.sleep(chance.choice((0, 0, chance.uniform(0, 0.003))))
        tasks[number].cancel()
    _, stuck = await asyncio.wait(tasks.values(), timeout=A_WHILE)
    assert not stuck, f"{len(stuck)} of {len(tasks)} wait for something that was cancelled"
    return {number for number, task in tasks.items() if not task.cancelled() and task.result()}


@pytest.fixture
def quiet(db: Database) -> Callable[[], Awaitable[None]]:
    """Waits until no server process works on what was cancelled."""
    at_work = text(
        "SELECT count(*) FROM pg_stat_activity WHERE backend_type = 'client backend'"
        " AND datname = current_database() AND pid <> pg_backend_pid() AND state <> 'idle'"
    )

    async def wait() -> None:
        if db.dialect.single_writer:
            return

        async def is_quiet() -> bool:
            return not await db.run_sync(lambda c: c.scalar(at_work))

        await until(is_quiet)

    return wait


@pytest.mark.parametrize("threads", [1, 7])
async def test_a_cancelled_save_is_whole_or_absent(
    db: Database, checkpointer: Checkpointer, quiet: Callable[[], Awaitable[None]], threads: int
) -> None:
    def thread_of(number: int) -> str:
        return f"thread {number % threads}"

    async def save(number: int) -> str:
        name = name_of("a", number)
        return await checkpointer.save(state_of(name), thread_of(number), name)

    acknowledged: set[int] = set()
    for round_ in range(ROUNDS):
        numbers = range(round_ * TASKS, (round_ + 1) * TASKS)
        acknowledged |= await cancelled_at_random(save, numbers, seed=round_)
    assert len(acknowledged) >= ROUNDS * TASKS // 2
    await quiet()
    later = range(ROUNDS * TASKS, (ROUNDS + 1) * TASKS)
    async with asyncio.timeout(A_WHILE):
        await asyncio.gather(*(save(number) for number in later))

    present = set()
    for thread in {thread_of(number) for number in range(threads)}:
        infos = await proof.history(checkpointer, thread)
        proof.is_one_line(infos)
        await proof.all_load(checkpointer, thread, infos)
        present |= {info.checkpoint_id for info in infos}
    assert present >= {name_of("a", number) for number in acknowledged | set(later)}
    await proof.nothing_is_left_over(db)
    gc.collect()  # it warns of a connection that nobody gave back, and a warning fails the test
    assert (await db.health())["checked_out"] == 0


ROADS = ["a save", "a put", "an append", "a transaction", "a change"]


@pytest.mark.parametrize("road", ROADS)
async def test_what_a_cancelled_write_did_is_decided_before_its_caller_goes_on(
    db: Database, checkpointer: Checkpointer, road: str
) -> None:
    """Who reads after a cancellation and decides by what is there must not be overtaken by it."""
    store, log = Store(db), ThreadLog(db)
    await store.put(("n",), "k", 0)
    await log.append("log", 0)
    await checkpointer.save({"number": 0}, "thread")

    async def write(number: int) -> None:
        if road == "a save":
            await checkpointer.save({"number": number}, "thread")
        elif road == "a put":
            await store.put(("n",), "k", number)
        elif road == "an append":
            await log.append("log", number)
        elif road == "a change":
            await store.change(("n",), "k", lambda _: number)
        else:
            async with db.transaction() as tx:
                await store.put(("n",), "k", number, connection=tx)
                await checkpointer.save({"number": number}, "thread", connection=tx)

    async def look() -> list[object]:
        state = await checkpointer.load("thread")
        return [state, await store.get(("n",), "k"), await log.count("log")]

    started = time.monotonic()
    await write(0)
    longest = 2 * (time.monotonic() - started)
    chance, carried_out = random.Random(road), 0
    before = await look()
    for number in range(1, 121):
        writing = asyncio.ensure_future(write(number))
        await asyncio.sleep(
            chance.choice((0, chance.uniform(0, 0.001), chance.uniform(0, longest)))
        )
        writing.cancel()
        await asyncio.wait([writing])
        at_once = await look()
        await asyncio.sleep(0.003)  # timed: so long it has for what it must not do
        assert await look() == at_once, f"{road} number {number} was done behind its caller"
        carried_out += at_once != before
        before = at_once
    assert carried_out > 0


async def test_a_write_that_waits_for_the_files_lock_is_called_off_at_once(
    tmp_path: Path,
) -> None:
    url = f"sqlite:///{tmp_path / 'agent.db'}"
    async with Database(url, migrate="upgrade", statement_timeout=10 * A_WHILE) as db:
        store = Store(db)
        await store.put(("n",), "k", "before")
        with closing(sqlite3.connect(tmp_path / "agent.db", isolation_level=None)) as other:
            other.execute("BEGIN IMMEDIATE")
            putting = asyncio.create_task(store.put(("n",), "k", "cancelled"))
            await give_time_to_go_wrong()
            putting.cancel()
            await asyncio.wait([putting], timeout=A_WHILE)
            assert putting.cancelled(), "it waits for the lock, which is still held"
            other.execute("ROLLBACK")
        await store.put(("n",), "other", "after")

        assert await store.get(("n",), "k") == "before"


async def test_cancelled_saves_and_deletes_leave_no_state_without_its_base(
    db: Database, checkpointer: Checkpointer, quiet: Callable[[], Awaitable[None]]
) -> None:
    async def save_or_delete(number: int) -> object:
        name = name_of("a", number)
        if number % 3 == 0:
            await checkpointer.delete("thread", name_of("a", number - 1))
        elif number % 7 == 0:
            await checkpointer.prune("thread", keep_last=20)
        else:
            await checkpointer.save(state_of(name), "thread", name)
        return True

    for round_ in range(ROUNDS):
        numbers = range(round_ * TASKS, (round_ + 1) * TASKS)
        await cancelled_at_random(save_or_delete, numbers, seed=round_)
    await quiet()

    infos = await proof.history(checkpointer, "thread")
    await proof.all_load(checkpointer, "thread", infos)
    await proof.nothing_is_left_over(db)
    await checkpointer.save(state_of("b-1"), "thread", "b-1")
    assert await checkpointer.load("thread") == state_of("b-1")


async def test_a_cancelled_load_gives_its_connection_back(
    db: Database, checkpointer: Checkpointer
) -> None:
    for number in range(1, 30):
        await checkpointer.save(state_of(name_of("a", number)), "thread", name_of("a", number))

    async def load(number: int) -> bool:
        return await checkpointer.load("thread") == state_of("a-29")

    for round_ in range(ROUNDS):
        loaded = await cancelled_at_random(load, range(TASKS), seed=round_)
        assert len(loaded) >= TASKS // 2

    gc.collect()  # it warns of a connection that nobody gave back, and a warning fails the test
    assert (await db.health())["checked_out"] == 0
    async with asyncio.timeout(A_WHILE):
        assert all(await asyncio.gather(*(load(number) for number in range(TASKS))))


@pytest.mark.parametrize("moment", ["before it is open", "after"])
async def test_a_connection_that_opens_for_a_cancelled_task_is_closed(
    tmp_path: Path, moment: str
) -> None:
    opened, cancelled = list[sqlite3.Connection](), threading.Event()

    def connect() -> sqlite3.Connection:
        if moment == "before it is open":
            assert cancelled.wait(A_WHILE)
        opened.append(sqlite3.connect(tmp_path / "agent.db", check_same_thread=False))
        return opened[0]

    threads_before = set(threading.enumerate())
    task = asyncio.create_task(AioSQLiteConnection(connect, iter_chunk_size=64).opened())
    await asyncio.sleep(0)
    if moment == "after":
        while not opened:  # the loop does not learn of it: nothing is awaited
            time.sleep(0.001)  # noqa: ASYNC251
    task.cancel()
    asyncio.get_running_loop().call_soon(cancelled.set)
    with pytest.raises(asyncio.CancelledError):
        await task

    await until(lambda: not set(threading.enumerate()) - threads_before)
    assert not is_open(opened[0])


def is_open(connection: sqlite3.Connection) -> bool:
    try:
        connection.total_changes  # noqa: B018
    except sqlite3.ProgrammingError:
        return False
    return True


def drivers_threads() -> set[threading.Thread]:
    """Return the running threads, but those that asyncio or memalchemy keeps."""
    kept = ("asyncio", "memalchemy")
    return {thread for thread in threading.enumerate() if not thread.name.startswith(kept)}


async def test_a_transaction_that_is_cancelled_at_any_step_leaves_no_thread(
    tmp_path: Path,
) -> None:
    """Each is the first of its `Database`, of which SQLAlchemy asks the most."""
    url = f"sqlite:///{tmp_path}/agent.db"

    async def save(db: Database) -> None:
        async with db.transaction() as tx:
            await Checkpointer(db).save({"n": 1}, "thread", connection=tx)

    async def cancelled_after(steps: int) -> bool:
        async with Database(url, migrate="upgrade") as db:
            saving = asyncio.create_task(save(db))
            for _ in range(steps):
                await asyncio.sleep(0)
            saving.cancel()
            await asyncio.wait([saving])
            return not saving.cancelled()

    threads_before, steps = drivers_threads(), 0
    while not await cancelled_after(steps):
        steps += 1 + steps // 16
        await until(lambda: not drivers_threads() - threads_before)
        gc.collect()  # it warns of a connection that was not closed, and a warning fails the test
    assert steps


async def test_a_task_goes_on_beside_the_end_of_its_cancelled_transaction(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The connection closes behind it, and the next write waits for that."""
    close = AioSQLiteConnection.close
    closes, may_close = asyncio.Event(), asyncio.Event()

    async def close_later(connection: AioSQLiteConnection) -> None:
        closes.set()
        await may_close.wait()
        await close(connection)

    monkeypatch.setattr(AioSQLiteConnection, "close", close_later)
    async with Database(f"sqlite:///{tmp_path}/agent.db", migrate="upgrade") as db:
        checkpointer = Checkpointer(db)

        async def save_twice() -> None:
            with suppress(asyncio.CancelledError):
                async with db.transaction() as tx:
                    await checkpointer.save({"n": 1}, "thread", "a", connection=tx)
            await checkpointer.save({"n": 2}, "thread", "b")

        task = asyncio.create_task(save_twice())
        await closes.wait()
        task.cancel()
        asyncio.get_running_loop().call_later(0.01, may_close.set)
        async with asyncio.timeout(A_WHILE):
            await task

        assert await checkpointer.list_checkpoints("thread") == ["b", "a"]


async def test_a_cancelled_transaction_is_whole_or_absent_and_ends(
    db: Database, checkpointer: Checkpointer, quiet: Callable[[], Awaitable[None]]
) -> None:
    """The task that is cancelled is the one at work; two neighbours come after it."""

    async def save_two(number: int) -> None:
        async with db.transaction() as tx:
            for thread in ("one", "two"):
                name = name_of("a", number)
                await checkpointer.save(state_of(name), thread, name, connection=tx)

    chance = random.Random(5)
    # Kept to the end, as a host may keep them: a task holds the frames that it was cancelled in.
    tasks: list[asyncio.Task[None]] = []
    threads_before = set(threading.enumerate())
    for round_ in range(40):
        started = [asyncio.create_task(save_two(round_ * 3 + offset)) for offset in range(3)]
        tasks += started
        await asyncio.sleep(chance.uniform(0, 0.008))
        started[0].cancel()
        _, stuck = await asyncio.wait(started, timeout=A_WHILE)
        assert not stuck, f"{len(stuck)} transactions wait for one that was cancelled"
    committed = {number for number, task in enumerate(tasks) if not task.cancelled()}
    assert [error for n in sorted(committed) if (error := tasks[n].exception())] == []
    await quiet()

    infos = {thread: await proof.history(checkpointer, thread) for thread in ("one", "two")}
    names = {thread: {info.checkpoint_id for info in infos[thread]} for thread in infos}
    assert names["one"] == names["two"]
    assert names["one"] >= {name_of("a", number) for number in committed}
    for thread in infos:
        proof.is_one_line(infos[thread])
        await proof.all_load(checkpointer, thread, infos[thread])
    assert (await db.health())["checked_out"] == 0
    # A thread that is no daemon and never ends would keep the process from ending.
    left = [t for t in threading.enumerate() if t not in threads_before and not t.daemon]
    assert [t.name for t in left if not t.name.startswith("memalchemy-reader")] == []
