"""LangGraph's savers beside `MemalchemySaver`: the checkpoint and the writes of each step.

Both are called as LangGraph's runtime does after a step that added a message: `aput` with the
channels that changed, `aput_writes` with what the next task gave. Messages are LangChain's. Commits
are durable on both sides, which is checked where it is a setting of the connection.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable
from contextlib import AbstractAsyncContextManager, AsyncExitStack, asynccontextmanager
from functools import partial
from pathlib import Path
from typing import Any
from uuid import uuid4

from langchain_core.messages import AIMessage, BaseMessage, HumanMessage
from langgraph.checkpoint.base import BaseCheckpointSaver, empty_checkpoint
from langgraph.checkpoint.postgres.aio import AsyncPostgresSaver
from langgraph.checkpoint.sqlite.aio import AsyncSqliteSaver

from benchmarks.measure import Finding
from benchmarks.side_by_side import LENGTHS, Comparison, Place, compare, repeated, url_of
from benchmarks.workload import Message
from memalchemy import Database
from memalchemy.integrations.langgraph import MemalchemySaver

Opening = Callable[[Place], AbstractAsyncContextManager[Any]]


@asynccontextmanager
async def opened_ours(place: Place, index_text: bool = True) -> AsyncIterator[Any]:
    db = Database(url_of(place))
    await db.migrate()
    try:
        yield MemalchemySaver(db, index_text=index_text)
    finally:
        await db.close()


@asynccontextmanager
async def opened_theirs(place: Place) -> AsyncIterator[Any]:
    maker: Any = AsyncSqliteSaver if isinstance(place, Path) else AsyncPostgresSaver
    async with maker.from_conn_string(str(place)) as saver:
        await saver.setup()
        if isinstance(place, Path):
            async with saver.conn.execute("PRAGMA synchronous") as cursor:
                assert await cursor.fetchone() == (2,), "its commits are not as durable as ours"
        yield saver


OURS: Opening = opened_ours
SILENT: Opening = partial(opened_ours, index_text=False)
THEIRS: Opening = opened_theirs


def name_of(place: Place) -> str:
    return "AsyncSqliteSaver" if isinstance(place, Path) else "AsyncPostgresSaver"


async def measure(
    messages: list[Message], directory: Path, new_database: Callable[[], str], rounds: int
) -> AsyncIterator[Finding]:
    spoken = as_theirs(repeated(messages, LENGTHS[-1] + 1))

    def state(length: int) -> tuple[list[BaseMessage], BaseMessage]:
        return spoken[:length], spoken[length]

    for engine in ("SQLite", "PostgreSQL"):

        def place(name: str, engine: str = engine) -> Place:
            return directory / f"steps-{name}.db" if engine == "SQLite" else new_database()

        theirs = place("theirs")
        one = Comparison(
            "langgraph_savers",
            engine,
            Saver("memalchemy", place("ours"), OURS),
            Saver("memalchemy", place("silent"), SILENT),
            Saver(name_of(theirs), theirs, THEIRS),
            state,
            len(messages),
            pace=1,
        )
        async for finding in compare(one, rounds):
            yield finding


def as_theirs(messages: list[Message]) -> list[BaseMessage]:
    """LangChain's messages: a model's where the conversation has one's, else a user's."""
    return [
        (AIMessage if m["role"] == "assistant" else HumanMessage)(m["content"], id=str(uuid4()))
        for m in messages
    ]


class Saver:
    def __init__(self, name: str, place: Place, opening: Opening) -> None:
        self.name, self.place, self._opening = name, place, opening
        self._stack = AsyncExitStack()
        self._saver: BaseCheckpointSaver[Any]
        self._newest: dict[str, tuple[str, dict[str, Any]]] = {}

    async def open(self) -> None:
        self._saver = await self._stack.enter_async_context(self._opening(self.place))

    def again(self) -> Saver:
        return Saver(self.name, self.place, self._opening)

    async def close(self) -> None:
        await self._stack.aclose()

    async def save(self, thread_id: str, state: Any) -> None:
        said, reply = state
        configurable: dict[str, Any] = {"thread_id": thread_id, "checkpoint_ns": ""}
        versions: dict[str, Any] = {}
        if thread_id in self._newest:
            configurable["checkpoint_id"], versions = self._newest[thread_id]
        versions = {"messages": self._saver.get_next_version(versions.get("messages"), None)}
        checkpoint = empty_checkpoint()
        checkpoint["channel_values"] = {"messages": said}
        checkpoint["channel_versions"] = versions
        config = await self._saver.aput(
            {"configurable": configurable},
            checkpoint,
            {"source": "loop", "step": len(said), "parents": {}},
            versions,
        )
        await self._saver.aput_writes(config, [("messages", [reply])], str(uuid4()))
        self._newest[thread_id] = checkpoint["id"], versions

    async def load(self, thread_id: str) -> int:
        found = await self._saver.aget_tuple(
            {"configurable": {"thread_id": thread_id, "checkpoint_ns": ""}}
        )
        assert found is not None
        assert found.pending_writes is not None
        assert len(found.pending_writes) == 1
        return len(found.checkpoint["channel_values"]["messages"])
