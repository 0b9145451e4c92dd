"""locus' two checkpointers that keep history: deltas in memory, and whole states in PostgreSQL."""

from __future__ import annotations

from typing import Any

from locus.memory.backends.pg_checkpointer import PgCheckpointer
from locus.memory.delta import DeltaCheckpointer

from benchmarks.servers import total_size


class _State:
    """What both ask of a state; so that their own model is not measured."""

    messages = ()  # its own kind of messages, which it would stamp: there are none

    def __init__(self, data: dict[str, Any]) -> None:
        self._data = data

    def to_checkpoint(self) -> dict[str, Any]:
        return self._data


class LocusDelta:
    name = "locus DeltaCheckpointer"

    def __init__(self) -> None:
        self._saver = DeltaCheckpointer()
        self._bytes = 0

    async def open(self) -> None: ...

    async def warm(self, thread_id: str, checkpoint_id: str | None) -> None:
        raise NotImplementedError("its loads are not measured")

    async def close(self) -> None: ...

    def again(self) -> LocusDelta:
        raise NotImplementedError("it keeps everything in its own memory")

    async def save(self, thread_id: str, state: dict[str, Any]) -> str:
        saved: str = await self._saver.save(_State(state), thread_id)
        stats = await self._saver.get_storage_stats(thread_id)
        self._bytes = stats["compressed_size"]
        return saved

    async def load(self, thread_id: str, checkpoint_id: str | None = None) -> Any:
        raise NotImplementedError("its load builds a model of its own: not comparable")

    def size(self) -> int:
        """Its compressed payloads: there are no rows and no indexes to count."""
        return self._bytes


class LocusPostgres:
    name = "locus PgCheckpointer"

    def __init__(self, dsn: str) -> None:
        self._dsn = dsn
        self._saver = PgCheckpointer(dsn)

    async def open(self) -> None: ...

    def again(self) -> LocusPostgres:
        return LocusPostgres(self._dsn)

    async def warm(self, thread_id: str, checkpoint_id: str | None) -> None:
        raise NotImplementedError("its loads are not measured")

    async def close(self) -> None:
        await self._saver.close()

    async def save(self, thread_id: str, state: dict[str, Any]) -> str:
        saved: str = await self._saver.save(_State(state), thread_id)
        return saved

    async def load(self, thread_id: str, checkpoint_id: str | None = None) -> Any:
        raise NotImplementedError("its load builds a model of its own: not comparable")

    def size(self) -> int:
        return total_size(self._dsn)
