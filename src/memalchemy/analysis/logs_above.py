"""The logs above a log, whose messages it repeats: a subgraph's state holds those of its graph.

A subgraph that shares the messages of its graph is given them all, and its graph gets what it adds.
Such a message counts in the log of the graph, and in that of the subgraph only as long as the graph
does not have it.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from memalchemy._cache import BoundedCache
from memalchemy.adapters import ADAPTERS
from memalchemy.analysis.added_messages import Digests
from memalchemy.analysis.selection import Selection
from memalchemy.analysis.steps import LogHead, find_messages
from memalchemy.database import Database
from memalchemy.protection.proven_jobs import Damage

_REMEMBERED = 64
"""Logs whose messages are remembered."""


class LogsAbove:
    """Reader of the messages of the logs above others, for one pass over the logs.

    Only logs that the pass selects count: nobody counts the messages of the others.
    """

    def __init__(self, db: Database, selection: Selection, damage: Damage) -> None:
        self._db = db
        self._selection = selection
        self._damage = damage
        self._found: BoundedCache[tuple[str, tuple[str, ...]], Digests]
        self._found = BoundedCache(_REMEMBERED)

    async def messages_above(self, head: LogHead) -> Digests:
        """Return the messages that the logs above a log hold, whenever they were added."""
        found = Digests()
        for namespace in _namespaces_above(head.namespace):
            if self._selection.has_namespace(namespace):
                found |= await self._messages_of(head.thread_id, namespace)
        return found

    async def _messages_of(self, thread_id: str, namespace: tuple[str, ...]) -> Digests:
        found = self._found.get((thread_id, namespace))
        if found is None:
            found = await find_messages(self._db, thread_id, namespace, self._damage)
            self._found.put((thread_id, namespace), found)
        return found


class MarksAbove:
    """The marks of the logs above others, for a pass over all logs by their names."""

    def __init__(self) -> None:
        self._thread_id: str | None = None
        self._marks: dict[tuple[str, ...], str] = {}

    def marked(self, head: LogHead) -> LogHead:
        """Return a head whose mark changes with the logs above it, too."""
        if head.thread_id != self._thread_id:
            self._thread_id, self._marks = head.thread_id, {}
        self._marks[head.namespace] = head.mark
        above = [self._marks.get(one, "") for one in _namespaces_above(head.namespace)]
        return replace(head, mark=f"{head.mark} {above}") if above else head


def _namespaces_above(namespace: tuple[str, ...]) -> Iterator[tuple[str, ...]]:
    """Yield the namespaces of the logs in whose steps the log in *namespace* was written."""
    declared = ADAPTERS.of(namespace)
    if declared is None or declared.parts is None or declared.parts.origin is None:
        return
    for length in range(1, len(namespace)):
        if declared.parts.is_part(namespace[:length], namespace):
            yield namespace[:length]
