"""Upgrade, downgrade, current and check, on every database."""

from __future__ import annotations

from pathlib import Path

import pytest
import sqlalchemy as sa

from memalchemy import Checkpointer, Database, migrate
from memalchemy.column_types import LogKey
from memalchemy.errors import DowngradeRefused, ForeignTable, SchemaOutdated, SchemaTooNew
from servers import Postgres

STATE = {"messages": ["hello"]}
CHAIN = [script.revision for script in migrate.scripts().walk_revisions()][::-1]


def tables(connection: sa.Connection) -> set[str]:
    inspector = sa.inspect(connection)
    return {*inspector.get_table_names(), *inspector.get_view_names()}


def downgrade_to_nothing(connection: sa.Connection) -> list[str]:
    return migrate.downgrade(connection, "base")


async def become_newer(db: Database, oldest_release: str | None) -> None:
    """Leave what a later release's upgrade would: an unknown revision, and what it works with."""

    def run(connection: sa.Connection) -> None:
        connection.exec_driver_sql("UPDATE memalchemy_version SET version_num = 'f00d'")
        change = "DELETE FROM store_items"
        if oldest_release:
            meta = f'{{"oldest_release":"{oldest_release}","revision":"f00d"}}'
            change = f"UPDATE store_items SET meta = '{meta}'"
        connection.exec_driver_sql(f"{change} WHERE tenant = '~'")

    await db.run_sync(run)


async def test_an_upgrade_runs_the_chain_and_a_second_one_nothing(database_url: str) -> None:
    async with Database(database_url, migrate="off") as db:
        assert await db.migrate() == CHAIN
        assert await db.current() == migrate.head()
        assert await db.migrate() == []
        await db.check()


async def test_current_and_check_of_an_empty_database_write_nothing(database_url: str) -> None:
    async with Database(database_url, migrate="off") as db:
        assert await db.current() is None
        with pytest.raises(SchemaOutdated, match="memalchemy --db URL upgrade"):
            await db.check()
        assert await db.run_sync(tables) == set()


@pytest.mark.usefixtures("lasting")
@pytest.mark.parametrize("read_only", [False, True])
async def test_langgraphs_tables_are_recognised(database_url: str, read_only: bool) -> None:
    async with Database(database_url, migrate="off") as db:
        await db.run_sync(
            lambda connection: connection.exec_driver_sql(
                "CREATE TABLE checkpoints (thread_id VARCHAR(9), checkpoint_ns VARCHAR(9))"
            )
        )
        with pytest.raises(ForeignTable, match="`memalchemy import langgraph` imports"):
            await db.migrate()
    db = Database(database_url, migrate="check", read_only=read_only)
    with pytest.raises(SchemaOutdated, match="memalchemy --db TARGET import langgraph --from URL"):
        await db.check()
    await db.close()


async def test_an_upgraded_database_saves_and_loads(database_url: str) -> None:
    async with Database(database_url, migrate="off") as db:
        await db.migrate()
        await Checkpointer(db).save(STATE, "thread")
        assert await Checkpointer(db).load("thread") == STATE


async def test_opening_a_server_database_never_migrates_it(
    postgres: Postgres, fresh_postgres: str
) -> None:
    db = Database(postgres.url(fresh_postgres))
    with pytest.raises(SchemaOutdated):
        await Checkpointer(db).save(STATE, "thread")
    assert await db.run_sync(tables) == set()
    await db.close()


async def test_opening_a_sqlite_file_migrates_it(tmp_path: Path) -> None:
    async with Database(f"sqlite:///{tmp_path}/agent.db") as db:
        assert await db.current() == migrate.head()


async def test_a_downgrade_without_rows_needs_no_flag(database_url: str) -> None:
    async with Database(database_url, migrate="off") as db:
        await db.migrate()
        assert await db.run_sync(downgrade_to_nothing) == CHAIN[::-1]
        assert await db.current() is None
        assert await db.run_sync(tables) == {migrate.VERSION_TABLE}


async def test_a_downgrade_of_a_database_without_a_schema_does_nothing(database_url: str) -> None:
    async with Database(database_url, migrate="off") as db:
        assert await db.run_sync(downgrade_to_nothing) == []
        assert await db.run_sync(tables) == set()


async def test_a_downgrade_that_would_drop_rows_is_refused_and_changes_nothing(
    database_url: str,
) -> None:
    async with Database(database_url, migrate="off") as db:
        await db.migrate()
        await Checkpointer(db).save(STATE, "thread")
        before = await db.run_sync(tables)

        with pytest.raises(DowngradeRefused, match=r"'threads' holds rows.*--delete-rows"):
            await db.run_sync(downgrade_to_nothing)

        await db.check()
        assert await db.run_sync(tables) == before
        assert await Checkpointer(db).load("thread") == STATE


async def test_rows_of_the_store_alone_refuse_a_downgrade_too(database_url: str) -> None:
    async with Database(database_url, migrate="off") as db:
        await db.migrate()
        await db.run_sync(
            lambda c: c.exec_driver_sql(
                "INSERT INTO store_items (tenant, namespace, key, meta, version, codec, checksum, "
                "created_at, updated_at, value) SELECT 'acme', namespace, key, meta, version, "
                "codec, checksum, created_at, updated_at, value FROM store_items"
            )
        )
        with pytest.raises(DowngradeRefused, match="'store_items' holds rows"):
            await db.run_sync(downgrade_to_nothing)


async def test_a_downgrade_below_a_foreign_key_of_the_house_is_refused_and_changes_nothing(
    database_url: str,
) -> None:
    schema = "house" if database_url.startswith("postgresql") else None

    def reference_threads(connection: sa.Connection) -> None:
        if schema is not None:
            connection.execute(sa.schema.CreateSchema(schema))
        house = sa.MetaData()
        threads = sa.Table("threads", house, sa.Column("log_id", LogKey, primary_key=True))
        key = sa.Column("log_id", sa.ForeignKey(threads.c.log_id), primary_key=True)
        sa.Table("orders", house, key, schema=schema).create(connection)

    async with Database(database_url, migrate="off") as db:
        await db.migrate()
        await db.run_sync(reference_threads)
        before = await db.run_sync(tables)

        with pytest.raises(DowngradeRefused, match="'orders' has a foreign key to 'threads'"):
            await db.run_sync(lambda c: migrate.downgrade(c, "base", delete_rows=True))

        await db.check()
        assert await db.run_sync(tables) == before


async def test_a_downgrade_told_to_delete_rows_does_and_an_upgrade_starts_anew(
    database_url: str,
) -> None:
    async with Database(database_url, migrate="off") as db:
        await db.migrate()
        await Checkpointer(db).save(STATE, "thread")

        undone = await db.run_sync(lambda c: migrate.downgrade(c, "base", delete_rows=True))

        assert undone == CHAIN[::-1]
        assert await db.current() is None
        assert await db.migrate() == CHAIN
        fresh = Checkpointer(db, namespace=("anew",))
        assert await fresh.load("thread") is None
        await fresh.save(STATE, "thread")
        assert await fresh.load("thread") == STATE


async def test_a_newer_schema_that_works_with_this_release_is_used(database_url: str) -> None:
    async with Database(database_url, migrate="off") as db:
        await db.migrate()
        await become_newer(db, "0.0.1")

        await db.check()
        assert await db.migrate() == []
        await Checkpointer(db).save(STATE, "thread")
        assert await Checkpointer(db).load("thread") == STATE


@pytest.mark.parametrize("needs", ["99.0.0", None])
async def test_a_newer_schema_that_needs_a_later_release_is_refused(
    database_url: str, needs: str | None
) -> None:
    async with Database(database_url, migrate="off") as db:
        await db.migrate()
        await become_newer(db, needs)

        for attempt in (db.check, db.migrate):
            with pytest.raises(SchemaTooNew, match="f00d") as caught:
                await attempt()
            assert (caught.value.current, caught.value.needs) == ("f00d", needs)
        assert await db.current() == "f00d"


@pytest.mark.parametrize(
    "theirs",
    ["CREATE TABLE checkpoints (thread_id VARCHAR(9))", "CREATE VIEW threads AS SELECT 1 AS n"],
)
async def test_somebody_elses_table_is_named_and_nothing_is_changed(
    database_url: str, theirs: str
) -> None:
    name = theirs.split()[2]
    async with Database(database_url, migrate="off") as db:
        await db.run_sync(lambda c: c.exec_driver_sql(theirs))

        with pytest.raises(ForeignTable, match=f"'{name}'.*nothing was changed") as caught:
            await db.migrate()

        assert "--schema memalchemy" in str(caught.value)
        assert caught.value.table == name
        assert await db.run_sync(tables) == {name}
        assert await db.current() is None


async def test_a_schema_of_its_own_keeps_out_of_somebody_elses_way(
    postgres: Postgres, fresh_postgres: str
) -> None:
    postgres.execute("CREATE TABLE checkpoints (thread_id text)", fresh_postgres)
    postgres.execute("INSERT INTO checkpoints VALUES ('theirs')", fresh_postgres)
    url = postgres.url(fresh_postgres)

    async with Database(url, schema="agent memory", migrate="off") as db:
        await db.migrate()
        await Checkpointer(db).save(STATE, "thread")
    async with Database(url, schema="agent memory") as db:
        assert await Checkpointer(db).load("thread") == STATE

    places = "SELECT schemaname, tablename FROM pg_tables WHERE schemaname !~ '^(pg_|information)'"
    ours = {("agent memory", name) for name in (*migrate.TABLES, migrate.VERSION_TABLE)}
    assert {*postgres.execute(places, fresh_postgres)} == {("public", "checkpoints")} | ours
    assert postgres.execute("SELECT * FROM checkpoints", fresh_postgres) == [("theirs",)]


async def test_two_schemas_of_one_database_are_migrated_apart(
    postgres: Postgres, fresh_postgres: str
) -> None:
    url = postgres.url(fresh_postgres)
    async with Database(url, schema="one", migrate="off") as one:
        await one.migrate()
    async with Database(url, schema="two", migrate="off") as two:
        assert await two.current() is None
        assert await two.migrate() == CHAIN
