"""What changed from one state to another."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable
from typing import Any

from memalchemy.checkpoints.diff import diff
from memalchemy.inspection._logs import log_of
from memalchemy.inspection._records import Record
from memalchemy.inspection.states import States
from memalchemy.inspection.tree import tree

CHANGES = 500
"""Differences of two states that are returned."""


async def read_diff(
    states: States, thread_id: str, namespace: Iterable[str] = (), *, a: str, b: str
) -> Record:
    """Return what changed from the state of checkpoint *a* to that of *b*."""
    log = log_of(states.db, thread_id, namespace)
    values = []
    for checkpoint_id in (a, b):
        info = await states.require_checkpoint(log, checkpoint_id)
        values.append((await states.load(log, info)).state)
    changes = await asyncio.to_thread(_changes, *values)
    return {
        "a": a,
        "b": b,
        "changes": changes[:CHANGES],
        "total": len(changes),
        "truncated": len(changes) > CHANGES,
    }


def _changes(a: Any, b: Any) -> list[Record]:
    found = diff(a, b)
    changes: list[Record] = []
    for path, value in found.removed.items():
        changes.append({"op": "removed", "path": path, "a": value, "b": None})
    for path, (old, new) in found.changed.items():
        changes.append({"op": "changed", "path": path, "a": old, "b": new})
    for path, value in found.added.items():
        changes.append({"op": "added", "path": path, "a": None, "b": value})
    for change in changes[:CHANGES]:
        for side, op in (("a", "added"), ("b", "removed")):
            if change["op"] != op:
                change[side] = tree(change[side], depth=2)
    return changes
