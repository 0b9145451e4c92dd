"""Commands of ``memalchemy log``, which read logs of entries such as conversations."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from memalchemy.cli.checkpoint_references import find_thread
from memalchemy.cli.command import command
from memalchemy.cli.context import Context
from memalchemy.cli.formatting import count, format_time, highlight
from memalchemy.cli.options import (
    LimitOption,
    OnlyNamespaceOption,
    OptionalThreadArgument,
    QueryArgument,
    ThreadOption,
)
from memalchemy.cli.parsers import format_namespace, parse_namespace
from memalchemy.cli.tables import Column
from memalchemy.cli.usage import usage_errors

if TYPE_CHECKING:
    from memalchemy import Entry
    from memalchemy.contracts import EntryHit


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


@command("search", example="memalchemy --db sqlite:///agent.db log search 'gift card'")
async def search(
    ctx: Context,
    query: QueryArgument,
    namespace: OnlyNamespaceOption = None,
    thread: ThreadOption = None,
    limit: LimitOption = 10,
) -> None:
    """Search entries for words, best match first.

    Searches all logs unless --namespace or --thread is given. How rare a word is, and so its score,
    is counted in each namespace separately.
    """
    from memalchemy import ThreadLog
    from memalchemy.log.listing import entry_namespaces

    only = None if namespace is None else [parse_namespace(namespace)]
    hits: list[tuple[tuple[str, ...], EntryHit]] = []
    async with ctx.database(read_only=True) as db:
        if thread is not None:
            thread = await find_thread(db, thread)
        with usage_errors():
            for parts in only or await entry_namespaces(db, thread):
                log = ThreadLog(db, namespace=parts)
                hits += [(parts, hit) for hit in await log.search(query, limit, thread_id=thread)]
    hits.sort(key=lambda hit: (hit[1].score, hit[1].stored_at, hit[1].position), reverse=True)
    del hits[limit:]
    if ctx.as_data:
        ctx.terminal.print_data(
            [
                _to_document(hit)
                | {"thread_id": hit.thread_id, "namespace": list(parts)}
                | {"score": hit.score, "snippet": hit.snippet}
                for parts, hit in hits
            ]
        )
        return
    ctx.terminal.print_table(
        (
            Column("thread", "id"),
            Column("namespace", "id", drop=2),
            Column("position", "number", drop=3),
            Column("score", "number", drop=1),
            Column("text"),
        ),
        (
            (
                hit.thread_id,
                format_namespace(parts),
                hit.position,
                f"{hit.score:.2f}",
                highlight(hit.snippet, query),
            )
            for parts, hit in hits
        ),
    )
    ctx.terminal.print_note(count(len(hits), "entry", "entries"))


COMMANDS = (list_logs, search)


def _to_document(entry: Entry) -> dict[str, Any]:
    return {
        "position": entry.position,
        "key": entry.key,
        "occurred_at": entry.occurred_at,
        "stored_at": entry.stored_at,
        "value": entry.value,
    }
