"""Commands of ``memalchemy log``, which read logs of entries such as conversations."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any

import typer

from memalchemy.cli.checkpoint_references import find_thread
from memalchemy.cli.command import command
from memalchemy.cli.context import Context
from memalchemy.cli.formatting import count, format_time
from memalchemy.cli.namespaces import find_log_namespace
from memalchemy.cli.options import (
    LimitOption,
    OptionalThreadArgument,
    ThreadArgument,
    ThreadNamespaceOption,
)
from memalchemy.cli.parsers import format_namespace
from memalchemy.cli.tables import Column, Excerpt

if TYPE_CHECKING:
    from memalchemy import Entry


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
        ctx.terminal.print_note(f"only the {limit} logs written last; --limit shows more")


@command("tail", example="memalchemy --db sqlite:///agent.db log tail support-42 --limit 20")
async def tail(
    ctx: Context,
    thread: ThreadArgument,
    namespace: ThreadNamespaceOption = None,
    limit: LimitOption = 20,
    before: Annotated[
        int | None, typer.Option(metavar="POSITION", help="Only entries before this position.")
    ] = None,
) -> None:
    """Print the newest entries of a log, in order.

    Prints a message as its role and its words. A thread with several logs needs --namespace.
    """
    from memalchemy import ThreadLog

    async with ctx.database(read_only=True) as db:
        thread = await find_thread(db, thread)
        found = await find_log_namespace(db, thread, namespace)
        entries = await ThreadLog(db, namespace=found).tail(thread, limit, before=before)
    if ctx.as_data:
        ctx.terminal.print_data([_to_document(entry) for entry in entries])
        return
    ctx.terminal.print_table(
        (
            Column("position", "number", drop=2),
            Column("happened (UTC)", "time", drop=1),
            Column("role", "id"),
            Column("text"),
        ),
        (
            (entry.position, format_time(entry.occurred_at), *_role_and_text(entry.value))
            for entry in entries
        ),
    )
    if len(entries) == limit:
        ctx.terminal.print_note(
            f"only the newest {limit}; --limit shows more, --before {entries[0].position} shows "
            "earlier ones"
        )


COMMANDS = (list_logs, tail)


def _to_document(entry: Entry) -> dict[str, Any]:
    return {
        "position": entry.position,
        "key": entry.key,
        "occurred_at": entry.occurred_at,
        "stored_at": entry.stored_at,
        "value": entry.value,
    }


def _role_and_text(value: Any) -> tuple[str, str | Excerpt]:
    """Split an entry that is a message into its role and its words; others have no role."""
    from memalchemy.messages import content_field, role_of, text_of

    role = role_of(value) if isinstance(value, dict) else ""
    if not role:
        return "", Excerpt(value)
    shown = ("role", content_field(value))
    rest = {name: part for name, part in value.items() if name not in shown}
    content = value.get("content")
    if isinstance(content, dict):  # of Gemini
        content = content.get("parts")
    return role, text_of(value) or Excerpt(content or rest)
