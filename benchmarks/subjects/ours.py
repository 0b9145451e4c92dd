"""memalchemy, as a user gets it: defaults, unless a parameter says otherwise."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from benchmarks.servers import file_size, total_size
from memalchemy import Checkpointer, Database


class Ours:
    def __init__(self, where: Path | str, *, index_text: bool = True) -> None:
        self.name = "memalchemy" if index_text else "memalchemy without text search"
        self._where = where
        self.db = Database(f"sqlite:///{where}" if isinstance(where, Path) else where)
        self.checkpointer = Checkpointer(self.db, index_text=index_text)

    async def open(self) -> None:
        await self.db.migrate()

    async def close(self) -> None:
        await self.db.close()

    async def save(self, thread_id: str, state: dict[str, Any]) -> str:
        return await self.checkpointer.save(state, thread_id)

    async def load(self, thread_id: str, checkpoint_id: str | None = None) -> Any:
        return await self.checkpointer.load(thread_id, checkpoint_id)

    def size(self) -> int:
        where = self._where
        return file_size(where) if isinstance(where, Path) else total_size(where)
