"""The command backup."""

from __future__ import annotations

import time
from typing import Annotated

import typer

from memalchemy.cli.command import command
from memalchemy.cli.context import Context
from memalchemy.cli.formatting import format_size


@command("backup", example="memalchemy --db sqlite:///agent.db backup agent-backup.db")
async def backup(
    ctx: Context,
    file: Annotated[str, typer.Argument(metavar="FILE", help="SQLite file to create.")],
    force: Annotated[bool, typer.Option("--force", help="Replace FILE if it exists.")] = False,
) -> None:
    """Back up a SQLite database while others write to it.

    Copies all tenants as of one moment, and checks the copy. FILE appears when it is complete and
    on disk. For PostgreSQL and Oracle the error names the command to run instead.
    """
    db = ctx.database(migrate="off", read_only=True)
    started = time.perf_counter()
    try:
        with ctx.terminal.progress("backing up") as progress:
            written = await db.backup(file, force=force, progress=progress.update)
    finally:
        await db.close()
    seconds = round(time.perf_counter() - started, 3)
    if ctx.as_data:
        ctx.terminal.print_data({"file": file, "bytes": written, "seconds": seconds})
    else:
        ctx.terminal.print(f"{format_size(written)} in {file}, checked, in {seconds:.1f} s")
