"""The command inspect."""

from __future__ import annotations

import sys
import webbrowser
from typing import Annotated

import typer

from memalchemy import _detached
from memalchemy.cli.command import command
from memalchemy.cli.context import Context
from memalchemy.cli.usage_errors import UsageError, usage_errors


@command("inspect", example="memalchemy inspect sqlite:///agent.db")
async def inspect(
    ctx: Context,
    url: Annotated[
        str | None,
        typer.Argument(metavar="URL", help="The database. [default: that of --db]"),
    ] = None,
    host: Annotated[str, typer.Option(metavar="HOST", help="Address to listen on.")] = "127.0.0.1",
    port: Annotated[
        int, typer.Option(min=0, max=65535, metavar="N", help="0 is any free port.")
    ] = 0,
    no_browser: Annotated[
        bool, typer.Option("--no-browser", help="Only print the address.")
    ] = False,
) -> None:
    """Show the database in the browser.

    Shows threads, steps, states, items and memories until Ctrl-C or SIGTERM, and writes nothing.
    The printed address holds a token: whoever has it reads everything of all tenants, or with
    --tenant of that one, until the command ends. Needs the extra `server`.
    """
    from memalchemy.http import serve_inspector

    if url is not None:
        if ctx.options.db is not None:
            raise UsageError("give the database once: as URL, or with --db")
        ctx = ctx.with_options(db=url)

    def started(address: str) -> None:
        if ctx.as_data:
            ctx.terminal.print_data({"url": address})
        else:
            ctx.terminal.print(f"looking at {ctx.display_url}; Ctrl-C ends it")
            ctx.terminal.print(address)
        sys.stdout.flush()
        if not no_browser:
            # A browser of the terminal would hold up the server.
            _detached.create_thread(webbrowser.open, address, name="memalchemy-browser").start()

    async with ctx.database(read_only=True) as db:
        try:
            with usage_errors():
                await serve_inspector(
                    db,
                    host=host,
                    port=port,
                    all_tenants=ctx.options.tenant is None,
                    started=started,
                )
        except OSError as error:
            raise UsageError(f"cannot listen on {host}:{port}: {error.strerror}") from error
