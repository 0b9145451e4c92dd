"""The migrated database against the models, and against a listing of what they cannot say."""

from __future__ import annotations

import sqlite3
import warnings
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import catalog
import psycopg
import pytest
import sqlalchemy as sa
from alembic.autogenerate import compare_metadata
from alembic.runtime.migration import MigrationContext

from memalchemy import migrate
from memalchemy.schema import Base, Vector
from servers import Postgres

# Autogenerate does not read ddl_if(), and the models cannot spell these; the listing has them.
OF_ONE_DATABASE = {
    "ix_checkpoints_meta",
    "ix_deltas_search_text",
    "ix_embeddings_tenant_namespace_change",
    "ix_store_items_search",
    "rowid",
    "uq_checkpoints_log_id_seq",
    "uq_deltas_entry_key_oracle",
    "uq_deltas_log_id_seq",
    "uq_embeddings_tenant_namespace_key_field_model_part",
    "uq_store_items_tenant_namespace_key",
}


def differences(connection: sa.Connection) -> list[Any]:
    """What autogenerate would change to make the database like the models."""
    options = {
        "include_name": lambda name, kind, _: kind != "table" or name in migrate.TABLES,
        "include_object": lambda _, name, *rest: name not in OF_ONE_DATABASE,
        "compare_type": lambda *them: False if isinstance(them[-1], Vector) else None,
    }
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", "autogenerate skipping|Did not recognize type 'vector'")
        return compare_metadata(MigrationContext.configure(connection, opts=options), Base.metadata)


def upgraded_and(connection: sa.Connection, *changes: str) -> list[Any]:
    migrate.upgrade(connection)
    for change in changes:
        connection.exec_driver_sql(change)
    return differences(connection)


def test_the_models_and_the_revisions_say_the_same(
    fresh_url: str, on_connection: Callable[..., Any]
) -> None:
    assert on_connection(fresh_url, upgraded_and) == []


def test_the_models_and_the_revisions_have_the_same_checks(
    fresh_url: str, on_connection: Callable[..., Any]
) -> None:
    """Which autogenerate does not compare. PostgreSQL spells them in its own way."""

    def checks(connection: sa.Connection) -> set[tuple[str, str]]:
        migrate.upgrade(connection)
        spelt = connection.dialect.name == "sqlite"
        return {
            (check["name"], check["sqltext"] if spelt else "")
            for table in migrate.TABLES
            for check in sa.inspect(connection).get_check_constraints(table)
        }

    spelt = fresh_url.startswith("sqlite")
    assert on_connection(fresh_url, checks) == {
        (str(check.name), str(check.sqltext) if spelt else "")
        for table in Base.metadata.sorted_tables
        for check in table.constraints
        if isinstance(check, sa.CheckConstraint)
    }


@pytest.mark.parametrize(
    ("change", "seen"),
    [
        ("DROP INDEX ix_deltas_base_seq", "add_index"),
        ("ALTER TABLE deltas DROP COLUMN radix", "add_column"),
        ("ALTER TABLE threads ADD COLUMN colour INTEGER", "remove_column"),
    ],
)
def test_a_difference_of_the_models_is_seen(
    fresh_url: str, on_connection: Callable[..., Any], change: str, seen: str
) -> None:
    ((operation, *_),) = on_connection(fresh_url, lambda c: upgraded_and(c, change))
    assert operation == seen


@pytest.fixture(scope="module")
def sqlite_file(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("drift") / "migrated.db"
    engine = sa.create_engine(f"sqlite:///{path}")
    with engine.begin() as connection:
        migrate.upgrade(connection)
    engine.dispose()
    return path


@pytest.fixture
def sqlite(sqlite_file: Path) -> Iterator[sqlite3.Connection]:
    """A migrated database, for this test to spoil."""
    with sqlite3.connect(":memory:", isolation_level=None) as copy:
        with sqlite3.connect(sqlite_file) as source:
            source.backup(copy)
        source.close()
        yield copy
    copy.close()


@pytest.fixture(scope="module")
def postgresql_name(postgres: Postgres) -> Iterator[str]:
    name = postgres.create_database()
    engine = sa.create_engine(postgres.url(name, driver="psycopg"))
    with engine.begin() as connection:
        migrate.upgrade(connection)
    engine.dispose()
    yield name
    postgres.drop_database(name)


@pytest.fixture
def postgresql(postgres: Postgres, postgresql_name: str) -> Iterator[psycopg.Connection]:
    """A migrated database, for this test to spoil: what it does is rolled back."""
    url = postgres.url(postgresql_name)
    with psycopg.connect(url) as connection:
        yield connection
        connection.rollback()


def test_sqlite_is_exactly_what_was_reviewed(sqlite: sqlite3.Connection) -> None:
    found = catalog.of_sqlite(sqlite)
    assert found == catalog.golden("catalog.sqlite.txt", found)


def test_postgresql_is_exactly_what_was_reviewed(postgresql: psycopg.Connection) -> None:
    found = catalog.of_postgresql(postgresql)
    assert found == catalog.golden("catalog.postgresql.txt", found)


TRIGGERS = ["threads_delete", "store_items_delete", "embeddings_delete", "embeddings_resize"] + [
    f"{table}_{event}"
    for table in ("deltas_search", "checkpoints_meta", "store_items_search")
    for event in ("insert", "delete", "update")
]


@pytest.mark.parametrize(
    "drift",
    [
        *(f"DROP TRIGGER {name}" for name in TRIGGERS),
        "DROP INDEX uq_deltas_entry_key",
        "DROP INDEX ix_checkpoints_run_id; "
        "CREATE INDEX ix_checkpoints_run_id ON checkpoints (tenant, run_id)",
        "DROP TABLE checkpoints_meta",
        "DROP TABLE deltas_search; CREATE VIRTUAL TABLE deltas_search USING fts5(search_text, "
        "scope, content='', columnsize=0, tokenize='porter')",
        "PRAGMA writable_schema = ON; UPDATE sqlite_master SET sql = "
        "replace(sql, 'next_seq > 0', 'next_seq > 1') WHERE name = 'threads'",
        "CREATE TRIGGER surprise AFTER INSERT ON threads BEGIN SELECT 1; END",
    ],
)
def test_the_listing_of_sqlite_sees(sqlite: sqlite3.Connection, drift: str) -> None:
    reviewed = catalog.golden("catalog.sqlite.txt", catalog.of_sqlite(sqlite))
    sqlite.executescript(drift)
    assert catalog.of_sqlite(sqlite) != reviewed


@pytest.mark.parametrize(
    "drift",
    [
        "DROP INDEX ix_deltas_search_text",
        "DROP INDEX ix_checkpoints_meta",
        "DROP INDEX ix_store_items_search",
        "ALTER TABLE embeddings ALTER COLUMN vector SET STORAGE EXTENDED",
        "DROP INDEX ix_checkpoints_meta; "
        "CREATE INDEX ix_checkpoints_meta ON checkpoints USING gin (meta)",
        "DROP INDEX uq_deltas_entry_key; CREATE UNIQUE INDEX uq_deltas_entry_key ON deltas "
        "(entry_key, log_id)",
        "ALTER TABLE threads RESET (fillfactor)",
        "ALTER TABLE deltas ALTER COLUMN payload SET STORAGE EXTENDED",
        'ALTER TABLE deltas ALTER COLUMN label TYPE VARCHAR(255) COLLATE "POSIX"',
        "ALTER TABLE deltas DROP CONSTRAINT fk_deltas_threads",
        "ALTER TABLE deltas DROP CONSTRAINT fk_deltas_threads, ADD CONSTRAINT fk_deltas_threads "
        "FOREIGN KEY (log_id) REFERENCES threads",
        "ALTER TABLE deltas DROP CONSTRAINT ck_deltas_kind",
        "ALTER TABLE threads ALTER COLUMN epoch SET DEFAULT 0",
        "CREATE TRIGGER surprise BEFORE UPDATE ON threads FOR EACH ROW "
        "EXECUTE FUNCTION suppress_redundant_updates_trigger()",
    ],
)
def test_the_listing_of_postgresql_sees(postgresql: psycopg.Connection, drift: str) -> None:
    reviewed = catalog.golden("catalog.postgresql.txt", catalog.of_postgresql(postgresql))
    postgresql.execute(drift)
    assert catalog.of_postgresql(postgresql) != reviewed
