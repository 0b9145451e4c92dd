"""The command fork."""

from __future__ import annotations

from typing import Annotated

import typer

from memalchemy.cli.command import command
from memalchemy.cli.context import Context
from memalchemy.cli.namespaces import find_checkpointer
from memalchemy.cli.options import ThreadArgument, ThreadNamespaceOption
from memalchemy.cli.usage import usage_errors


@command("fork", example="memalchemy --db sqlite:///agent.db fork airline-1 000007 --to what-if")
async def fork(
    ctx: Context,
    thread: ThreadArgument,
    checkpoint: Annotated[
        str | None,
        typer.Argument(metavar="CHECKPOINT", help="Last checkpoint to copy, not the newest."),
    ] = None,
    to: Annotated[str | None, typer.Option(metavar="THREAD", help="Id of the new thread.")] = None,
    namespace: ThreadNamespaceOption = None,
) -> None:
    """Copy a thread into a new one.

    Copies the thread up to CHECKPOINT, or all of it, within its namespace, and prints the id of the
    new thread.
    """
    async with ctx.database() as db:
        checkpointer = await find_checkpointer(ctx, db, thread, namespace)
        with usage_errors():
            new = await checkpointer.fork(thread, checkpoint, new_thread_id=to)
    if ctx.as_json:
        ctx.terminal.print_json({"thread_id": new, "from_thread_id": thread})
    else:
        ctx.terminal.print(new)
