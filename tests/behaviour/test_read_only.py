"""`Database(url, read_only=True)` on every database: it reads everything and writes nothing."""

from __future__ import annotations

from collections.abc import AsyncIterator

import pytest
from sqlalchemy import event, text
from sqlalchemy.exc import DBAPIError
from sqlalchemy.ext.asyncio import create_async_engine

from host_urls import async_url
from memalchemy import Checkpointer, Database, SchemaOutdated, Store, ThreadLog, migrate
from memalchemy.dialects import DIALECTS, TEXT_INDEXES, parse_url
from memalchemy.errors import CapabilityMissing, MemalchemyError, ReadOnly
from memalchemy.verify import verify
from servers import Postgres

pytestmark = pytest.mark.usefixtures("lasting")


@pytest.fixture
async def read_only(db: Database, shared_url: str) -> AsyncIterator[Database]:
    async with Database(shared_url, tenant=db.tenant, read_only=True) as opened:
        yield opened
        assert (await opened.health())["checked_out"] == 0


async def test_it_reads_what_others_write(db: Database, read_only: Database) -> None:
    await Checkpointer(db).save({"n": 1}, "thread", "c1", {"mood": "good"})
    await ThreadLog(db).append("log", ["first", "second"])
    await Store(db).put(("plans",), "trip", "a week in Lisbon")

    checkpointer = Checkpointer(read_only)
    assert read_only.read_only
    assert not db.read_only
    assert await checkpointer.load("thread") == {"n": 1}
    assert [info.checkpoint_id async for info in checkpointer.history("thread")] == ["c1"]
    (entry,) = await ThreadLog(read_only).tail("log", 1)
    assert entry.value == "second"
    assert await Store(read_only).get(("plans",), "trip") == "a week in Lisbon"
    assert [hit.key for hit in await Store(read_only).search(("plans",), "lisbon")] == ["trip"]
    async with read_only.snapshot() as then:
        assert await checkpointer.load("thread", connection=then) == {"n": 1}
        await Checkpointer(db).save({"n": 2}, "thread")
        assert await checkpointer.load("thread", connection=then) == {"n": 1}
    assert await checkpointer.load("thread") == {"n": 2}


async def test_an_item_whose_lifetime_moves_when_it_is_read_is_read_and_left_as_it_is(
    db: Database, read_only: Database
) -> None:
    await Store(db).put(("plans",), "trip", "Lisbon", ttl=60)
    before = await Store(db).get_item(("plans",), "trip", refresh=False)

    reading = Store(read_only, refresh_ttl=True)
    assert await reading.get(("plans",), "trip") == "Lisbon"

    after = await Store(db).get_item(("plans",), "trip", refresh=False)
    assert before is not None
    assert after is not None
    assert before.expires_at == after.expires_at


async def test_what_writes_is_refused_before_the_database_is_asked(read_only: Database) -> None:
    for write in (
        lambda: Checkpointer(read_only).save({}, "thread"),
        lambda: Store(read_only).put(("plans",), "trip", 1),
        lambda: Checkpointer(read_only.for_tenant("another")).delete("thread"),
        lambda: Checkpointer(read_only.primary()).vacuum(),
        lambda: Checkpointer(read_only.replica()).save({}, "thread"),
        read_only.migrate,
        lambda: read_only.run_sync(lambda connection: None),
    ):
        with pytest.raises(ReadOnly, match="only reads") as refused:
            await write()
        assert isinstance(refused.value, CapabilityMissing)
        assert refused.value.code == "MA-READ-ONLY"
    with pytest.raises(ReadOnly):
        async with read_only.transaction():
            pass


async def test_the_database_refuses_what_passes_by_the_library(
    db: Database, read_only: Database
) -> None:
    await Checkpointer(db).save({"n": 1}, "thread")

    with pytest.raises(DBAPIError):
        async with read_only.snapshot() as then:
            await then.execute(
                text("DELETE FROM threads WHERE tenant = :tenant"), {"tenant": db.tenant}
            )

    assert await Checkpointer(db).load("thread") == {"n": 1}


async def test_it_is_verified_and_not_repaired(db: Database, read_only: Database) -> None:
    await Checkpointer(db).save({"words": "a sentence"}, "thread")

    report = await verify(read_only)

    assert report.ok
    assert report.states == 1
    notes = [finding.sentence for finding in report.findings]
    compared = [index for index in TEXT_INDEXES if db.dialect.text.check_integrity(index)]
    assert len(notes) == (1 if compared and db.dialect.single_writer else 0)
    assert all("opened read-only" in note for note in notes)
    with pytest.raises(ReadOnly):
        await verify(read_only, repair=True)


async def test_an_engine_of_the_hosts_is_read_only_to_memalchemy(
    db: Database, shared_url: str
) -> None:
    await Checkpointer(db).save({"n": 1}, "thread")
    engine = create_async_engine(async_url(shared_url))
    try:
        async with Database(engine, tenant=db.tenant, read_only=True) as theirs:
            assert await Checkpointer(theirs).load("thread") == {"n": 1}
            with pytest.raises(ReadOnly):
                await Checkpointer(theirs).save({}, "thread")
    finally:
        await engine.dispose()


async def test_a_database_without_a_schema_is_outdated_and_stays_without(database_url: str) -> None:
    async with Database(database_url, migrate="off") as made:  # of SQLite, so that a file is there
        await made.migrate()
        await made.run_sync(lambda c: migrate.downgrade(c, "base", dialect=made.dialect))

    for migrates in ("auto", "check"):
        with pytest.raises(SchemaOutdated) as caught:
            async with Database(database_url, read_only=True, migrate=migrates):
                pass
        told = str(caught.value)
        assert "Run: memalchemy --db URL upgrade, which writes to it." in told
        assert ("--schema NAME" in told) == (not made.dialect.single_writer)
    read_only = Database(database_url, read_only=True, migrate="off")
    try:
        assert await read_only.current() is None
        with pytest.raises(MemalchemyError, match="only reads"):
            await read_only.migrate()
    finally:
        await read_only.close()


@pytest.mark.parametrize("driver", ["asyncpg", "psycopg"])
async def test_a_server_behind_pgbouncer_refuses_what_passes_by_the_library(
    postgres: Postgres, driver: str
) -> None:
    """PgBouncer takes no options of a session, so each transaction is read-only."""
    url = postgres.url(postgres.create_database(), driver=driver)
    async with Database(url, migrate="upgrade") as db:
        await Checkpointer(db).save({"n": 1}, "thread")

    async with Database(url, pgbouncer=True, read_only=True) as read_only:
        assert await Checkpointer(read_only).load("thread") == {"n": 1}
        with pytest.raises(DBAPIError):
            async with read_only.snapshot() as then:
                await then.execute(text("DELETE FROM threads"))

    async with Database(url) as db:
        assert await Checkpointer(db).load("thread") == {"n": 1}


def test_a_session_of_oracle_is_told_to_be_read_only() -> None:
    dialect = DIALECTS["oracle"]
    target = parse_url("oracle://ada@host:1521/service")
    options = dialect.read_only_options({"connect_args": {}}, target, pgbouncer=False)
    sent: list[str] = []

    class Cursor:
        def execute(self, sql: str) -> None:
            sent.append(sql)

        def close(self) -> None: ...

    class Connection:
        def cursor(self) -> Cursor:
            return Cursor()

    engine = create_async_engine(target.url, **options)
    ((listener, _),) = options["pool_events"]
    listener(Connection(), None)

    assert sent == ["ALTER SESSION SET READ_ONLY = TRUE"]
    assert event.contains(engine.sync_engine.pool, "connect", listener)
