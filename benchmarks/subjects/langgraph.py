"""LangGraph's savers, called as its runtime calls them: one channel per key of the state.

What its runtime does besides, and is left out here in its favour: the pending writes of each step
(`aput_writes`), and messages as objects of its own, which cost more to write than plain ones.
Durability is the default of both sides: ``synchronous=FULL`` in a write-ahead log on SQLite, which
is checked when it opens, and what the server says on PostgreSQL, where its save is one pipeline.
"""

from __future__ import annotations

from contextlib import AsyncExitStack
from pathlib import Path
from typing import Any

from langgraph.checkpoint.base import empty_checkpoint
from langgraph.checkpoint.postgres.aio import AsyncPostgresSaver
from langgraph.checkpoint.sqlite.aio import AsyncSqliteSaver

from benchmarks.servers import file_size, total_size


class LangGraph:
    def __init__(self, where: Path | str, *, is_new: bool = True) -> None:
        self.name = "AsyncSqliteSaver" if isinstance(where, Path) else "AsyncPostgresSaver"
        self._where, self._is_new = where, is_new
        self._stack = AsyncExitStack()
        self._versions: dict[str, dict[str, Any]] = {}
        self._parents: dict[str, str] = {}
        self._steps: dict[str, int] = {}

    async def open(self) -> None:
        maker: Any = AsyncSqliteSaver if isinstance(self._where, Path) else AsyncPostgresSaver
        opened = maker.from_conn_string(str(self._where))
        self._saver = await self._stack.enter_async_context(opened)
        if self._is_new:
            await self._saver.setup()
        if isinstance(self._where, Path):
            async with self._saver.conn.execute("PRAGMA synchronous") as cursor:
                assert await cursor.fetchone() == (2,), "its commits are not as durable as ours"

    def again(self) -> LangGraph:
        return LangGraph(self._where, is_new=False)

    async def warm(self, thread_id: str, checkpoint_id: str | None) -> None:
        assert await self.load(thread_id, checkpoint_id) is not None

    async def close(self) -> None:
        await self._stack.aclose()

    async def save(self, thread_id: str, state: dict[str, Any]) -> str:
        before = self._versions.get(thread_id, {})
        versions = {key: self._saver.get_next_version(before.get(key), None) for key in state}
        checkpoint = empty_checkpoint()
        checkpoint["channel_values"] = state
        checkpoint["channel_versions"] = versions
        configurable = {"thread_id": thread_id, "checkpoint_ns": ""}
        if thread_id in self._parents:
            configurable["checkpoint_id"] = self._parents[thread_id]
        await self._saver.aput(
            {"configurable": configurable},
            checkpoint,
            {"source": "loop", "step": self._steps.get(thread_id, 0), "parents": {}},
            versions,
        )
        self._versions[thread_id], self._parents[thread_id] = versions, checkpoint["id"]
        self._steps[thread_id] = self._steps.get(thread_id, 0) + 1
        return checkpoint["id"]

    def versions(self, thread_id: str) -> dict[str, Any]:
        """The channels' versions after its last save."""
        return self._versions.get(thread_id, {})

    def knows(self, thread_id: str, versions: dict[str, Any], parent: str | None) -> None:
        """What another process's saver left behind, as a graph that loaded it would know."""
        self._versions[thread_id] = versions
        if parent is not None:
            self._parents[thread_id] = parent

    async def load(self, thread_id: str, checkpoint_id: str | None = None) -> Any:
        configurable = {"thread_id": thread_id, "checkpoint_ns": ""}
        if checkpoint_id is not None:
            configurable["checkpoint_id"] = checkpoint_id
        found = await self._saver.aget_tuple({"configurable": configurable})
        return None if found is None else found.checkpoint["channel_values"]

    def size(self) -> int:
        where = self._where
        return file_size(where) if isinstance(where, Path) else total_size(where)
