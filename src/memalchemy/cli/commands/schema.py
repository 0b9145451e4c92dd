"""Commands of the schema: upgrade, downgrade, check, current, grants, distribute."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict
from typing import TYPE_CHECKING, Annotated, Any

import typer

from memalchemy._environment import SCHEMA_VARIABLE
from memalchemy.cli.command import command
from memalchemy.cli.commands.tenants import warnings_about
from memalchemy.cli.context import Context
from memalchemy.cli.exit_codes import NOT_FOUND, OK
from memalchemy.cli.formatting import count, format_size
from memalchemy.cli.usage_errors import UsageError, require_exactly_one, usage_errors
from memalchemy.errors import CapabilityMissing

if TYPE_CHECKING:
    from memalchemy import Database
    from memalchemy.dialects import Distribution

SqlOption = Annotated[bool, typer.Option("--sql", help="Print the SQL script, and do not connect.")]
StartOption = Annotated[
    str | None,
    typer.Option("--from", metavar="REVISION", help="With --sql: revision of the database."),
]


NAMED = 3
"""The number of tenants that a warning names."""


@command("upgrade", example="memalchemy --db postgresql://me@host/db upgrade --sql")
async def upgrade(
    ctx: Context,
    revision: Annotated[
        str,
        typer.Option(
            "--revision",
            "--to",
            metavar="REVISION",
            help="Revision to stop at; with --sql also FROM:TO, as in Alembic.",
        ),
    ] = "head",
    start: StartOption = None,
    sql: SqlOption = False,
    no_pgvector: Annotated[
        bool,
        typer.Option(
            "--no-pgvector",
            help="With --sql: PostgreSQL has no pgvector, vectors are bytes.",
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
        bool, typer.Option("--delete-rows", help="Drop tables that hold rows.")
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
async def check(ctx: Context) -> int:
    """Check that the schema fits this release.

    Ends with exit code 1 if it does not, lacks one of its tables, or has row-level security without
    the policy of `tenants enforce`. On PostgreSQL also says if vectors are stored as bytes, because
    pgvector is missing, and warns if the role bypasses row-level security between tenants. On Citus
    also says how the tables are distributed, and ends with exit code 1 if only some are, or in
    another way than this release's. Warns if tenants have signatures that `sign` has to renew, or
    rows words that `rebuild-words` has to. Only reads.
    """
    async with ctx.database(migrate="off", read_only=True) as db:
        await db.check()
        revision, pgvector = await db.current(), await _has_pgvector(db)
        warnings = warnings_about(await db.tenant_wall()) + await _warnings_about_signatures(db)
        warnings += await _warnings_about_words(db)
        spread = await db.distribution()
    if spread is not None:
        warnings += _warnings_about_distribution(spread)
    works = spread is None or spread.is_usable
    if ctx.as_data:
        result: dict[str, Any] = {"ok": works, "revision": revision, "warnings": warnings}
        result |= _pgvector_field(pgvector)
        if spread is not None:
            result["distribution"] = _describe_distribution(spread)
        ctx.terminal.print_data(result)
    else:
        if works:
            ctx.terminal.print(f"ok: this release works with revision {revision}")
        else:
            ctx.terminal.print(
                f"revision {revision} is this release's, and its tables are not distributed as "
                "this release works with them",
                style="red",
            )
        if spread is not None:
            _print_distribution(ctx, spread)
        for warning in warnings:
            ctx.terminal.print(f"warning: {warning}")
        if pgvector is False:
            ctx.terminal.print_note(BYTES)
    return OK if works else NOT_FOUND


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
    citus: Annotated[bool, typer.Option("--citus", help="Over a Citus cluster.")] = False,
    oracle_partitions: Annotated[
        bool, typer.Option("--oracle-partitions", help="Over hash partitions on Oracle.")
    ] = False,
    parts: Annotated[
        int | None,
        typer.Option(
            "--parts",
            min=1,
            metavar="N",
            help="Number of shards or partitions. [default: 8 shards for each node, with --sql as "
            "Citus is set; 16 partitions]",
        ),
    ] = None,
    sql: SqlOption = False,
) -> None:
    """Spread the tables over a cluster.

    On Citus, run it on the coordinator, as the owner of the tables, after `memalchemy upgrade`. It
    moves the rows that are there; writers wait meanwhile. May be repeated. Two to four shards for
    each core of a node are a good number. For Oracle it only prints the statements, with --sql:
    let the administrator run them once, while nothing writes.
    """
    require_exactly_one("--citus and --oracle-partitions", citus, oracle_partitions)
    if sql:
        _print_distribution_script(ctx, "postgresql" if citus else "oracle", parts)
        return
    if oracle_partitions:
        raise UsageError(
            "--oracle-partitions only prints statements and runs none: add --sql, read them, and "
            "run them with the database's own client"
        )
    from memalchemy.maintenance import distribution

    async with ctx.database(migrate="off") as db:
        with ctx.terminal.progress("distributing") as progress, usage_errors():
            result = await distribution.distribute(
                db, parts=parts, progress=lambda state: progress.update(state.done, state.total)
            )
    state = result.distribution
    if ctx.as_data:
        done = {"distributed": result.spread, "freed_bytes": result.freed_bytes}
        ctx.terminal.print_data(done | _describe_distribution(state))
        return
    if result.spread:
        ctx.terminal.print(f"distributed {', '.join(result.spread)}")
    if result.freed_bytes:
        ctx.terminal.print(f"dropped {format_size(result.freed_bytes)} of rows that have moved")
    if not result.spread and not result.freed_bytes:
        ctx.terminal.print("nothing to do: the tables are distributed")
    _print_distribution(ctx, state)


def _print_distribution_script(ctx: Context, dialect: str, parts: int | None) -> None:
    from memalchemy.dialects import DIALECTS

    with usage_errors():
        statements = DIALECTS[dialect].maintenance.distribution_commands(
            ctx.options.schema or os.environ.get(SCHEMA_VARIABLE), parts
        )
    if ctx.as_data:
        ctx.terminal.print_data({"statements": statements})
    else:
        ctx.terminal.print_raw("\n".join(statements))


def _describe_distribution(state: Distribution) -> dict[str, Any]:
    """Return how the tables are spread, as a document."""
    return {
        "cluster": state.software,
        "is_coordinator": state.is_coordinator,
        "nodes": state.nodes,
        "is_whole": state.is_whole,
        "tables": [asdict(table) for table in state.tables],
    }


def _print_distribution(ctx: Context, state: Distribution) -> None:
    asked = "its coordinator" if state.is_coordinator else "a worker"
    nodes = count(state.nodes, "node with shards", "nodes with shards")
    ctx.terminal.print(f"{state.software}, asked at {asked}: {nodes}")
    placed: dict[str, list[str]] = {}
    for table in state.tables:
        on = count(table.nodes, "node", "nodes")
        if not table.shards:
            how = "not distributed"
        elif table.is_replicated:
            how = f"whole on {on}"
        else:
            how = f"by {table.column} in {count(table.shards, 'shard', 'shards')} on {on}"
        placed.setdefault(how, []).append(table.name)
    for how, names in placed.items():
        ctx.terminal.print(f"  {', '.join(names)}: {how}")


async def _warnings_about_signatures(db: Database) -> list[str]:
    """Return what is to be done about signatures of the first version."""
    from memalchemy.signing import outdated_tenants

    found = await outdated_tenants(db)
    if not found:
        return []
    named = ", ".join(map(repr, found[:NAMED])) + (", …" if len(found) > NAMED else "")
    return [
        f"{count(len(found), 'tenant')} ({named}) may have signatures of version 1, which do not "
        "prove fractions of seconds from .536871 on: `sign --all-tenants` with the signing keys "
        "renews them"
    ]


async def _warnings_about_words(db: Database) -> list[str]:
    """Return what is to be done about words by the rules of an older release."""
    if not await db.find_first_words():
        return []
    return [
        "some rows have words by the rules of an older release, which find less in Chinese, "
        "Japanese, Thai and Indic scripts: `rebuild-words --all-tenants` makes them anew"
    ]


def _warnings_about_distribution(state: Distribution) -> list[str]:
    """Return how this release would distribute otherwise; nothing for an unused cluster."""
    if not state.is_begun:
        return []
    found = [*state.misplaced]
    if state.missing:
        found.append(
            f"{', '.join(state.missing)}: not distributed, and other tables are: run `distribute "
            "--citus`"
        )
    elif state.old_bytes and not found:
        found.append(
            f"{format_size(state.old_bytes)} of rows that have moved are left on the coordinator: "
            "run `distribute --citus`"
        )
    return found


def _refuse_start(start: str | None) -> None:
    if start is not None:
        raise UsageError(
            "--from is for --sql: without it the database itself says which revision it is at"
        )


BYTES = (
    "vectors are stored as bytes and compared in the application, because pgvector was not in this "
    "database when it was upgraded: the server did not have it, or the role may not install it. "
    "Unless that was done since, let a superuser run CREATE EXTENSION vector; in this database. "
    "Then run upgrade again"
)
"""Note on a PostgreSQL database without pgvector."""


async def _has_pgvector(db: Database) -> bool | None:
    """Return whether vectors have pgvector's type; ``None`` without a schema or on others."""
    return (await db.health()).get("pgvector") if db.dialect.vectors.may_be_bytes else None


def _pgvector_field(pgvector: bool | None) -> dict[str, bool]:
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
        ctx.terminal.print_data({"ran": revisions, "revision": now} | _pgvector_field(pgvector))
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
