"""The command forget."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any

import typer

from memalchemy.cli.command import command
from memalchemy.cli.context import Context
from memalchemy.cli.exit_codes import REFUSED
from memalchemy.cli.options import MetadataOption, ThreadOption
from memalchemy.cli.parsers import parse_metadata
from memalchemy.cli.usage import require_exactly_one
from memalchemy.errors import NotFound

if TYPE_CHECKING:
    from memalchemy import Checkpointer


@command(
    "forget",
    example="memalchemy --db sqlite:///agent.db forget --metadata customer=42",
    own_tenant=True,
)
async def forget(
    ctx: Context,
    thread: ThreadOption = None,
    metadata: MetadataOption = None,
    tenant: Annotated[
        str | None,
        typer.Option("--tenant", metavar="TENANT", help="Everything of a tenant, items too."),
    ] = None,
    yes: Annotated[bool, typer.Option("--yes", help="Do not ask for confirmation.")] = False,
) -> int | None:
    """Erase a thread, or a tenant, without a trace.

    Erases one thread, or the threads and items of the store with some metadata, or everything of a
    tenant, in all namespaces. Says how much it is and asks first.

    To erase a thread of a tenant other than the default one, name the tenant before the command:
    memalchemy --tenant acme forget --thread t
    """
    from memalchemy import Checkpointer

    require_exactly_one(
        "--thread, --metadata or --tenant (the tenant of a thread goes before forget)",
        thread,
        metadata,
        tenant,
    )
    selection: dict[str, Any] = {
        "tenant": tenant,
        "thread_id": thread,
        "metadata": parse_metadata(metadata),
    }
    if tenant is not None:
        target = f"tenant {tenant!r}, in all its threads"
    elif thread is not None:
        target = f"thread {thread!r} of tenant {ctx.tenant!r}"
    else:
        target = f"every thread with metadata {selection['metadata']} of tenant {ctx.tenant!r}"
    async with ctx.database() as db:
        checkpointer = Checkpointer(db if tenant is None else db.for_tenant(tenant))
        if not yes:
            amount = await _count(checkpointer, selection)
            if amount and not ctx.terminal.confirm(
                f"Erase {amount:,} checkpoints, entries and items of {target}? "
                "This cannot be undone."
            ):
                ctx.terminal.print_note("nothing was erased")
                return REFUSED
        erased = await checkpointer.forget(**selection)
    if not erased:
        raise NotFound(f"there is nothing to erase of {target}")
    if ctx.as_data:
        ctx.terminal.print_data({"erased": erased})
    else:
        ctx.terminal.print(f"{erased:,} checkpoints, entries and items erased")
    return None


async def _count(checkpointer: Checkpointer, selection: dict[str, Any]) -> int:
    """Count what would be erased: erase it in a transaction, and roll that back."""
    amount = 0
    try:
        async with checkpointer.db.transaction() as connection:
            amount = await checkpointer.forget(**selection, connection=connection)
            raise _RollBack
    except _RollBack:
        return amount


class _RollBack(Exception):
    """Ends a transaction so that it is rolled back."""
