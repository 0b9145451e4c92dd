"""memalchemy, as a user gets it: defaults, unless a parameter says otherwise."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

from benchmarks.servers import file_size, total_size
from memalchemy import Checkpointer, Database
from memalchemy.database.sqlite.readers import READERS


class Ours:
    def __init__(self, where: Path | str, *, index_text: bool = True, is_new: bool = True) -> None:
        self.name = "memalchemy" if index_text else "memalchemy without text search"
        self.place, self._index_text, self._is_new = where, index_text, is_new
        self.db = Database(f"sqlite:///{where}" if isinstance(where, Path) else where)
        self.checkpointer = Checkpointer(self.db, index_text=index_text)

    async def open(self) -> None:
        if self._is_new:
            await self.db.migrate()

    def again(self) -> Ours:
        return Ours(self.place, index_text=self._index_text, is_new=False)

    async def warm(self, thread_id: str, checkpoint_id: str | None) -> None:
        # On SQLite each of a few reader threads connects when it first has work.
        readers = READERS if isinstance(self.place, Path) else 1
        for _ in range(2):
            await asyncio.gather(*(self.load(thread_id, checkpoint_id) for _ in range(readers)))

    async def close(self) -> None:
        await self.db.close()

    async def save(self, thread_id: str, state: dict[str, Any]) -> str:
        return await self.checkpointer.save(state, thread_id)

    async def load(self, thread_id: str, checkpoint_id: str | None = None) -> Any:
        return await self.checkpointer.load(thread_id, checkpoint_id)

    def size(self) -> int:
        where = self.place
        return file_size(where) if isinstance(where, Path) else total_size(where)
