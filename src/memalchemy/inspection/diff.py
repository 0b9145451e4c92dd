"""Differences between two states."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Sequence
from typing import Any

from memalchemy.adapters import ADAPTERS
from memalchemy.checkpoints.diff import diff
from memalchemy.contracts import Diff
from memalchemy.inspection._log_heads import log_of
from memalchemy.inspection._records import Record
from memalchemy.inspection.states import States
from memalchemy.inspection.tree import tree
from memalchemy.keys import decode_namespace

CHANGES = 500
"""Differences of two states that are returned."""


async def read_diff(
    states: States,
    thread_id: str,
    namespace: Iterable[str] = (),
    *,
    a: str,
    b: str,
    raw: bool = False,
) -> Record:
    """Return what changed from the state of checkpoint *a* to that of *b*.

    Bookkeeping is left out, as `without_bookkeeping` does, and counted as ``hidden``, unless *raw*.
    """
    log = log_of(states.db, thread_id, namespace)
    before, after = [
        (await states.load(log, await states.require_checkpoint(log, checkpoint_id))).state
        for checkpoint_id in (a, b)
    ]
    place = decode_namespace(log.namespace)
    changes, hidden = await asyncio.to_thread(_compare_values, before, after, place, raw)
    return {
        "a": a,
        "b": b,
        "changes": changes[:CHANGES],
        "total": len(changes),
        "truncated": len(changes) > CHANGES,
        "hidden": hidden,
    }


def without_bookkeeping(found: Diff, namespace: Sequence[str]) -> tuple[Diff, int]:
    """Return a difference without what the framework keeps for itself, and how much that was.

    The adapter of the namespace declares it: of a state of LangGraph it is the rest of its
    checkpoint, such as versions, and the channels that name the node to run next.
    """
    declared = ADAPTERS.of(namespace)
    own = () if declared is None else declared.view.bookkeeping
    if not own:
        return found, 0
    shown = Diff(
        *(
            {p: v for p, v in some.items() if not _first_key(p).startswith(own)}
            for some in _maps_of_changes(found)
        )
    )
    return shown, sum(map(len, _maps_of_changes(found))) - sum(map(len, _maps_of_changes(shown)))


def _maps_of_changes(found: Diff) -> tuple[dict[str, Any], dict[str, Any], dict[str, Any]]:
    return found.added, found.removed, found.changed


def _first_key(path: str) -> str:
    """Return the key of the state that a JSON pointer begins with."""
    first = path.split("/", 2)[1] if path else ""
    return first.replace("~1", "/").replace("~0", "~")


_SIDES = {"removed": ("a",), "added": ("b",), "changed": ("a", "b")}
"""The sides of a change that have a value."""


def _compare_values(
    a: Any, b: Any, namespace: Sequence[str], raw: bool
) -> tuple[list[Record], int]:
    """Return the changes from *a* to *b*, and how many are hidden: a framework's bookkeeping.

    Of the first `CHANGES` the values are trees; a side that has none is ``None``.
    """
    found, hidden = diff(a, b), 0
    if not raw:
        found, hidden = without_bookkeeping(found, namespace)
    changes: list[Record] = []
    for path, value in found.removed.items():
        changes.append({"op": "removed", "path": path, "a": value, "b": None})
    for path, (old, new) in found.changed.items():
        changes.append({"op": "changed", "path": path, "a": old, "b": new})
    for path, value in found.added.items():
        changes.append({"op": "added", "path": path, "a": None, "b": value})
    for change in changes[:CHANGES]:
        for side in _SIDES[change["op"]]:
            change[side] = tree(change[side], depth=2)
    return changes, hidden
