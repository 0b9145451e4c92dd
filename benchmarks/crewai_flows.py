"""CrewAI's `SQLiteFlowPersistence` beside `MemalchemyFlowPersistence`: a flow with a conversation.

The state has all messages so far, and is saved after each turn, as `@persist` does. Both block, and
are called where they would be, in the thread of the event loop. CrewAI needs an environment of its
own, so this runs with ``--only crewai_flows`` alone.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable
from pathlib import Path
from typing import Any

from crewai.flow.persistence.sqlite import SQLiteFlowPersistence

from benchmarks.measure import Finding
from benchmarks.side_by_side import LENGTHS, Comparison, compare, repeated, url_of
from benchmarks.workload import Message
from memalchemy.integrations.crewai import MemalchemyFlowPersistence
from memalchemy.sync import Database


async def measure(
    messages: list[Message], directory: Path, new_database: Callable[[], str], rounds: int
) -> AsyncIterator[Finding]:
    said = [{"role": m["role"], "content": m["content"]} for m in repeated(messages, LENGTHS[-1])]
    one = Comparison(
        "crewai_flows",
        "SQLite",
        Ours(directory / "crewai-ours.db"),
        Ours(directory / "crewai-silent.db", index_text=False),
        Theirs(directory / "crewai-theirs.db"),
        lambda length: {"id": "flow", "turn": length // 2, "messages": said[:length]},
        len(messages),
    )
    async for finding in compare(one, rounds):
        yield finding


class _Flows:
    flows: Any

    async def save(self, thread_id: str, state: Any) -> None:
        self.flows.save_state(thread_id, "turn", state)

    async def load(self, thread_id: str) -> int:
        return len(self.flows.load_state(thread_id)["messages"])


class Ours(_Flows):
    name = "memalchemy"

    def __init__(self, place: Path, index_text: bool = True) -> None:
        self.place, self._index_text = place, index_text

    async def open(self) -> None:
        self._db = Database(url_of(self.place))
        self._db.migrate()
        self.flows = MemalchemyFlowPersistence(self._db, index_text=self._index_text)

    def again(self) -> Ours:
        return Ours(self.place, self._index_text)

    async def close(self) -> None:
        self.flows.close()
        self._db.close()


class Theirs(_Flows):
    name = "SQLiteFlowPersistence"

    def __init__(self, place: Path) -> None:
        self.place = place

    async def open(self) -> None:
        self.flows = SQLiteFlowPersistence(str(self.place))

    def again(self) -> Theirs:
        return Theirs(self.place)

    async def close(self) -> None:
        """Do nothing: each call has a connection of its own."""
