"""A connection that died while it was idle is noticed by nobody, whatever is done first on it."""

from __future__ import annotations

import asyncio
import random
from collections.abc import AsyncIterator, Awaitable, Callable
from typing import Any
from uuid import uuid4

import pytest
import sqlalchemy
from sqlalchemy import event, text
from sqlalchemy.exc import DisconnectionError
from sqlalchemy.ext.asyncio import create_async_engine

from memalchemy import Database, MemalchemyError, Store
from memalchemy.errors import DatabaseUnreachable
from memalchemy.maintenance import tenants
from public_calls import CLASSES, arguments, methods_of, outcome
from servers import Postgres, give_rights
from waiting import until

pytestmark = pytest.mark.asyncio_only("what is under the synchronous face is the same")

APPLICATION = "ma_dead"
WAYS = ("asyncpg", "psycopg", "asyncpg walled", "psycopg walled", "asyncpg host", "psycopg host")

Kill = Callable[[], Awaitable[None]]


@pytest.fixture(params=WAYS)
async def db(request: pytest.FixtureRequest, postgres: Postgres) -> AsyncIterator[Database]:
    driver, *more = request.param.split()
    name = postgres.create_database()
    url, owner = postgres.url(name, driver=driver), Database(postgres.url(name))
    await owner.migrate()
    if more == ["walled"]:
        await tenants.enforce(owner)
        give_rights(postgres, APPLICATION, name)
        url = postgres.url(name, driver=driver, user=APPLICATION)
    await owner.close()
    engine = create_async_engine(url) if more == ["host"] else None
    async with Database(engine or url) as made:
        yield made
        assert (await made.health())["checked_out"] == 0
    if engine is not None:
        await engine.dispose()
    postgres.drop_database(name)


@pytest.fixture
def kill(db: Database, postgres: Postgres) -> Kill:
    """Ends all connections of the database at the server, as a failover does."""
    name = db._backend.url.database
    others = f"FROM pg_stat_activity WHERE datname = '{name}' AND backend_type = 'client backend'"

    async def end() -> None:
        postgres.execute(f"SELECT pg_terminate_backend(pid) {others}")
        await until(lambda: postgres.execute(f"SELECT count(*) {others}") == [(0,)])

    return end


async def many_idle(db: Database, count: int = 4) -> None:
    """Fill the pool."""

    async def one() -> None:
        async with db.transaction() as tx:
            await tx.execute(text("SELECT pg_sleep(0.01)"))

    await asyncio.gather(*(one() for _ in range(count)))


def argument(name: str, rng: random.Random) -> Any:
    known: dict[str, Any] = {
        "namespace": ("n",), "thread_id": "thread", "key": "k", "limit": 5, "query": "kettle",
        "state": {"a": 1}, "value": {"a": 1}, "values": [{"a": 1}], "text": "kettle",
        "embedding": [0.5, 0.5], "vector": [0.5, 0.5], "user_id": "ada", "messages": [],
    }  # fmt: skip
    return known.get(name, "x")


@pytest.mark.parametrize("inside", [False, True], ids=["alone", "in a transaction"])
async def test_each_public_operation_works_on_connections_that_died(
    db: Database, kill: Kill, inside: bool
) -> None:
    tried = 0
    for kind in CLASSES.values():
        subject = kind(db)
        for method in methods_of(subject):
            call = getattr(subject, method)
            rng = random.Random(method)
            given, named = arguments(call, rng, argument)
            if inside and "connection" not in call.__annotations__:
                continue
            await many_idle(db, 2)
            await kill()
            try:
                if inside:
                    async with db.transaction() as tx:
                        await outcome(lambda: call(*given, **named, connection=tx))  # noqa: B023
                else:
                    await outcome(lambda: call(*given, **named))  # noqa: B023
            except DatabaseUnreachable as error:
                raise AssertionError(f"{type(subject).__name__}.{method}: {error}") from error
            except (MemalchemyError, ValueError, TypeError, LookupError, AttributeError):
                pass  # of arguments of no use
            tried += 1
    assert tried > 20


async def _stream(tx: Any) -> None:
    async with tx.stream(text("SELECT 1")) as rows:
        assert [tuple(row) async for row in rows] == [(1,)]


FIRST: dict[str, Callable[[Database, Any], Awaitable[Any]]] = {
    "execute": lambda db, tx: tx.execute(text("SELECT 1")),
    "scalar": lambda db, tx: tx.scalar(text("SELECT 1")),
    "scalars": lambda db, tx: tx.scalars(text("SELECT 1")),
    "stream": lambda db, tx: _stream(tx),
    "exec_driver_sql": lambda db, tx: tx.exec_driver_sql("SELECT 1"),
    "run_sync": lambda db, tx: tx.run_sync(lambda c: c.scalar(text("SELECT 1"))),
    "execute in run_sync": lambda db, tx: tx.run_sync(lambda c: c.execute(text("SELECT 1")).all()),
    "scalars in run_sync": lambda db, tx: tx.run_sync(lambda c: c.scalars(text("SELECT 1")).all()),
    "exec_driver_sql in run_sync": lambda db, tx: tx.run_sync(
        lambda c: c.exec_driver_sql("SELECT 1").all()
    ),
    "inspection": lambda db, tx: tx.run_sync(lambda c: sqlalchemy.inspect(c).get_table_names()),
    "begin_nested": lambda db, tx: tx.begin_nested().start(),
    "get": lambda db, tx: Store(db).get(("n",), "k", connection=tx),
}


# SQLAlchemy leaves the cursor of a lost connection open, of which psycopg warns.
@pytest.mark.filterwarnings(
    "ignore:.*ServerCursorMixin.__del__:pytest.PytestUnraisableExceptionWarning"
)
@pytest.mark.parametrize("first", FIRST)
@pytest.mark.parametrize("moment", ["before the block", "in the block"])
async def test_the_first_statement_of_a_transaction_is_sent_again(
    db: Database, kill: Kill, first: str, moment: str
) -> None:
    store = Store(db)
    await many_idle(db)
    if moment == "before the block":
        await kill()
    async with db.transaction() as tx:
        if moment == "in the block":
            await kill()
        await FIRST[first](db, tx)
        await store.put(("n",), "k", 1, connection=tx)
    assert await store.get(("n",), "k") == 1
    async with db.snapshot() as then:
        await kill()
        assert await store.get(("n",), "k", connection=then) == 1
        level = await then.scalar(text("SHOW transaction_isolation"))
        assert level == "repeatable read"


async def test_transactions_of_several_tasks_on_dead_connections(db: Database, kill: Kill) -> None:
    store = Store(db)
    await many_idle(db)
    await kill()

    async def write(number: int) -> None:
        async with db.transaction() as tx:
            keys = [f"{number}-{one}" for one in range(3)]
            await asyncio.gather(*(store.put(("n",), key, number, connection=tx) for key in keys))

    await asyncio.gather(*(write(number) for number in range(8)))
    assert len(await store.list_keys(("n",), limit=100)) == 24


async def test_tasks_share_the_first_statement_of_a_dead_connection(
    db: Database, kill: Kill
) -> None:
    await many_idle(db)
    async with db.transaction() as tx:
        await kill()
        found = await asyncio.gather(
            *(tx.scalar(text(f"SELECT {n}")) for n in range(4)), return_exceptions=True
        )
    # A driver refuses what comes while it works; what it answers is right.
    assert any(one == n for n, one in enumerate(found))
    assert all(one == n or isinstance(one, Exception) for n, one in enumerate(found))


@pytest.mark.parametrize("what", ["a read", "a write", "a failure"])
async def test_nothing_is_repeated_in_the_middle_of_a_transaction(
    db: Database, kill: Kill, what: str
) -> None:
    store, key = Store(db), uuid4().hex
    error: BaseException | None = None
    try:
        async with db.transaction() as tx:
            if what == "a read":
                await store.get(("n",), "k", connection=tx)
            elif what == "a write":
                await store.put(("n",), key, 1, connection=tx)
            else:
                with pytest.raises(Exception, match="no_such_table"):
                    await tx.execute(text("SELECT * FROM no_such_table"))
            await kill()
            await store.put(("n",), key + "later", 1, connection=tx)
    except MemalchemyError as raised:
        error = raised
    assert error is not None
    assert await store.get(("n",), key) is None
    assert await store.get(("n",), key + "later") is None


@pytest.mark.parametrize("command", ["DEALLOCATE ALL", "DISCARD ALL"])
@pytest.mark.parametrize("inside", [False, True], ids=["alone", "in a transaction"])
async def test_a_session_that_lost_its_prepared_statements_is_given_up(
    db: Database, command: str, inside: bool
) -> None:
    store = Store(db)

    async def use() -> None:
        await store.put(("n",), "k", 1)
        assert await store.get(("n",), "k") == 1

    async def use_inside() -> None:
        async with db.transaction() as tx:
            assert await store.get(("n",), "k", connection=tx) == 1
            await store.put(("n",), "k", 1, connection=tx)

    for _ in range(7):  # psycopg prepares what comes often
        await use()
        await use_inside()
    async with db.transaction() as tx:
        raw: Any = (await tx.get_raw_connection()).driver_connection
    if hasattr(raw, "set_autocommit"):  # psycopg
        await raw.set_autocommit(True)
    await raw.execute(command)
    if hasattr(raw, "set_autocommit"):
        await raw.set_autocommit(False)
    for _ in range(3):
        await (use_inside() if inside else use())


async def test_a_pool_that_finds_only_dead_connections_has_not_reached_the_server(
    postgres: Postgres,
) -> None:
    """SQLAlchemy tries two, and says that it is closed."""
    engine = create_async_engine(postgres.url("postgres", driver="asyncpg"))

    def is_dead(*_: object) -> None:
        raise DisconnectionError

    event.listen(engine.sync_engine, "checkout", is_dead)
    with pytest.raises(DatabaseUnreachable, match="cannot reach"):
        await Database(engine).health()
    await engine.dispose()
