"""Revisions run through Alembic on the coordinator of a database that is distributed already."""

from __future__ import annotations

import struct
from pathlib import Path

import pytest

from memalchemy import Checkpointer, Database, Store, migrate
from memalchemy.errors import DowngradeRefused, StatementFailed
from memalchemy.maintenance.distribution import distribute
from migrations.second_release import SECOND, second_release
from servers import Citus

# What revisions are made of, each of which Citus passes on to the shards.
PASSED_ON = SECOND.replace(
    'op.add_column("threads", sa.Column("mood", sa.String(20)), schema=schema)',
    """op.add_column("threads", sa.Column("mood", sa.String(20)), schema=schema)
    op.execute("UPDATE threads SET mood = 'calm'")
    op.alter_column("threads", "mood", nullable=False, schema=schema)
    op.add_column("deltas", sa.Column("note", sa.String(20)), schema=schema)
    stars = sa.Column("stars", sa.Integer, nullable=False, server_default="0")
    op.add_column("checkpoints", stars, schema=schema)
    op.create_check_constraint("ck_checkpoints_stars", "checkpoints", "stars >= 0", schema=schema)
    op.create_index("ix_checkpoints_stars", "checkpoints", ["tenant", "stars"], schema=schema)
    op.create_table("notes", sa.Column("id", sa.Integer, primary_key=True), schema=schema)
    op.execute("ALTER TABLE threads SET (fillfactor = 60)")
    op.alter_column("threads", "head_id", type_=sa.String(300), schema=schema)
    op.alter_column("deltas", "note", new_column_name="remark", schema=schema)
    op.drop_index("ix_checkpoints_stars", "checkpoints", schema=schema)""",
)

REFUSED = {
    "storage": "ALTER TABLE deltas ALTER COLUMN payload SET STORAGE EXTENDED",
    "statistics": "ALTER TABLE threads ALTER COLUMN tenant SET STATISTICS 500",
    "a unique key without the distribution column": "CREATE UNIQUE INDEX u ON threads (tenant)",
}


@pytest.mark.parametrize("revision", migrate.revisions())
async def test_a_database_that_was_distributed_at_any_revision_upgrades(
    cluster: Citus, name: str, revision: str
) -> None:
    url = cluster.url(name)
    async with Database(url, migrate="off") as db:
        await db.migrate(revision=revision)
        for statement in db.dialect.maintenance.distribution_commands(None, 2):
            cluster.execute(statement, name)
        await db.migrate()
        await db.check()
        result = await distribute(db)
        assert result.distribution.is_whole


async def test_the_next_release_upgrades_a_distributed_database(
    cluster: Citus, name: str, tmp_path: Path
) -> None:
    url = cluster.url(name)
    async with Database(url, migrate="off") as db:
        await db.migrate()
        await Checkpointer(db).save({"n": 1}, "thread")
        await distribute(db, parts=2)

    with second_release(tmp_path / "next", PASSED_ON):
        async with Database(url, migrate="off") as db:
            assert await db.migrate() == ["0002"]
            assert await Checkpointer(db).load("thread") == {"n": 1}
            assert (await db.distribution()) is not None
    columns = "SELECT string_agg(attname, ',') FROM pg_attribute WHERE attrelid = '%s'::regclass"
    for table, column in (("threads", "mood"), ("checkpoints", "stars"), ("deltas", "remark")):
        on_shards = f"SELECT result FROM run_command_on_shards('{table}', $${columns}$$)"
        shards = cluster.execute(on_shards, name)
        assert len(shards) == 2
        assert all(column in result.split(",") for (result,) in shards)
    assert cluster.execute("SELECT DISTINCT mood FROM threads", name) == [("calm",)]
    for node in (cluster, *cluster.workers):
        assert node.execute(f"SELECT version_num FROM {migrate.VERSION_TABLE}", name) == [("0002",)]


@pytest.mark.parametrize("what", REFUSED)
async def test_what_citus_does_not_pass_on_fails_as_a_whole(
    cluster: Citus, name: str, tmp_path: Path, what: str
) -> None:
    """Why the README of tests/migrations keeps these out of revisions."""
    url = cluster.url(name)
    async with Database(url, migrate="off") as db:
        await db.migrate()
        await distribute(db, parts=2)
        revision = SECOND.replace("def upgrade() -> None:", "def upgrade() -> None:\n    run()")
        revision += f"\n\ndef run() -> None:\n    op.execute({REFUSED[what]!r})\n"
        with second_release(tmp_path / "next", revision), pytest.raises(StatementFailed) as error:
            await db.migrate()
        assert error.value.sqlstate == "0A000"
        assert await db.current() == "0001"


async def test_a_revision_leaves_out_what_only_tunes(
    cluster: Citus, name: str, tmp_path: Path
) -> None:
    tuned = SECOND.replace(
        "\n\n\ndef downgrade",
        f"""
    cluster = op.get_context().opts["memalchemy_dialect"].cluster
    found = cluster and not op.get_context().as_sql and cluster.read(op.get_bind(), schema)
    if not (found and found.is_begun):
        op.execute({REFUSED["storage"]!r})


def downgrade""",
    )
    storage = (
        "SELECT CAST(attstorage AS text) FROM pg_attribute "
        "WHERE attrelid = CAST('deltas' AS regclass) AND attname = 'payload'"
    )
    for is_distributed, wanted in ((True, "e"), (False, "x")):
        place = name if is_distributed else cluster.create_database()
        async with Database(cluster.url(place), migrate="off") as db:
            await db.migrate()
            if is_distributed:
                await distribute(db, parts=2)
            with second_release(tmp_path / place, tuned):
                assert await db.migrate() == ["0002"]
        assert cluster.execute(storage, place) == [(wanted,)]
    cluster.drop_database(place)


async def test_vectors_of_a_distributed_database_become_pgvectors(
    cluster: Citus, name: str
) -> None:
    cluster.make_role("citus_bytes")
    cluster.execute("CREATE SCHEMA mem AUTHORIZATION citus_bytes", name)
    url = cluster.url(name, user="citus_bytes")
    async with Database(url, schema="mem", migrate="off") as db:
        await db.migrate()  # this role may not install pgvector
        for number in range(5):
            await Store(db).put(("n", str(number)), "key", {})
        cluster.execute(
            "INSERT INTO mem.embeddings (tenant, namespace, key, field, model, part, dimensions, "
            f"change, vector) SELECT tenant, namespace, key, '', 'm', 0, 3, 1, "
            f"'\\x{struct.pack('<3f', 1, -2, 0.5).hex()}' FROM mem.store_items "
            "WHERE tenant = 'default'",
            name,
        )
        await distribute(db, parts=4)
        assert (await db.health())["pgvector"] is False
        cluster.execute("CREATE EXTENSION vector", name)

        assert await db.migrate() == []

        assert (await db.health())["pgvector"] is True
    vectors = cluster.execute("SELECT CAST(vector AS text) FROM mem.embeddings", name)
    assert vectors == [("[1,-2,0.5]",)] * 5


async def test_a_distributed_database_is_downgraded_and_made_again(
    cluster: Citus, name: str
) -> None:
    async with Database(cluster.url(name), migrate="off") as db:
        await db.migrate()
        await Checkpointer(db).save({"n": 1}, "thread")
        await distribute(db, parts=2)
        with pytest.raises(DowngradeRefused, match="holds rows"):
            await db.run_sync(lambda connection: migrate.downgrade(connection, "base"))
        undone = await db.run_sync(
            lambda connection: migrate.downgrade(connection, "base", delete_rows=True)
        )
        assert undone == list(reversed(migrate.revisions()))
        assert await db.current() is None
        await db.migrate()
        assert set((await distribute(db, parts=2)).spread) == {*migrate.TABLES}
