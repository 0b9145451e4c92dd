"""Conversations that others keep, through their own classes: lazybridge's, OpenAI's."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from agents.extensions.memory import SQLAlchemySession
from lazybridge import Memory, Store

from benchmarks.workload import Message


class CountingStore(Store):
    """lazybridge's store over SQLite, which counts the bytes of what it is told to write."""

    def __init__(self, path: Path) -> None:
        super().__init__(db=str(path))
        self.written = 0

    def write_memory(self, agent_id: str, *, turns: list[dict[str, Any]], **kw: Any) -> None:
        self.written += len(json.dumps(turns, default=str))  # as it writes it
        super().write_memory(agent_id, turns=turns, **kw)


class LazyBridge:
    """A Memory that keeps every turn: compression would forget what the others keep."""

    def __init__(self, path: Path) -> None:
        self.store = CountingStore(path)
        self._memory = Memory(strategy="none", max_turns=None, store=self.store, key="talk")

    def add(self, user: str, assistant: str) -> None:
        self._memory.add(user, assistant)

    def close(self) -> None:
        self.store.close()


class OpenAISession:
    """SQLAlchemySession from openai-agents, on an engine of its own."""

    def __init__(self, where: Path | str) -> None:
        url = f"sqlite+aiosqlite:///{where}" if isinstance(where, Path) else where
        url = url.replace("postgresql://", "postgresql+asyncpg://")
        self._session = SQLAlchemySession.from_url("talk", url=url, create_tables=True)

    async def fill(self, messages: list[Message]) -> None:
        await self._session.add_items(messages)  # type: ignore[arg-type]

    async def load(self) -> list[Any]:
        return await self._session.get_items()

    async def close(self) -> None:
        await self._session.engine.dispose()
