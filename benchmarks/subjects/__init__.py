"""What is measured, each behind the same few calls: memalchemy, other libraries, raw drivers."""

from __future__ import annotations

from typing import Any, Protocol


class Subject(Protocol):
    """Something that keeps the states of a thread."""

    name: str

    async def open(self) -> None: ...

    def again(self) -> Subject:
        """The same place, as a process that has saved nothing would open it."""

    async def warm(self, thread_id: str, checkpoint_id: str | None) -> None:
        """Connect, check and prepare everything that a load needs, by loading a thread."""

    async def close(self) -> None: ...

    async def save(self, thread_id: str, state: dict[str, Any]) -> str: ...

    async def load(self, thread_id: str, checkpoint_id: str | None = None) -> Any: ...

    def size(self) -> int:
        """Bytes that it takes, indexes included."""
