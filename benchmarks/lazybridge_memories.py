"""LazyBridge's SQLite `Store` beside `MemalchemyStore`: what an agent's `Memory` writes each turn.

`write_memory` gets all turns of the session each time, `read_memory` gives them back. Both block,
and are called where they would be, in the thread of the event loop.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable
from pathlib import Path
from typing import Any

from lazybridge.store import Store

from benchmarks.measure import Finding
from benchmarks.side_by_side import LENGTHS, Comparison, compare, repeated, url_of
from benchmarks.workload import Message
from memalchemy.integrations.lazybridge import MemalchemyStore
from memalchemy.sync import Database

AGENT = "assistant"


async def measure(
    messages: list[Message], directory: Path, new_database: Callable[[], str], rounds: int
) -> AsyncIterator[Finding]:
    said = [m["content"] for m in repeated(messages, LENGTHS[-1])]
    turns = [
        {"user": user, "assistant": reply, "token_estimate": (len(user) + len(reply)) // 4}
        for user, reply in zip(said[::2], said[1::2], strict=True)
    ]
    one = Comparison(
        "lazybridge_memories",
        "SQLite",
        Ours(directory / "lazybridge-ours.db"),
        Ours(directory / "lazybridge-silent.db", index_text=False),
        Theirs(directory / "lazybridge-theirs.db"),
        lambda length: turns[: length // 2],
        len(messages),
    )
    async for finding in compare(one, rounds):
        yield finding


class _Lazy:
    store: Any

    async def save(self, thread_id: str, state: Any) -> None:
        self.store.write_memory(AGENT, turns=state, session_key=thread_id)

    async def load(self, thread_id: str) -> int:
        return 2 * len(self.store.read_memory(AGENT, session_key=thread_id)["turns"])


class Ours(_Lazy):
    name = "memalchemy"

    def __init__(self, place: Path, index_text: bool = True) -> None:
        self.place, self._index_text = place, index_text

    async def open(self) -> None:
        self._db = Database(url_of(self.place))
        self._db.migrate()
        self.store = MemalchemyStore(self._db, index_text=self._index_text)

    def again(self) -> Ours:
        return Ours(self.place, self._index_text)

    async def close(self) -> None:
        self.store.close()
        self._db.close()


class Theirs(_Lazy):
    name = "Store"

    def __init__(self, place: Path) -> None:
        self.place = place

    async def open(self) -> None:
        self.store = Store(str(self.place))
        durable = self.store._conn().execute("PRAGMA synchronous").fetchone()
        assert durable[0] == 2, "its commits are not as durable as ours"

    def again(self) -> Theirs:
        return Theirs(self.place)

    async def close(self) -> None:
        self.store.close()
