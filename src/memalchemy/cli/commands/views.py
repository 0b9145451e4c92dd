"""The command views."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer

from memalchemy.cli.command import command
from memalchemy.cli.context import Context

if TYPE_CHECKING:
    from sqlalchemy import Connection


@command("views", example="memalchemy --db sqlite:///agent.db views")
async def views(
    ctx: Context,
    print_: Annotated[
        bool,
        typer.Option("--print", help="Print the SQL script, and do not connect."),
    ] = False,
    drop: Annotated[bool, typer.Option("--drop", help="Drop the views.")] = False,
) -> None:
    """Create views of the tables for your own SQL.

    They show threads, checkpoints, entries, items and embeddings that are neither deleted nor
    expired, with times as times, namespaces as users/ada, and columns for agent, user_id, model,
    tokens, cost and latency in the metadata. Run it again to create them anew; upgrade does so by
    itself.
    """
    from memalchemy import migrate
    from memalchemy.migrate import views as made

    if print_:
        db = ctx.database(offline=True)
        statements = made.script_of_views(db.dialect, db.schema, dropping=drop)
        if ctx.as_data:
            ctx.terminal.print_data({"statements": statements})
        else:
            ctx.terminal.print_raw("\n".join(f"{statement};" for statement in statements))
        return
    async with ctx.database() as db:

        def job(connection: Connection) -> list[str]:
            db.dialect.maintenance.lock_migrations(connection, db.schema)
            migrate.check(connection, schema=db.schema, tables=True)
            there = made.list_views(connection, db.schema)
            change = made.drop if drop else made.create
            change(connection, db.dialect, db.schema)
            return there if drop else [*made.VIEWS]

        names = await db.run_sync(job)
    done = "dropped" if drop else "created"
    if ctx.as_data:
        ctx.terminal.print_data({done: names})
    else:
        ctx.terminal.print(f"{done}: {', '.join(names) or 'none was there'}")
