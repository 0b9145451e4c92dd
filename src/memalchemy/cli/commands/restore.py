"""The command restore."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Annotated

import typer

from memalchemy.cli.command import command
from memalchemy.cli.context import Context
from memalchemy.cli.formatting import format_size
from memalchemy.cli.usage_errors import usage_errors


@command("restore", example="memalchemy --db sqlite:///agent.db restore agent-backup.db")
async def restore(
    ctx: Context,
    file: Annotated[str, typer.Argument(metavar="FILE", help="Backup of a SQLite database.")],
    yes: Annotated[bool, typer.Option("--yes", help="Do not ask for confirmation.")] = False,
) -> None:
    """Put a backup in the place of a SQLite database.

    Checks the backup, and refuses if a program has the database open. The old file stays beside it,
    under another name. On a terminal it asks first. For PostgreSQL and Oracle the error names the
    command to run instead.
    """
    from memalchemy.dialects import parse_url
    from memalchemy.errors import CapabilityMissing
    from memalchemy.maintenance.restore import restore as restore_file

    target = ctx.sqlite_file
    db = ctx.database(offline=True)
    if target is None:
        raise CapabilityMissing(
            f"a {db.dialect} server is restored by its own tool; nothing was changed. Run: "
            f"{db.dialect.maintenance.restore_command(parse_url(ctx.url).url, file)}; "
            "docs/backup.md says what else a restore needs"
        )
    if not yes and sys.stdin.isatty() and target.exists():
        ctx.terminal.require_consent(
            f"Replace {target} by {file}? The old file stays beside it.", "restored"
        )
    with usage_errors(), ctx.terminal.progress("restoring") as progress:
        done = await restore_file(target, Path(file), progress=progress.update)
    if ctx.as_data:
        replaced = None if done.replaced is None else str(done.replaced)
        ctx.terminal.print_data(
            {"bytes": done.bytes, "revision": done.revision, "replaced": replaced}
        )
        return
    ctx.terminal.print(f"{format_size(done.bytes)} of {file}, checked, in {target}")
    if done.replaced is not None:
        ctx.terminal.print_note(f"the database that was there: {done.replaced}")
    if done.needs_upgrade:
        ctx.terminal.print_note(f"it is at revision {done.revision}: run `memalchemy upgrade`")
