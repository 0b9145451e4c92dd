"""The command fork."""

from __future__ import annotations

from typing import Annotated

import typer

from memalchemy.cli.checkpoint_references import find_checkpoint, find_thread
from memalchemy.cli.command import command
from memalchemy.cli.context import Context
from memalchemy.cli.namespaces import find_checkpointer
from memalchemy.cli.options import CHECKPOINT_FORMS, ThreadNamespaceOption
from memalchemy.cli.thread_arguments import ThreadArgument
from memalchemy.cli.usage_errors import usage_errors


@command("fork", example="memalchemy --db sqlite:///agent.db fork airline-1 000007 --to what-if")
async def fork(
    ctx: Context,
    thread: ThreadArgument,
    checkpoint: Annotated[
        str | None,
        typer.Argument(metavar="CHECKPOINT", help=f"Last checkpoint to copy: {CHECKPOINT_FORMS}."),
    ] = None,
    to: Annotated[str | None, typer.Option(metavar="THREAD", help="Id of the new thread.")] = None,
    namespace: ThreadNamespaceOption = None,
) -> None:
    """Copy a thread into a new one.

    Copies the thread of one namespace, up to CHECKPOINT if given, with the logs of a graph's
    subgraphs, and prints the new id.
    """
    async with ctx.database() as db:
        thread = await find_thread(db, thread)
        checkpointer = await find_checkpointer(ctx, db, thread, namespace)
        if checkpoint is not None:
            checkpoint = await find_checkpoint(checkpointer, thread, checkpoint)
        with usage_errors():
            new = await checkpointer.fork(thread, checkpoint, new_thread_id=to)
    if ctx.as_data:
        ctx.terminal.print_data({"thread_id": new, "from_thread_id": thread})
    else:
        ctx.terminal.print(new)
