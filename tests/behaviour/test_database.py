"""`Database`: construction, opening, migrating or checking, tenants, loops, threads, closing."""

from __future__ import annotations

import asyncio
import gc
import json
import math
import os
import re
import sqlite3
import threading
from collections.abc import AsyncIterator, Callable, Coroutine
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from sqlalchemy import URL, Connection, text
from sqlalchemy.ext.asyncio import create_async_engine

from memalchemy import (
    Checkpointer,
    Database,
    DatabaseUnreachable,
    SchemaOutdated,
    SchemaTooNew,
    TooLarge,
    __version__,
    migrate,
)
from memalchemy.database import READ, WRITE_ROWS
from memalchemy.database.sqlite import connections
from memalchemy.statements import Program
from servers import Postgres
from waiting import until, wait_until


@pytest.fixture
async def empty(database_url: str) -> AsyncIterator[Callable[..., Database]]:
    """Opens the test's own database, which has no schema; whatever was opened is closed."""
    opened: list[Database] = []

    def open_(**options: Any) -> Database:
        opened.append(Database(database_url, **options))
        return opened[-1]

    yield open_
    for db in opened:
        await db.close()


async def tables(db: Database) -> set[str]:
    def look(connection: Connection) -> set[str]:
        return set(connection.dialect.get_table_names(connection))

    return await db.run_sync(look)


async def pretend_upgraded(db: Database, oldest_release: str | None) -> None:
    """Leave the schema as a release from the future would: an unknown revision, and its word on
    which releases still work with it.
    """
    meta = json.dumps({"oldest_release": oldest_release, "revision": "9999"})

    def job(connection: Connection) -> None:
        connection.execute(text("UPDATE memalchemy_version SET version_num = '9999'"))
        house = "WHERE tenant = '~' AND namespace = '/~memalchemy/' AND key = 'schema'"
        if oldest_release is None:
            done = connection.execute(text(f"DELETE FROM store_items {house}"))
        else:
            done = connection.execute(text(f"UPDATE store_items SET meta = '{meta}' {house}"))
        assert done.rowcount == 1

    await db.migrate()
    await db.run_sync(job)


# --- Construction --------------------------------------------------------------------------------


def test_construction_needs_no_running_loop_and_does_no_io(tmp_path: Any) -> None:
    for url in (
        f"sqlite:///{tmp_path}/agent.db",
        "sqlite://",
        "postgresql://ada@127.0.0.1:1/agents",
        "postgresql+psycopg://ada@127.0.0.1:1/agents",
        "oracle://ada@127.0.0.1:1/agents",
    ):
        Checkpointer(Database(url))

    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("option", [{"migrate": "always"}, {"durability": "some"}])
def test_an_option_that_is_none_of_its_values_is_refused(option: dict[str, Any]) -> None:
    with pytest.raises(ValueError, match=next(iter(option.values()))):
        Database("sqlite://", **option)


def test_engine_options_on_a_sqlite_url_are_refused_by_name() -> None:
    with pytest.raises(TypeError, match="pool_size"):
        Database("sqlite://", pool_size=3)


@pytest.mark.parametrize(
    "option", [{"connect_timeout": 5}, {"statement_timeout": 5}, {"pool_size": 3}]
)
async def test_an_engine_of_the_hosts_takes_no_options_of_an_engine(option: dict[str, Any]) -> None:
    engine = create_async_engine("sqlite+aiosqlite://")
    with pytest.raises(TypeError, match=f"{next(iter(option))}.*create_async_engine"):
        Database(engine, **option)
    await engine.dispose()


@pytest.mark.parametrize("option", ["connect_timeout", "statement_timeout"])
@pytest.mark.parametrize("seconds", [0, -1, float("nan")])
def test_a_timeout_is_longer_than_nothing(option: str, seconds: float) -> None:
    with pytest.raises(ValueError, match=option):
        Database("sqlite://", **{option: seconds})


def test_a_schema_on_sqlite_is_refused() -> None:
    with pytest.raises(ValueError, match="another file"):
        Database("sqlite://", schema="memory")


@pytest.mark.parametrize(
    ("tenant", "error"), [("", ValueError), (7, TypeError), ("x" * 65, TooLarge)]
)
def test_a_tenant_is_a_text_of_one_to_64_bytes(tenant: Any, error: type[Exception]) -> None:
    with pytest.raises(error):
        Database("sqlite://", tenant=tenant)
    with pytest.raises(error):
        Database("sqlite://").for_tenant(tenant)


def test_its_repr_names_the_database_and_the_tenant(tmp_path: Path) -> None:
    url = "postgresql://ada:hush@db.example.com/agents"
    db = Database(url, tenant="acme", schema="memory")

    assert (db.tenant, db.schema) == ("acme", "memory")
    assert "db.example.com/agents" in repr(db)
    assert "acme" in repr(db)
    assert "hush" not in repr(db)
    assert f"{tmp_path}/agent.db" in repr(Database(f"sqlite:///{tmp_path}/agent.db"))


# --- migrate= ------------------------------------------------------------------------------------


async def test_auto_migrates_an_embedded_database_on_first_use_and_only_checks_a_server(
    empty: Callable[..., Database],
) -> None:
    db = empty()
    checkpointer = Checkpointer(db)

    if db.dialect.single_writer:
        await checkpointer.save({"n": 1}, "thread")
        assert await checkpointer.load("thread") == {"n": 1}
        assert await db.current() == (await db.health())["head"]
    else:
        with pytest.raises(SchemaOutdated, match="memalchemy --db URL upgrade"):
            await checkpointer.save({"n": 1}, "thread")
        assert await tables(db) == set(), "nothing altered behind the user's back"


async def test_entering_the_context_checks_at_once(empty: Callable[..., Database]) -> None:
    with pytest.raises(SchemaOutdated):
        async with empty(migrate="check"):
            pass


@pytest.mark.usefixtures("lasting")
async def test_upgrade_migrates_a_server_on_first_use_too(empty: Callable[..., Database]) -> None:
    async with empty(migrate="upgrade") as db:
        await Checkpointer(db).save({"n": 1}, "thread")
        assert await db.current() == migrate.head()

    async with empty(migrate="upgrade") as again:
        assert await Checkpointer(again).load("thread") == {"n": 1}


async def test_the_error_of_an_opening_names_both_ways(empty: Callable[..., Database]) -> None:
    with pytest.raises(SchemaOutdated, match=r"memalchemy --db URL upgrade.*migrate='upgrade'"):
        async with empty(migrate="check"):
            pass

    db = empty(migrate="check")
    await db.migrate()
    async with db:
        assert await db.current() == migrate.head()


async def test_check_never_migrates(empty: Callable[..., Database]) -> None:
    db = empty(migrate="check")

    with pytest.raises(SchemaOutdated) as caught:
        await Checkpointer(db).load("thread")

    assert caught.value.current is None
    assert caught.value.head == migrate.head()
    assert await tables(db) == set()


@pytest.mark.parametrize("mode", ["check", "off"])
@pytest.mark.parametrize("name", ["agent.db", "with space & ?#%41.db"])
async def test_a_sqlite_file_that_is_not_there_is_an_error_and_is_not_made(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, mode: Any, name: str
) -> None:
    monkeypatch.chdir(tmp_path)
    db = Database(URL.create("sqlite", database=name), migrate=mode)
    checkpointer = Checkpointer(db)

    for use in (
        lambda: checkpointer.load("thread"),
        lambda: checkpointer.save({"n": 1}, "thread"),
        lambda: checkpointer.list_threads(),
        lambda: db.check(),
        lambda: db.health(),
        lambda: db.transaction().__aenter__(),
    ):
        with pytest.raises(SchemaOutdated, match=r"there is no file .*upgrade") as caught:
            await use()
        assert (caught.value.current, caught.value.head) == (None, migrate.head())
    assert await db.current() is None
    assert os.listdir(tmp_path) == []

    await db.migrate()
    await checkpointer.save({"n": 1}, "thread")
    await db.close()

    assert name in os.listdir(tmp_path)
    async with Database(URL.create("sqlite", database=name), migrate=mode) as again:
        await Checkpointer(again).save({"n": 2}, "thread")
        assert await Checkpointer(again).load("thread") == {"n": 2}
        async with again.transaction() as tx:
            assert await Checkpointer(again).load("thread", connection=tx) == {"n": 2}


async def test_off_neither_checks_nor_migrates(empty: Callable[..., Database]) -> None:
    db = empty(migrate="off")
    await pretend_upgraded(db, "99.0.0")
    checkpointer = Checkpointer(db)

    await checkpointer.save({"n": 1}, "thread")

    assert await checkpointer.load("thread") == {"n": 1}


async def test_off_without_a_schema_is_outdated_when_it_is_used(
    empty: Callable[..., Database],
) -> None:
    db = empty(migrate="off")

    with pytest.raises(SchemaOutdated):
        await Checkpointer(db).load("thread")
    assert await tables(db) == set()


async def test_a_database_that_was_outdated_works_as_soon_as_it_is_migrated(
    empty: Callable[..., Database],
) -> None:
    db = empty(migrate="check")
    checkpointer = Checkpointer(db)
    with pytest.raises(SchemaOutdated):
        await checkpointer.save({"n": 1}, "thread")

    assert await db.migrate() != []

    await checkpointer.save({"n": 1}, "thread")
    assert await db.migrate() == []
    assert await checkpointer.load("thread") == {"n": 1}


async def test_current_is_none_without_a_schema_and_the_head_with_one(
    empty: Callable[..., Database],
) -> None:
    db = empty(migrate="off")
    assert await db.current() is None

    ran = await db.migrate()

    assert await db.current() == ran[-1] == (await db.health())["head"]


@pytest.mark.parametrize("mode", ["auto", "check"])
async def test_a_schema_that_demands_a_later_release_is_too_new(
    empty: Callable[..., Database], mode: str
) -> None:
    db = empty(migrate=mode)
    await pretend_upgraded(db, "99.0.0")

    with pytest.raises(SchemaTooNew, match=re.escape("memalchemy 99.0.0 or later")) as caught:
        await Checkpointer(db).save({"n": 1}, "thread")

    assert (caught.value.current, caught.value.needs) == ("9999", "99.0.0")
    assert __version__ in str(caught.value)


async def test_a_schema_from_the_future_that_says_nothing_is_too_new(
    empty: Callable[..., Database],
) -> None:
    db = empty()
    await pretend_upgraded(db, None)

    with pytest.raises(SchemaTooNew):
        await db.check()


@pytest.mark.parametrize("release", ["0.0.1rc1", __version__])
async def test_a_newer_schema_that_declares_itself_compatible_works(
    empty: Callable[..., Database], release: str
) -> None:
    db = empty()
    await pretend_upgraded(db, release)
    checkpointer = Checkpointer(db)

    await db.check()
    await checkpointer.save({"n": 1}, "thread")

    assert await checkpointer.load("thread") == {"n": 1}
    assert await db.migrate() == [], "an older release leaves a newer schema alone"
    assert await db.current() == "9999"


# --- Timeouts of an embedded database (those of a server: test_database_server) -------------------

MANY_SECONDS = (
    "WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n LIMIT 50000000) "
    "SELECT max(i) FROM n"
)


LOOKS = 100
"""Times that a statement may be looked at before its time is over: some of a million steps."""


class LooksAsTime:
    """A clock that goes on by a second whenever a thread looks at it, and only there.

    A statement is looked at so often as it takes steps, so how fast the machine is decides nothing.
    """

    def __init__(self) -> None:
        self._looks = threading.local()
        self.passed = 0.0

    def monotonic(self) -> float:
        self._looks.count = getattr(self._looks, "count", 0) + 1
        return self.passed + float(self._looks.count)


@pytest.fixture
def looks(monkeypatch: pytest.MonkeyPatch) -> LooksAsTime:
    clock = LooksAsTime()
    monkeypatch.setattr(connections, "time", clock)
    return clock


@pytest.fixture(params=["file", "memory"])
async def impatient(
    request: pytest.FixtureRequest, tmp_path: Path, looks: LooksAsTime
) -> AsyncIterator[Database]:
    url = f"sqlite:///{tmp_path}/agent.db" if request.param == "file" else "sqlite://"
    async with Database(url, statement_timeout=LOOKS) as db:
        yield db


def slow() -> Program[Any]:
    return (yield text(MANY_SECONDS), None)


@pytest.mark.unsigned_only("it sends statements of its own")
async def test_a_statement_that_runs_for_longer_than_its_timeout_is_ended(
    impatient: Database, looks: LooksAsTime
) -> None:
    checkpointer = Checkpointer(impatient)
    await checkpointer.save({"n": 1}, "thread", "a")
    neighbour = asyncio.create_task(checkpointer.save({"n": 2}, "thread", "b"))
    for intent in (READ, WRITE_ROWS):
        with pytest.raises(DatabaseUnreachable, match="too slow") as caught:
            await impatient.run(slow, intent)
        assert caught.value.busy
    await neighbour

    with pytest.raises(DatabaseUnreachable):  # noqa: PT012 - the block is what is ended
        async with impatient.transaction() as tx:
            await checkpointer.save({"n": 3}, "thread", "c", connection=tx)
            await impatient.run(slow, READ, connection=tx)

    assert await checkpointer.list_checkpoints("thread") == ["b", "a"]
    looks.passed += 2 * LOOKS  # the time of a statement, not of a connection
    await checkpointer.save({"n": 4}, "thread", "d")
    assert await checkpointer.load("thread") == {"n": 4}


@pytest.mark.unsigned_only("what a test's own program sends passes for a statement of signing's")
async def test_a_file_locked_by_another_process_is_waited_for_as_long_as_a_statement(
    tmp_path: Path, looks: LooksAsTime
) -> None:
    """It is SQLite that waits, and by the machine's clock."""
    async with Database(f"sqlite:///{tmp_path}/agent.db", statement_timeout=0.2) as db:
        looks.passed = -math.inf  # here no statement itself takes too long
        checkpointer = Checkpointer(db)
        await checkpointer.save({"n": 1}, "thread", "a")
        other = sqlite3.connect(tmp_path / "agent.db", isolation_level=None)
        other.execute("BEGIN IMMEDIATE")
        with pytest.raises(DatabaseUnreachable, match="locked"):
            await checkpointer.save({"n": 2}, "thread", "b")
        other.execute("ROLLBACK")
        other.close()
        for intent in (READ, WRITE_ROWS):
            (row,) = await db.run(lambda: (yield text("PRAGMA busy_timeout"), None), intent)
            assert row[0] == 200
        await checkpointer.save({"n": 3}, "thread", "c")


# --- Tenants -------------------------------------------------------------------------------------


async def test_a_tenant_sees_nothing_of_another(db: Database) -> None:
    other = db.for_tenant(f"{db.tenant}-other")
    await Checkpointer(db).save({"whose": "ours"}, "thread", "first")
    await Checkpointer(other).save({"whose": "theirs"}, "thread", "first")

    assert await Checkpointer(db).load("thread") == {"whose": "ours"}
    assert await Checkpointer(other).load("thread") == {"whose": "theirs"}

    await Checkpointer(db).delete("thread")

    assert await Checkpointer(other).list_checkpoints("thread") == ["first"]


async def test_for_tenant_shares_the_engine_and_its_transactions(db: Database) -> None:
    other = db.for_tenant(f"{db.tenant}-other")

    assert other.identity == db.identity
    async with db.transaction() as tx:
        await Checkpointer(db).save({"n": 1}, "thread", "ours", connection=tx)
        await Checkpointer(other).save({"n": 2}, "thread", "theirs", connection=tx)
    assert await Checkpointer(db).list_checkpoints("thread") == ["ours"]
    assert await Checkpointer(other).list_checkpoints("thread") == ["theirs"]


# --- health and close ----------------------------------------------------------------------------


async def test_the_time_is_aware_and_goes_on(db: Database) -> None:
    before, after = await db.now(), await db.now()

    assert before.tzinfo is UTC
    assert before <= after
    assert abs(after - datetime.now(UTC)) < timedelta(seconds=20)


async def test_health_tells_what_an_operator_asks(db: Database) -> None:
    health = await db.health()

    keys = {"url", "dialect", "server_version", "revision", "head", "checked_out"}
    assert set(health) - {"pgvector"} == keys
    assert ("pgvector" in health) == (db.dialect.name == "postgresql")
    assert health["dialect"] == db.dialect.name
    assert re.match(r"\d+\.\d+", health["server_version"])
    assert health["revision"] == health["head"] == await db.current()


async def test_health_counts_the_connections_in_use(db: Database) -> None:
    if db.dialect.single_writer:
        pytest.skip("an embedded database has no pool")
    async with db.transaction():
        assert (await db.health())["checked_out"] == 1


async def test_health_raises_when_nobody_answers() -> None:
    with pytest.raises(DatabaseUnreachable):
        await Database("postgresql://ada@127.0.0.1:1/agents").health()


async def test_a_closed_database_opens_again_when_it_is_used(db: Database, reopen: Any) -> None:
    checkpointer = Checkpointer(db)
    await checkpointer.save({"n": 1}, "thread")

    await db.close()
    await db.close()

    assert await checkpointer.load("thread") == {"n": 1}
    await checkpointer.save({"n": 2}, "thread")
    assert [info.metadata async for info in checkpointer.history("thread")] == [{}, {}]


async def test_closing_a_database_in_memory_ends_it_and_it_can_be_used_afresh() -> None:
    db = Database("sqlite://")
    checkpointer = Checkpointer(db)
    await checkpointer.save({"n": 1}, "thread")

    await db.close()

    assert await checkpointer.load("thread") is None
    await checkpointer.save({"n": 2}, "thread")
    assert await checkpointer.load("thread") == {"n": 2}
    await db.close()


async def test_close_finishes_the_saves_that_were_started(db: Database, reopen: Any) -> None:
    checkpointer = Checkpointer(db)
    saves = [asyncio.create_task(checkpointer.save({"n": n}, "thread", f"c{n}")) for n in range(20)]
    await saves[0]

    await asyncio.gather(db.close(), *saves)

    async with reopen() as again:
        assert set(await Checkpointer(again).list_checkpoints("thread", 50)) == {
            f"c{n}" for n in range(20)
        }


# --- Loops, threads, processes -------------------------------------------------------------------


def in_a_thread(work: Callable[[], Coroutine[Any, Any, None]], count: int = 1) -> None:
    """Run *work* on loops of their own in *count* threads at once; raise what it raised."""
    errors: list[BaseException] = []

    def run() -> None:
        try:
            asyncio.run(work())
        except BaseException as error:  # noqa: BLE001 - raised again below
            errors.append(error)

    threads = [threading.Thread(target=run) for _ in range(count)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(60)
        assert not thread.is_alive(), "a loop in a thread hangs"
    if errors:
        raise errors[0]


def test_one_database_serves_several_loops_one_after_another(shared_url: str) -> None:
    """Also where a loop ends without `Database.close`."""
    db = Database(shared_url, tenant=f"loops-{os.urandom(4).hex()}")
    checkpointer = Checkpointer(db)

    async def turn(n: int) -> None:
        await checkpointer.save({"n": n}, "thread", f"c{n}")
        assert await checkpointer.load("thread") == {"n": n}

    async def last() -> None:
        assert await checkpointer.list_checkpoints("thread") == ["c3", "c2", "c1", "c0"]
        await db.close()

    for n in range(4):
        asyncio.run(turn(n))
    asyncio.run(last())
    gc.collect()


def test_two_threads_with_a_loop_each_share_one_database(shared_url: str) -> None:
    db = Database(shared_url, tenant=f"threads-{os.urandom(4).hex()}")
    checkpointer = Checkpointer(db)

    async def work() -> None:
        me = threading.get_ident()
        for n in range(15):
            await checkpointer.save({"n": n}, f"own-{me}")
            await checkpointer.save({"n": n, "of": me}, "shared")
        assert await checkpointer.load(f"own-{me}") == {"n": 14}
        assert len(await checkpointer.list_checkpoints(f"own-{me}", 100)) == 15
        if not db.dialect.single_writer:  # closing an embedded one is for all loops
            await db.close()

    in_a_thread(work, count=2)

    async def count() -> None:
        infos = [info async for info in checkpointer.history("shared")]
        assert len(infos) == 30
        assert [i.parent_id for i in infos] == [i.checkpoint_id for i in infos[1:]] + [None]
        await db.close()

    asyncio.run(count())


@pytest.mark.parametrize("driver", ["asyncpg", "psycopg"])
async def test_what_is_in_use_while_a_database_is_closed_is_closed_after_it(
    name: str, postgres: Postgres, driver: str
) -> None:
    mark = f"closed-{os.urandom(4).hex()}"
    db = Database(f"{postgres.url(name, driver=driver)}&application_name={mark}")
    open_ = f"SELECT count(*) FROM pg_stat_activity WHERE application_name = '{mark}'"

    await Checkpointer(db).save({"n": 0}, "thread")  # with keys, a first one leaves their mark
    async with db.transaction() as tx:
        await db.close()
        assert await Checkpointer(db).save({"n": 1}, "thread", connection=tx)

    await until(lambda: postgres.execute(open_) == [(0,)])


@pytest.mark.parametrize("driver", ["asyncpg", "psycopg"])
def test_loops_that_ended_without_close_leave_no_connections_on_a_server(
    postgres: Postgres, driver: str
) -> None:
    name = f"loops-{os.urandom(4).hex()}"
    db = Database(f"{postgres.url(driver=driver)}&application_name={name}", migrate="off")
    open_ = f"SELECT count(*) FROM pg_stat_activity WHERE application_name = '{name}'"

    async def turn() -> None:
        await db.current()
        assert postgres.execute(open_) != [(0,)]

    for _ in range(3):
        asyncio.run(turn())
    asyncio.run(db.close())
    gc.collect()

    left = "connections of loops that ended are still open"
    wait_until(lambda: postgres.execute(open_) == [(0,)], left)
