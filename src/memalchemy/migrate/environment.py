"""The chain under Alembic's own command: in a host's ``env.py``, and in memalchemy's."""

from __future__ import annotations

import importlib
import logging
import warnings
from collections.abc import Callable
from contextlib import suppress
from functools import partial
from typing import TYPE_CHECKING, Any, Literal

import sqlalchemy as sa
from sqlalchemy import Connection

from memalchemy import column_types
from memalchemy.dialects import DIALECTS, VERSION_TABLE, dialect_of
from memalchemy.migrate.chain import (
    TABLES,
    Steps,
    cleared_tables,
    command_of,
    context_options,
    head,
    note_releases,
    offline,
    prepare_schema,
    upgrade,
    write_script,
)
from memalchemy.schema import Base

if TYPE_CHECKING:
    from alembic.runtime.migration import MigrationContext

# Below "alembic", which a host's alembic.ini configures: reading it disables loggers that it does
# not name, and those of memalchemy with them.
_log = logging.getLogger("alembic.memalchemy")

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
    "uq_checkpoints_log_id_seq",
    "uq_deltas_entry_key_oracle",
    "uq_deltas_log_id_seq",
    "uq_embeddings_tenant_namespace_key_field_model_part",
    "uq_store_items_tenant_namespace_key",
)


def include_name(
    then: Callable[[str | None, str, Any], bool] | None = None, *, schema: str | None = None
) -> Callable[[str | None, str, Any], bool]:
    """Return a filter for a host's ``context.configure(include_name=…)``.

    Its autogenerate sees no table of memalchemy's. *then* is the host's own filter, asked for
    everything else.

    A table is memalchemy's if it is named like one and lies in *schema*, or in any schema that
    holds memalchemy's version table, in whichever way the search path makes Alembic report it.
    """
    # Alembic reflects the columns of all tables before it asks the filter. SQLAlchemy warns of the
    # type "vector" unless pgvector's module, where it is installed, has made it known.
    with suppress(ImportError):
        importlib.import_module("pgvector.sqlalchemy")

    def include(name: str | None, type_: str, parents: Any) -> bool:
        if type_ == "table" and name is not None and is_ours(name):
            reported = parents.get("schema_name")
            if reported == schema or _lies_in_ours(name, reported):
                return False
        return True if then is None else then(name, type_, parents)

    return include


def _lies_in_ours(table: str, reported: str | None) -> bool:
    """Return whether the schema that Alembic reports of a table holds memalchemy's version table.

    Alembic reports ``None`` of every table that a name without a schema finds. On PostgreSQL that
    may be one of any schema of the search path, whatever the default schema is.
    """
    from alembic import context

    try:
        connection = context.get_context().connection
    except (NameError, AttributeError):  # Alembic runs no env.py, or has run one before
        connection = None
    if connection is None:
        return reported is None  # a table too few in a revision is mended, a dropped one is not
    maintenance = dialect_of(connection).maintenance
    place = reported or maintenance.schema_of_visible_table(connection, table)
    return connection.dialect.has_table(connection, VERSION_TABLE, schema=place)


def render_item(
    then: Callable[[str, Any, Any], str | Literal[False]] | None = None,
) -> Callable[[str, Any, Any], str | Literal[False]]:
    """Return a renderer for a host's ``context.configure(render_item=…)``.

    Its autogenerate writes the types of memalchemy's columns, as a foreign key has them, as plain
    types of SQLAlchemy.

    Without it Alembic writes ``memalchemy.column_types.Key(length=510)``: the revision does not
    import that, and later releases may not have it. *then* is the host's own renderer, asked for
    everything else.
    """

    def render(kind: str, item: Any, autogenerate: Any) -> str | Literal[False]:
        if kind == "type" and type(item).__module__ == column_types.__name__:
            return _plain_type(item, autogenerate)
        return False if then is None else then(kind, item, autogenerate)

    return render


def _plain_type(type_: Any, autogenerate: Any) -> str:
    """The source of a type that stores what *type_* does, and converts nothing."""
    postgresql = "from sqlalchemy.dialects import postgresql"
    oracle = "from sqlalchemy.dialects import oracle"
    if isinstance(type_, column_types.Key):
        length = type_.length
        # The collation of the column that it refers to: else joins and cascades miss its index.
        return (
            f"sa.String(length={length})"
            f".with_variant(sa.String(length={length}, collation='C'), 'postgresql')"
        )
    if isinstance(type_, column_types.LogKey):
        autogenerate.imports.add(oracle)
        return (
            "sa.LargeBinary().with_variant(sa.Uuid(), 'postgresql')"
            ".with_variant(oracle.RAW(16), 'oracle')"
        )
    if isinstance(type_, column_types.UtcDateTime):
        autogenerate.imports |= {postgresql, oracle}
        return (
            "sa.BigInteger()"
            ".with_variant(postgresql.TIMESTAMP(timezone=True), 'postgresql')"
            ".with_variant(oracle.TIMESTAMP(), 'oracle')"
        )
    if isinstance(type_, column_types.Json):
        autogenerate.imports.add(postgresql)
        return "sa.JSON().with_variant(postgresql.JSONB(), 'postgresql')"
    if isinstance(type_, column_types.Payload):
        return "sa.LargeBinary()"
    if not isinstance(type_, column_types.Vector):
        raise TypeError(f"no plain type stands for {type_!r}")
    if autogenerate.dialect.name == "oracle":
        autogenerate.imports.add(oracle)
        return "oracle.VECTOR(storage_format=oracle.VectorStorageFormat.FLOAT32)"
    autogenerate.imports.add("import pgvector.sqlalchemy")
    return "sa.LargeBinary().with_variant(pgvector.sqlalchemy.VECTOR(), 'postgresql')"


def is_ours(table: str | None) -> bool:
    """Return whether a table is memalchemy's, its version table and text indexes included."""
    name = (table or "").lower()
    return (
        name in TABLES
        or name == VERSION_TABLE
        or any(name == own or name.startswith(own + "_") for own in _INDEX_TABLES)
    )


def upgrade_alongside(
    context: Any,
    *,
    schema: str | None = None,
    start: str | None = None,
    pgvector: bool | None = None,
) -> list[str]:
    """Run memalchemy's chain inside a host's ``env.py``, and return the revisions that ran.

    It stands before ``context.run_migrations()``, which a host whose tables have foreign keys to
    memalchemy's needs; a host without any may also have it after.

    Acts when the host's command is ``upgrade``, on the host's connection and in its transaction,
    or, where nobody has begun one, in one of its own. Does nothing on any other command. Logs a
    warning if PostgreSQL stores vectors as bytes afterwards, because it has no pgvector.

    With ``--sql`` it adds memalchemy's script to the host's. A script cannot look at the database:

    Args:
        schema: the schema of memalchemy's tables (PostgreSQL, Oracle).
        start: the revision that the script starts from: by default that of the command's
            ``-x memalchemy_start=REVISION``, or ``base``.
        pgvector: the script's vector column has pgvector's type. With ``False``, or the command's
            ``-x memalchemy_pgvector=no``, it is bytes. An upgrade that is no script sees which.
    """
    theirs: MigrationContext = context.get_context()
    if command_of(theirs) != "upgrade":
        return []
    if theirs.as_sql:
        assert theirs.output_buffer is not None
        # The host's script brings its own BEGIN and COMMIT.
        name = dialect_of(theirs).name
        arguments = context.get_x_argument(as_dictionary=True)
        if pgvector is None:
            pgvector = arguments.get("memalchemy_pgvector") != "no"
        start = start or arguments.get("memalchemy_start")
        script = offline(name, schema=schema, start=start, pgvector=pgvector, transaction=False)
        theirs.output_buffer.write(script)
        return []
    connection = theirs.connection
    assert connection is not None
    # Alembic does not say in public whether somebody has begun a transaction, and SQLAlchemy says
    # the same of one that a query began by itself.
    if theirs._in_external_transaction or theirs._transaction is not None:
        return _upgrade(connection, schema)
    # On SQLite and Oracle Alembic commits each of the host's revisions and nothing after them, so a
    # transaction that is open now has only read, and nobody would commit ours.
    if connection.in_transaction():
        connection.commit()
    with connection.begin():
        return _upgrade(connection, schema)


def _upgrade(connection: Connection, schema: str | None) -> list[str]:
    """Upgrade, and warn if vectors are bytes although the database could have a type for them."""
    ran = upgrade(connection, schema=schema)
    vectors = dialect_of(connection).vectors
    if vectors.may_be_bytes and not vectors.is_native(connection, schema):
        _log.warning(
            "memalchemy stores vectors as bytes, and compares them in the application: pgvector is "
            "not installed in this database. Let a superuser run %s; in it, and upgrade again",
            "; ".join(vectors.install_commands),
        )
    return ran


def run_environment(
    context: Any, *, connection: Connection | None, dialect: str, schema: str | None = None
) -> str | None:
    """The body of memalchemy's own ``env.py``: any command of Alembic's.

    What changes the database runs under the migration lock. Without a *connection* (``--sql``) it
    prints a script for *dialect*. Returns a line about what an upgrade or a downgrade did, from
    which revision to which, to be printed once it is committed; ``None`` after other commands.
    """
    ours = DIALECTS[dialect]
    steps = Steps()
    arguments = context.get_x_argument(as_dictionary=True)
    options = context_options(schema, ours) | {
        "target_metadata": _metadata(schema),
        "include_schemas": schema is not None,
        "include_name": partial(_is_compared, schema),
        "include_object": lambda _, name, *rest: name not in _OF_ONE_DATABASE,
        "compare_type": _compare_type,
        "on_version_apply": (steps,),
        "memalchemy_delete_rows": arguments.get("delete-rows") == "yes",
        "memalchemy_pgvector": arguments.get("pgvector") != "no",
    }
    if connection is None:
        context.configure(dialect_name=ours.sqlalchemy_name, **options)
        migration = context.get_context()
        is_empty = not migration.get_current_heads()
        write_script(
            migration,
            context.run_migrations,
            steps,
            prepare=command_of(migration) == "upgrade" and is_empty,
            locks=not is_empty,
        )
        return None
    context.configure(connection=connection, **options)
    migration = context.get_context()
    command, native = command_of(migration), False
    if command in ("upgrade", "downgrade", "do_stamp"):
        ours.maintenance.lock_migrations(connection, schema)
    if command == "upgrade":
        native = prepare_schema(connection, schema, ours)
        migration.opts["memalchemy_pgvector"] = native
    before = _describe_revision(migration)
    is_moving = command == "downgrade" or (command == "upgrade" and before != head())
    with warnings.catch_warnings(), cleared_tables(migration, changes=is_moving):
        # What autogenerate cannot compare, the drift test does.
        warnings.filterwarnings("ignore", "autogenerate skipping|Did not recognize type 'vector'")
        context.run_migrations()
    note_releases(migration, steps, connection.exec_driver_sql)
    converted = native and ours.vectors.convert_bytes(connection, schema)
    if command not in ("upgrade", "downgrade"):
        return None
    now = _describe_revision(migration)
    done = [f"from {before} to {now}, ran {', '.join(steps.ran)}"] if steps.ran else []
    if converted:
        done.append("converted the vectors from bytes to pgvector's type")
    return f"{' and '.join(done) or 'nothing to do'}; the database is at {now}"


def _describe_revision(migration: MigrationContext) -> str:
    """Return the revision that the database is at, in words."""
    return ", ".join(migration.get_current_heads()) or "no schema"


def _metadata(schema: str | None) -> sa.MetaData:
    """The five tables, in *schema*; for autogenerate."""
    if schema is None:
        return Base.metadata
    moved = sa.MetaData(naming_convention=Base.metadata.naming_convention)
    for table in Base.metadata.sorted_tables:
        table.to_metadata(moved, schema=schema)
    return moved


def _is_compared(schema: str | None, name: str | None, type_: str, parents: Any) -> bool:
    """Return whether autogenerate reads an object: only our tables, in our schema."""
    if type_ == "schema":
        return name == schema
    return type_ != "table" or (name in TABLES and parents.get("schema_name") == schema)


def _compare_type(
    context: Any, inspected: Any, column: sa.Column[Any], found: Any, wanted: Any
) -> bool | None:
    """The vector column's type is what the database has; for any other, what Alembic thinks."""
    return False if isinstance(wanted, column_types.Vector) else None
