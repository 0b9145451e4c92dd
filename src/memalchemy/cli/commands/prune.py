"""The command prune."""

from __future__ import annotations

from typing import Annotated

import typer

from memalchemy.cli.command import command
from memalchemy.cli.context import Context
from memalchemy.cli.deletion_progress import deletion_progress
from memalchemy.cli.formatting import count
from memalchemy.cli.namespaces import find_checkpointer
from memalchemy.cli.options import AllTenantsOption, DryRunOption, ThreadNamespaceOption
from memalchemy.cli.parsers import parse_duration, parse_namespace
from memalchemy.cli.usage_errors import UsageError, require_exactly_one, usage_errors


@command(
    "prune",
    example="memalchemy --db sqlite:///agent.db prune --all --keep-last 20 --older-than 30d",
)
async def prune(
    ctx: Context,
    thread: Annotated[
        str | None, typer.Argument(metavar="THREAD", help="Id of the thread, unless --all.")
    ] = None,
    keep_last: Annotated[
        int | None, typer.Option(min=1, metavar="N", help="Keep the N newest checkpoints.")
    ] = None,
    keep_every: Annotated[
        int | None, typer.Option(min=1, metavar="N", help="Keep every N-th saved checkpoint.")
    ] = None,
    older_than: Annotated[
        str | None,
        typer.Option(
            metavar="AGE", help="Keep checkpoints younger than AGE: 45s, 90m, 12h, 30d, 2w."
        ),
    ] = None,
    everything: Annotated[
        bool, typer.Option("--all", help="All threads, in all namespaces or the one given.")
    ] = False,
    namespace: ThreadNamespaceOption = None,
    all_tenants: AllTenantsOption = False,
    dry_run: DryRunOption = False,
) -> None:
    """Delete old checkpoints by rules.

    Deletes the checkpoints that none of the given rules keeps, and never the newest of a thread.
    Works in short transactions and skips threads that somebody is saving into. If it is
    interrupted, run it again.
    """
    from memalchemy import Checkpointer
    from memalchemy.protection.proven_jobs import Damage

    require_exactly_one("THREAD or --all", thread, everything)
    if keep_last is None and keep_every is None and older_than is None:
        raise UsageError("give at least one rule: --keep-last, --keep-every or --older-than")
    ctx.refuse_two_tenants(all_tenants=all_tenants)
    if thread is not None and all_tenants:
        raise UsageError("give THREAD or --all-tenants, not both: a thread belongs to one tenant")
    age = None if older_than is None else parse_duration(older_than)
    pruned, busy, damage = 0, 0, Damage()
    async with ctx.database(read_only=dry_run) as db:
        for each in await ctx.databases(db, "a prune", all_tenants=all_tenants):
            if thread is not None:
                checkpointer = await find_checkpointer(ctx, each, thread, namespace)
            else:
                parts = () if namespace is None else parse_namespace(namespace)
                checkpointer = Checkpointer(each, namespace=parts)
            with (
                damage.noted(),
                usage_errors(),
                deletion_progress(ctx, "pruning") as progress,
            ):
                await checkpointer.prune(
                    thread,
                    keep_last=keep_last,
                    keep_every=keep_every,
                    older_than=age,
                    all_namespaces=everything and namespace is None,
                    dry_run=dry_run,
                    progress=progress,
                )
            pruned += progress.removed
            busy += progress.busy
    damage.raise_if_any(f"{pruned:,} checkpoints were deleted")
    if ctx.as_data:
        ctx.terminal.print_data({"pruned": pruned, "dry_run": dry_run, "busy": busy})
    else:
        verb = "would be deleted" if dry_run else "deleted"
        ctx.terminal.print(f"{count(pruned, 'checkpoint')} {verb}")
