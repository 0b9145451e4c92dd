"""What is measured, each behind the same few calls: memalchemy, other libraries, raw drivers."""

from __future__ import annotations

from typing import Any, Protocol


class Subject(Protocol):
    """Something that keeps the states of a thread."""

    name: str

    async def open(self) -> None: ...

    async def close(self) -> None: ...

    async def save(self, thread_id: str, state: dict[str, Any]) -> str: ...

    async def load(self, thread_id: str, checkpoint_id: str | None = None) -> Any: ...

    def size(self) -> int:
        """Bytes that it takes, indexes included."""
