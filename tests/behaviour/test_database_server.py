"""What only a server has: schemas, timeouts, pools, PgBouncer in front of it."""

from __future__ import annotations

import asyncio
import itertools
import socket
import threading
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import contextmanager
from typing import Any
from uuid import uuid4

import psycopg
import pytest
from sqlalchemy import text
from sqlalchemy.exc import DBAPIError

from memalchemy import (
    Checkpointer,
    Database,
    DatabaseUnreachable,
    MemalchemyError,
    Store,
)
from memalchemy.database.driver_errors import translator
from memalchemy.dialects import DIALECTS
from memalchemy.events import subscribe_statements
from memalchemy.verify import verify
from servers import Postgres
from waiting import A_WHILE, until

pytestmark = pytest.mark.parametrize("driver", ["asyncpg", "psycopg"])

Open = Callable[..., Database]

IMPATIENT = 1.5
"""Seconds of a timeout that shall pass. What shall succeed has none."""
IMPATIENTLY = {"statement_timeout": IMPATIENT}


@pytest.fixture
async def open_(postgres: Postgres, name: str, driver: str) -> AsyncIterator[Open]:
    """Opens the database with any options, for a tenant of the test's own."""
    opened: list[Database] = []
    tenant = f"t-{uuid4().hex[:12]}"

    def open_one(*, server: Postgres = postgres, more: str = "", **options: Any) -> Database:
        url = server.url(name, driver=driver)
        if more:
            url += ("&" if "?" in url else "?") + more
        opened.append(Database(url, **{"tenant": tenant, **options}))
        return opened[-1]

    yield open_one
    for db in opened:
        assert (await db.health())["checked_out"] == 0
        await db.close()


# --- schema= -------------------------------------------------------------------------------------


async def write_items(store: Store) -> None:
    """Write an item in each way, new and in the place of another."""
    for n in range(2):
        await store.put(("a",), "plain", n)
        await store.put(("a",), "fading", n, ttl=60)
        await store.put(("a",), "vector", n, embedding=[1.0, float(n)])
        await store.put_batch([(("a",), f"many{one}", n) for one in range(3)])
    version = (await store.get_item(("a",), "plain")).version  # type: ignore[union-attr]
    await store.put(("a",), "plain", 2, expected_version=version)
    await store.put(("a",), "once", 3, expected_version=None)
    assert await store.change(("a",), "once", lambda item: 4) == 4
    assert await store.get(("a",), "plain") == 2
    assert await store.get(("a",), "fading") == 1
    assert await store.delete(("a",), "once")


@pytest.mark.parametrize("schema", ["memory", "Agent-1"])
async def test_a_schema_holds_all_the_tables(postgres: Postgres, driver: str, schema: str) -> None:
    database = postgres.create_database()
    try:
        postgres.execute(f'CREATE SCHEMA "{schema}"', database)
        async with Database(
            postgres.url(database, driver=driver), schema=schema, migrate="off"
        ) as db:
            await db.migrate()
            await db.check()
            checkpointer = Checkpointer(db)
            for n in range(3):
                await checkpointer.save({"n": n, "word": f"kettle {n}"}, "thread", f"c{n}")
            await checkpointer.delete("thread", "c1")
            assert await checkpointer.load("thread") == {"n": 2, "word": "kettle 2"}
            assert await checkpointer.list_checkpoints("thread") == ["c2", "c0"]
            hits = await checkpointer.search("kettle")
            assert [hit["checkpoint_id"] for hit in hits] == ["c0"]
            assert (await db.health())["revision"] == (await db.health())["head"]
            await write_items(Store(db))
        places = postgres.execute(
            "SELECT DISTINCT table_schema FROM information_schema.tables "
            "WHERE table_schema NOT IN ('pg_catalog', 'information_schema')",
            database,
        )
        assert places == [(schema,)]
    finally:
        postgres.drop_database(database)


async def test_two_schemas_of_one_database_do_not_see_each_other(
    postgres: Postgres, driver: str
) -> None:
    database = postgres.create_database()
    url = postgres.url(database, driver=driver)
    try:
        for schema in ("one", "two"):
            postgres.execute(f"CREATE SCHEMA {schema}", database)
        one, two = (Database(url, schema=schema) for schema in ("one", "two"))
        await one.migrate()
        assert await two.current() is None
        await two.migrate()

        await Checkpointer(one).save({"n": 1}, "thread")
        assert await Checkpointer(two).load("thread") is None
        await Checkpointer(two).save({"n": 2}, "thread")
        await Checkpointer(two).delete("thread")

        assert await Checkpointer(one).load("thread") == {"n": 1}
        async with one.transaction() as tx:
            await Checkpointer(one).save({"n": 3}, "thread", connection=tx)
            assert await Checkpointer(one).load("thread", connection=tx) == {"n": 3}
            assert await Checkpointer(two).load("thread", connection=tx) is None
        await one.close()
        await two.close()
    finally:
        postgres.drop_database(database)


# --- Timeouts ------------------------------------------------------------------------------------


@contextmanager
def locked(postgres: Postgres, database: str, table: str = "threads") -> Iterator[None]:
    """Another connection holds the table."""
    with psycopg.connect(
        host=postgres.host,
        port=postgres.port,
        user=postgres.user,
        password=postgres.password,
        dbname=database,
    ) as connection:
        connection.execute(f"LOCK TABLE {table} IN ACCESS EXCLUSIVE MODE")
        yield
        connection.rollback()


async def blocked_by_a_lock(
    open_: Open, postgres: Postgres, name: str, **options: Any
) -> DatabaseUnreachable:
    patient, checkpointer = Checkpointer(open_()), Checkpointer(open_(**IMPATIENTLY, **options))
    await patient.save({"n": 1}, "thread", "a")
    await checkpointer.exists("thread")  # it is open
    ended: list[str] = []
    unsubscribe = subscribe_statements(lambda one: ended.append(one.sql) if one.error else None)

    with locked(postgres, name):
        async with asyncio.timeout(A_WHILE):
            with pytest.raises(DatabaseUnreachable) as caught:
                await checkpointer.save({"n": 2}, "thread", "b")
    unsubscribe()
    assert len(ended) <= 2, "the save and the look for it waited once each, and not four times"
    assert await patient.list_checkpoints("thread") == ["a"]
    await checkpointer.save({"n": 3}, "thread", "c")
    return caught.value


async def test_a_statement_that_takes_longer_than_its_timeout_is_an_error_that_says_so(
    open_: Open, postgres: Postgres, name: str
) -> None:
    error = await blocked_by_a_lock(open_, postgres, name)

    assert "locked or too slow" in str(error)


async def test_options_in_the_url_and_a_statement_timeout_hold_together(
    open_: Open, postgres: Postgres, name: str
) -> None:
    more = "options=-c%20lock_timeout=9s"
    db = open_(more=more, **IMPATIENTLY)
    shown = await db.run_sync(lambda c: c.scalar(text("SHOW lock_timeout")))

    assert shown == "9s"
    await blocked_by_a_lock(open_, postgres, name, more=more)


async def until_a_lock_is_awaited(postgres: Postgres, name: str, which: str) -> None:
    waiting = f"SELECT count(*) FROM pg_locks WHERE NOT granted AND {which}"
    await until(lambda: postgres.execute(waiting, name) != [(0,)])


async def test_without_a_statement_timeout_a_save_waits_for_the_lock(
    open_: Open, postgres: Postgres, name: str
) -> None:
    db = open_()
    checkpointer = Checkpointer(db)
    await checkpointer.save({"n": 1}, "thread", "a")

    with locked(postgres, name):
        save = asyncio.create_task(checkpointer.save({"n": 2}, "thread", "b"))
        await until_a_lock_is_awaited(postgres, name, "relation = 'threads'::regclass")
        assert not save.done()
    assert await save == "b"


@pytest.mark.parametrize("removal", ["delete", "forget"])
async def test_a_save_over_an_id_begins_the_next_life_of_a_log_that_is_removed_meanwhile(
    open_: Open, postgres: Postgres, name: str, removal: str
) -> None:
    """Its statement began before the removal was committed, so it still sees the id as there."""
    remover, saver = Checkpointer(open_()), Checkpointer(open_())
    await remover.save({"n": [*range(100)]}, "thread", "a")

    async with remover.db.transaction() as tx:
        if removal == "delete":
            await remover.delete("thread", connection=tx)
        else:
            await remover.forget(thread_id="thread", connection=tx)
        # A snapshot, because it has shrunk: without a base, so the statement may create the log.
        save = asyncio.create_task(saver.save({"n": 2}, "thread", "a"))
        await until_a_lock_is_awaited(postgres, name, "locktype = 'transactionid'")
    await save
    await saver.save({"n": 3}, "thread", "b")

    assert await remover.list_checkpoints("thread") == ["b", "a"]
    assert await remover.load("thread", "a") == {"n": 2}
    assert (await verify(remover.db)).ok


@pytest.mark.parametrize(
    ("there", "expected"),
    [(True, {}), (True, {"expected_version": 1}), (False, {})],
    ids=["an item", "an item at a version", "a new item"],
)
async def test_a_put_removes_the_vectors_that_its_item_got_while_it_waited(
    open_: Open, postgres: Postgres, name: str, there: bool, expected: dict[str, int]
) -> None:
    """They are of the value before, and the statement began before they were committed."""
    first, second = Store(open_()), Store(open_())
    if there:
        await first.put(("items",), "key", {"n": 1})

    async with first.db.transaction() as tx:
        if not there:
            await first.put(("items",), "key", {"n": 1}, connection=tx)
        assert await first.put_embedding(("items",), "key", [1.0, 0.0], connection=tx)
        put = asyncio.create_task(second.put(("items",), "key", {"n": 2}, **expected))
        await until_a_lock_is_awaited(postgres, name, "locktype = 'transactionid'")
    assert await put == 2

    assert await first.search_by_embedding(("items",), [1.0, 0.0]) == []
    item = await first.get_item(("items",), "key")
    assert item is not None
    assert item.value == {"n": 2}


@contextmanager
def silence() -> Iterator[socket.socket]:
    """A port where connections are made, which wait to be taken, and nothing is ever said."""
    with socket.create_server(("127.0.0.1", 0)) as listener:
        listener.setblocking(False)
        yield listener


def waiting_at(listener: socket.socket) -> int:
    """Take the connections that were made, and return how many."""
    for count in itertools.count():
        try:
            listener.accept()[0].close()
        except BlockingIOError:
            return count
    raise AssertionError


async def test_a_server_that_never_answers_is_unreachable_after_the_connect_timeout(
    driver: str,
) -> None:
    shortest = 2 if driver == "psycopg" else 0.2  # libpq waits for no less
    with silence() as listener:
        url = f"postgresql+{driver}://ada:hush@127.0.0.1:{listener.getsockname()[1]}/agents"
        db = Database(url, connect_timeout=shortest)
        with pytest.raises(DatabaseUnreachable, match="cannot reach"):
            await Checkpointer(db).load("thread")
        assert waiting_at(listener) == 1, "tried once, not four times"


# --- Pools ---------------------------------------------------------------------------------------


async def test_two_hundred_saves_at_once_pass_through_a_pool_of_two(open_: Open) -> None:
    db = open_(pool_size=2, max_overflow=0)
    checkpointer = Checkpointer(db)
    async with asyncio.timeout(A_WHILE):
        await asyncio.gather(
            *(checkpointer.save({"n": n}, f"thread-{n % 20}", f"c{n}") for n in range(200))
        )

    kept = [await checkpointer.list_checkpoints(f"thread-{n}", 100) for n in range(20)]
    assert sorted(c for ids in kept for c in ids) == sorted(f"c{n}" for n in range(200))
    assert [await checkpointer.load("thread-0", i) for i in kept[0]] == [
        {"n": int(i[1:])} for i in kept[0]
    ]


async def test_a_pool_that_stays_empty_is_an_error_of_ours(open_: Open) -> None:
    db = open_(pool_size=1, max_overflow=0, pool_timeout=0.2)
    async with db.transaction() as tx:
        with pytest.raises(DatabaseUnreachable, match="pool"):
            await Checkpointer(db).save({"n": 1}, "thread")
        await Checkpointer(db).save({"n": 2}, "thread", connection=tx)
    assert await Checkpointer(db).load("thread") == {"n": 2}


async def test_the_application_name_in_the_url_is_what_the_server_sees(open_: Open) -> None:
    db = open_(more="application_name=planner")

    assert await db.run_sync(lambda c: c.scalar(text("SHOW application_name"))) == "planner"


async def test_the_hosts_own_connect_arguments_reach_the_driver(open_: Open, driver: str) -> None:
    ours = (
        {"server_settings": {"lock_timeout": "7s"}}
        if driver == "asyncpg"
        else {"options": "-c lock_timeout=7s"}
    )
    db = open_(more="application_name=planner", connect_args=ours)

    assert await db.run_sync(lambda c: c.scalar(text("SHOW lock_timeout"))) == "7s"
    assert await db.run_sync(lambda c: c.scalar(text("SHOW application_name"))) == "planner"


# --- PgBouncer in transaction mode ---------------------------------------------------------------


async def test_everything_works_through_pgbouncer(open_: Open, bouncer: Postgres) -> None:
    db = open_(server=bouncer, pgbouncer=True)
    checkpointer = Checkpointer(db)
    for n in range(5):
        await checkpointer.save({"n": n, "word": f"kettle {n}"}, "thread", f"c{n}")

    assert await checkpointer.load("thread", "c2") == {"n": 2, "word": "kettle 2"}
    ids = [info.checkpoint_id async for info in checkpointer.history("thread")]
    assert ids == ["c4", "c3", "c2", "c1", "c0"]
    assert [hit["checkpoint_id"] for hit in await checkpointer.search("kettle")] == ["c0"]
    async with db.transaction() as tx:
        await checkpointer.save({"n": 9}, "thread", "c9", connection=tx)
        assert await checkpointer.load("thread", connection=tx) == {"n": 9}
        await tx.rollback()
    assert await checkpointer.delete("thread", "c0")
    assert await checkpointer.list_checkpoints("thread") == ["c4", "c3", "c2", "c1"]


async def test_the_url_may_say_that_it_leads_to_pgbouncer(open_: Open, bouncer: Postgres) -> None:
    db = open_(server=bouncer, more="pgbouncer=true")
    for n in range(3):
        await Checkpointer(db).save({"n": n}, "thread")

    reading = open_(server=bouncer, more="pgbouncer=true", read_only=True)
    assert await Checkpointer(reading).load("thread") == {"n": 2}


async def test_the_refusal_of_a_session_s_parameter_names_pgbouncer(
    bouncer: Postgres, name: str, driver: str
) -> None:
    """By such a parameter a server is told to take no writes; PgBouncer knows none."""
    db = Database(bouncer.url(name, driver=driver), read_only=True)
    with pytest.raises(DatabaseUnreachable, match="add pgbouncer=true to the URL"):
        await db.check()
    await db.close()


@pytest.mark.parametrize("state", ["26000", "42P05"])
def test_the_error_of_a_prepared_statement_names_pgbouncer(driver: str, state: str) -> None:
    class Refused(Exception):
        sqlstate = state

    error = DBAPIError("SELECT 1", {}, Refused())
    dialect = DIALECTS["postgresql"]

    assert "add pgbouncer=true to the URL" in str(translator(dialect, "db")(error))
    assert "pgbouncer" not in str(translator(dialect, "db", pgbouncer=True)(error))


async def test_fifty_tasks_at_once_pass_through_pgbouncer(open_: Open, bouncer: Postgres) -> None:
    db = open_(server=bouncer, pgbouncer=True)
    checkpointer = Checkpointer(db)

    async def work(task: int) -> None:
        for n in range(4):
            await checkpointer.save({"task": task, "n": n}, f"thread-{task % 10}", f"{task}-{n}")
        assert await checkpointer.load(f"thread-{task % 10}", f"{task}-0") == {"task": task, "n": 0}

    async with asyncio.timeout(A_WHILE):
        await asyncio.gather(*(work(task) for task in range(50)))

    for thread in range(10):
        infos = [info async for info in checkpointer.history(f"thread-{thread}")]
        assert len(infos) == 20
        assert [i.parent_id for i in infos] == [i.checkpoint_id for i in infos[1:]] + [None]


async def test_a_statement_timeout_holds_through_pgbouncer(
    open_: Open, bouncer: Postgres, postgres: Postgres, name: str
) -> None:
    db = open_(server=bouncer, pgbouncer=True, **IMPATIENTLY)
    # Let go after a while: what fails here would otherwise hang.
    held, let_go = threading.Event(), threading.Event()

    def hold() -> None:
        with locked(postgres, name):
            held.set()
            let_go.wait(A_WHILE)

    await db.health()
    holder = threading.Thread(target=hold)
    holder.start()
    await asyncio.to_thread(held.wait)
    try:
        with pytest.raises(MemalchemyError, match="locked or too slow"):
            await Checkpointer(db).save({"n": 1}, "thread")
    finally:
        let_go.set()
        holder.join()
