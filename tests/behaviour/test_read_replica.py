"""A read replica: a real standby, held at a moment, shows which operation reads where.

Everything named ``new`` was saved while the standby stood still: what knows of it read the primary.
"""

from __future__ import annotations

import asyncio
import logging
import os
import sys
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import contextmanager
from typing import Any
from uuid import uuid4

import psycopg
import pytest
from sqlalchemy import text
from sqlalchemy.ext.asyncio import AsyncSession, create_async_engine

from memalchemy import (
    AuthenticationFailed,
    CapabilityMissing,
    Checkpointer,
    Database,
    DatabaseUnreachable,
    SchemaOutdated,
    UnknownURL,
    migrate,
)
from memalchemy.checkpoints.tip_cache import TipCache
from memalchemy.database import READ_REPLICA
from memalchemy.database import replica as replica_module
from memalchemy.events import Event, subscribe
from memalchemy.statements import Program
from servers import (
    Postgres,
    Standby,
    free_port,
    migrated_database,
    postgres_of_the_wheel,
    standby,
)
from waiting import A_WHILE, until, wait_until

pytestmark = pytest.mark.asyncio_only(
    reason="a host's asynchronous engine serves one loop, and outages are timed in the test's"
)

drivers = pytest.mark.parametrize("driver", ["asyncpg", "psycopg"])

Open = Callable[..., Database]


@pytest.fixture(scope="module")
def copy(request: pytest.FixtureRequest) -> Iterator[Standby]:
    """A standby of the tests' server; of one of its own, where that is not on this machine."""
    if "POSTGRES_URL" in os.environ:
        with postgres_of_the_wheel() as server, standby(server) as copy:
            yield copy
    else:
        with standby(request.getfixturevalue("postgres")) as copy:
            yield copy


@pytest.fixture(scope="module")
def name(copy: Standby) -> Iterator[str]:
    """A migrated database of this module's, on both."""
    with migrated_database(copy.primary) as database:
        copy.catch_up()
        yield database


@pytest.fixture
async def open_(copy: Standby, name: str) -> AsyncIterator[Open]:
    """Opens the database with its replica, for a tenant of the test's own."""
    opened: list[Database] = []
    tenant = f"t-{uuid4().hex[:12]}"

    def open_one(driver: str = "asyncpg", **options: Any) -> Database:
        url = copy.primary.url(name, driver=driver)
        known = {"read_url": copy.url(name, driver=driver), "tenant": tenant}
        opened.append(Database(url, **(known | options)))
        return opened[-1]

    yield open_one
    for db in opened:
        health = await db.health()
        assert health["checked_out"] == 0
        assert health.get("replica", {}).get("checked_out", 0) == 0
        await db.close()


@contextmanager
def standing_still(copy: Standby) -> Iterator[None]:
    copy.pause()
    try:
        yield
    finally:
        copy.resume()


@contextmanager
def stopped(copy: Standby) -> Iterator[None]:
    copy.stop()
    try:
        yield
    finally:
        copy.start()
        copy.catch_up()


@contextmanager
def events(*names: str) -> Iterator[list[Event]]:
    seen: list[Event] = []
    unsubscribe = subscribe(lambda event: seen.append(event) if event.name in names else None)
    try:
        yield seen
    finally:
        unsubscribe()


async def save_old(checkpointer: Checkpointer, copy: Standby) -> None:
    await checkpointer.save({"word": "kettle"}, "old", "o1", {"kind": "tea"})
    copy.catch_up()


async def save_new(checkpointer: Checkpointer) -> None:
    await checkpointer.save({"word": "kettle pot"}, "old", "n1", {"kind": "tea"})
    await checkpointer.save({"word": "kettle"}, "new", "n2", {"kind": "tea"})


async def listings(checkpointer: Checkpointer) -> dict[str, list[Any]]:
    """What every operation that a replica may answer says, down to names."""
    found = {
        "list_checkpoints": await checkpointer.list_checkpoints("old"),
        "history": [info.checkpoint_id async for info in checkpointer.history("old")],
        "list_threads": await checkpointer.list_threads(),
        "list_logs": [log.thread_id for log in await checkpointer.list_logs(below=True)],
        "list_with_metadata": await checkpointer.list_with_metadata(),
        "query_by_metadata": await checkpointer.query_by_metadata("kind", "tea"),
        "search": await checkpointer.search("kettle"),
        "get_storage_stats": [(await checkpointer.get_storage_stats("old"))["total_checkpoints"]],
    }
    return {
        operation: sorted(i["checkpoint_id"] if isinstance(i, dict) else i for i in answer)
        for operation, answer in found.items()
    }


OLD = {
    "list_checkpoints": ["o1"],
    "history": ["o1"],
    "list_threads": ["old"],
    "list_logs": ["old"],
    "list_with_metadata": ["o1"],
    "query_by_metadata": ["o1"],
    "search": ["o1"],
    "get_storage_stats": [1],
}
NEW = {
    "list_checkpoints": ["n1", "o1"],
    "history": ["n1", "o1"],
    "list_threads": ["new", "old"],
    "list_logs": ["new", "old"],
    "list_with_metadata": ["n1", "n2", "o1"],
    "query_by_metadata": ["n1", "n2", "o1"],
    "search": ["n1", "n2", "o1"],
    "get_storage_stats": [2],
}


# --- Which operation reads where -----------------------------------------------------------------


@drivers
async def test_listings_search_and_statistics_are_read_from_the_replica(
    open_: Open, copy: Standby, driver: str
) -> None:
    checkpointer = Checkpointer(open_(driver))
    await save_old(checkpointer, copy)
    with standing_still(copy):
        await save_new(checkpointer)
        assert await listings(checkpointer) == OLD

    assert await listings(checkpointer) == NEW


@drivers
async def test_a_state_a_name_and_what_a_write_rests_on_are_read_from_the_primary(
    open_: Open, copy: Standby, driver: str
) -> None:
    checkpointer = Checkpointer(open_(driver))
    await save_old(checkpointer, copy)
    with standing_still(copy):
        await save_new(checkpointer)

        assert await checkpointer.load("old") == {"word": "kettle pot"}
        assert await checkpointer.load("new", "n2") == {"word": "kettle"}
        assert await checkpointer.exists("new")
        assert (await checkpointer.get_metadata("old"))["checkpoint_id"] == "n1"
        assert (await checkpointer.diff("old", "o1", "n1")).changed
        exported = [
            record["checkpoint_id"] async for record in checkpointer.export(thread_id="old")
        ]
        assert exported == ["o1", "n1"]
        assert [i.checkpoint_id async for i in checkpointer.history("old", before="n1")] == ["o1"]
        assert await checkpointer.fork("new", new_thread_id="fork") == "fork"
        assert await checkpointer.load("fork") == {"word": "kettle"}
        assert await checkpointer.copy_thread("new", "copied")
        await checkpointer.save({"n": 1}, "new", "n3", parent_id="n2")
        await checkpointer.save({"n": 2}, "new", "n4", expected_parent="n3")
        assert await checkpointer.prune(keep_last=1) == 3
        assert await checkpointer.forget(metadata={"kind": "tea"}) > 0


async def test_the_hosts_connection_reads_what_was_saved_on_it(open_: Open, copy: Standby) -> None:
    db = open_()
    checkpointer = Checkpointer(db)
    await save_old(checkpointer, copy)
    with standing_still(copy):
        async with db.transaction() as tx:
            await checkpointer.save({"n": 1}, "old", "n1", connection=tx)
            assert await checkpointer.list_checkpoints("old", connection=tx) == ["n1", "o1"]
            on_replica = Checkpointer(db.replica())
            assert await on_replica.list_checkpoints("old", connection=tx) == ["n1", "o1"]


async def test_the_primary_can_be_asked_for_everything(open_: Open, copy: Standby) -> None:
    db = open_()
    checkpointer = Checkpointer(db)
    await save_old(checkpointer, copy)
    with standing_still(copy):
        await save_new(checkpointer)
        assert await listings(Checkpointer(db.primary())) == NEW


@drivers
async def test_the_replica_can_be_asked_for_everything(
    open_: Open, copy: Standby, driver: str
) -> None:
    db = open_(driver)
    checkpointer, on_replica = Checkpointer(db), Checkpointer(db.replica())
    await save_old(checkpointer, copy)
    with standing_still(copy):
        await save_new(checkpointer)

        assert await listings(on_replica) == OLD
        assert await on_replica.load("old") == {"word": "kettle"}
        assert await on_replica.load("new") is None
        assert not await on_replica.exists("old", "n1")
        assert (await on_replica.get_metadata("old"))["checkpoint_id"] == "o1"
        exported = [record["checkpoint_id"] async for record in on_replica.export(thread_id="old")]
        assert exported == ["o1"]


async def test_another_tenant_reads_from_the_same_replica(open_: Open, copy: Standby) -> None:
    db = open_()
    other = db.for_tenant(f"{db.tenant}-other")
    await Checkpointer(other).save({"n": 1}, "theirs", "c1")
    copy.catch_up()
    with standing_still(copy):
        await Checkpointer(other).save({"n": 2}, "theirs", "c2")

        assert await Checkpointer(other).list_checkpoints("theirs") == ["c1"]
        assert await Checkpointer(db.replica().for_tenant(other.tenant)).load("theirs") == {"n": 1}
        assert await Checkpointer(db).list_threads() == []


async def test_what_was_read_from_a_replica_is_no_base_for_a_save(
    open_: Open, copy: Standby
) -> None:
    db = open_()
    checkpointer, on_replica = Checkpointer(db), Checkpointer(db.replica())
    await checkpointer.save({"n": 1, "text": "the same " * 50}, "thread", "c1")
    copy.catch_up()
    with standing_still(copy):
        await checkpointer.save({"n": 2, "text": "the same " * 50}, "thread", "c2")
        TipCache.of(db).drop_tenant(db.tenant)

        assert (await on_replica.load("thread"))["n"] == 1
        assert len(TipCache.of(db)) == 0, "a state that may be old"
        assert len(TipCache.of(db.replica())) == 1, "loads from there look whether it is still so"

        await checkpointer.save({"n": 3, "text": "the same " * 50}, "thread", "c3")
        infos = [info async for info in Checkpointer(db.primary()).history("thread")]
        assert [(i.checkpoint_id, i.parent_id) for i in infos] == [
            ("c3", "c2"), ("c2", "c1"), ("c1", None),
        ]  # fmt: skip
        assert [(await checkpointer.load("thread", f"c{n}"))["n"] for n in (1, 2, 3)] == [1, 2, 3]


# --- Read only -----------------------------------------------------------------------------------


async def test_every_write_on_a_replica_is_refused(open_: Open, copy: Standby) -> None:
    db = open_()
    checkpointer, on_replica = Checkpointer(db), Checkpointer(db.replica())
    await save_old(checkpointer, copy)

    for write in (
        lambda: on_replica.save({"n": 1}, "old"),
        lambda: on_replica.delete("old"),
        lambda: on_replica.fork("old"),
        lambda: on_replica.copy_thread("old", "other"),
        lambda: on_replica.prune("old", keep_last=1),
        lambda: on_replica.vacuum(),
        lambda: on_replica.rewrite("old"),
        lambda: on_replica.forget(thread_id="old"),
        lambda: db.replica().migrate(),
        lambda: db.replica().run_sync(lambda connection: None),
    ):
        with pytest.raises(CapabilityMissing, match="only reads"):
            await write()
    with pytest.raises(CapabilityMissing, match="only reads"):
        async with db.replica().transaction():
            pass
    async with db.transaction() as tx:
        with pytest.raises(CapabilityMissing, match="only reads"):
            await on_replica.save({"n": 1}, "old", connection=tx)

    assert await Checkpointer(db.primary()).list_checkpoints("old") == ["o1"]


async def test_without_a_read_url_the_replica_is_the_database_read_only(db: Database) -> None:
    await Checkpointer(db).save({"n": 1}, "thread", "c1")
    on_replica = Checkpointer(db.replica())

    assert db.replica().read_only
    assert not db.read_only
    assert await on_replica.load("thread") == {"n": 1}
    assert await on_replica.list_checkpoints("thread") == ["c1"]
    with pytest.raises(CapabilityMissing):
        await on_replica.save({"n": 2}, "thread")
    assert await Checkpointer(db.primary()).list_checkpoints("thread") == ["c1"]


@drivers
async def test_a_standby_given_as_the_primary_says_that_it_takes_no_writes(
    copy: Standby, name: str, driver: str
) -> None:
    async with Database(copy.url(name, driver=driver)) as db:
        with pytest.raises(CapabilityMissing, match="read_url="):
            await Checkpointer(db).save({"n": 1}, "thread")


# --- Away ----------------------------------------------------------------------------------------


@drivers
async def test_while_the_replica_is_away_the_primary_answers_and_it_is_said_once(
    open_: Open,
    copy: Standby,
    driver: str,
    caplog: pytest.LogCaptureFixture,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(replica_module, "PAUSE", 0.0)
    db = open_(driver)
    checkpointer = Checkpointer(db)
    await save_old(checkpointer, copy)
    assert await listings(checkpointer) == OLD

    with (
        events("database.replica_lost", "database.replica_back") as seen,
        caplog.at_level(logging.INFO, "memalchemy"),
    ):
        with stopped(copy):
            await save_new(checkpointer)
            assert await listings(checkpointer) == NEW
            assert await Checkpointer(db.replica()).load("new") == {"word": "kettle"}
            assert not (await db.health())["replica"]["usable"]
        with standing_still(copy):
            await checkpointer.save({"n": 1}, "newest")
            assert await listings(checkpointer) == NEW, "the replica answers again"

    assert [event.name for event in seen] == ["database.replica_lost", "database.replica_back"]
    assert seen[0].error == "DatabaseUnreachable"
    assert [record.levelname for record in caplog.records] == ["WARNING", "INFO"]


async def test_a_replica_that_is_away_is_not_waited_for_by_every_read(
    open_: Open, monkeypatch: pytest.MonkeyPatch
) -> None:
    db = open_(read_url=f"postgresql://ada@127.0.0.1:{free_port()}/agents")
    checkpointer = Checkpointer(db)
    assert db._replica is not None
    tries: list[None] = []
    ready = db._replica.backend.ready

    async def counted() -> None:
        tries.append(None)
        await ready()

    monkeypatch.setattr(db._replica.backend, "ready", counted)
    for _ in range(5):
        await asyncio.gather(*(checkpointer.list_threads() for _ in range(5)))
    first = len(tries)
    monkeypatch.setattr(db._replica, "_try_again_at", 0.0)
    await asyncio.gather(*(checkpointer.list_threads() for _ in range(5)))

    assert first == 5, "those of the first moment, which could not know"
    assert len(tries) == 6, "one tries for all"


async def test_without_a_fallback_a_replica_that_is_away_is_an_error(
    open_: Open, copy: Standby
) -> None:
    db = open_()
    strict = Checkpointer(db.replica(fallback=False))
    await save_old(Checkpointer(db), copy)
    with stopped(copy):
        for _ in range(2):
            with pytest.raises(DatabaseUnreachable):
                await strict.list_threads()
            with pytest.raises(DatabaseUnreachable):
                await strict.load("old")
    assert await strict.load("old") == {"word": "kettle"}


async def test_the_replica_serves_its_reads_while_the_primary_is_away(
    copy: Standby, name: str, open_: Open
) -> None:
    whole = open_()
    await save_old(Checkpointer(whole), copy)
    nowhere = f"postgresql://ada@127.0.0.1:{free_port()}/agents"
    db = Database(nowhere, read_url=copy.url(name), tenant=whole.tenant)

    assert await listings(Checkpointer(db)) == OLD
    async with db.replica() as on_replica:
        assert await Checkpointer(on_replica).load("old") == {"word": "kettle"}
    with pytest.raises(DatabaseUnreachable):
        await Checkpointer(db).load("old")
    await db.close()


@drivers
async def test_a_replica_behind_on_the_schema_is_away_until_it_has_caught_up(
    copy: Standby, driver: str, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(replica_module, "PAUSE", 0.0)
    database = copy.primary.create_database()
    db = Database(
        copy.primary.url(database, driver=driver), read_url=copy.url(database, driver=driver)
    )
    checkpointer = Checkpointer(db)
    try:
        with standing_still(copy):
            await db.migrate()
            await checkpointer.save({"n": 1}, "thread", "c1")
            assert await checkpointer.list_checkpoints("thread") == ["c1"]
            with pytest.raises(SchemaOutdated, match="follows its primary") as caught:
                await Checkpointer(db.replica(fallback=False)).list_threads()
            assert (caught.value.current, caught.value.head) == (None, migrate.head())
        with standing_still(copy):
            await checkpointer.save({"n": 2}, "thread", "c2")
            assert await checkpointer.list_checkpoints("thread") == ["c1"]
    finally:
        await db.close()
        copy.primary.drop_database(database)
    assert len([r for r in caplog.records if r.levelname == "WARNING"]) == 1


async def test_a_query_that_is_too_slow_on_the_replica_is_not_put_on_the_primary(
    open_: Open, copy: Standby, name: str
) -> None:
    db = open_(statement_timeout=0.5)
    checkpointer = Checkpointer(db)
    await save_old(checkpointer, copy)
    assert await listings(checkpointer) == OLD
    # Replaying an exclusive lock blocks the standby's readers, and stays while replay stands still.
    with psycopg.connect(
        host=copy.primary.host, port=copy.primary.port, user=copy.primary.user, dbname=name
    ) as connection:
        connection.execute("LOCK TABLE threads IN ACCESS EXCLUSIVE MODE")
        connection.execute("SELECT pg_logical_emit_message(false, 'flush', '', true)")
        copy.pause()
        connection.rollback()
    try:
        with pytest.raises(DatabaseUnreachable, match="too slow") as caught:
            await checkpointer.list_threads()
        assert caught.value.busy
    finally:
        copy.resume()
    assert await checkpointer.list_threads() == ["old"]


@contextmanager
def replay_that_waits_for_nobody(copy: Standby) -> Iterator[None]:
    for change in ("SET max_standby_streaming_delay = 0", "RESET max_standby_streaming_delay"):
        copy.execute(f"ALTER SYSTEM {change}")
        copy.execute("SELECT pg_reload_conf()")
        if change.startswith("SET"):
            yield


@drivers
async def test_a_query_that_replay_keeps_ending_is_answered_by_the_primary(
    open_: Open, copy: Standby, name: str, driver: str
) -> None:
    db = open_(driver)
    await save_old(Checkpointer(db), copy)

    seconds = 0  # on the replica, where it never comes to an end by itself later on

    def where_it_ran() -> Program[bool]:
        slowly = (
            "SELECT pg_is_in_recovery() FROM threads,"
            f" pg_sleep(CASE WHEN pg_is_in_recovery() THEN {seconds} ELSE 0 END) LIMIT 1"
        )
        return (yield text(slowly), None)[0][0]

    def lock() -> None:
        with psycopg.connect(
            host=copy.primary.host, port=copy.primary.port, user=copy.primary.user, dbname=name
        ) as connection:
            connection.execute("LOCK TABLE threads IN ACCESS EXCLUSIVE MODE")

    assert await db.run(where_it_ran, READ_REPLICA)
    with (
        replay_that_waits_for_nobody(copy),
        events("database.replica_lost", "database.retry") as seen,
    ):
        seconds = 600
        reading = asyncio.create_task(db.run(where_it_ran, READ_REPLICA))

        async def ended() -> bool:
            await asyncio.to_thread(lock)
            return reading.done()

        await until(ended)
    assert not await reading
    seconds = 0
    assert {event.name for event in seen} == {"database.retry"}, "one query's trouble, no outage"
    assert await db.run(where_it_ran, READ_REPLICA)


async def test_a_refused_password_is_an_error_and_no_outage(
    open_: Open, copy: Standby, name: str
) -> None:
    db = open_(read_url=copy.url(name, user="nobody_there"))

    with pytest.raises(AuthenticationFailed, match="nobody_there"):
        await Checkpointer(db).list_threads()
    with pytest.raises(AuthenticationFailed):
        async with db:
            pass
    await Checkpointer(db).save({"n": 1}, "thread")


# --- Construction, engines, health ---------------------------------------------------------------


def test_a_replica_of_another_kind_is_refused_at_construction() -> None:
    server = "postgresql://ada@db/agents"
    for url, read_url, error, said in (
        (server, "oracle://ada@db/agents", ValueError, "oracle database, its primary is postgres"),
        (server, "sqlite:///agent.db", ValueError, "sqlite database, its primary is postgres"),
        ("sqlite:///agent.db", "sqlite:///copy.db", ValueError, "readers of its own"),
        ("sqlite://", server, ValueError, "readers of its own"),
        (server, "mysql://db", UnknownURL, "mysql"),
    ):
        with pytest.raises(error, match=said):
            Database(url, read_url=read_url)


def test_no_secret_of_the_replica_is_shown() -> None:
    db = Database(
        "postgresql://ada:hush@primary.example.com/agents",
        read_url="postgresql://ada:hush@replica.example.com/agents?password=hush",
    )
    for shown in (repr(db), repr(db.replica()), repr(db.primary())):
        assert "hush" not in shown
        assert "replica.example.com" in shown


@drivers
async def test_health_shows_both(open_: Open, copy: Standby, driver: str) -> None:
    db = open_(driver)
    health = await db.health()
    other = health["replica"]

    assert other["usable"]
    assert other["error"] is None
    assert other["revision"] == health["revision"] == health["head"]
    assert other["url"] != health["url"]
    assert other["checked_out"] == 0


async def test_engines_of_the_hosts_serve_both_sides_and_stay_open(
    open_: Open, copy: Standby, name: str
) -> None:
    engine = create_async_engine(copy.primary.url(name, driver="asyncpg"))
    reading = create_async_engine(copy.url(name, driver="asyncpg"))
    db = Database(engine, read_url=reading, tenant=open_().tenant)
    checkpointer = Checkpointer(db)
    await save_old(checkpointer, copy)
    with standing_still(copy):
        await save_new(checkpointer)
        assert await listings(checkpointer) == OLD
        async with AsyncSession(reading) as session:
            assert await checkpointer.load("old", connection=session) == {"word": "kettle"}
    await db.close()
    async with reading.connect() as connection:
        assert not connection.closed
    await engine.dispose()
    await reading.dispose()


@drivers
def test_one_database_reads_from_its_replica_on_several_loops(
    copy: Standby, name: str, driver: str
) -> None:
    db = Database(
        copy.primary.url(name, driver=driver),
        read_url=f"{copy.url(name, driver=driver)}&application_name=loops-{driver}",
        tenant=f"loops-{uuid4().hex[:8]}",
    )
    checkpointer = Checkpointer(db)
    open_ = f"SELECT count(*) FROM pg_stat_activity WHERE application_name = 'loops-{driver}'"

    async def turn(n: int) -> None:
        await checkpointer.save({"n": n}, "thread", f"c{n}")
        await asyncio.to_thread(copy.catch_up)
        assert await checkpointer.list_checkpoints("thread") == [f"c{i}" for i in range(n, -1, -1)]
        assert copy.execute(open_) == [(1,)]
        await db.close()

    for n in range(3):
        asyncio.run(turn(n))
        left = "closing left a connection on the replica"
        wait_until(lambda: copy.execute(open_) == [(0,)], left)


FORKED = """
import asyncio, os, sys
from memalchemy import Checkpointer, Database

url, read_url, tenant = sys.argv[1:]
db = Database(url, read_url=read_url, tenant=tenant)
checkpointer = Checkpointer(db)

async def use():
    for _ in range(20):
        assert await checkpointer.list_checkpoints("old") == ["o1"]
        assert await checkpointer.load("old") == {"word": "kettle"}

async def all_of_it():
    await use()
    assert (await db.health())["replica"]["usable"]
    await db.close()

asyncio.run(use())
child = os.fork()
if child == 0:
    try:
        asyncio.run(all_of_it())
    except BaseException:
        import traceback
        traceback.print_exc()
        os._exit(1)
    os._exit(0)
asyncio.run(all_of_it())
_, status = os.waitpid(child, 0)
sys.exit(os.waitstatus_to_exitcode(status))
"""


@pytest.mark.plaintext_only("its programs are other processes, which know no key")
async def test_parent_and_child_both_read_from_the_replica_after_a_fork(
    open_: Open, copy: Standby, name: str
) -> None:
    db = open_()
    await save_old(Checkpointer(db), copy)
    process = await asyncio.create_subprocess_exec(
        sys.executable, "-c", FORKED, copy.primary.url(name), copy.url(name), db.tenant,
        stderr=asyncio.subprocess.PIPE,
    )  # fmt: skip
    _, errors = await asyncio.wait_for(process.communicate(), A_WHILE)

    assert process.returncode == 0, errors.decode()


def test_the_standby_is_one(copy: Standby) -> None:
    assert copy.execute("SELECT pg_is_in_recovery()") == [(True,)]
    assert isinstance(copy.primary, Postgres)
    assert copy.primary.execute("SELECT pg_is_in_recovery()") == [(False,)]
