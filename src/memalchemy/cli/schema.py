"""Commands for the schema: upgrade, downgrade, check, current, grants, distribute."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Annotated

import typer

from memalchemy.cli.command import Invocation, asking_for_sense, command
from memalchemy.cli.exits import UsageProblem
from memalchemy.errors import CapabilityMissing

SqlOption = Annotated[
    bool, typer.Option("--sql", help="Print the script instead, without connecting.")
]


def register(app: typer.Typer) -> None:
    """Add this file's commands to *app*."""
    command(app, "upgrade", example="memalchemy --db postgresql://me@host/db upgrade --sql")(
        upgrade
    )
    command(app, "downgrade", example="memalchemy --db sqlite:///agent.db downgrade base")(
        downgrade
    )
    command(app, "check", example="memalchemy --db sqlite:///agent.db check")(check)
    command(app, "current", example="memalchemy --db sqlite:///agent.db current")(current)
    command(app, "grants", example="memalchemy --db postgresql://me@host/db grants app")(grants)
    command(app, "distribute", example="memalchemy distribute --citus --sql")(distribute)


async def upgrade(
    at: Invocation,
    revision: Annotated[str, typer.Option(help="How far to go.")] = "head",
    sql: SqlOption = False,
) -> None:
    """Bring the schema to this release's.

    Under a lock: safe to run from several processes at once, and again.
    """
    if sql:
        _script(at, revision=revision, down=False)
        return
    async with at.database(migrate="off", create=True) as db:
        with _known_revision(revision):
            ran = await db.migrate(revision=revision)
        _moved(at, ran, await db.current())


async def downgrade(
    at: Invocation,
    revision: Annotated[str, typer.Argument(help="Where to go; base removes the schema.")],
    delete_rows: Annotated[
        bool, typer.Option("--delete-rows", help="Drop tables even if they hold rows.")
    ] = False,
    sql: SqlOption = False,
) -> None:
    """Take the schema back to an older revision.

    Refuses (exit code 4) where that would drop rows. A script printed with --sql cannot look, and
    drops them.
    """
    from memalchemy import migrate

    if sql:
        _script(at, revision=revision, down=True)
        return
    async with at.database(migrate="off") as db:
        with _known_revision(revision):
            undone = await db.run_sync(
                lambda connection: migrate.downgrade(
                    connection,
                    revision,
                    schema=db.schema,
                    delete_rows=delete_rows,
                    dialect=db.dialect,
                )
            )
        _moved(at, undone, await db.current())


async def check(at: Invocation) -> None:
    """Whether the schema fits this release.

    Exit code 1 if it does not. Reads only.
    """
    async with at.database(migrate="off") as db:
        await db.check()
        found = await db.current()
    if at.as_json:
        at.terminal.document({"ok": True, "revision": found})
    else:
        at.terminal.say(f"ok: this release works with revision {found}")


async def current(at: Invocation) -> None:
    """Print the schema's revision.

    And that of this release. Reads only.
    """
    from memalchemy import migrate

    async with at.database(migrate="off") as db:
        found = await db.current()
    if at.as_json:
        at.terminal.document({"revision": found, "head": migrate.head()})
    else:
        at.terminal.say(f"{found or 'no memalchemy schema'} (this release: {migrate.head()})")


async def grants(
    at: Invocation, role: Annotated[str, typer.Argument(help="The application's role.")]
) -> None:
    """Print the GRANTs for an application.

    All that an application needs, and no DDL.
    """
    from memalchemy import migrate

    db = at.unopened()
    if db.dialect.single_writer:
        raise CapabilityMissing("this database has no roles: whoever may write its file may use it")
    tables = (*migrate.TABLES, migrate.VERSION_TABLE)
    statements = db.dialect.maintenance.grants(role, db.schema, tables)
    if at.as_json:
        at.terminal.document({"role": role, "statements": statements})
    else:
        at.terminal.raw("\n".join(statements))


async def distribute(
    at: Invocation,
    citus: Annotated[bool, typer.Option("--citus", help="Over the nodes of a Citus cluster.")] = (
        False
    ),
    oracle_partitions: Annotated[
        bool, typer.Option("--oracle-partitions", help="Over hash partitions, on Oracle.")
    ] = False,
    parts: Annotated[
        int | None,
        typer.Option(
            "--parts",
            min=1,
            metavar="N",
            help="How many shards or partitions. [default: Citus' own; 16 on Oracle]",
        ),
    ] = None,
    sql: Annotated[
        bool, typer.Option("--sql", help="Print the statements; nothing else is done.")
    ] = False,
) -> None:
    """Print what spreads the tables over a cluster.

    For a database that `memalchemy upgrade` has made. It only prints: whoever runs the cluster
    reads the statements and runs them, once, while nothing else writes.
    """
    from memalchemy.dialects import DIALECTS

    if citus == oracle_partitions:
        raise UsageProblem("give one of --citus and --oracle-partitions")
    if not sql:
        raise UsageProblem(
            "distribute only prints statements and runs none: add --sql, read them, and run them "
            "with the database's own client"
        )
    with asking_for_sense():
        of = DIALECTS["postgresql" if citus else "oracle"].maintenance
        statements = of.distribution_commands(at.common.schema, parts)
    if at.as_json:
        at.terminal.document({"statements": statements})
    else:
        at.terminal.raw("\n".join(statements))


def _script(at: Invocation, *, revision: str, down: bool) -> None:
    from memalchemy import migrate

    db = at.unopened()
    with _known_revision(revision):
        script = migrate.offline(
            db.dialect.name,
            schema=db.schema,
            start=migrate.head() if down else "base",
            revision=revision,
            down=down,
        )
    if at.as_json:
        at.terminal.document({"sql": script})
    else:
        at.terminal.raw(script)


def _moved(at: Invocation, revisions: list[str], now: str | None) -> None:
    if at.as_json:
        at.terminal.document({"ran": revisions, "revision": now})
    elif revisions:
        at.terminal.say(f"ran {', '.join(revisions)}; the database is at {now or 'no schema'}")
    else:
        at.terminal.say(f"nothing to do; the database is at {now or 'no schema'}")


@contextmanager
def _known_revision(revision: str) -> Iterator[None]:
    from alembic.util import CommandError

    try:
        yield
    except CommandError as error:
        raise UsageProblem(f"cannot go to revision {revision!r}: {error}") from error
