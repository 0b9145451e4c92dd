"""lauren-ai's `SQLiteConversationStore` beside `MemalchemyConversationStore`: a run's snapshot.

`save` gets all messages of the conversation each time, `load` gives them back. Theirs commits with
``synchronous=NORMAL`` if it is not told otherwise, which a power cut may undo; here it is told
``FULL``, which is what ours does.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable
from pathlib import Path
from typing import Any

from lauren_ai._memory import SQLiteConversationStore, SQLiteStoreConfig

from benchmarks.measure import Finding
from benchmarks.side_by_side import LENGTHS, Comparison, compare, repeated, url_of
from benchmarks.workload import Message
from memalchemy import Database
from memalchemy.integrations.lauren_ai import MemalchemyConversationStore

DURABLE = ("journal_mode=WAL", "synchronous=FULL", "foreign_keys=ON")


async def measure(
    messages: list[Message], directory: Path, new_database: Callable[[], str], rounds: int
) -> AsyncIterator[Finding]:
    said = repeated(messages, LENGTHS[-1])
    one = Comparison(
        "lauren_conversations",
        "SQLite",
        Ours(directory / "lauren-ours.db"),
        Ours(directory / "lauren-silent.db", index_text=False),
        Theirs(directory / "lauren-theirs.db"),
        lambda length: {"messages": said[:length], "summary": None},
        len(messages),
    )
    async for finding in compare(one, rounds):
        yield finding


class _Lauren:
    store: Any

    async def save(self, thread_id: str, state: Any) -> None:
        await self.store.save(thread_id, state)

    async def load(self, thread_id: str) -> int:
        return len((await self.store.load(thread_id))["messages"])


class Ours(_Lauren):
    name = "memalchemy"

    def __init__(self, place: Path, index_text: bool = True) -> None:
        self.place, self._index_text = place, index_text

    async def open(self) -> None:
        self._db = Database(url_of(self.place))
        await self._db.migrate()
        self.store = MemalchemyConversationStore(self._db, index_text=self._index_text)

    def again(self) -> Ours:
        return Ours(self.place, self._index_text)

    async def close(self) -> None:
        await self._db.close()


class Theirs(_Lauren):
    name = "SQLiteConversationStore"

    def __init__(self, place: Path) -> None:
        self.place = place

    async def open(self) -> None:
        config = SQLiteStoreConfig(str(self.place), pragmas=DURABLE)
        self.store = await SQLiteConversationStore.connect(config)

    def again(self) -> Theirs:
        return Theirs(self.place)

    async def close(self) -> None:
        # Its stores close only connections that they have opened themselves.
        await self.store._backend.close()
