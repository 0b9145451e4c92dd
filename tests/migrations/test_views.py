"""The views for people's own SQL: what they show, and that revisions run while they are there."""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from sqlalchemy import Connection, text

import lifetimes
from memalchemy import Checkpointer, Database, Store, ThreadLog, migrate
from memalchemy.dialects import DIALECTS
from memalchemy.keys import parse_namespace
from memalchemy.maintenance import tenants
from memalchemy.migrate import views
from servers import Postgres

USAGE = {
    "agent": "planner",
    "user_id": "ada",
    "model": "m-1",
    "input_tokens": 1200,
    "output_tokens": 80,
    "cached_tokens": 1000,
    "cost_usd": 0.0125,
    "latency_ms": 843.5,
}
NAMESPACES = [(), ("users", "ada"), ("a/b",), ("",), ("x", ""), ("", "x"), ("~v",), ("é",)]
EARLIER = datetime(1969, 7, 20, 20, 17, 40, 123456, tzinfo=UTC)


async def rows_of(db: Database, query: str) -> list[dict[str, Any]]:
    def read(connection: Connection) -> list[dict[str, Any]]:
        return [dict(row) for row in connection.execute(text(query)).mappings()]

    found: list[dict[str, Any]] = await db.run_sync(read)
    return found


async def change(db: Database, work: Callable[..., Any]) -> Any:
    return await db.run_sync(lambda connection: work(connection, db.dialect, db.schema))


@pytest.fixture
async def db(database_url: str) -> Any:
    made = Database(database_url)
    await made.migrate()
    async with made:
        await change(made, views.create)
        yield made


def as_time(value: Any) -> datetime:
    return value if isinstance(value, datetime) else datetime.fromisoformat(value + "+00:00")


async def test_the_views_show_times_namespaces_and_usage(db: Database) -> None:
    before = datetime.now(UTC)
    for namespace in NAMESPACES:
        keep = Checkpointer(db, namespace=namespace)
        await keep.save({"a": 1}, "trip", "c1", USAGE, occurred_at=EARLIER)
        await keep.set_thread_metadata("trip", USAGE)
        await Store(db).put((*namespace, "item"), "k", "tea", USAGE, embedding=[1.0, 2.0])
    await ThreadLog(db, namespace=("talk",)).append("talk", [{"content": "hello there"}])

    threads = await rows_of(db, "SELECT * FROM memalchemy_threads WHERE thread_id = 'trip'")
    steps = await rows_of(db, "SELECT * FROM memalchemy_checkpoints")
    items = await rows_of(db, "SELECT * FROM memalchemy_items")
    (entry,) = await rows_of(db, "SELECT * FROM memalchemy_entries")
    vectors = await rows_of(db, "SELECT * FROM memalchemy_embeddings")

    for shown, below in ((threads, ()), (steps, ()), (items, ("item",)), (vectors, ("item",))):
        found = [parse_namespace(row["namespace"]) for row in shown]
        assert sorted(found) == sorted((*one, *below) for one in NAMESPACES)
    for row in (*threads, *steps, *items):
        assert {name: row[name] for name in views.TEXTS} == {n: USAGE[n] for n in views.TEXTS}
        for name in views.NUMBERS:
            assert float(row[name]) == USAGE[name]
        created = as_time(row["created_at"])
        assert before - timedelta(seconds=1) <= created <= datetime.now(UTC)
    assert {as_time(row["occurred_at"]) for row in steps} == {EARLIER}
    assert (threads[0]["checkpoints"], threads[0]["newest_checkpoint_id"]) == (1, "c1")
    assert (entry["thread_id"], entry["namespace"], entry["position"]) == ("talk", "talk", 1)
    assert {row["dimensions"] for row in vectors} == {2}


async def test_metadata_of_other_kinds_is_shown_or_null(db: Database) -> None:
    odd = {"agent": 7, "input_tokens": "many", "cost_usd": None, "latency_ms": [1]}
    await Checkpointer(db).save({}, "trip", "c1", odd)
    await Checkpointer(db).save({}, "trip", "c2")

    shown = await rows_of(db, "SELECT * FROM memalchemy_checkpoints ORDER BY position")

    assert [row["agent"] for row in shown] == ["7", None]
    assert [row[name] for row in shown for name in views.NUMBERS] == [None] * 10


async def test_expired_deleted_and_internal_rows_are_left_out(db: Database) -> None:
    keep, store, log = Checkpointer(db), Store(db), ThreadLog(db, namespace=("talk",))
    for name in ("gone", "short", "stays"):
        ttl = lifetimes.MOMENT if name == "short" else None
        await keep.save({}, name, ttl=ttl)
        await log.append(name, ["word"], ttl=ttl)
        await store.put(("n",), name, "x", embedding=[1.0], ttl=ttl)
    await keep.delete("gone")
    await store.delete(("n",), "gone")

    for view in views.VIEWS:
        name = "key" if view in ("memalchemy_items", "memalchemy_embeddings") else "thread_id"
        shown = await rows_of(db, f"SELECT {name} AS name FROM {view}")
        assert {row["name"] for row in shown} == {"stays"}, view


async def test_revisions_run_with_the_views_there(db: Database) -> None:
    assert await db.migrate() == []
    assert await change(db, lambda c, *_: views.list_views(c)) == [*views.VIEWS]
    await db.check()

    def down_and_up(connection: Connection) -> list[list[str]]:
        migrate.downgrade(connection, "base", dialect=db.dialect, delete_rows=True)
        without = views.list_views(connection)
        migrate.upgrade(connection, dialect=db.dialect)
        return [without, views.list_views(connection)]

    # A schema that is gone takes the views with it.
    assert await db.run_sync(down_and_up) == [[], []]
    await change(db, views.create)
    await change(db, views.create)
    assert await change(db, lambda c, *_: views.list_views(c)) == [*views.VIEWS]
    await change(db, views.drop)
    assert await change(db, lambda c, *_: views.list_views(c)) == []


async def test_a_revision_finds_no_view_and_leaves_them_as_they_were(db: Database) -> None:
    """What a revision may do to a column is refused where a view reads it."""
    seen: list[list[str]] = []

    def work(connection: Connection) -> None:
        options = {
            "memalchemy_schema": db.schema,
            "memalchemy_dialect": db.dialect,
        }

        class Migration:
            opts = options

        Migration.connection = connection  # type: ignore[attr-defined]
        with migrate.chain.cleared_tables(Migration(), changes=True):  # type: ignore[arg-type]
            seen.append(views.list_views(connection))
        seen.append(views.list_views(connection))

    await db.run_sync(work)

    assert seen == [[], [*views.VIEWS]]


@pytest.mark.parametrize("name", sorted(DIALECTS))
def test_a_script_has_the_statements(name: str) -> None:
    dialect = DIALECTS[name]
    made = views.script_of_views(dialect, None if dialect.single_writer else "memory")
    dropped = views.script_of_views(dialect, dropping=True)

    assert len(made) == len(dropped) == len(views.VIEWS)
    for view, create, drop in zip(views.VIEWS, made, dropped, strict=True):
        assert create.startswith("CREATE VIEW ")
        assert view in create
        assert drop == f"DROP VIEW {view}"
        assert "?" not in create
        assert "payload AS" not in create
        assert ".vector" not in create
        assert dialect.single_writer or f"memory.{view}" in create


# --- PostgreSQL ----------------------------------------------------------------------------------


async def test_the_wall_and_the_rights_of_others_hold(postgres: Postgres) -> None:
    reader = "views_reader"
    if not postgres.execute(f"SELECT 1 FROM pg_roles WHERE rolname = '{reader}'"):
        postgres.execute(f"CREATE ROLE {reader} LOGIN")
    name = postgres.create_database()
    async with Database(postgres.url(name), migrate="upgrade") as db:
        for tenant in ("acme", "zoo"):
            await Checkpointer(db.for_tenant(tenant)).save({}, f"of-{tenant}")
        await change(db, views.create)
        for table in (*views.VIEWS, *migrate.TABLES, migrate.VERSION_TABLE):
            postgres.execute(f"GRANT SELECT ON {table} TO {reader}", name)
        await tenants.enforce(db)
        await change(db, views.create)  # the rights stay
    async with Database(postgres.url(name, user=reader), tenant="zoo") as db:
        shown = await rows_of(db, "SELECT tenant, thread_id FROM memalchemy_checkpoints")
        assert shown == [{"tenant": "zoo", "thread_id": "of-zoo"}]
    postgres.drop_database(name)
