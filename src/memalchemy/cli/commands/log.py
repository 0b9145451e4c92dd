"""Commands of ``memalchemy log``, which list logs of entries such as conversations."""

from __future__ import annotations

from memalchemy.cli.checkpoint_references import find_thread
from memalchemy.cli.command import command
from memalchemy.cli.context import Context
from memalchemy.cli.formatting import count, format_time
from memalchemy.cli.options import LimitOption
from memalchemy.cli.parsers import format_namespace
from memalchemy.cli.tables import Column
from memalchemy.cli.thread_arguments import OptionalThreadArgument


@command("ls", example="memalchemy --db sqlite:///agent.db log ls")
async def list_logs(
    ctx: Context, thread: OptionalThreadArgument = None, limit: LimitOption = 100
) -> None:
    """List logs that have entries, most recently written first."""
    from memalchemy.log.listing import entry_logs

    async with ctx.database(read_only=True) as db:
        if thread is not None:
            thread = await find_thread(db, thread)
        logs = await entry_logs(db, thread, limit=limit)
    if ctx.as_data:
        ctx.terminal.print_data(
            [
                {
                    "thread_id": log.thread_id,
                    "namespace": list(log.namespace),
                    "entries": log.entries,
                    "updated_at": log.updated_at,
                }
                for log in logs
            ]
        )
        return
    ctx.terminal.print_table(
        (
            Column("thread", "id"),
            Column("namespace", "id"),
            Column("entries", "number", drop=1),
            Column("written (UTC)", "time", drop=2),
        ),
        (
            (
                log.thread_id,
                format_namespace(log.namespace),
                log.entries,
                format_time(log.updated_at),
            )
            for log in logs
        ),
    )
    ctx.terminal.print_note(count(len(logs), "log"))
    if len(logs) == limit:
        ctx.terminal.print_note(f"only the {count(limit, 'log')} written last; --limit shows more")


COMMANDS = (list_logs,)
