"""The schema's revisions: upgrade, downgrade, current, check, scripts, and a host's own Alembic.

Everything runs on a connection that is handed in, under a lock that the connection's transaction
holds, with a version table of memalchemy's own. Reading what is there (`current`, `check`) never
writes. The chain can run without Alembic's ``env.py``, so it can also run inside a host's.
"""

from __future__ import annotations

import io
import json
import threading
from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import Any

import sqlalchemy as sa
from alembic.operations import Operations
from alembic.runtime.migration import MigrationContext, MigrationInfo
from alembic.script import ScriptDirectory
from sqlalchemy import Connection

from memalchemy._version import __version__
from memalchemy.dialects import DIALECTS, Dialect
from memalchemy.errors import MemalchemyError, SchemaOutdated, SchemaTooNew
from memalchemy.schema import Base, Json

VERSION_TABLE = "memalchemy_version"
TABLES = tuple(table.name for table in Base.metadata.sorted_tables)
HOUSE_TENANT, HOUSE_NAMESPACE = "~", "/~memalchemy/"
"""The library's own bookkeeping; ``~`` is always escaped in a user's namespace."""

# SQLite's text indexes bring tables of their own, and Oracle's too (DR$…).
_INDEX_TABLES = ("deltas_search", "checkpoints_meta")

# Alembic keeps the current operations in a global.
_alembic_is_global = threading.Lock()


def script_location() -> Path:
    """Where the revisions are: in the package of a wheel, at the top of a checkout."""
    here = Path(__file__).resolve()
    for place in (here.parent / "migrations", here.parents[2] / "migrations"):
        if (place / "versions").is_dir():
            return place
    raise MemalchemyError("this installation of memalchemy has lost its migrations; reinstall it")


@cache
def scripts() -> ScriptDirectory:
    """The chain of revisions."""
    return ScriptDirectory(str(script_location()))


@cache
def head() -> str:
    """The revision that this release writes."""
    revision = scripts().get_current_head()
    assert revision is not None
    return revision


def current(connection: Connection, *, schema: str | None = None) -> str | None:
    """The revision that the database is at; ``None`` without a memalchemy schema. Reads only."""
    if not sa.inspect(connection).has_table(VERSION_TABLE, schema=schema):
        return None
    version = sa.table(VERSION_TABLE, sa.column("version_num"), schema=schema)
    return connection.scalar(sa.select(version.c.version_num))


def usable(connection: Connection, *, schema: str | None = None) -> bool:
    """Whether `check` passes; a schema that is too new still raises. Reads only."""
    try:
        check(connection, schema=schema)
    except SchemaOutdated:
        return False
    return True


def check(connection: Connection, *, schema: str | None = None) -> None:
    """Raise unless this release works on the database's schema. Reads only.

    Raises:
        SchemaOutdated: older than this release needs, or none.
        SchemaTooNew: upgraded by a later release, and not declared to work with this one.
    """
    found = current(connection, schema=schema)
    if found == head():
        return
    if found is None or found in _known():
        raise SchemaOutdated(found, head())
    needs = _oldest_release(connection, schema)
    if needs is None or _release(needs) > _release(__version__):
        raise SchemaTooNew(found, needs, __version__)


def upgrade(
    connection: Connection, *, schema: str | None = None, revision: str = "head"
) -> list[str]:
    """Run the revisions up to *revision* in the connection's transaction; return those that ran.

    Takes the migration lock first and looks at the version after, so of several processes that
    start at once one migrates and the others find it done.
    """
    dialect = DIALECTS[connection.dialect.name]
    dialect.migration_lock(connection, schema)
    found = current(connection, schema=schema)
    if found is not None and found not in _known():
        check(connection, schema=schema)
        return []
    native = dialect.has_vector_type(connection)
    ran = _run(
        connection,
        schema,
        lambda heads, _: scripts()._upgrade_revs(revision, heads),
        {"memalchemy_pgvector": native},
    )
    if ran:
        for command in _house_commands(dialect, connection.dialect, schema):
            connection.exec_driver_sql(command)
    if native:
        dialect.adopt_vector_type(connection, schema)
    return ran


def downgrade(
    connection: Connection, revision: str, *, schema: str | None = None, delete_rows: bool = False
) -> list[str]:
    """Run the chain down to *revision* (``base``: no schema); return the revisions undone.

    Raises:
        DowngradeRefused: tables to drop hold rows, and *delete_rows* is not set.
    """
    DIALECTS[connection.dialect.name].migration_lock(connection, schema)
    if current(connection, schema=schema) is None:
        return []
    return _run(
        connection,
        schema,
        lambda heads, _: scripts()._downgrade_revs(revision, heads),
        {"memalchemy_delete_rows": delete_rows},
    )


def offline(
    dialect: str,
    *,
    schema: str | None = None,
    start: str = "base",
    revision: str = "head",
    down: bool = False,
    pgvector: bool = True,
    transaction: bool = True,
) -> str:
    """The SQL script that `upgrade` (or `downgrade`) runs from *start* to *revision*.

    The script assumes pgvector; with ``pgvector=False`` the vector column is bytes. Going down it
    drops tables whether they hold rows or not: a script cannot look.
    """
    out = io.StringIO()
    move = scripts()._downgrade_revs if down else scripts()._upgrade_revs
    context = MigrationContext.configure(
        dialect_name=dialect,
        opts=_options(schema)
        | {
            "as_sql": True,
            "output_buffer": out,
            "starting_rev": None if start == "base" else start,
            "fn": lambda heads, _: move(revision, heads or start),
            "memalchemy_pgvector": pgvector,
        },
    )
    ours = DIALECTS[dialect]
    # A RETURNING clause in an Oracle script is a bind that nobody fills.
    context._version.implicit_returning = False
    with _alembic_is_global, Operations.context(context):
        if transaction and ours.transactional_ddl:
            out.write("BEGIN;\n\n")
        if pgvector and not down:
            out.writelines(f"{command};\n\n" for command in ours.vector_type_commands)
        context.run_migrations()
        if not down:
            commands = _house_commands(ours, context.dialect, schema)
            out.writelines(f"{command};\n\n" for command in commands)
        if transaction:
            out.write("COMMIT;\n")
    return out.getvalue()


# --- In a host's own Alembic ---------------------------------------------------------------------


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


def upgrade_alongside(context: Any, *, schema: str | None = None) -> list[str]:
    """Run memalchemy's chain inside a host's ``env.py``, after ``context.run_migrations()``.

    Acts when the host's command is ``upgrade``, on the host's connection and in its transaction;
    with ``--sql`` it adds memalchemy's script, from the start, to the host's. Does nothing on any
    other command. Returns the revisions that ran.
    """
    theirs: MigrationContext = context.get_context()
    if getattr(theirs.opts.get("fn"), "__name__", "") != "upgrade":
        return []
    if theirs.as_sql:
        assert theirs.output_buffer is not None
        # The host's script brings its own BEGIN and COMMIT.
        theirs.output_buffer.write(offline(theirs.dialect.name, schema=schema, transaction=False))
        return []
    assert theirs.connection is not None
    return upgrade(theirs.connection, schema=schema)


def run_environment(
    context: Any, *, connection: Connection | None, dialect: str, schema: str | None = None
) -> None:
    """The body of memalchemy's own ``env.py``: any command of Alembic's, under the migration lock.

    Without a *connection* (``--sql``) it prints a script for *dialect*.
    """
    ours = DIALECTS[dialect]
    options = _options(schema) | {
        "include_name": lambda name, type_, parents: type_ != "table" or name in TABLES,
    }
    if connection is None:
        context.configure(dialect_name=dialect, **options)
        context.get_context()._version.implicit_returning = False
        with context.begin_transaction():
            context.run_migrations()
        return
    ours.migration_lock(connection, schema)
    before = current(connection, schema=schema)
    options["memalchemy_pgvector"] = ours.has_vector_type(connection)
    arguments = context.get_x_argument(as_dictionary=True)
    options["memalchemy_delete_rows"] = arguments.get("delete-rows") == "yes"
    context.configure(connection=connection, **options)
    context.run_migrations()
    after = current(connection, schema=schema)
    if after is not None and after != before:
        for command in _house_commands(ours, connection.dialect, schema):
            connection.exec_driver_sql(command)


# --- Inside --------------------------------------------------------------------------------------


def _options(schema: str | None) -> dict[str, Any]:
    return {
        "version_table": VERSION_TABLE,
        "version_table_schema": schema,
        "memalchemy_schema": schema,
        "target_metadata": Base.metadata,
    }


def _run(
    connection: Connection,
    schema: str | None,
    steps: Callable[[Any, MigrationContext], Any],
    options: dict[str, Any],
) -> list[str]:
    ran: list[str] = []

    def note(*, step: MigrationInfo, **_: Any) -> None:
        ran.extend(step.up_revision_ids if step.is_upgrade else step.source_revision_ids)

    opts = _options(schema) | options | {"fn": steps, "on_version_apply": (note,)}
    context = MigrationContext.configure(connection, opts=opts)
    with _alembic_is_global, Operations.context(context):
        context.run_migrations()
    return ran


def _known() -> set[str]:
    return {script.revision for script in scripts().walk_revisions()}


def _house_commands(ours: Dialect, dialect: sa.Dialect, schema: str | None) -> list[str]:
    """Note which releases the schema works with, in a row that an older release can read.

    The same text online and in scripts; every part is a constant of this release.
    """
    quote = dialect.identifier_preparer.quote
    table = f"{quote(schema)}.store_items" if schema else "store_items"
    meta = json.dumps(
        {"oldest_release": scripts().get_revision(head()).module.oldest_release, "revision": head()}
    )
    return [
        f"DELETE FROM {table} WHERE tenant = '{HOUSE_TENANT}' "  # noqa: S608
        f"AND namespace = '{HOUSE_NAMESPACE}' AND key = 'schema'",
        f"INSERT INTO {table} (tenant, namespace, key, meta, version, codec, checksum, "  # noqa: S608
        f"created_at, updated_at, value) VALUES ('{HOUSE_TENANT}', '{HOUSE_NAMESPACE}', 'schema', "
        f"'{meta}', 1, 'none', 0, {ours.utc_now}, {ours.utc_now}, {ours.byte_literal})",
    ]


def _oldest_release(connection: Connection, schema: str | None) -> str | None:
    items = sa.table(
        "store_items",
        *(sa.column(name) for name in ("tenant", "namespace", "key")),
        sa.column("meta", Json),
        schema=schema,
    )
    row = connection.execute(
        sa.select(items.c.meta)
        .where(items.c.tenant == HOUSE_TENANT)
        .where(items.c.namespace == HOUSE_NAMESPACE)
        .where(items.c.key == "schema")
    ).first()
    return None if row is None else row[0].get("oldest_release")


def _release(version: str) -> tuple[int, ...]:
    return tuple(int(part) for part in version.split(".")[:3])
