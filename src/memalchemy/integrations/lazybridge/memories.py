"""`Memories`: what agents remember of their sessions, of which LazyBridge always hands over all.

A session is a log, a turn an entry of it: what is written is what is not there yet.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Iterable
from contextlib import AsyncExitStack
from dataclasses import dataclass
from typing import Any

from memalchemy.contracts import Entry, LogReading
from memalchemy.database import Database
from memalchemy.errors import Conflict, ThreadDeleted
from memalchemy.threads import ThreadLog

SUMMARY = "summary"
"""The key of the entry that holds the summary. There is one in every log."""

TRIES = 50
SESSIONS = 256
"""Of which it is remembered what is there."""


@dataclass(frozen=True, slots=True)
class Known:
    """What a log held at a version."""

    reading: LogReading
    turns: list[Entry]
    summary: Entry | None

    @property
    def text(self) -> str:
        return "" if self.summary is None else str(self.summary.value[SUMMARY])

    def then(self, reading: LogReading) -> Known:
        """What it holds at a later one."""
        turns, summary = ([], None) if reading.complete else (self.turns[:], self.summary)
        for entry in reading.entries:
            if entry.key == SUMMARY:
                summary = entry
            else:
                turns.append(entry)
        return Known(reading, turns, summary)


NOTHING = Known(LogReading([], 0, -1, -1, complete=True), [], None)


class Memories:
    """The turns and the summary of each agent's sessions, each session a log.

    A write sets all of a session, whole or not at all; the last one counts. Turns that are there
    already are not written again.
    """

    def __init__(self, db: Database, namespace: Iterable[str], *, index_text: bool) -> None:
        self.db = db
        self.namespace = (*namespace, "memory")
        self._index_text = index_text
        self._known: OrderedDict[tuple[str, str], Known] = OrderedDict()

    def log(self, agent_id: str) -> ThreadLog:
        """The log of an agent's sessions; a thread is a session."""
        place = (*self.namespace, agent_id)
        return ThreadLog(self.db, namespace=place, index_text=self._index_text)

    async def write(
        self, agent_id: str, session_key: str, turns: list[dict[str, Any]], summary: str
    ) -> None:
        """Set all that an agent remembers of a session."""
        for left in reversed(range(TRIES)):
            known = await self._look(agent_id, session_key)
            try:
                await self._change(agent_id, session_key, known, turns, summary)
            except (Conflict, ThreadDeleted):
                if not left:
                    raise
            else:
                return

    async def read(self, agent_id: str, session_key: str) -> dict[str, Any] | None:
        """``turns``, ``summary`` and ``updated_at``, or ``None``."""
        found = NOTHING.then(await self.log(agent_id).read(session_key))
        if found.summary is None:
            return None
        return {
            "turns": [turn.value for turn in found.turns],
            "summary": found.text,
            "updated_at": max(e.stored_at for e in (found.summary, *found.turns[-1:])),
        }

    async def delete(self, agent_id: str, session_key: str) -> bool:
        """Remove a session; whether it was there."""
        self._known.pop((agent_id, session_key), None)
        return await self.log(agent_id).delete(session_key)

    async def _look(self, agent_id: str, session_key: str) -> Known:
        known = self._known.pop((agent_id, session_key), None)
        seen = None if known is None else known.reading
        reading = await self.log(agent_id).read(session_key, seen)
        known = (known or NOTHING).then(reading)
        self._known[agent_id, session_key] = known
        if len(self._known) > SESSIONS:
            self._known.popitem(last=False)
        return known

    async def _change(
        self,
        agent_id: str,
        session_key: str,
        known: Known,
        turns: list[dict[str, Any]],
        summary: str,
    ) -> None:
        log, version = self.log(agent_id), known.reading.version
        first, same = _overlap([turn.value for turn in known.turns], turns)
        gone = [turn.position for turn in (*known.turns[:first], *known.turns[first + same :])]
        new: list[Any] = turns[same:]
        keys: list[str | None] = [None] * len(new)
        # The newest entry says when it was written last, so there is a new one in every change.
        if known.summary is None or known.text != summary or (gone and not new):
            gone += [] if known.summary is None else [known.summary.position]
            new, keys = [{SUMMARY: summary}, *new], [SUMMARY, *keys]
        async with AsyncExitStack() as stack:
            tx = await stack.enter_async_context(self.db.transaction()) if gone else None
            if gone:
                await log.remove(session_key, gone, expected_version=version, connection=tx)
            if new:
                expected = {} if gone else {"expected_version": version}
                named = {"keys": keys} if any(keys) else {}
                await log.append(session_key, new, **named, **expected, connection=tx)


def _overlap(known: list[Any], given: list[Any]) -> tuple[int, int]:
    """Where in *known* what is *given* begins, and how many of it are there.

    All to its end, or as many as are the same from the first on.
    """
    for start in range(len(known)):
        if given[:1] == known[start : start + 1] and given[: len(known) - start] == known[start:]:
            return start, len(known) - start
    same = next((n for n, (a, b) in enumerate(zip(known, given, strict=False)) if a != b), None)
    return 0, min(len(known), len(given)) if same is None else same


__all__ = ["Memories"]
