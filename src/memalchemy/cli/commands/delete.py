"""The command delete."""

from __future__ import annotations

import sys
from typing import Annotated

import typer

from memalchemy.cli.checkpoint_references import find_checkpoint
from memalchemy.cli.command import command
from memalchemy.cli.context import Context
from memalchemy.cli.namespaces import find_checkpointer, thread_not_found
from memalchemy.cli.options import OnlyNamespaceOption
from memalchemy.cli.parsers import parse_namespace
from memalchemy.cli.thread_arguments import ThreadArgument
from memalchemy.errors import NotFound


@command("delete", example="memalchemy --db sqlite:///agent.db delete airline-1 000007")
async def delete(
    ctx: Context,
    thread: ThreadArgument,
    checkpoint: Annotated[
        str | None,
        typer.Argument(metavar="CHECKPOINT", help="Only this checkpoint: an id, latest~2, @TIME."),
    ] = None,
    namespace: OnlyNamespaceOption = None,
    yes: Annotated[bool, typer.Option("--yes", help="Do not ask for confirmation.")] = False,
) -> None:
    """Delete a thread, or one checkpoint of it.

    Deletes checkpoints and entries in all namespaces, or only in --namespace. Checkpoints that
    build on a deleted one stay readable. On a terminal it asks first.
    """
    from memalchemy import Checkpointer

    async with ctx.database() as db:
        if checkpoint is not None:
            checkpointer = await find_checkpointer(ctx, db, thread, namespace)
            # The beginning of an id may be an id that is gone: repeated, the command would delete
            # another checkpoint.
            checkpoint = await find_checkpoint(checkpointer, thread, checkpoint, whole_ids=True)
        else:
            parts = () if namespace is None else parse_namespace(namespace)
            checkpointer = Checkpointer(db, namespace=parts)
        if not yes and sys.stdin.isatty():
            if checkpoint is not None:
                what = f"checkpoint {checkpoint!r} of thread {thread!r}"
            else:
                where = "all namespaces" if namespace is None else namespace
                what = f"thread {thread!r} in {where}"
            ctx.terminal.require_consent(f"Delete {what}? This cannot be undone.", "deleted")
        deleted = await checkpointer.delete(thread, checkpoint, all_namespaces=namespace is None)
    if not deleted and checkpoint is None:
        raise thread_not_found(thread, namespace)
    if not deleted:
        raise NotFound(
            f"there is no checkpoint {checkpoint!r} in thread {thread!r}; `memalchemy history` "
            "lists its checkpoints"
        )
    if ctx.as_data:
        ctx.terminal.print_data({"deleted": True, "thread_id": thread, "checkpoint_id": checkpoint})
    else:
        ctx.terminal.print(f"deleted {'' if checkpoint is None else f'{checkpoint} of '}{thread}")
