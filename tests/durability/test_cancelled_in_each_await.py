"""A call that is cancelled in any of its awaits leaves its connection as the next user expects it.

What a connection is told for one call, such as autocommit, an isolation level, to be read only or
whose tenant it serves, must not stay on it: the next transaction would be none.
"""

from __future__ import annotations

import asyncio
import gc
from collections.abc import AsyncIterator, Awaitable, Callable, Generator
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass
from typing import Any, get_args
from uuid import uuid4

import pytest
from sqlalchemy import Integer, literal_column, select, text
from sqlalchemy.ext.asyncio import AsyncEngine, create_async_engine
from sqlalchemy.pool import StaticPool

from memalchemy import Database, Store
from memalchemy.database.intent import Intent, Kind
from memalchemy.maintenance import tenants
from memalchemy.statements import Program
from servers import Postgres, give_rights
from waiting import A_WHILE

pytestmark = [
    pytest.mark.asyncio_only("the tasks of the synchronous face are not the test's"),
    pytest.mark.usefixtures("frozen_heap"),
]

ROOM = {"pool_size": 1, "max_overflow": 0, "pool_timeout": A_WHILE}
"""One connection: what one call leaves on it, the next one finds."""
APPLICATION = "ma_cancelled"


class CancelledAt:
    """Awaits *work*, whose task is cancelled while it waits for the *step*-th time, from 1."""

    def __init__(self, work: Awaitable[Any], step: int) -> None:
        self.work = work
        self.step = step
        self.steps = 0

    def __await__(self) -> Generator[Any, Any, Any]:
        running = self.work.__await__()
        error: BaseException | None = None
        while True:
            try:
                waited = running.send(None) if error is None else running.throw(error)
            except StopIteration as end:
                return end.value
            self.steps += 1
            if self.steps == self.step:
                task = asyncio.current_task()
                assert task is not None
                task.cancel()
            try:
                error = None
                yield waited
            except BaseException as raised:  # noqa: BLE001 - it is thrown into what is awaited
                error = raised


async def cancelled_in_each_await(
    work: Callable[[], Awaitable[Any]], look: Callable[[int], Awaitable[None]]
) -> int:
    """Await *work* again and again, cancelled in its first await, its second, and so on.

    Call *look* after each, and return how many there were.
    """
    for step in range(1, 1000):

        async def run(step: int = step) -> bool:
            awaited = CancelledAt(work(), step)
            await awaited
            return awaited.steps < step

        task = asyncio.ensure_future(run())
        done, _ = await asyncio.wait([task], timeout=A_WHILE)
        assert done, f"cancelled in await {step}, it hangs"
        if not task.cancelled() and task.result():
            return step - 1
        await look(step)
    raise AssertionError("it never ends")


@dataclass
class Stage:
    """A database whose pool has one connection, and what may be asked of it beside memalchemy."""

    db: Database
    engine: AsyncEngine | None = None

    @property
    def store(self) -> Store:
        return Store(self.db)

    async def is_as_new(self, step: int) -> None:
        """A transaction is one, and has the settings of a new connection."""
        why = f"after a cancellation in await {step}"
        key = uuid4().hex
        with suppress(ZeroDivisionError):
            async with self.db.transaction() as tx:
                await self.store.put(("n",), key, 1, connection=tx)
                await self._settings_are_new(tx, why)
                raise ZeroDivisionError
        assert await self.store.get(("n",), key) is None, f"what was rolled back is there, {why}"
        assert await self.store.get(("n",), "there") == 1, f"of another tenant, {why}"
        if self.engine is not None:
            async with self.engine.connect() as own:
                await own.execute(text("INSERT INTO host_rows VALUES (:key)"), {"key": key})
                await own.rollback()
                found = await own.scalar(text("SELECT count(*) FROM host_rows"))
                assert found == 0, f"the host's own row is there, {why}"

    async def _settings_are_new(self, tx: Any, why: str) -> None:
        if self.db.dialect.single_writer:
            return
        (found,) = await tx.execute(
            text(
                "SELECT current_setting('transaction_isolation'),"
                " current_setting('transaction_read_only'), current_setting('role')"
            )
        )
        assert tuple(found) == ("read committed", "off", "none"), why


DRIVERS = ("asyncpg", "psycopg")
STAGES = [
    *(f"{driver}{more}" for driver in DRIVERS for more in ("", " walled", " of the host's")),
    "psycopg through SQLAlchemy",
    "asyncpg through SQLAlchemy",
    "aiosqlite of the host's",
]


@pytest.fixture(params=STAGES)
async def stage(
    request: pytest.FixtureRequest, tmp_path: Any, monkeypatch: pytest.MonkeyPatch
) -> AsyncIterator[Stage]:
    driver = request.param.split()[0]
    # psycopg awaits also where nothing blocks, if the event loop has been busy for so long.
    monkeypatch.setattr("psycopg.waiting.MAX_BUSY_TIME", 0, raising=False)
    if driver == "aiosqlite":
        in_memory = "in memory" in request.param
        where = "" if in_memory else f"/{tmp_path}/agent.db"
        options: dict[str, Any] = {"poolclass": StaticPool} if in_memory else ROOM
        engine = create_async_engine(f"sqlite+aiosqlite://{where}", **options)
        async with _host(engine) as made:
            yield made
        return
    server: Postgres = request.getfixturevalue("postgres")
    name = server.create_database()
    url = server.url(name, driver=driver)
    owner = Database(url)
    await owner.migrate()
    if "walled" in request.param:
        await tenants.enforce(owner)
        give_rights(server, APPLICATION, name)
        url = server.url(name, driver=driver, user=APPLICATION)
    await owner.close()
    if "host's" in request.param:
        async with _host(create_async_engine(url, **ROOM)) as made:
            yield made
    else:
        through_sqlalchemy = {"execution_options": {"isolation_level": "READ COMMITTED"}}
        more = through_sqlalchemy if "SQLAlchemy" in request.param else {}
        async with Database(url, **more, **ROOM) as db:
            yield Stage(db)
    server.drop_database(name)


@asynccontextmanager
async def _host(engine: AsyncEngine) -> AsyncIterator[Stage]:
    db = Database(engine)
    await db.migrate()
    async with engine.begin() as own:
        await own.execute(text("CREATE TABLE host_rows (id TEXT)"))
    yield Stage(db, engine)
    await db.close()
    await engine.dispose()


def _program() -> Program[int]:
    rows = yield select(literal_column("1", Integer).label("n")), {}
    return int(rows[0].n)


async def _of_other_tenant(stage: Stage) -> None:
    await stage.store.get(("n",), "there")
    await Store(stage.db.for_tenant("another")).get(("n",), "there")
    await stage.store.get(("n",), "there")


async def _in_transaction(stage: Stage) -> None:
    async with stage.db.transaction() as tx:
        await stage.store.put(("n",), "tx", 1, connection=tx)


async def _in_snapshot(stage: Stage) -> None:
    async with stage.db.snapshot() as then:
        await stage.store.get(("n",), "there", connection=then)


async def _run_sync(stage: Stage) -> None:
    await stage.db.run_sync(lambda c: c.scalar(text("SELECT 1")))


OPERATIONS: dict[str, Callable[[Stage], Awaitable[Any]]] = {
    **{
        f"a program of kind {kind}": lambda stage, kind=kind: stage.db.run(_program, Intent(kind))
        for kind in (*get_args(Kind), "save")
    },
    "put": lambda stage: stage.store.put(("n",), "k", 1),
    "get": lambda stage: stage.store.get(("n",), "there"),
    "put_batch": lambda stage: stage.store.put_batch([(("n",), "a", 1), (("n",), "b", 2)]),
    "another tenant's": _of_other_tenant,
    "transaction": _in_transaction,
    "snapshot": _in_snapshot,
    "run_sync": _run_sync,
    "check": lambda stage: stage.db.check(),
    "health": lambda stage: stage.db.health(),
}


ON_SERVERS = ("put", "put_batch", "snapshot")


@pytest.mark.parametrize("operation", OPERATIONS)
async def test_a_cancelled_call_leaves_no_mode_on_its_connection(
    stage: Stage, operation: str
) -> None:
    if stage.db.dialect.single_writer and operation in ON_SERVERS:
        pytest.skip("SQLite: aiosqlite ends what was cancelled in its own time, and holds the lock")
    await stage.store.put(("n",), "there", 1)
    count = await cancelled_in_each_await(lambda: OPERATIONS[operation](stage), stage.is_as_new)
    assert count > 0
    gc.collect()  # it warns of a connection that nobody gave back, and a warning fails the test
    assert (await stage.db.health())["checked_out"] == 0


@pytest.mark.parametrize("driver", DRIVERS)
@pytest.mark.parametrize("way", ["of the engine", "of its options"])
async def test_a_transaction_on_an_engine_in_autocommit_is_one(
    postgres: Postgres, name: str, driver: str, way: str
) -> None:
    url, autocommit = postgres.url(name, driver=driver), {"isolation_level": "AUTOCOMMIT"}
    engine = create_async_engine(url, **(autocommit if way == "of the engine" else {}), **ROOM)
    if way == "of its options":
        engine = engine.execution_options(**autocommit)
    store = Store(Database(engine, tenant=uuid4().hex))
    with suppress(ZeroDivisionError):
        async with store.db.transaction() as tx:
            await store.put(("n",), "rolled back", 1, connection=tx)
            raise ZeroDivisionError
    assert await store.get(("n",), "rolled back") is None
    async with engine.connect() as own:
        await own.execute(text("SET application_name = 'kept'"))
        await own.rollback()
        assert await own.scalar(text("SHOW application_name")) == "kept", "the host's own mode"
    await store.db.close()
    await engine.dispose()
