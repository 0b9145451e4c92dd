"""The chain under Alembic's own command: in a host's ``env.py``, and in memalchemy's."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING, Any

import sqlalchemy as sa
from sqlalchemy import Connection

from memalchemy.column_types import Vector
from memalchemy.dialects import DIALECTS
from memalchemy.migrate.chain import (
    TABLES,
    VERSION_TABLE,
    Steps,
    command_of,
    context_options,
    note_releases,
    offline,
    prepare,
    upgrade,
    write_script,
)
from memalchemy.schema import Base

if TYPE_CHECKING:
    from alembic.runtime.migration import MigrationContext

# SQLite's text indexes bring tables of their own, and Oracle's too (DR$…).
_INDEX_TABLES = ("deltas_search", "checkpoints_meta", "store_items_search")

# Indexes of one database, or that only its revision can spell. Autogenerate knows neither kind; the
# drift test looks after them.
_OF_ONE_DATABASE = (
    "ix_checkpoints_meta",
    "ix_deltas_search_text",
    "ix_embeddings_tenant_namespace_change",
    "ix_store_items_search",
    "rowid",
    "uq_checkpoints_tenant_thread_id_namespace_checkpoint_id",
    "uq_deltas_entry_key_oracle",
    "uq_deltas_tenant_thread_id_namespace_seq",
    "uq_embeddings_tenant_namespace_key_field_model_part",
    "uq_store_items_tenant_namespace_key",
)


def include_name(
    then: Callable[[str | None, str, Any], bool] | None = None, *, schema: str | None = None
) -> Callable[[str | None, str, Any], bool]:
    """A filter for the host's ``context.configure(include_name=…)``: its autogenerate sees no table
    of memalchemy's. *then* is the host's own filter, asked for everything else.
    """

    def include(name: str | None, type_: str, parents: Any) -> bool:
        if type_ == "table" and parents.get("schema_name") == schema and is_ours(name):
            return False
        return True if then is None else then(name, type_, parents)

    return include


def is_ours(table: str | None) -> bool:
    """Whether a table name is one of memalchemy's, its version table and text index included."""
    name = (table or "").lower()
    return (
        name in TABLES
        or name == VERSION_TABLE
        or any(name == own or name.startswith(own + "_") for own in _INDEX_TABLES)
    )


def upgrade_alongside(
    context: Any, *, schema: str | None = None, start: str | None = None
) -> list[str]:
    """Run memalchemy's chain inside a host's ``env.py``, after ``context.run_migrations()``, or
    before it, which a host whose tables have foreign keys to memalchemy's needs.

    Acts when the host's command is ``upgrade``, on the host's connection and in its transaction,
    or, where nobody has begun one, in one of its own. With ``--sql`` it adds memalchemy's script
    to the host's, from *start* (``base`` unless given: a script cannot look). Does nothing on any
    other command. Returns the revisions that ran.
    """
    theirs: MigrationContext = context.get_context()
    if command_of(theirs) != "upgrade":
        return []
    if theirs.as_sql:
        assert theirs.output_buffer is not None
        # The host's script brings its own BEGIN and COMMIT.
        script = offline(theirs.dialect.name, schema=schema, start=start, transaction=False)
        theirs.output_buffer.write(script)
        return []
    connection = theirs.connection
    assert connection is not None
    if theirs._in_external_transaction or theirs._transaction is not None:
        return upgrade(connection, schema=schema)
    # On SQLite and Oracle Alembic commits each of the host's revisions and nothing after them, so a
    # transaction that is open now has only read, and nobody would commit ours.
    if connection.in_transaction():
        connection.commit()
    with connection.begin():
        return upgrade(connection, schema=schema)


def run_environment(
    context: Any, *, connection: Connection | None, dialect: str, schema: str | None = None
) -> None:
    """The body of memalchemy's own ``env.py``: any command of Alembic's.

    What changes the database runs under the migration lock. Without a *connection* (``--sql``) it
    prints a script for *dialect*.
    """
    ours = DIALECTS[dialect]
    steps = Steps()
    arguments = context.get_x_argument(as_dictionary=True)
    options = context_options(schema, ours) | {
        "target_metadata": _metadata(schema),
        "include_schemas": schema is not None,
        "include_name": partial(_compared, schema),
        "include_object": lambda _, name, *rest: name not in _OF_ONE_DATABASE,
        "compare_type": _compare_type,
        "on_version_apply": (steps,),
        "memalchemy_delete_rows": arguments.get("delete-rows") == "yes",
        "memalchemy_pgvector": arguments.get("pgvector") != "no",
    }
    if connection is None:
        context.configure(dialect_name=dialect, **options)
        migration = context.get_context()
        write_script(
            migration,
            context.run_migrations,
            steps,
            prepare=command_of(migration) == "upgrade" and not migration.get_current_heads(),
        )
        return
    context.configure(connection=connection, **options)
    migration = context.get_context()
    command, native = command_of(migration), False
    if command in ("upgrade", "downgrade", "do_stamp"):
        ours.migration_lock(connection, schema)
    if command == "upgrade":
        native = prepare(connection, schema)
        migration.opts["memalchemy_pgvector"] = native
    with warnings.catch_warnings():
        # What autogenerate cannot compare, the drift test does.
        warnings.filterwarnings("ignore", "autogenerate skipping|Did not recognize type 'vector'")
        context.run_migrations()
    note_releases(migration, steps, connection.exec_driver_sql)
    if native:
        ours.adopt_vector_type(connection, schema)


def _metadata(schema: str | None) -> sa.MetaData:
    """The five tables, in *schema*; for autogenerate."""
    if schema is None:
        return Base.metadata
    moved = sa.MetaData(naming_convention=Base.metadata.naming_convention)
    for table in Base.metadata.sorted_tables:
        table.to_metadata(moved, schema=schema)
    return moved


def _compared(schema: str | None, name: str | None, type_: str, parents: Any) -> bool:
    """What autogenerate reads from the database: our tables, in our schema."""
    if type_ == "schema":
        return name == schema
    return type_ != "table" or (name in TABLES and parents.get("schema_name") == schema)


def _compare_type(
    context: Any, inspected: Any, column: sa.Column[Any], found: Any, wanted: Any
) -> bool | None:
    """The vector column's type is what the database has; for any other, what Alembic thinks."""
    return False if isinstance(wanted, Vector) else None
