"""Commands that move memory: backup, copy."""

from __future__ import annotations

import os
import time
from dataclasses import asdict, replace
from typing import TYPE_CHECKING, Annotated

import typer

from memalchemy.cli.command import Invocation, asking_for_sense, command
from memalchemy.cli.exits import UsageProblem
from memalchemy.cli.terminal import counted, size

if TYPE_CHECKING:
    from memalchemy.transfer import CopyReport

TO_VARIABLE = "MEMALCHEMY_TO_URL"


def register(app: typer.Typer) -> None:
    """Add this file's commands to *app*."""
    db = "memalchemy --db sqlite:///agent.db"
    command(app, "backup", example=f"{db} backup agent-backup.db")(backup)
    command(app, "copy", example="memalchemy copy --from sqlite:///agent.db --to sqlite:///new.db")(
        copy
    )


async def backup(
    at: Invocation,
    file: Annotated[str, typer.Argument(metavar="FILE", help="The backup, a new SQLite file.")],
    force: Annotated[bool, typer.Option("--force", help="Replace FILE if it is there.")] = False,
) -> None:
    """Back a SQLite file up while others write to it.

    All tenants, as of one moment, checked and on disk when the command ends; FILE appears when it
    is complete. For PostgreSQL and Oracle the error is the command to run instead.
    """
    db = at.unopened()
    if db.dialect.single_writer:
        db = at.database(migrate="off")
    started = time.perf_counter()
    with at.terminal.progress() as bar:
        task = bar.add_task("backing up", total=None)
        try:
            written = await db.backup(
                file,
                force=force,
                progress=lambda done, pages: bar.update(task, completed=done, total=pages),
            )
        finally:
            await db.close()
    seconds = round(time.perf_counter() - started, 3)
    if at.as_json:
        at.terminal.document({"file": file, "bytes": written, "seconds": seconds})
    else:
        at.terminal.say(f"{size(written)} in {file}, checked, in {seconds:.1f} s")


async def copy(
    at: Invocation,
    from_: Annotated[
        str | None, typer.Option("--from", metavar="URL", help="The source. [default: --db]")
    ] = None,
    to: Annotated[
        str | None,
        typer.Option("--to", metavar="URL", help=f"The target. [default: ${TO_VARIABLE}]"),
    ] = None,
    from_schema: Annotated[
        str | None,
        typer.Option(metavar="NAME", help="The source's schema. [default: --schema]"),
    ] = None,
    to_schema: Annotated[str | None, typer.Option(metavar="NAME", help="The target's.")] = None,
    all_tenants: Annotated[
        bool, typer.Option("--all-tenants", help="Everybody's, not one tenant's.")
    ] = False,
    recheck: Annotated[
        bool, typer.Option("--recheck", help="Compare what an earlier copy has verified, too.")
    ] = False,
) -> None:
    """Copy memory to another database, of any kind.

    Every row is read back and compared. Interrupted or killed, it goes on when it is run again, and
    run again later it brings what came since. A target that holds something else under the same
    keys is refused (exit code 4) before anything is written.
    """
    from memalchemy.transfer import copy

    to = to or os.environ.get(TO_VARIABLE)
    if to is None:
        raise UsageProblem(f"no target was named; give --to URL or set {TO_VARIABLE}")
    if all_tenants and at.common.tenant is not None:
        raise UsageProblem("give --tenant or --all-tenants, not both")
    schema = from_schema or at.common.schema
    source = Invocation(replace(at.common, db=from_ or at.common.db, schema=schema))
    target = Invocation(replace(at.common, db=to, schema=to_schema))
    with at.terminal.progress() as bar:
        looking = bar.add_task("looking", total=None)
        copying = bar.add_task("copying", total=None)

        def show(report: CopyReport) -> None:
            total = report.logs + report.items
            bar.update(looking, completed=report.looked, total=total)
            bar.update(copying, completed=report.done, total=total)

        async with (
            source.database() as old,
            target.database(migrate="auto", create=True) as new,
        ):
            with asking_for_sense():
                report = await copy(
                    old, new, all_tenants=all_tenants, recheck=recheck, progress=show
                )
    if at.as_json:
        at.terminal.document(asdict(report))
        return
    at.terminal.say(
        f"{counted(report.logs, 'log')} and {counted(report.items, 'item')}: {report.new:,} new, "
        f"{report.updated:,} updated, {report.unchanged:,} unchanged"
    )
    at.terminal.say(
        f"{counted(report.rows, 'row')} ({size(report.bytes)}) written, read back and compared in "
        f"{report.seconds:.1f} s"
    )
