"""The namespace that a command finds a thread in: the one given, or the only one there is."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from memalchemy.cli.context import Context
from memalchemy.cli.parsers import format_namespace, parse_namespace
from memalchemy.cli.usage import UsageError
from memalchemy.errors import NotFound

if TYPE_CHECKING:
    from memalchemy import Checkpointer, Database

LISTED = 5
"""Namespaces that a message lists."""


async def find_checkpointer(
    ctx: Context, db: Database, thread: str, namespace: str | None
) -> Checkpointer:
    """Return a checkpointer for the namespace in which *thread* has checkpoints.

    If no *namespace* is given and there are several, it is the one that all others lie below.

    Raises:
        NotFound: the thread has no checkpoints in the given namespace, or in any.
        UsageError: it has some in several namespaces, and none of them is above all others.
    """
    from memalchemy import Checkpointer
    from memalchemy.log.listing import checkpoint_namespaces

    namespaces = await checkpoint_namespaces(db, thread)
    if namespace is not None:
        wanted = parse_namespace(namespace)
        if wanted not in namespaces:
            hint = f"; it has some in {_list(namespaces)}" if namespaces else ""
            raise NotFound(f"thread {thread!r} has no checkpoint in namespace {namespace!r}{hint}")
        return Checkpointer(db, namespace=wanted)
    if not namespaces:
        raise await _no_checkpoints(db, thread)
    top, *others = namespaces  # sorted by path, so a namespace comes before those below it
    if any(other[: len(top)] != top for other in others):
        raise UsageError(
            f"thread {thread!r} has checkpoints in several namespaces: give --namespace, one of "
            f"{_list(namespaces)}"
        )
    if others:
        ctx.terminal.print_note(
            f"in namespace {format_namespace(top)}; use --namespace for {_list(others)}"
        )
    return Checkpointer(db, namespace=top)


async def find_log_namespace(db: Database, thread: str, namespace: str | None) -> tuple[str, ...]:
    """Return the namespace in which *thread* has entries.

    Raises:
        NotFound: the thread has no entries in the given namespace, or in any.
        UsageError: no *namespace* is given, and it has entries in several.
    """
    from memalchemy.log.listing import entry_namespaces

    namespaces = await entry_namespaces(db, thread)
    if namespace is not None:
        wanted = parse_namespace(namespace)
        if wanted not in namespaces:
            hint = f"; it has some in {_list(namespaces)}" if namespaces else ""
            raise NotFound(f"thread {thread!r} has no entries in namespace {namespace!r}{hint}")
        return wanted
    if not namespaces:
        raise NotFound(f"thread {thread!r} has no entries; `memalchemy log ls` lists the logs")
    if len(namespaces) > 1:
        raise UsageError(
            f"thread {thread!r} has several logs: give --namespace, one of {_list(namespaces)}"
        )
    return namespaces[0]


async def _no_checkpoints(db: Database, thread: str) -> NotFound:
    from memalchemy.log.listing import entry_namespaces

    if await entry_namespaces(db, thread):
        return NotFound(
            f"thread {thread!r} has entries but no checkpoint; `memalchemy log tail` shows entries"
        )
    return thread_not_found(thread)


def thread_not_found(thread: str, namespace: str | None = None) -> NotFound:
    """Return the error for a thread that does not exist, or not in *namespace*."""
    place = "" if namespace is None else f" in namespace {namespace!r}"
    return NotFound(f"there is no thread {thread!r}{place}; `memalchemy threads` lists threads")


def _list(namespaces: Sequence[tuple[str, ...]]) -> str:
    listed = ", ".join(format_namespace(namespace) for namespace in namespaces[:LISTED])
    more = len(namespaces) - LISTED
    return f"{listed} and {more:,} more" if more > 0 else listed
