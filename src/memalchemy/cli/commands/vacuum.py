"""The command vacuum."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer

from memalchemy.cli.command import command
from memalchemy.cli.context import Context
from memalchemy.cli.deletion_progress import deletion_progress
from memalchemy.cli.formatting import count, format_size
from memalchemy.cli.options import AllTenantsOption, DryRunOption
from memalchemy.cli.usage_errors import usage_errors

if TYPE_CHECKING:
    from memalchemy.space import Reclaimed


@command("vacuum", example="memalchemy --db sqlite:///agent.db vacuum --older-than-days 90")
async def vacuum(
    ctx: Context,
    older_than_days: Annotated[
        float | None,
        typer.Option(min=0, metavar="DAYS", help="Also delete threads idle for so many days."),
    ] = None,
    full: Annotated[
        bool, typer.Option("--full", help="Rewrite the tables: frees most, locks them meanwhile.")
    ] = False,
    all_tenants: AllTenantsOption = False,
    dry_run: DryRunOption = False,
) -> None:
    """Remove expired threads, and give free space back.

    Removes the tenant's expired threads and traces of deleted ones, or with --all-tenants those of
    every tenant; with --older-than-days also threads that nobody has saved to for so long, which
    deletes data. Then gives free space of the whole database back to the file system, as far as the
    database and the role allow, and prints the commands for the rest.
    """
    from memalchemy import Checkpointer, space
    from memalchemy.protection.proven_jobs import Damage

    ctx.refuse_two_tenants(all_tenants=all_tenants)
    if not dry_run:
        ctx.refuse_pgbouncer("VACUUM")
    reclaimed: Reclaimed | None = None
    removed, busy, damage = 0, 0, Damage()
    async with ctx.database(read_only=dry_run) as db:
        for each in await ctx.databases(db, "a vacuum", all_tenants=all_tenants):
            with (
                damage.noted(),
                usage_errors(),
                deletion_progress(ctx, "removing") as progress,
            ):
                await Checkpointer(each).vacuum(
                    older_than_days, all_namespaces=True, dry_run=dry_run, progress=progress
                )
            removed += progress.removed
            busy += progress.busy
        if not dry_run:
            with ctx.terminal.progress("giving space back") as display:
                reclaimed = await space.reclaim(
                    db, full=full, progress=lambda state: display.update(state.done, state.total)
                )
    damage.raise_if_any(f"{removed:,} checkpoints and entries were removed, and space given back")
    if ctx.as_data:
        ctx.terminal.print_data(
            {
                "removed": removed,
                "dry_run": dry_run,
                "busy": busy,
                "before_bytes": reclaimed and reclaimed.before,
                "after_bytes": reclaimed and reclaimed.after,
                "advice": [
                    {
                        "reason": advice.reason,
                        "commands": list(advice.commands),
                        "table": advice.table,
                        "dead_rows": advice.dead,
                    }
                    for advice in (reclaimed.advice if reclaimed else ())
                ],
            }
        )
        return
    verb = "would be removed" if dry_run else "removed"
    counted = count(removed, "checkpoint or entry", "checkpoints and entries")
    ctx.terminal.print(f"{counted} {verb}")
    if reclaimed is not None:
        _print_reclaimed(ctx, reclaimed)


def _print_reclaimed(ctx: Context, reclaimed: Reclaimed) -> None:
    before, after = reclaimed.before, reclaimed.after
    if before is not None and after is not None:
        change = f"{format_size(before - after)} given back"
        if after > before:
            change = f"{format_size(after - before)} more, written by others or by the vacuum"
        ctx.terminal.print(f"{format_size(before)} before, {format_size(after)} after: {change}")
    for advice in reclaimed.advice:
        ctx.terminal.print(f"\n{advice.reason}")
        for statement in advice.commands:
            ctx.terminal.print(f"  {statement}")
