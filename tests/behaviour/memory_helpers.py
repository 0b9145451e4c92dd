"""Messages, an extract function and a recorder of events for the tests of memories."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

from memalchemy import Memory
from memalchemy.events import Event, subscribe


def user(text: str) -> dict[str, Any]:
    return {"role": "user", "content": text}


def assistant(text: str) -> dict[str, Any]:
    return {"role": "assistant", "content": text}


def system(text: str) -> dict[str, Any]:
    return {"role": "system", "content": text}


@dataclass(frozen=True)
class Said:
    """A message of a host's own class."""

    role: str
    content: Any
    metadata: dict[str, Any] = field(default_factory=dict)


@dataclass(frozen=True)
class Session:
    """A state of a host's own class."""

    messages: tuple[Any, ...]
    metadata: dict[str, Any] = field(default_factory=dict)


def memory(content: str, key: str = "k", of: str = "user", **metadata: Any) -> Memory:
    return Memory(of, key, content, metadata)  # type: ignore[arg-type]


def words_of(messages: list[Any]) -> list[Memory]:
    """Extract a memory from each message of the user, under its first word."""
    return [
        memory(m["content"], key=m["content"].split()[0]) for m in messages if m["role"] == "user"
    ]


@contextmanager
def events() -> Iterator[list[Event]]:
    """Record the events of memory that are published in the block."""
    told: list[Event] = []
    end = subscribe(lambda event: told.append(event) if event.name[:7] == "memory." else None)
    try:
        yield told
    finally:
        end()
