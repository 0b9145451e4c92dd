"""locus' checkpointers beside `MemalchemyCheckpointer`: an agent's state after every message.

On PostgreSQL its `PgCheckpointer`. On SQLite locus has none: there its `FileCheckpointer`, which
writes each state into a file of its own, stands beside ours. It does not wait until the disk has
it, as a commit does: it is reported without a target.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

from locus.core.messages import Message as Said
from locus.core.messages import Role
from locus.core.state import AgentState
from locus.memory.backends.file import FileCheckpointer
from locus.memory.backends.pg_checkpointer import PgCheckpointer

from benchmarks.measure import Finding
from benchmarks.side_by_side import LENGTHS, Comparison, Place, compare, repeated, url_of
from benchmarks.workload import Message
from memalchemy import Database
from memalchemy.integrations.locus import MemalchemyCheckpointer

BEGAN = datetime(2026, 1, 1, tzinfo=UTC)


async def measure(
    messages: list[Message], directory: Path, new_database: Callable[[], str], rounds: int
) -> AsyncIterator[Finding]:
    said = tuple(
        Said(role=Role.ASSISTANT if m["role"] == "assistant" else Role.USER, content=m["content"])
        for m in repeated(messages, LENGTHS[-1])
    )

    def state(length: int) -> AgentState:
        return AgentState(
            run_id="bench",
            messages=said[:length],
            iteration=length,
            prompt_tokens_used=480 * length,
            completion_tokens_used=61 * length,
            started_at=BEGAN,
            updated_at=BEGAN + timedelta(seconds=length),
        )

    for engine in ("SQLite", "PostgreSQL"):

        def place(name: str, engine: str = engine) -> Place:
            return directory / f"locus-{name}" if engine == "SQLite" else new_database()

        one = Comparison(
            "locus_checkpointers",
            engine,
            Ours(place("ours.db")),
            Ours(place("silent.db"), index_text=False),
            Theirs(place("theirs")),
            state,
            len(messages),
            pace=1,
            is_promised=engine == "PostgreSQL",
        )
        async for finding in compare(one, rounds):
            yield finding


class _Locus:
    saver: Any

    async def save(self, thread_id: str, state: Any) -> None:
        await self.saver.save(state, thread_id)

    async def load(self, thread_id: str) -> int:
        return len((await self.saver.load(thread_id)).messages)

    async def close(self) -> None:
        await self.saver.close()


class Ours(_Locus):
    name = "memalchemy"

    def __init__(self, place: Place, index_text: bool = True) -> None:
        self.place, self._index_text = place, index_text
        self._db = Database(url_of(place))
        self.saver = MemalchemyCheckpointer(self._db, index_text=index_text)

    async def open(self) -> None:
        await self._db.migrate()

    def again(self) -> Ours:
        return Ours(self.place, self._index_text)

    async def close(self) -> None:
        await self._db.close()


class Theirs(_Locus):
    def __init__(self, place: Place) -> None:
        self.place = place
        if isinstance(place, Path):
            self.name = "FileCheckpointer"
            self.saver = FileCheckpointer(place)
        else:
            self.name = "PgCheckpointer"
            self.saver = PgCheckpointer(place)

    async def open(self) -> None:
        """It connects, and makes its table, when it is first used."""

    def again(self) -> Theirs:
        return Theirs(self.place)
