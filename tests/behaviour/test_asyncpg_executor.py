"""Programs whose statements go straight to asyncpg: what SQLAlchemy did around them still holds."""

from __future__ import annotations

import asyncio
import os
import signal
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import contextmanager
from typing import Any
from uuid import uuid4

import pytest
from sqlalchemy import Engine, event, func, select, text

from memalchemy import Database, MemalchemyError, Store
from memalchemy.database import READ, WRITE, WRITE_ROWS
from memalchemy.errors import DatabaseUnreachable, StatementFailed
from memalchemy.events import subscribe
from memalchemy.statements import Program
from oracle import strict
from servers import Postgres
from waiting import A_WHILE, until

pytestmark = [
    pytest.mark.asyncio_only("what is under the synchronous face is the same"),
    pytest.mark.skipif(strict.VARIABLE in os.environ, reason="Oracle's habits need SQLAlchemy"),
]

HERE = ("here",)
ROOM = {"pool_size": 1, "max_overflow": 0, "pool_timeout": A_WHILE}
"""One connection: what one call leaves on it, the next one finds."""

Open = Callable[..., Database]


@pytest.fixture
async def open_(postgres: Postgres, name: str) -> AsyncIterator[Open]:
    opened: list[Database] = []
    tenant = f"t-{uuid4().hex[:12]}"

    def open_one(*, server: Postgres = postgres, more: str = "", **options: Any) -> Database:
        url = server.url(name)
        url += f"{'&' if '?' in url else '?'}{more}" if more else ""
        opened.append(Database(url, tenant=tenant, **options))
        return opened[-1]

    yield open_one
    for db in opened:
        assert (await db.health())["checked_out"] == 0
        await db.close()


@contextmanager
def through_sqlalchemy() -> Iterator[list[str]]:
    """The texts that SQLAlchemy executes meanwhile."""
    seen: list[str] = []

    def look(connection: Any, cursor: Any, sql: str, *more: Any) -> None:
        seen.append(sql)

    event.listen(Engine, "before_cursor_execute", look)
    try:
        yield seen
    finally:
        event.remove(Engine, "before_cursor_execute", look)


async def _use(db: Database) -> None:
    store = Store(db)
    await store.put(HERE, "k", {"n": 1}, {"of": "kettle"})
    assert await store.get(HERE, "k") == {"n": 1}
    assert await store.put_batch([(HERE, key, key) for key in "ab"]) == [1, 1]
    assert await store.delete(HERE, "a")


async def _until(postgres: Postgres, query: str, number: int) -> None:
    await until(lambda: postgres.execute(query) == [(number,)])


async def test_a_store_does_not_ask_sqlalchemy_once_it_is_open(open_: Open) -> None:
    async with open_() as db:
        with through_sqlalchemy() as seen:
            await _use(db)
    assert seen == []


@pytest.mark.parametrize(
    ("more", "options"),
    [
        ("prepared_statement_cache_size=0", {}),
        ("", {"connect_args": {"statement_cache_size": 0}}),
        ("", {"isolation_level": "REPEATABLE READ"}),
        ("", {"pgbouncer": True}),
    ],
    ids=["no cache in the URL", "no cache of the driver's", "isolation", "pgbouncer"],
)
async def test_what_only_sqlalchemy_does_is_left_to_it(
    open_: Open, more: str, options: dict[str, Any]
) -> None:
    async with open_(more=more, **options) as db:
        with through_sqlalchemy() as seen:
            await _use(db)
    assert any("INSERT INTO store_items" in sql for sql in seen)


async def test_a_connection_that_the_server_ended_while_it_was_idle_costs_no_attempt(
    open_: Open, postgres: Postgres
) -> None:
    mark = f"idle-{uuid4().hex[:8]}"
    db = open_(more=f"application_name={mark}", **ROOM)
    store = Store(db)
    await store.put(HERE, "k", 1)
    async with db.transaction() as tx:
        raw: Any = (await tx.get_raw_connection()).driver_connection
    postgres.execute(
        f"SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE application_name = '{mark}'"
    )
    await until(raw.is_closed)

    events: list[str] = []
    stop = subscribe(lambda one: events.append(one.name))
    try:
        assert await store.get(HERE, "k") == 1
    finally:
        stop()
    assert events == ["store.get"]


@pytest.mark.parametrize("together", [False, True], ids=["alone", "in a transaction"])
async def test_a_connection_that_is_lost_during_a_statement_is_replaced_and_it_is_repeated(
    open_: Open, postgres: Postgres, together: bool
) -> None:
    mark = f"lost-{uuid4().hex[:8]}"
    db = open_(more=f"application_name={mark}", **ROOM)
    attempts: list[int] = []

    def program() -> Program[int]:
        rows = yield select(func.pg_backend_pid().label("pid")), {}
        attempts.append(rows[0].pid)
        if len(attempts) == 1:
            yield select(func.pg_terminate_backend(rows[0].pid).label("ended")), {}
        return int(rows[0].pid)

    async with db:
        assert await db.run(program, READ) == attempts[1]
        assert attempts[0] != attempts[1]
        assert (await db.health())["checked_out"] == 0


@pytest.mark.parametrize("together", [False, True], ids=["alone", "in a transaction"])
async def test_a_cancelled_call_gives_no_connection_back_on_which_its_statement_runs(
    open_: Open, postgres: Postgres, together: bool
) -> None:
    mark = f"cancelled-{uuid4().hex[:8]}"
    db = open_(more=f"application_name={mark}", **ROOM)
    sleeping = (
        f"SELECT count(*) FROM pg_stat_activity WHERE application_name = '{mark}' "
        "AND state = 'active' AND query LIKE '%pg_sleep%'"
    )

    def sleep() -> Program[None]:
        yield select(func.pg_sleep(600).label("slept")), {}

    def pid() -> Program[int]:
        rows = yield select(func.pg_backend_pid().label("pid")), {}
        return int(rows[0].pid)

    async with db:
        before = await db.run(pid, READ)
        task = asyncio.create_task(db.run(sleep, READ))
        await _until(postgres, sleeping, 1)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        assert (await db.health())["checked_out"] == 0
        assert await asyncio.wait_for(db.run(pid, READ), A_WHILE) != before
        await _until(postgres, sleeping, 0)


def _setting() -> Any:
    return select(func.current_setting("memalchemy.noted", True).label("now"))


@pytest.mark.unsigned_only("it sends statements of its own")
@pytest.mark.parametrize("error", [LookupError, StatementFailed])
async def test_a_transaction_that_fails_is_undone_and_its_connection_goes_on(
    open_: Open, error: type[Exception]
) -> None:
    def program() -> Program[None]:
        yield select(func.txid_current().label("tx")), {}
        # A text goes by SQLAlchemy, and is part of the same transaction.
        yield text("SELECT set_config('memalchemy.noted', 'yes', true)"), {}
        rows = yield _setting(), {}
        assert rows[0].now == "yes"
        if error is LookupError:
            raise LookupError
        yield select(func.to_number("no number", "9").label("refused")), {}

    def noted() -> Program[str | None]:
        rows = yield _setting(), {}
        found: str | None = rows[0].now
        return found

    async with open_(**ROOM) as db:
        with pytest.raises(error):
            await db.run(program, WRITE)
        assert not await db.run(noted, READ)
        await _use(db)


@pytest.mark.unsigned_only("it sends statements of its own")
async def test_a_connection_whose_begin_took_too_long_is_not_used_again(
    open_: Open, postgres: Postgres, name: str
) -> None:
    def pid() -> Program[int]:
        rows = yield select(func.pg_backend_pid().label("pid")), {}
        return int(rows[0].pid)

    db = open_(**ROOM, connect_args={"command_timeout": 2})
    async with db:
        before = await db.run(pid, WRITE_ROWS)
        os.kill(before, signal.SIGSTOP)
        try:
            with pytest.raises(DatabaseUnreachable, match="timeout"):
                await db.run(pid, WRITE_ROWS)
        finally:
            os.kill(before, signal.SIGCONT)
        # On a connection where BEGIN was done after all, this would be acknowledged and undone.
        await Store(db).put(HERE, "k", {"n": 1})
        assert await db.run(pid, READ) != before
        async with Database(postgres.url(name), tenant=db.tenant) as other:
            assert await Store(other).get(HERE, "k") == {"n": 1}


async def test_work_in_a_transaction_that_nobody_commits_is_not_acknowledged(
    open_: Open,
) -> None:
    used: list[int] = []

    def begin() -> Program[int]:
        yield text("BEGIN"), {}
        rows = yield select(func.pg_backend_pid().label("pid")), {}
        used.append(int(rows[0].pid))
        return used[-1]

    async with open_(**ROOM) as db:
        with pytest.raises(MemalchemyError, match="somebody else's transaction"):
            await db.run(begin, READ)

        assert len(used) == len({*used}) > 1, "each attempt has a connection of its own"
        await _use(db)


async def test_statements_stay_right_when_the_schema_changes_under_them(
    postgres: Postgres,
) -> None:
    database = postgres.create_database()
    try:
        async with Database(postgres.url(database), migrate="off", **ROOM) as db:
            await db.migrate()
            store = Store(db)
            await store.put(HERE, "k", {"n": 1})
            for _ in range(8):
                assert await store.get(HERE, "k") == {"n": 1}
            postgres.execute("ALTER TABLE store_items ALTER COLUMN version TYPE numeric", database)
            assert await store.get(HERE, "k") == {"n": 1}
    finally:
        postgres.drop_database(database)
