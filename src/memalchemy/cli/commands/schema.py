"""Commands of the schema: upgrade, downgrade, check, current, grants, distribute."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Annotated

import typer

from memalchemy._environment import SCHEMA_VARIABLE
from memalchemy.cli.command import command
from memalchemy.cli.commands.tenants import warnings_about
from memalchemy.cli.context import Context
from memalchemy.cli.usage import UsageError, require_exactly_one, usage_errors
from memalchemy.errors import CapabilityMissing

if TYPE_CHECKING:
    from memalchemy import Database

SqlOption = Annotated[
    bool, typer.Option("--sql", help="Print the SQL script without connecting; run nothing.")
]
StartOption = Annotated[
    str | None,
    typer.Option("--from", metavar="REVISION", help="With --sql: revision of the database."),
]


@command("upgrade", example="memalchemy --db postgresql://me@host/db upgrade --sql")
async def upgrade(
    ctx: Context,
    revision: Annotated[
        str,
        typer.Option(
            "--revision",
            "--to",
            metavar="REVISION",
            help="Revision to stop at; with --sql also FROM:TO, as Alembic writes it.",
        ),
    ] = "head",
    start: StartOption = None,
    sql: SqlOption = False,
    no_pgvector: Annotated[
        bool,
        typer.Option(
            "--no-pgvector",
            help="With --sql, for PostgreSQL without pgvector: store vectors as bytes.",
        ),
    ] = False,
) -> None:
    """Create the schema, or bring it up to date.

    Holds a lock: several processes may run it at once, and it may be repeated. On PostgreSQL it
    installs pgvector if the role may; without it, it says so and vectors are stored as bytes. A
    script printed with --sql starts from an empty database unless --from names the revision that it
    is at, and expects pgvector unless --no-pgvector says otherwise.
    """
    if sql:
        if start is None and ":" in revision:
            start, _, revision = revision.partition(":")
        _print_script(ctx, revision, start=start or "base", down=False, pgvector=not no_pgvector)
        return
    _refuse_start(start)
    if no_pgvector:
        raise UsageError("--no-pgvector is for --sql: without it the database itself says")
    async with ctx.database(migrate="off", create=True) as db:
        had_pgvector = await _has_pgvector(db)
        with _revision_errors(revision):
            applied = await db.migrate(revision=revision)
        now, pgvector = await db.current(), await _has_pgvector(db)
    _print_move(ctx, applied, now, pgvector, converted=had_pgvector is False and pgvector is True)
    if pgvector is False and not ctx.as_data:
        ctx.terminal.print_note(BYTES)


@command("downgrade", example="memalchemy --db sqlite:///agent.db downgrade base")
async def downgrade(
    ctx: Context,
    revision: Annotated[
        str, typer.Argument(metavar="REVISION", help="Revision to go to; base removes the schema.")
    ],
    delete_rows: Annotated[
        bool, typer.Option("--delete-rows", help="Drop tables even if they hold rows.")
    ] = False,
    start: StartOption = None,
    sql: SqlOption = False,
) -> None:
    """Take the schema back to an older revision.

    Refuses with exit code 4 if that would drop rows. A script printed with --sql cannot check for
    rows and drops them; it starts from this release's revision unless --from names another.
    """
    from memalchemy import migrate

    if sql:
        _print_script(ctx, revision, start=start or migrate.head(), down=True)
        return
    _refuse_start(start)
    async with ctx.database(migrate="off") as db:
        with _revision_errors(revision):
            undone = await db.run_sync(
                lambda connection: migrate.downgrade(
                    connection,
                    revision,
                    schema=db.schema,
                    delete_rows=delete_rows,
                    dialect=db.dialect,
                )
            )
        _print_move(ctx, undone, await db.current(), await _has_pgvector(db))


@command("check", example="memalchemy --db sqlite:///agent.db check")
async def check(ctx: Context) -> None:
    """Check that the schema fits this release.

    Ends with exit code 1 if it does not, lacks one of its tables, or has row-level security without
    the policy of `tenants enforce`. On PostgreSQL also says if vectors are stored as bytes, because
    pgvector is missing, and warns if the tenants are walled and the role passes the wall. Only
    reads.
    """
    async with ctx.database(migrate="off", read_only=True) as db:
        await db.check()
        revision, pgvector = await db.current(), await _has_pgvector(db)
        warnings = warnings_about(await db.tenant_wall())
    if ctx.as_data:
        result = {"ok": True, "revision": revision, "warnings": warnings}
        ctx.terminal.print_data(result | _vectors(pgvector))
        return
    ctx.terminal.print(f"ok: this release works with revision {revision}")
    for warning in warnings:
        ctx.terminal.print(f"warning: {warning}")
    if pgvector is False:
        ctx.terminal.print_note(BYTES)


@command("current", example="memalchemy --db sqlite:///agent.db current")
async def current(ctx: Context) -> None:
    """Print the revision of the schema, and that of this release.

    Only reads.
    """
    from memalchemy import migrate

    async with ctx.database(migrate="off", read_only=True) as db:
        revision = await db.current()
    if ctx.as_data:
        ctx.terminal.print_data({"revision": revision, "head": migrate.head()})
    else:
        found = revision or "no memalchemy schema"
        ctx.terminal.print(f"{found} (this release: {migrate.head()})")


@command("grants", example="memalchemy --db postgresql://me@host/db grants app")
async def grants(
    ctx: Context,
    role: Annotated[str, typer.Argument(metavar="ROLE", help="Role of the application.")],
) -> None:
    """Print the GRANT statements for an application's role.

    They give the role all it needs, and no right to change the schema. Does not connect.
    """
    from memalchemy import migrate

    db = ctx.database(offline=True)
    if db.dialect.single_writer:
        raise CapabilityMissing(
            "SQLite has no roles: the permissions of the file decide who may use it"
        )
    tables = (*migrate.TABLES, migrate.VERSION_TABLE)
    statements = db.dialect.maintenance.grants(role, db.schema, tables)
    if ctx.as_data:
        ctx.terminal.print_data({"role": role, "statements": statements})
    else:
        ctx.terminal.print_raw("\n".join(statements))


@command("distribute", example="memalchemy distribute --citus --sql")
async def distribute(
    ctx: Context,
    citus: Annotated[bool, typer.Option("--citus", help="Spread over a Citus cluster.")] = False,
    oracle_partitions: Annotated[
        bool, typer.Option("--oracle-partitions", help="Spread over hash partitions on Oracle.")
    ] = False,
    parts: Annotated[
        int | None,
        typer.Option(
            "--parts",
            min=1,
            metavar="N",
            help="Number of shards or partitions. [default: as Citus is set; 16 on Oracle]",
        ),
    ] = None,
    sql: Annotated[
        bool, typer.Option("--sql", help="Print the statements; required, because nothing is run.")
    ] = False,
) -> None:
    """Print the statements that spread the tables over a cluster.

    Does not connect. Run `memalchemy upgrade` first; then let the administrator read the statements
    and run them once, while nothing writes.
    """
    from memalchemy.dialects import DIALECTS

    require_exactly_one("--citus and --oracle-partitions", citus, oracle_partitions)
    if not sql:
        raise UsageError(
            "distribute only prints statements and runs none: add --sql, read them, and run them "
            "with the database's own client"
        )
    with usage_errors():
        database = DIALECTS["postgresql" if citus else "oracle"].maintenance
        statements = database.distribution_commands(
            ctx.options.schema or os.environ.get(SCHEMA_VARIABLE), parts
        )
    if ctx.as_data:
        ctx.terminal.print_data({"statements": statements})
    else:
        ctx.terminal.print_raw("\n".join(statements))


def _refuse_start(start: str | None) -> None:
    if start is not None:
        raise UsageError(
            "--from is for --sql: without it the database itself says which revision it is at"
        )


BYTES = (
    "vectors are stored as bytes and compared in the application, because pgvector is not "
    "installed in this database: the server does not have it, or this role may not install it. Let "
    "a superuser run CREATE EXTENSION vector; in this database, and then run upgrade again"
)
"""Note on a PostgreSQL database without pgvector."""


async def _has_pgvector(db: Database) -> bool | None:
    """Return whether vectors have pgvector's type; ``None`` without a schema or on others."""
    return (await db.health()).get("pgvector") if db.dialect.vectors.may_be_bytes else None


def _vectors(pgvector: bool | None) -> dict[str, bool]:
    return {} if pgvector is None else {"pgvector": pgvector}


def _print_script(
    ctx: Context, revision: str, *, start: str, down: bool, pgvector: bool = True
) -> None:
    from memalchemy import migrate

    db = ctx.database(offline=True)
    with _revision_errors(f"{start}:{revision}"):
        script = migrate.offline(
            db.dialect.name,
            schema=db.schema,
            start=start,
            revision=revision,
            down=down,
            pgvector=pgvector,
        )
    if ctx.as_data:
        ctx.terminal.print_data({"sql": script})
    else:
        ctx.terminal.print_raw(script)


def _print_move(
    ctx: Context,
    revisions: list[str],
    now: str | None,
    pgvector: bool | None,
    *,
    converted: bool = False,
) -> None:
    if ctx.as_data:
        ctx.terminal.print_data({"ran": revisions, "revision": now} | _vectors(pgvector))
        return
    done = [f"ran {', '.join(revisions)}"] if revisions else []
    if converted:
        done.append("converted the vectors from bytes to pgvector's type")
    at = f"at revision {now}" if now else "without a schema"
    ctx.terminal.print(f"{' and '.join(done) or 'nothing to do'}; the database is {at}")


@contextmanager
def _revision_errors(revision: str) -> Iterator[None]:
    from alembic.util import CommandError

    try:
        yield
    except CommandError as error:
        raise UsageError(f"cannot go to revision {revision!r}: {error}") from error
