"""The namespace that a command finds a thread in: the one given, or the only one there is."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from memalchemy.cli.context import Context
from memalchemy.cli.parsers import format_namespace, parse_namespace
from memalchemy.cli.usage_errors import UsageError
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
    if namespace is None and not namespaces:
        raise await _checkpoints_missing(db, thread)
    return Checkpointer(
        db,
        namespace=_choose_namespace(
            ctx, thread, namespace, namespaces, "checkpoint", "checkpoints"
        ),
    )


async def find_log(
    ctx: Context, db: Database, thread: str, namespace: str | None
) -> tuple[tuple[str, ...], bool]:
    """Return the namespace in which *thread* holds something, and whether it has checkpoints there.

    If no *namespace* is given, it is the one of its checkpoints, or else of its entries, that all
    others lie below.

    Raises:
        NotFound: the thread holds nothing in the given namespace, or in any.
        UsageError: it has several namespaces, and none of them is above all others.
    """
    from memalchemy.log.listing import checkpoint_namespaces, entry_namespaces

    checkpoints = await checkpoint_namespaces(db, thread)
    entries = [one for one in await entry_namespaces(db, thread) if one not in checkpoints]
    if not checkpoints and not entries:
        raise thread_not_found(thread)
    if namespace is not None:
        found = _choose_namespace(
            ctx, thread, namespace, [*checkpoints, *entries], "step or entry", ""
        )
    elif checkpoints:
        found = _choose_namespace(
            ctx, thread, None, checkpoints, "checkpoint", "checkpoints", entries
        )
    else:
        found = _choose_namespace(ctx, thread, None, entries, "entry", "entries")
    return found, found in checkpoints


def _choose_namespace(
    ctx: Context,
    thread: str,
    given: str | None,
    namespaces: Sequence[tuple[str, ...]],
    what: str,
    plural: str,
    more: Sequence[tuple[str, ...]] = (),
) -> tuple[str, ...]:
    """Return the namespace that is given, or the one that all others lie below.

    A note names the others, and *more*.
    """
    if given is not None:
        wanted = parse_namespace(given)
        if wanted not in namespaces:
            hint = f"; it has some in {_join_namespaces(namespaces)}" if namespaces else ""
            raise NotFound(f"thread {thread!r} has no {what} in namespace {given!r}{hint}")
        return wanted
    top, *others = namespaces  # sorted by path, so a namespace comes before those below it
    if any(other[: len(top)] != top for other in others):
        raise UsageError(
            f"thread {thread!r} has {plural} in several namespaces: give --namespace, one of "
            f"{_join_namespaces(namespaces)}"
        )
    if others or more:
        ctx.terminal.print_note(
            f"in namespace {format_namespace(top)}; use --namespace for "
            f"{_join_namespaces([*others, *more])}"
        )
    return top


async def _checkpoints_missing(db: Database, thread: str) -> NotFound:
    from memalchemy.log.listing import entry_namespaces

    if await entry_namespaces(db, thread):
        return NotFound(
            f"thread {thread!r} has entries but no checkpoint; `memalchemy show` prints entries"
        )
    return thread_not_found(thread)


def thread_not_found(thread: str, namespace: str | None = None) -> NotFound:
    """Return the error for a thread that does not exist, or not in *namespace*."""
    place = "" if namespace is None else f" in namespace {namespace!r}"
    return NotFound(f"there is no thread {thread!r}{place}; `memalchemy threads` lists threads")


def _join_namespaces(namespaces: Sequence[tuple[str, ...]]) -> str:
    listed = ", ".join(format_namespace(namespace) for namespace in namespaces[:LISTED])
    more = len(namespaces) - LISTED
    return f"{listed} and {more:,} more" if more > 0 else listed
