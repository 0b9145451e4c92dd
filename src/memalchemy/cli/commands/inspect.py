"""Commands that inspect threads: threads, history, diff."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from datetime import datetime
from fnmatch import fnmatchcase
from itertools import pairwise
from typing import TYPE_CHECKING, Annotated, Any

import typer

from memalchemy.cli.checkpoint_references import (
    LATEST,
    find_checkpoint,
    find_thread,
    is_ancestor,
)
from memalchemy.cli.command import command
from memalchemy.cli.commands.rows import report_unreadable
from memalchemy.cli.context import Context
from memalchemy.cli.formatting import count, format_size, format_time
from memalchemy.cli.namespaces import find_checkpointer
from memalchemy.cli.options import (
    CHECKPOINT_FORMS,
    LimitOption,
    OnlyNamespaceOption,
    PrefixOption,
    ThreadNamespaceOption,
)
from memalchemy.cli.parsers import format_namespace, parse_namespace
from memalchemy.cli.tables import Column, Excerpt
from memalchemy.cli.thread_arguments import ThreadArgument
from memalchemy.errors import NotFound

if TYPE_CHECKING:
    from memalchemy import Checkpointer, CheckpointInfo, Database, Diff

_WAITING = (
    *("thread_id", "namespace", "title", "agent", "user", "asked", "happened_at"),
    *("messages", "errors", "input_tokens", "output_tokens", "cost_usd"),
)
"""The fields of a waiting thread in the output for programs."""


@command("threads", example="memalchemy --db sqlite:///agent.db threads --pattern 'airline-*'")
async def threads(
    ctx: Context,
    pattern: Annotated[
        str, typer.Option(metavar="GLOB", help="Glob over the whole id: *, ?, [a-z].")
    ] = "*",
    namespace: OnlyNamespaceOption = None,
    prefix: PrefixOption = False,
    waiting: Annotated[
        bool,
        typer.Option("--waiting", help="Only those that wait for an answer, with what is asked."),
    ] = False,
    limit: LimitOption = 100,
) -> int | None:
    """List threads, most recently written first.

    A thread is listed once for each of its namespaces. --waiting reads the newest state of every
    thread, and names unreadable ones on stderr, with exit code 5.
    """
    from memalchemy import Checkpointer

    parts = () if namespace is None else parse_namespace(namespace)
    if waiting:
        below = prefix or namespace is None
        return await _list_waiting(ctx, pattern, parts, below=below, limit=limit)
    async with ctx.database(read_only=True) as db:
        logs = await Checkpointer(db, namespace=parts).list_logs(
            limit=limit, pattern=pattern, below=prefix or namespace is None
        )
    if ctx.as_data:
        ctx.terminal.print_data(
            [
                {
                    "thread_id": log.thread_id,
                    "namespace": list(log.namespace),
                    "checkpoints": log.checkpoints,
                    "entries": log.entries,
                    "newest": log.newest_id,
                    "saved_at": log.updated_at,
                    "raw_bytes": log.raw_size,
                    "stored_bytes": log.stored_size,
                }
                for log in logs
            ]
        )
        return None
    ctx.terminal.print_table(
        (
            Column("thread", "id"),
            Column("namespace", "id"),
            Column("checkpoints", "number", drop=3),
            Column("entries", "number", drop=2),
            Column("stored", "number", drop=1),
            Column("written (UTC)", "time", drop=4),
        ),
        (
            (
                log.thread_id,
                format_namespace(log.namespace),
                log.checkpoints or "",
                log.entries or "",
                format_size(log.stored_size),
                format_time(log.updated_at),
            )
            for log in logs
        ),
    )
    ids = {log.thread_id for log in logs}
    note = count(len(ids), "thread")
    if len(logs) > len(ids):
        note += f", {count(len(logs), 'log')}"  # a thread has one in each namespace
    ctx.terminal.print_note(note)
    if not logs and pattern == "*" and namespace is None:
        what = f"tenant {ctx.tenant!r} has no threads; `memalchemy tenants list` names the others"
        ctx.terminal.print_note(what)
    if len(logs) == limit:
        ctx.terminal.print_note(f"only the {count(limit, 'log')} written last; --limit shows more")
    return None


async def _list_waiting(
    ctx: Context, pattern: str, namespace: tuple[str, ...], *, below: bool, limit: int
) -> int | None:
    def is_wanted(thread: Mapping[str, Any]) -> bool:
        place = tuple(thread["namespace"])
        is_there = place == namespace or (below and place[: len(namespace)] == namespace)
        return is_there and fnmatchcase(thread["thread_id"], pattern)

    async with ctx.database(read_only=True) as db:
        found, unread = await _find_waiting(db, is_wanted, limit + 1)
    shown = found[:limit]
    if ctx.as_data:
        ctx.terminal.print_data([{name: one[name] for name in _WAITING} for one in shown])
    else:
        ctx.terminal.print_table(
            (
                Column("thread", "id"),
                Column("namespace", "id", drop=2),
                Column("user", drop=1),
                Column("asked"),
                Column("happened (UTC)", "time", drop=3),
            ),
            (
                (
                    one["thread_id"],
                    format_namespace(one["namespace"]),
                    one["user"] or "",
                    Excerpt(one["asked"]),
                    format_time(datetime.fromisoformat(one["happened_at"])),
                )
                for one in shown
            ),
        )
        ctx.terminal.print_note(f"{count(len(shown), 'thread')} waiting for an answer")
    if len(found) > limit:
        ctx.terminal.print_note(f"only the first {limit}; --limit shows more")
    return report_unreadable(
        ctx,
        [
            f"thread {one['thread_id']!r} in namespace {format_namespace(one['namespace'])} "
            f"cannot be read ({one['problem']})"
            for one in unread
        ],
    )


async def _find_waiting(
    db: Database, is_wanted: Callable[[Mapping[str, Any]], bool], limit: int
) -> tuple[list[dict[str, Any]], list[dict[str, Any]]]:
    """Return the first *limit* threads that wait, and those before them that cannot be read."""
    from memalchemy.inspection import Inspector

    waiting: list[dict[str, Any]] = []
    unread: list[dict[str, Any]] = []
    inspector = Inspector(db)
    page = await inspector.threads(waiting=True)
    while True:
        for thread in filter(is_wanted, page["threads"]):
            (waiting if thread["waiting"] else unread).append(thread)
        if page["next"] is None or len(waiting) >= limit:
            return waiting[:limit], unread
        page = await inspector.threads(waiting=True, cursor=page["next"])


@command("history", example="memalchemy --db sqlite:///agent.db history airline-1 --limit 50")
async def history(
    ctx: Context,
    thread: ThreadArgument,
    namespace: ThreadNamespaceOption = None,
    limit: LimitOption = 20,
) -> None:
    """List the checkpoints of a thread, newest first.

    "branch of" names the parent of a checkpoint that does not continue the one before it. "waits"
    marks one with an unanswered interrupt of LangGraph.
    """
    from memalchemy.inspection.writes import find_waiting

    async with ctx.database(read_only=True) as db:
        thread = await find_thread(db, thread)
        checkpointer = await find_checkpointer(ctx, db, thread, namespace)
        infos = [info async for info in checkpointer.history(thread, limit=limit + 1)]
        branches = await _find_branches(checkpointer, infos)
        waiting = await find_waiting(db, infos)
    shown = infos[:limit]
    if ctx.as_data:
        ctx.terminal.print_data(
            [
                info.as_dict()
                | {
                    "branch": info.checkpoint_id in branches,
                    "waiting": info.checkpoint_id in waiting,
                    "namespace": checkpointer.namespace,
                }
                for info in shown
            ]
        )
        return
    ctx.terminal.print_table(
        (
            Column("checkpoint", "id"),
            Column("branch of", "id", drop=4),
            *([Column("waits")] if waiting else []),
            Column("happened (UTC)", "time", drop=5),
            Column("full size", "number", drop=1),
            Column("stored", "number", drop=2),
            Column("metadata", drop=3),
        ),
        (
            (
                info.checkpoint_id,
                info.parent_id if info.checkpoint_id in branches else "",
                *(["yes" if info.checkpoint_id in waiting else ""] if waiting else []),
                format_time(info.occurred_at),
                format_size(info.raw_size),
                format_size(info.stored_size),
                Excerpt(info.metadata) if info.metadata else "",
            )
            for info in shown
        ),
    )
    if len(infos) > limit:
        ctx.terminal.print_note(f"only the newest {limit}; --limit shows more")


async def _find_branches(checkpointer: Checkpointer, infos: list[CheckpointInfo]) -> set[str]:
    """Return the ids of checkpoints whose parent exists and is not the checkpoint before them."""
    branches = set()
    for info, before in pairwise(infos):
        parent = info.parent_id
        if parent in (None, before.checkpoint_id):
            continue
        # A checkpoint whose parent is gone follows a gap that pruning left; it is no branch.
        if await checkpointer.exists(info.thread_id, parent):
            branches.add(info.checkpoint_id)
    return branches


@command("diff", example="memalchemy --db sqlite:///agent.db diff airline-1 000003 000007")
async def diff(
    ctx: Context,
    thread: ThreadArgument,
    a: Annotated[
        str | None,
        typer.Argument(
            metavar="A",
            help=f"Compare from: {CHECKPOINT_FORMS}. [default: the parent of B]",
        ),
    ] = None,
    b: Annotated[
        str | None,
        typer.Argument(metavar="B", help="Compare to. [default: the newest]"),
    ] = None,
    namespace: ThreadNamespaceOption = None,
    raw: Annotated[
        bool, typer.Option("--raw", help="Also list the bookkeeping of a framework.")
    ] = False,
) -> None:
    """Compare two checkpoints of a thread.

    Lists what changed by JSON pointer: - removed, ~ changed, + added. If the parent of B has been
    deleted, B is compared with the checkpoint before it.
    """
    from memalchemy.adapters import ADAPTERS
    from memalchemy.inspection.diff import without_bookkeeping

    async with ctx.database(read_only=True) as db:
        thread = await find_thread(db, thread)
        checkpointer = await find_checkpointer(ctx, db, thread, namespace)
        if a is None:
            a, b = await _find_last_two(checkpointer, thread)
        else:
            a = await find_checkpoint(checkpointer, thread, a)
            b = await find_checkpoint(checkpointer, thread, b or LATEST)
        found, hidden = await checkpointer.diff(thread, a, b), 0
        follows = await is_ancestor(checkpointer, thread, a, b)
    if not raw:
        found, hidden = without_bookkeeping(found, checkpointer.namespace)
    if ctx.as_data:
        changed = {path: {"a": old, "b": new} for path, (old, new) in found.changed.items()}
        ctx.terminal.print_data(
            {
                "a": a,
                "b": b,
                "added": found.added,
                "removed": found.removed,
                "changed": changed,
                "hidden": hidden,
            }
        )
        return
    if found:
        ctx.terminal.print_table(DIFF_COLUMNS, diff_rows(found))
    else:
        ctx.terminal.print("no difference")
    ctx.terminal.print_note(
        f"from {a} to {b}" + (", which does not continue it: a branch" if follows is False else "")
    )
    if hidden:
        what = count(hidden, "difference")
        declared = ADAPTERS.of(checkpointer.namespace)
        framework = "the framework" if declared is None else declared.title
        ctx.terminal.print_note(f"{what} in {framework}'s bookkeeping left out; --raw lists all")


async def _find_last_two(checkpointer: Checkpointer, thread: str) -> tuple[str, str]:
    """Return the newest checkpoint and before it its parent, or else the one saved before it."""
    newest = [info async for info in checkpointer.history(thread, limit=2)]
    if len(newest) < 2:
        raise NotFound(f"thread {thread!r} has no two checkpoints to compare")
    last, before = newest
    if last.parent_id is not None and await checkpointer.exists(thread, last.parent_id):
        return last.parent_id, last.checkpoint_id
    return before.checkpoint_id, last.checkpoint_id


DIFF_COLUMNS = (Column("", "id"), Column("path"), Column("value"))


def diff_rows(diff: Diff) -> Iterable[tuple[str, str, Excerpt]]:
    """Yield the rows of a table that shows *diff*."""
    for path, value in diff.removed.items():
        yield "-", path, Excerpt(value)
    for path, (old, new) in diff.changed.items():
        yield "~", path, Excerpt(old, new)
    for path, value in diff.added.items():
        yield "+", path, Excerpt(value)
