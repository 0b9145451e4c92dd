"""Several tasks in one transaction: one that fails, ends or is cancelled costs nobody else a write.

An operation is acknowledged only if it is durable, or part of a transaction that commits; nothing
that was rolled back is ever in the database; what has nothing to do with a transaction never
notices what happens in it. On our own transactions, and on connections and sessions of a host's.
"""

from __future__ import annotations

import asyncio
import gc
import sqlite3
import warnings
from collections.abc import AsyncIterator, Callable, Iterator, Sequence
from contextlib import (
    AbstractAsyncContextManager,
    asynccontextmanager,
    contextmanager,
    nullcontext,
    suppress,
)
from dataclasses import dataclass
from functools import partial
from typing import Any
from uuid import uuid4

import aiosqlite
import asyncpg
import psycopg
import pytest
from sqlalchemy import text
from sqlalchemy.exc import SAWarning, SQLAlchemyError
from sqlalchemy.ext.asyncio import AsyncEngine

from memalchemy import Conflict, Database, MemalchemyError, NotSerialisable
from memalchemy.codec.encryption import generate_key
from memalchemy.verify import verify
from shared_writes import (
    OPERATIONS,
    WRITES,
    Features,
    Regret,
    do,
    host_engine,
    in_session,
    is_acknowledged,
    is_clear,
    is_there,
    present,
)
from waiting import A_WHILE, steps, until

pytestmark = pytest.mark.asyncio_only(
    "a block of the synchronous face has one thread, and no tasks"
)

OURS = ("ours", "ours on a host's engine")
HOSTS = ("a host's connection", "a host's session", "a connection of another engine")

OUTLIVED = tuple(way for way in (*OURS, *HOSTS) if way != "a host's session")
"""Those that a task may outlive the commit of: see `in_session`."""

ROUNDS = 2


@dataclass
class House:
    """A database, and one way to have a transaction on it."""

    way: str
    features: Features
    block: Callable[[], AbstractAsyncContextManager[Any]]
    """Begins a transaction, and gives what is passed as ``connection=``."""
    fresh: Features
    """The same data as another process sees it: nothing cached, connections of its own."""
    engine: AsyncEngine | None
    busy: Callable[[], list[Any]]
    """The connections that are in a transaction, or at work, at this moment."""

    @property
    def is_ours(self) -> bool:
        return self.way in OURS

    @property
    def takes_turns(self) -> bool:
        """Whether writers wait for the transaction, and a host's for no longer than its timeout."""
        return self.features.db.dialect.single_writer

    def leaves(self, why: type[Exception] | tuple[type[Exception], ...]) -> Any:
        """A block that its host leaves by *why*, and by nothing else if it is one of ours.

        On a connection of the host's SQLAlchemy speaks for the host's own ROLLBACK.
        """
        whys = why if isinstance(why, tuple) else (why,)
        return pytest.raises(whys if self.is_ours else (*whys, SQLAlchemyError))


@pytest.fixture(params=[*OURS, *HOSTS])
def way(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@pytest.fixture
async def house(
    way: str,
    db: Database,
    database: str,
    shared_url: str,
    owner_url: str,
    request: pytest.FixtureRequest,
) -> AsyncIterator[House]:
    """Ends with nothing checked out, and nothing left in a transaction."""
    busy: Callable[[], list[Any]] = list
    if database in ("postgresql", "psycopg"):
        server = request.getfixturevalue("postgres")
        place = shared_url.split("?")[0].rsplit("/", 1)[1]
        at_work = (
            "SELECT pid, state, left(query, 60) FROM pg_stat_activity"
            " WHERE backend_type = 'client backend' AND datname = current_database()"
            " AND pid <> pg_backend_pid() AND state <> 'idle'"
        )
        busy = lambda: server.execute(at_work, place)  # noqa: E731
    elif database in ("sqlite", "toy"):
        busy = lambda: writers_of(shared_url)  # noqa: E731
    hosted = db
    engine = None
    if way != "ours":
        engine = host_engine(owner_url)
        if way != "a connection of another engine":
            hosted = Database(engine, tenant=db.tenant)
    blocks: dict[str, Callable[[], Any]] = {
        "a host's session": lambda: in_session(engine),
        "a host's connection": lambda: engine.begin(),
        "a connection of another engine": lambda: engine.begin(),
    }
    other = db if database == "sqlite-memory" else Database(shared_url, tenant=db.tenant)
    of_way = blocks.get(way, hosted.transaction)
    timed = partial(within_a_while, of_way)
    made = House(way, Features.of(hosted), timed, Features.of(other), engine, busy)
    yield made
    try:
        await quiet(made)
        assert (await hosted.health())["checked_out"] == 0
        assert engine is None or getattr(engine.pool, "checkedout", int)() == 0
    finally:
        if database in ("postgresql", "psycopg"):  # the next test speaks for itself
            server.execute(f"SELECT pg_terminate_backend(pid) FROM ({at_work}) AS theirs", place)
        if engine is not None:
            await engine.dispose()
        if other is not db:
            await other.close()


@asynccontextmanager
async def within_a_while(
    block: Callable[[], AbstractAsyncContextManager[Any]],
) -> AsyncIterator[Any]:
    """The same block; one that hangs ends by a `TimeoutError`."""
    async with asyncio.timeout(A_WHILE), block() as tx:
        yield tx


def writers_of(url: str) -> list[str]:
    """Whether somebody is in a writing transaction of a SQLite file."""
    with sqlite3.connect(url.split(":///")[1], timeout=0) as probe:
        try:
            probe.execute("BEGIN IMMEDIATE")
        except sqlite3.OperationalError as error:
            return [str(error)]
        probe.rollback()
    probe.close()
    return []


async def quiet(house: House) -> None:
    """No connection stays in a transaction."""
    await until(lambda: not house.busy(), "a connection is still in a transaction")


async def ended(task: asyncio.Future[Any]) -> None:
    """Wait until *task* has ended, however it ends."""
    done, _ = await asyncio.wait([task], timeout=A_WHILE)
    assert done, f"it hangs: {task}"


@contextmanager
def left_by(house: House) -> Iterator[list[Exception]]:
    """A block that may end by an error, which is then in the list: it is not a driver's.

    Of a host's own statement, and of its COMMIT, SQLAlchemy speaks.
    """
    why: list[Exception] = []
    try:
        yield why
    except (Regret, MemalchemyError, SQLAlchemyError) as error:
        why.append(error)
    assert house.way in HOSTS or all(isinstance(e, Regret) or is_clear(e) for e in why), why


async def innocents(house: House, thread: str) -> list[tuple[str, str]]:
    """Every operation, without a transaction, and one in its own; all of them come through."""
    on = house.features
    names = [(operation, f"{thread}.{operation}") for operation in OPERATIONS]
    own = ("put", f"{thread}.in its own")
    async with asyncio.timeout(A_WHILE):
        if house.engine is not None and house.takes_turns:
            for name in names:  # connections of a host's to SQLite wait for no longer than it says
                await do(on, *name)
        else:
            await asyncio.gather(*(do(on, *name) for name in names))
        async with on.db.transaction() as tx:
            await do(on, *own, tx)
    return [name for name in (*names, own) if name[0] in WRITES]


async def all_is_as_it_should(
    house: House, *, there: Sequence[tuple[str, str]], absent: Sequence[tuple[str, str]] = ()
) -> None:
    """In the eyes of another process: *there* is there, and whole, and *absent* is not."""
    missing = [one for one in there if not await is_there(house.fresh, *one)]
    assert missing == [], f"{len(missing)} of {len(there)} were acknowledged, and are not there"
    assert await present(house.fresh, absent) == [], "these were rolled back, and are there"


async def all_is_sound(house: House) -> None:
    """No state lacks what it rests on, and no index tells of what is not there."""
    report = await verify(house.fresh.db)
    assert report.ok, report.findings


# --- One of them fails ---------------------------------------------------------------------------


async def torn_apart(house: House, operation: str, thread: str, why: type[Exception]) -> Exception:
    """A transaction that one of two tasks fails in while the other is at *operation*; its end."""
    on = house.features

    async def fails(tx: Any) -> None:
        await do(on, "put", f"{thread}.first", tx)
        if why is NotSerialisable:
            await on.store.put(("shared",), "it", object(), connection=tx)
        raise Regret

    other: asyncio.Task[None] | None = None
    with left_by(house) as outcome:
        async with house.block() as tx:
            failing = asyncio.create_task(fails(tx))
            other = asyncio.create_task(do(on, operation, f"{thread}.second", tx))
            await asyncio.gather(failing, other)
    assert other is not None
    await is_acknowledged(other)
    return outcome[0]


@pytest.mark.parametrize("operation", OPERATIONS)
async def test_a_task_that_fails_beside_another_one_harms_nobody_outside_of_the_transaction(
    house: House, operation: str
) -> None:
    there, absent = [], []
    for n in range(ROUNDS):
        await torn_apart(house, operation, f"torn {n}", (Regret, NotSerialisable)[n % 2])
        absent += [("put", f"torn {n}.first"), (operation, f"torn {n}.second")]
        there += await innocents(house, f"innocent {n}")

    await all_is_as_it_should(house, there=there, absent=absent)


@pytest.mark.parametrize("why", [Regret, NotSerialisable])
async def test_what_one_of_the_tasks_raised_is_what_a_transaction_of_ours_is_left_by(
    house: House, why: type[Exception]
) -> None:
    for n, operation in enumerate(OPERATIONS):
        error = await torn_apart(house, operation, f"torn {n}", why)
        assert isinstance(error, why if house.is_ours else (why, SQLAlchemyError)), repr(error)


async def test_transactions_go_on_after_one_that_was_torn_apart(house: House) -> None:
    there, absent = [], []
    for n in range(ROUNDS):
        await torn_apart(house, "save", f"torn {n}", Regret)
        absent += [("put", f"torn {n}.first"), ("save", f"torn {n}.second")]
        for operation in WRITES:
            async with asyncio.timeout(A_WHILE), house.block() as tx:
                await do(house.features, operation, f"next {n}.{operation}", tx)
            there.append((operation, f"next {n}.{operation}"))

    await all_is_as_it_should(house, there=there, absent=absent)


async def test_a_thread_is_saved_to_after_what_was_in_the_transaction_is_gone(house: House) -> None:
    on = house.features
    await do(on, "save", "thread.before")
    for n in range(ROUNDS):
        with left_by(house):
            async with house.block() as tx:

                async def fails(tx: Any = tx, n: int = n) -> None:
                    await do(on, "save", f"thread.first {n}", tx)
                    raise Regret

                failing = asyncio.create_task(fails())
                other = asyncio.create_task(do(on, "save", f"thread.second {n}", tx))
                await asyncio.gather(failing, other)
        await is_acknowledged(other)
        await do(on, "save", f"thread.after {n}")
        await do(on, "append", f"thread.after {n}")

    kept = ["thread.before", *(f"thread.after {n}" for n in range(ROUNDS))]
    assert await house.fresh.checkpointer.list_checkpoints("thread") == kept[::-1]
    there = [("save", name) for name in kept] + [("append", name) for name in kept[1:]]
    await all_is_as_it_should(house, there=there)


# --- They take turns, or are refused -------------------------------------------------------------


async def test_what_tasks_did_together_is_there_after_the_commit_and_what_was_refused_is_not(
    house: House,
) -> None:
    there, absent = [], []
    for n in range(ROUNDS):
        outside = None
        if house.is_ours and not (house.engine is not None and house.takes_turns):
            outside = asyncio.create_task(innocents(house, f"innocent {n}"))
        async with house.block() as tx:
            names = [
                (operation, f"together {n}.{operation} {k}")
                for k in range(2)
                for operation in OPERATIONS
            ]
            tasks = [asyncio.create_task(do(house.features, *name, tx)) for name in names]
            done = [await is_acknowledged(task) for task in tasks]
        assert any(done), "one at a time is always possible"
        for name, was_acknowledged in zip(names, done, strict=True):
            if name[0] in WRITES:
                (there if was_acknowledged else absent).append(name)
        there += [] if outside is None else await outside

    await all_is_as_it_should(house, there=there, absent=absent)


async def test_a_statement_of_the_hosts_beside_an_operation_is_done_or_refused_by_sqlalchemy(
    house: House,
) -> None:
    there, absent = [], []
    for n in range(ROUNDS):
        with suppress(SQLAlchemyError, MemalchemyError):  # the block may be spoilt by the host
            async with house.block() as tx:
                ours = asyncio.create_task(do(house.features, "save", f"beside {n}.save", tx))
                await steps(n)
                with suppress(SQLAlchemyError):
                    await tx.execute(text("SELECT 1"))
                was_acknowledged = await is_acknowledged(ours)
            (there if was_acknowledged else absent).append(("save", f"beside {n}.save"))
        there += await innocents(house, f"innocent {n}")

    await all_is_as_it_should(house, there=there, absent=absent)


# --- The end -------------------------------------------------------------------------------------


@pytest.mark.parametrize("end", ["committed", "rolled back"])
async def test_an_operation_after_the_end_is_refused_and_writes_nothing(
    house: House, end: str
) -> None:
    absent = []
    for operation in OPERATIONS:
        with house.leaves(Regret) if end == "rolled back" else nullcontext():
            async with house.block() as tx:
                await do(house.features, operation, f"{operation}.inside", tx)
                if end == "rolled back":
                    raise Regret

        late = do(house.features, operation, f"{operation}.late", tx)
        assert not await is_acknowledged(late), f"{operation} after the end"
        absent.append((operation, f"{operation}.late"))

    inside = [(operation, f"{operation}.inside") for operation in WRITES]
    kept = end == "committed"
    await all_is_as_it_should(
        house, there=inside if kept else [], absent=absent if kept else [*absent, *inside]
    )


@pytest.mark.walled
@pytest.mark.parametrize("way", ["a host's connection"])
@pytest.mark.parametrize("operation", OPERATIONS)
async def test_an_operation_on_a_connection_that_was_lost_opens_no_other_in_its_place(
    house: House, operation: str
) -> None:
    assert house.engine is not None
    async with house.engine.connect() as connection:
        await do(house.features, "save", "inside", connection)
        await connection.invalidate()
        await connection.rollback()

        with pytest.raises(MemalchemyError, match="the connection was lost"):
            await do(house.features, operation, "late", connection)

        assert connection.invalidated, "SQLAlchemy opened another one"

    # The fixture sees whether everything was given back.
    await all_is_as_it_should(house, there=[], absent=[("save", "inside"), (operation, "late")])


@pytest.mark.parametrize("operation", ["append", "save"])
async def test_a_task_that_outlives_a_transaction_that_is_rolled_back_writes_nothing(
    house: House, operation: str
) -> None:
    absent = []
    for n in range(12):

        async def chatty(tx: Any, n: int = n) -> None:
            for k in range(20):
                await do(house.features, operation, f"outlived {n}.{k}", tx)

        with house.leaves(Regret):
            async with house.block() as tx:
                writing = asyncio.create_task(chatty(tx))
                await steps(4 * n)
                outlives = not writing.done()
                raise Regret
        was_acknowledged = await is_acknowledged(writing)
        assert not (was_acknowledged and outlives and house.is_ours), "though its block has ended"
        absent += [(operation, f"outlived {n}.{k}") for k in range(20)]

    there = await innocents(house, "innocent")
    await all_is_as_it_should(house, there=there, absent=absent)


@pytest.mark.parametrize("way", OUTLIVED)
@pytest.mark.parametrize("operation", ["append", "save"])
async def test_a_task_that_outlives_a_commit_is_told_of_each_write_whether_it_is_part_of_it(
    house: House, operation: str
) -> None:
    told: dict[tuple[str, str], bool] = {}
    for n in range(12):

        async def chatty(tx: Any, n: int = n) -> None:
            for k in range(20):
                one = operation, f"outlived {n}.{k}"
                told[one] = await is_acknowledged(do(house.features, *one, tx))

        async with house.block() as tx:
            writing = asyncio.create_task(chatty(tx))
            await steps(4 * n)
        await ended(writing)
        await writing

    there = [one for one in told if told[one]]
    if not house.is_ours:
        # A connection of the host's that is not closed yet begins anew: that is rolled back.
        there = await present(house.fresh, there)
    there += await innocents(house, "innocent")
    await all_is_as_it_should(house, there=there, absent=[one for one in told if not told[one]])


@pytest.mark.parametrize(
    ("way", "end"),
    [*((way, "committed") for way in OUTLIVED), *((w, "rolled back") for w in (*OURS, *HOSTS))],
)
async def test_nothing_runs_on_the_connection_of_a_transaction_that_has_been_left(
    house: House, end: str
) -> None:
    there, absent = [], []
    many = [{"n": n, "text": "an entry of some length " * 20} for n in range(400)]
    for n in range(ROUNDS):
        with house.leaves(Regret) if end == "rolled back" else nullcontext():
            async with house.block() as tx:
                long = asyncio.create_task(
                    house.features.log.append(f"long {n}", many, connection=tx)
                )
                await do(house.features, "put", f"short {n}.put", tx) if n % 2 else None
                await steps(3 * n)
                if end == "rolled back":
                    raise Regret
        if house.is_ours:
            assert house.busy() == [], "its block has been left"
        else:
            await quiet(house)
        was_acknowledged = await is_acknowledged(long)
        whole = len(many) if was_acknowledged and end == "committed" else 0
        if house.is_ours or not was_acknowledged or end == "rolled back":
            assert await house.fresh.log.count(f"long {n}") == whole
        if n % 2:
            (there if end == "committed" else absent).append(("put", f"short {n}.put"))
        there += await innocents(house, f"innocent {n}")

    await all_is_as_it_should(house, there=there, absent=absent)


async def test_a_savepoint_that_one_of_its_tasks_fails_in_is_taken_back_alone_or_all_of_it_is(
    house: House,
) -> None:
    on, there, absent = house.features, [], []
    for n in range(ROUNDS):
        inside = [("put", f"nested {n}.first"), ("save", f"nested {n}.second")]
        around = [("put", f"nested {n}.before"), ("save", f"nested {n}.after")]

        async def fails(tx: Any, one: tuple[str, str] = inside[0]) -> None:
            await do(on, *one, tx)
            raise Regret

        other: asyncio.Task[None] | None = None
        with left_by(house) as outcome:
            async with house.block() as tx:
                await do(on, *around[0], tx)
                with pytest.raises(Regret):  # noqa: PT012 - the savepoint's block raises
                    async with tx.begin_nested():
                        failing = asyncio.create_task(fails(tx))
                        other = asyncio.create_task(do(on, *inside[1], tx))
                        await asyncio.gather(failing, other)
                await is_acknowledged(other)
                await do(on, *around[1], tx)
        assert other is not None
        await is_acknowledged(other)
        (absent if outcome else there).extend(around)
        absent += inside if outcome else inside[:1]
        await present(house.fresh, inside)  # whole or absent
        there += await innocents(house, f"innocent {n}")

    await all_is_as_it_should(house, there=there, absent=absent)
    await all_is_sound(house)


# --- Cancelled -----------------------------------------------------------------------------------


@pytest.mark.parametrize("operation", ["put_batch", "save"])
async def test_an_operation_that_is_cancelled_leaves_a_transaction_without_half_of_it(
    house: House, operation: str
) -> None:
    on, there, absent = house.features, [], []
    for n in range(0, 36, 4):
        around = [("put", f"cancelled {n}.before"), ("append", f"cancelled {n}.after")]
        beside, cancelled = ("put", f"cancelled {n}.beside"), (operation, f"cancelled {n}.it")
        done = False
        with left_by(house) as outcome:
            async with house.block() as tx:
                await do(on, *around[0], tx)
                writing = asyncio.create_task(do(on, *cancelled, tx))
                other = asyncio.create_task(do(on, *beside, tx))
                await steps(n)
                writing.cancel()
                await ended(writing)
                done = await is_acknowledged(other)
                await do(on, *around[1], tx)
        is_whole = await is_there(house.fresh, *cancelled)
        assert not (outcome and is_whole), "its transaction was not committed"
        (absent if outcome else there).extend(around)
        (absent if outcome or not done else there).append(beside)
        there += await innocents(house, f"innocent {n}")

    await all_is_as_it_should(house, there=there, absent=absent)
    await all_is_sound(house)


async def test_a_block_that_is_cancelled_beside_its_tasks_is_taken_back(house: House) -> None:
    there, absent = [], []
    tasks: list[asyncio.Task[None]] = []

    async def block(inside: asyncio.Event) -> None:
        async with house.block() as tx:
            tasks[:] = [asyncio.create_task(do(house.features, *name, tx)) for name in names]
            inside.set()
            await asyncio.Event().wait()

    for n in range(0, 36, 4):
        names = [(operation, f"cancelled {n}.{operation}") for operation in OPERATIONS]
        inside = asyncio.Event()
        holder = asyncio.create_task(block(inside))
        await inside.wait()
        await steps(n)
        holder.cancel()
        await ended(holder)
        assert holder.cancelled() or not house.is_ours, repr(holder)
        for task in tasks:
            await is_acknowledged(task)
        absent += names
        there += await innocents(house, f"innocent {n}")

    await all_is_as_it_should(house, there=there, absent=absent)


@contextmanager
def a_host_that_may_leave_connections(house: House) -> Iterator[None]:
    """SQLAlchemy leaves a host's connection to the garbage collector, and warns of it, where its
    return to the pool is cancelled more than once.
    """
    with warnings.catch_warnings():
        if not house.is_ours:
            warnings.filterwarnings("ignore", "The garbage collector is trying", SAWarning)
        yield
        gc.collect()


@pytest.mark.parametrize("end", ["committed", "rolled back"])
async def test_a_transaction_that_is_cancelled_again_and_again_while_it_ends_harms_nobody(
    house: House, end: str
) -> None:
    with a_host_that_may_leave_connections(house):
        await _cancel_again_and_again(house, end)


async def _cancel_again_and_again(house: House, end: str) -> None:
    on, there = house.features, []

    async def block(n: int, leaving: asyncio.Event) -> None:
        async with house.block() as tx:
            await do(on, "put", f"cancelled {n}.put", tx)
            await do(on, "append", f"cancelled {n}.append", tx)
            leaving.set()
            if end == "rolled back":
                raise Regret

    for n in range(24):
        leaving = asyncio.Event()
        holder = asyncio.create_task(block(n, leaving))
        leaves = asyncio.create_task(leaving.wait())
        await asyncio.wait([holder, leaves], return_when=asyncio.FIRST_COMPLETED)
        if not leaving.is_set():
            await holder  # its error is the test's
        await steps(n // 3)
        outside = asyncio.create_task(do(on, "put", f"beside {n}.put"))
        for _ in range((1, 2, 4)[n % 3]):
            holder.cancel()
            await steps(n // 3 % 3)
        await ended(holder)
        error = None if holder.cancelled() else holder.exception()
        assert error is None or isinstance(error, Regret) or is_clear(error), repr(error)
        async with asyncio.timeout(A_WHILE):
            await outside
            await do(on, "save", f"beside {n}.save")
        there += [("put", f"beside {n}.put"), ("save", f"beside {n}.save")]
        names = [("put", f"cancelled {n}.put"), ("append", f"cancelled {n}.append")]
        await quiet(house)  # of a COMMIT that was cancelled, the server may still be about to do it
        found = await present(house.fresh, names)
        assert found in ([], names), "a transaction is all there or not at all"
        assert not found or end == "committed"
        assert found or holder.cancelled() or error is not None, "it was committed, its host heard"

    there += await innocents(house, "innocent")
    await all_is_as_it_should(house, there=there)


# --- A ROLLBACK that fails -----------------------------------------------------------------------


@contextmanager
def a_rollback_that_fails(monkeypatch: pytest.MonkeyPatch) -> Iterator[list[str]]:
    """The drivers fail at the next ROLLBACK; the list tells that it was asked for."""
    asked: list[str] = []

    def first(sql: str) -> bool:
        if asked or sql.strip("; ").upper() != "ROLLBACK":
            return False
        asked.append(sql)
        return True

    postgres, wire = asyncpg.Connection.execute, psycopg.AsyncConnection.rollback
    file = aiosqlite.Connection.rollback

    async def execute(self: Any, query: str, *args: Any, **kw: Any) -> Any:
        if first(query):
            raise asyncpg.InterfaceError(
                "cannot perform operation: another operation is in progress"
            )
        return await postgres(self, query, *args, **kw)

    async def rollback_of_psycopg(self: Any) -> None:
        if first("ROLLBACK"):
            raise psycopg.OperationalError("sending query failed: another command is in progress")
        await wire(self)

    async def rollback_of_sqlite(self: Any) -> None:
        if first("ROLLBACK"):
            raise sqlite3.OperationalError("disk I/O error")
        await file(self)

    with monkeypatch.context() as patched:
        patched.setattr(asyncpg.Connection, "execute", execute)
        patched.setattr(psycopg.AsyncConnection, "rollback", rollback_of_psycopg)
        patched.setattr(aiosqlite.Connection, "rollback", rollback_of_sqlite)
        yield asked


async def test_a_rollback_that_fails_leaves_no_transaction_to_whoever_comes_next(
    house: House, monkeypatch: pytest.MonkeyPatch
) -> None:
    there, absent = [("save", "before.it")], []
    # SQLAlchemy itself sends a ROLLBACK on the first connection of an engine: not the one to fail.
    async with house.block() as tx:
        await do(house.features, *there[0], tx)
    for n in range(ROUNDS):
        names = [(operation, f"failed {n}.{operation}") for operation in WRITES]
        with (
            a_rollback_that_fails(monkeypatch) as asked,
            suppress(SQLAlchemyError, MemalchemyError, Regret),
        ):
            async with house.block() as tx:
                for one in names:
                    await do(house.features, *one, tx)
                raise Regret
        assert asked, "no ROLLBACK was sent, so none has failed"
        await quiet(house)
        absent += names
        there += await innocents(house, f"innocent {n}")
        async with house.block() as tx:
            await do(house.features, "save", f"innocent {n}.in its own", tx)
        there.append(("save", f"innocent {n}.in its own"))

    await all_is_as_it_should(house, there=there, absent=absent)


@pytest.mark.parametrize("way", OURS)
async def test_a_rollback_that_fails_in_an_operation_leaves_no_transaction_to_the_next_one(
    house: House, database: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    on, db = house.features, house.features.db
    await do(on, "save", "thread.first")

    def fails(connection: Any) -> None:
        raw = connection.connection.driver_connection
        if isinstance(raw, sqlite3.Connection):
            fail_once(raw)
        connection.execute(
            text("UPDATE threads SET version = version + 1000 WHERE tenant = :tenant"),
            {"tenant": db.tenant},
        )
        raise Regret

    there = [("save", "thread.first")]
    for n in range(ROUNDS):
        with a_rollback_that_fails(monkeypatch):
            # Beside each other, so that SQLite's writer has them in one batch.
            failing = {
                Conflict: on.checkpointer.save({}, "thread", expected_parent="somebody else's"),
                Regret: db.run_sync(fails),
            }
            tasks = {why: asyncio.create_task(work) for why, work in failing.items()}
            names = [("put", f"beside {n}.{k}") for k in range(3)]
            beside = [asyncio.create_task(do(on, *name)) for name in names]
            for why, task in tasks.items():
                await ended(task)
                error = task.exception()
                assert isinstance(error, why | MemalchemyError), repr(error)
            async with asyncio.timeout(A_WHILE):
                # The ROLLBACK that fails may be one of theirs: psycopg's pool sends one after each.
                errors = await asyncio.gather(*beside, return_exceptions=True)
        told = [error for error in errors if error is not None]
        assert len(told) <= (database == "psycopg"), "one ROLLBACK fails"
        assert all(getattr(error, "maybe_applied", False) for error in told), told
        there += [name for name, error in zip(names, errors, strict=True) if error is None]
        there.append(("save", f"thread.after {n}"))
        await do(on, *there[-1])

    version = text("SELECT max(version) FROM threads WHERE tenant = :tenant")
    found = await house.fresh.db.run_sync(lambda c: c.scalar(version, {"tenant": db.tenant}))
    assert found < 1000, "what was to be rolled back, somebody else has committed"
    await all_is_as_it_should(house, there=there)


def fail_once(raw: sqlite3.Connection) -> None:
    """Let the next ROLLBACK on SQLite's connection fail, by whichever method it is asked for."""
    connection: Any = raw  # one of Python's own class would not let itself be changed
    execute, rollback = connection.execute, connection.rollback

    def failing(sql: str = "ROLLBACK", *args: Any) -> Any:
        if sql != "ROLLBACK":
            return execute(sql, *args)
        connection.execute, connection.rollback = execute, rollback
        raise sqlite3.OperationalError("disk I/O error")

    connection.execute = connection.rollback = failing


# --- Not for ever --------------------------------------------------------------------------------


@pytest.mark.own_keys
@pytest.mark.parametrize("inner", ["save", "put", "second transaction", "second database"])
async def test_a_tenants_first_encrypted_save_in_a_transaction_lets_others_write_meanwhile(
    shared_url: str, inner: str
) -> None:
    keys, tenant = [generate_key()], f"t-{uuid4().hex[:12]}"
    async with Database(shared_url, keys=keys, tenant=tenant) as db:
        on, wrote = Features.of(db), inner != "second database"

        async def write_beside() -> None:
            if inner == "second transaction":
                async with db.transaction() as other:
                    await do(on, "save", "beside.it", other)
            elif inner == "second database":
                async with Database(shared_url, keys=keys, tenant=tenant) as second:
                    await do(Features.of(second), "save", "beside.it")
            else:
                await do(on, inner, "beside.it")

        async with asyncio.timeout(A_WHILE), db.transaction() as tx:
            await do(on, "save", "thread.first", tx)
            if not db.dialect.single_writer:
                await write_beside()
            elif wrote:
                with pytest.raises(MemalchemyError, match="open transaction"):
                    await write_beside()
            await do(on, "save", "thread.second", tx)

        assert await is_there(on, "save", "thread.first")
        assert await is_there(on, "save", "thread.second")
        beside = ("put" if inner == "put" else "save"), "beside.it"
        assert await is_there(on, *beside) is not db.dialect.single_writer
