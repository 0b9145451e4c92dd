"""The chain of revisions, run without an ``env.py``."""

from __future__ import annotations

import io
import logging
import re
from collections.abc import Callable, Iterator
from contextlib import contextmanager, nullcontext
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeGuard

import sqlalchemy as sa
from sqlalchemy import Connection
from sqlalchemy.schema import CreateSchema

from memalchemy import _fork_safe_locks
from memalchemy._version import __version__
from memalchemy.dialects import DIALECTS, VERSION_TABLE, Dialect, dialect_of
from memalchemy.errors import (
    MemalchemyError,
    SchemaIncomplete,
    SchemaOutdated,
    SchemaTooNew,
    VersionTableLost,
)
from memalchemy.events import statement_subscribers
from memalchemy.migrate import house_rows, views
from memalchemy.migrate.words_version import words_note
from memalchemy.schema import Base

# Alembic is imported where it is used: half of the time that importing this package would take.
if TYPE_CHECKING:
    from alembic.runtime.migration import MigrationContext, MigrationInfo, RevisionStep
    from alembic.script import ScriptDirectory

TABLES = tuple(table.name for table in Base.metadata.sorted_tables)

# Alembic keeps the current operations in a global.
_alembic_is_global = _fork_safe_locks.create_lock()


@contextmanager
def _quiet_alembic() -> Iterator[None]:
    """Keep Alembic's reports of its steps out of the application's log; warnings pass.

    An application that sets the level of the logger ``alembic`` itself gets what it asks for.
    """
    logger = logging.getLogger("alembic")
    if logger.level != logging.NOTSET:
        yield
        return
    logger.setLevel(logging.WARNING)
    try:
        yield
    finally:
        logger.setLevel(logging.NOTSET)


def script_location() -> Path:
    """Return the folder of the revisions: in the package of a wheel, at the top of a checkout."""
    here = Path(__file__).resolve()
    for place in (here.parents[1] / "migrations", here.parents[3] / "migrations"):
        if (place / "versions").is_dir():
            return place
    raise MemalchemyError("this installation of memalchemy has lost its migrations; reinstall it")


@cache
@_quiet_alembic()
def scripts() -> ScriptDirectory:
    """Return the chain of revisions."""
    from alembic.script import ScriptDirectory

    return ScriptDirectory(str(script_location()))


@cache
def revisions() -> tuple[str, ...]:
    """Return the ids of the revisions in order, from the names of their files.

    So a database that is up to date is opened without Alembic, which takes a tenth of a second to
    import.
    """
    files = (script_location() / "versions").glob("[0-9]*_*.py")
    return tuple(sorted(file.name.partition("_")[0] for file in files))


def head() -> str:
    """Return the revision that this release writes."""
    return revisions()[-1]


def current(connection: Connection, *, schema: str | None = None) -> str | None:
    """Return the revision that the database is at; ``None`` without a schema of memalchemy's.

    Reads only.
    """
    if not connection.dialect.has_table(connection, VERSION_TABLE, schema=schema):
        return None
    version = sa.table(VERSION_TABLE, sa.column("version_num"), schema=schema)
    return connection.scalar(sa.select(version.c.version_num))


def usable(connection: Connection, *, schema: str | None = None) -> bool:
    """Return whether `check` passes. A schema that is too new still raises. Reads only."""
    try:
        check(connection, schema=schema)
    except SchemaOutdated:
        return False
    return True


def check(
    connection: Connection,
    *,
    schema: str | None = None,
    read_only: bool = False,
    tables: bool = False,
) -> None:
    """Raise unless this release works on the database's schema. Reads only.

    With *read_only* the error says that the schema has to be upgraded elsewhere. With *tables* each
    table is looked for, and not only the version.

    Raises:
        SchemaOutdated: older than this release needs, or none.
        SchemaTooNew: upgraded by a later release, and not declared to work with this one.
        SchemaIncomplete: a table is missing.
    """
    found = current(connection, schema=schema)
    if found is None:
        _refuse_lost_version(connection, schema)
    _check_version(connection, found, schema, read_only)
    if tables:
        there = connection.dialect.has_table
        missing = [name for name in TABLES if not there(connection, name, schema=schema)]
        if missing:
            assert found is not None
            raise SchemaIncomplete(found, missing, schema)


def _check_version(
    connection: Connection, found: str | None, schema: str | None, read_only: bool
) -> None:
    if found == head():
        return
    if found is None or found in revisions():
        raise SchemaOutdated(
            found,
            head(),
            schema=schema,
            read_only=read_only,
            has_schemas=not dialect_of(connection).single_writer,
            is_langgraph=found is None and _has_langgraph(connection, schema),
        )
    needs = _oldest_release(connection, schema)
    if needs is None or release_number(needs) > release_number(__version__):
        raise SchemaTooNew(found, needs, __version__)


def _refuse_lost_version(connection: Connection, schema: str | None) -> None:
    """Raise `VersionTableLost` if there is no revision, and all tables are memalchemy's."""
    inspector = sa.inspect(connection)
    if not {*TABLES} <= {*inspector.get_table_names(schema)}:
        return
    for table in Base.metadata.sorted_tables:
        there = {str(column["name"]) for column in inspector.get_columns(table.name, schema)}
        if not {column.name for column in table.columns} <= there:
            return
    raise VersionTableLost(head(), schema, VERSION_TABLE)


def _has_langgraph(connection: Connection, schema: str | None) -> bool:
    """Return whether LangGraph's checkpointer has made its tables here."""
    inspector = sa.inspect(connection)
    if not inspector.has_table("checkpoints", schema=schema):
        return False
    return "checkpoint_ns" in {
        str(column["name"]) for column in inspector.get_columns("checkpoints", schema=schema)
    }


def upgrade(
    connection: Connection,
    *,
    schema: str | None = None,
    revision: str = "head",
    dialect: Dialect | None = None,
) -> list[str]:
    """Run the revisions up to *revision* in the connection's transaction; return those that ran.

    Takes the migration lock first and looks at the version after, so of several processes that
    start at once one migrates and the others find it done. *dialect* is that of the connection,
    unless several stand on one of SQLAlchemy's.
    """
    dialect = dialect or dialect_of(connection)
    dialect.maintenance.lock_migrations(connection, schema)
    found = current(connection, schema=schema)
    if found is not None and found not in revisions():
        check(connection, schema=schema)
        return []
    if found is None and revision == "head" and _make_sqlite_file(connection, dialect):
        return list(revisions())
    if found is None:
        _refuse_lost_version(connection, schema)
    native = prepare_schema(connection, schema, dialect)
    ran = _run_steps(
        connection,
        schema,
        dialect,
        lambda heads, _: _steps_to(revision, heads),
        {"memalchemy_pgvector": native},
        changes=found != head(),
    )
    if native:
        dialect.vectors.convert_bytes(connection, schema)
    return ran


def downgrade(
    connection: Connection,
    revision: str,
    *,
    schema: str | None = None,
    delete_rows: bool = False,
    dialect: Dialect | None = None,
) -> list[str]:
    """Run the chain down to *revision* (``base``: no schema); return the revisions undone.

    *dialect* is that of `upgrade`.

    Raises:
        DowngradeRefused: tables to drop hold rows, and *delete_rows* is not set; or a table of
            the house has a foreign key to one of them.
    """
    dialect = dialect or dialect_of(connection)
    dialect.maintenance.lock_migrations(connection, schema)
    if current(connection, schema=schema) is None:
        return []
    return _run_steps(
        connection,
        schema,
        dialect,
        lambda heads, _: _steps_to(revision, heads, down=True),
        {"memalchemy_delete_rows": delete_rows},
    )


@_quiet_alembic()
def offline(
    dialect: str,
    *,
    schema: str | None = None,
    start: str | None = None,
    revision: str = "head",
    down: bool = False,
    pgvector: bool = True,
    transaction: bool = True,
) -> str:
    """The SQL script that `upgrade` (or `downgrade`) runs from *start* to *revision*.

    *start* is ``base`` going up and ``head`` going down, unless given. The script assumes pgvector;
    with ``pgvector=False`` the vector column is bytes. Going down it drops tables whether they hold
    rows or not: a script cannot look.

    Raises:
        CommandError: a revision does not exist, or *revision* lies in the other direction.
    """
    start = start or ("head" if down else "base")
    from alembic.operations import Operations
    from alembic.runtime.migration import MigrationContext
    from alembic.util import CommandError

    out = io.StringIO()
    steps = Steps()
    ours = DIALECTS[dialect]
    begin = None if start == "base" else scripts().as_revision_number(start)
    end = None if revision == "base" else scripts().as_revision_number(revision)
    if not down and begin in revisions() and end in revisions() and begin > end:
        raise CommandError(f"{begin} comes after {end}, so going there is a downgrade")
    context = MigrationContext.configure(
        dialect_name=ours.sqlalchemy_name,
        opts=context_options(schema, ours)
        | {
            "as_sql": True,
            "output_buffer": out,
            "starting_rev": begin,
            "fn": lambda heads, _: _steps_to(revision, heads, down=down),
            "on_version_apply": (steps,),
            "memalchemy_pgvector": pgvector,
        },
    )
    with _alembic_is_global, Operations.context(context):
        write_script(
            context,
            context.run_migrations,
            steps,
            prepare=start == "base",
            locks=start != "base" and begin != end,
            transaction=transaction,
        )
    return out.getvalue()


class Steps:
    """The revisions that ran, and the place of the chain after them."""

    def __init__(self) -> None:
        self.ran: list[str] = []
        self.reached: str | None = None

    def __call__(self, *, step: MigrationInfo, **_: Any) -> None:
        self.ran.extend(step.up_revision_ids if step.is_upgrade else step.source_revision_ids)
        self.reached = next(iter(step.destination_revision_ids), None)


def context_options(schema: str | None, ours: Dialect) -> dict[str, Any]:
    return {
        "version_table": VERSION_TABLE,
        "version_table_schema": schema,
        "transactional_ddl": ours.transactional_ddl,
        "memalchemy_schema": schema,
        "memalchemy_dialect": ours,
    }


def command_of(migration: MigrationContext) -> str:
    """The command of Alembic's that *migration* serves; Alembic names its function after it."""
    return getattr(migration.opts.get("fn"), "__name__", "")


def prepare_schema(connection: Connection, schema: str | None, ours: Dialect) -> bool:
    """Create the schema if it is missing; return whether vectors have a native type here."""
    if can_make(schema, ours) and not sa.inspect(connection).has_schema(schema):
        connection.execute(CreateSchema(schema))
    return ours.vectors.ensure_type(connection)


def can_make(schema: str | None, ours: Dialect) -> TypeGuard[str]:
    # Where DDL commits, on Oracle, a schema is a user, and users are not made here.
    return schema is not None and ours.transactional_ddl


def _steps_to(revision: str, current: Any, *, down: bool = False) -> list[RevisionStep]:
    """Return the steps of the chain from *current* to *revision*.

    Raises:
        CommandError: *revision* does not exist, or lies in the other direction.
    """
    from alembic.runtime.migration import MigrationStep
    from alembic.script.revision import RevisionError
    from alembic.util import CommandError

    chain = scripts()
    known = chain.revision_map
    try:
        if down:
            passed = chain.iterate_revisions(current, revision, select_for_downgrade=True)
            return [MigrationStep.downgrade_from_script(known, one) for one in passed]
        passed = chain.iterate_revisions(revision, current, implicit_base=True)
        return [MigrationStep.upgrade_from_script(known, one) for one in [*passed][::-1]]
    except RevisionError as error:
        raise CommandError(str(error.args[0])) from error


@_quiet_alembic()
def _run_steps(
    connection: Connection,
    schema: str | None,
    ours: Dialect,
    moves: Callable[[Any, MigrationContext], Any],
    options: dict[str, Any],
    *,
    changes: bool = True,
) -> list[str]:
    from alembic.operations import Operations
    from alembic.runtime.migration import MigrationContext

    steps = Steps()
    opts = context_options(schema, ours) | options
    opts |= {"fn": moves, "on_version_apply": (steps,)}
    context = MigrationContext.configure(connection, opts=opts)
    with _alembic_is_global, Operations.context(context), cleared_tables(context, changes=changes):
        context.run_migrations()
    note_releases(context, steps, connection.exec_driver_sql)
    return steps.ran


@contextmanager
def cleared_tables(migration: MigrationContext, *, changes: bool) -> Iterator[None]:
    """Lock the tables, and drop the views, for as long as revisions run; with *changes* some do."""
    connection = migration.connection
    if not changes or connection is None:
        yield
        return
    schema: str | None = migration.opts["memalchemy_schema"]
    ours: Dialect = migration.opts["memalchemy_dialect"]
    lock_tables(connection, schema, ours)
    there = views.list_views(connection, schema)
    granted = views.drop(connection, ours, schema)
    yield
    # An older revision may lack what the views of this release read.
    if there and current(connection, schema=schema) == head():
        views.create(connection, ours, schema, granted=granted)


def lock_tables(connection: Connection, schema: str | None, ours: Dialect) -> None:
    """Lock the tables and views that are there, for DDL on them, until the transaction ends."""
    there = {*sa.inspect(connection).get_table_names(schema)}
    names = [*views.list_views(connection, schema), *(name for name in TABLES if name in there)]
    for command in ours.maintenance.lock_commands(schema, names):
        connection.exec_driver_sql(command)


def write_script(
    migration: MigrationContext,
    run: Callable[[], None],
    steps: Steps,
    *,
    prepare: bool,
    locks: bool,
    transaction: bool = True,
) -> None:
    """Write what *run* does, and what `upgrade` does around it, in the script's own style.

    A script that begins with an empty database *prepare*s it; one that changes tables *locks* them.
    """
    schema = migration.opts["memalchemy_schema"]
    ours: Dialect = migration.opts["memalchemy_dialect"]
    # A RETURNING clause in an Oracle script is a bind that nobody fills.
    migration.dialect.insert_returning = False
    with migration.begin_transaction() if transaction else nullcontext():
        if prepare and can_make(schema, ours):
            migration.impl.execute(CreateSchema(schema, if_not_exists=True))
        if prepare and migration.opts["memalchemy_pgvector"]:
            for command in ours.vectors.install_commands:
                migration.impl.execute(command)
        if locks:
            for command in ours.maintenance.lock_commands(schema, TABLES):
                migration.impl.execute(command)
        run()
        note_releases(migration, steps, migration.impl.execute)
    if transaction and not ours.transactional_ddl:
        migration.impl.execute("COMMIT")


def note_releases(migration: MigrationContext, steps: Steps, execute: Callable[[str], Any]) -> None:
    """Note which releases the schema now works with, in a row that an older release can read.

    The same text online and in scripts; every part is a constant of this release.
    """
    if steps.reached is None:
        return
    dialect: Dialect = migration.opts["memalchemy_dialect"]
    table = house_rows.table_name(migration.dialect, migration.opts["memalchemy_schema"])
    module = scripts().get_revision(steps.reached).module
    meta = {"oldest_release": module.oldest_release, "revision": steps.reached}
    commands = [*house_rows.replacing(table, dialect, "schema", meta)]
    if revisions()[0] in steps.ran:
        commands += words_note(table, dialect)
    for command in commands:
        execute(command)


def sqlite_script() -> Path:
    """Return the path of the script that `offline` makes of the whole chain for SQLite."""
    return Path(__file__).with_name(f"sqlite.{head()}.sql")


def _make_sqlite_file(connection: Connection, dialect: Dialect) -> bool:
    """Run `sqlite_script` in an empty file; return false, with nothing done, if that cannot be.

    Alembic takes ten times as long to say the same.
    """
    if dialect is not DIALECTS["sqlite"] or not (statements := _sqlite_statements()):
        return False
    if connection.exec_driver_sql("SELECT 1 FROM sqlite_master LIMIT 1").first() is not None:
        return False
    # By the driver, unless somebody listens: SQLAlchemy takes as long for each as SQLite does.
    cursor = connection.connection.cursor()
    execute = connection.exec_driver_sql if statement_subscribers else cursor.execute
    for statement in statements:
        execute(statement)
    cursor.close()
    return True


@cache
def _sqlite_statements() -> tuple[str, ...]:
    """Return the statements of `sqlite_script`; none if there is no such file."""
    script = sqlite_script()
    if not script.exists():
        return ()
    parts = (
        "\n".join(line for line in part.splitlines() if not line.startswith("--")).strip()
        for part in script.read_text().split(";\n\n")
    )
    return tuple(part for part in parts if part not in ("", "BEGIN", "COMMIT"))


def _oldest_release(connection: Connection, schema: str | None) -> str | None:
    note = house_rows.read_house_row(connection, schema, "schema")
    return None if note is None else note.get("oldest_release")


def release_number(version: str) -> tuple[int, ...]:
    return tuple(int(number) for number in re.findall(r"\d+", version)[:3])
