"""Records of long-term memory: what a memory is, and whose it is."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from datetime import datetime
from enum import StrEnum
from typing import Any, Self

from memalchemy.memory.prompt_block import MEMORY_TAG, build_block, escape_line, escape_text

HEADER = "[Long-term Memory]"


class MemoryType(StrEnum):
    """Subject of a memory."""

    USER = "user"
    """The user: role, expertise, ways of working."""
    FEEDBACK = "feedback"
    """Behaviour: what to do or to avoid, and why."""
    PROJECT = "project"
    """The work: goals, deadlines, decisions."""
    REFERENCE = "reference"
    """Places of things: trackers, dashboards, documents."""


@dataclass(frozen=True, slots=True)
class Memory:
    """Something to remember beyond a conversation.

    A memory is identified by its type and key: a later one with the same replaces it.
    ``updated_at`` is the time of the last save, aware UTC, of a memory that was read.
    """

    type: MemoryType
    key: str
    content: str
    metadata: dict[str, Any] = field(default_factory=dict)
    updated_at: datetime | None = field(default=None, compare=False)

    def __post_init__(self) -> None:
        for name in ("key", "content"):
            if not isinstance(getattr(self, name), str):
                given = type(getattr(self, name)).__name__
                raise TypeError(f"the {name} of a memory is a str, not {given}")
        if not self.key:
            raise ValueError("the key of a memory must not be empty")
        try:
            object.__setattr__(self, "type", MemoryType(self.type))
        except ValueError:
            types = ", ".join(MemoryType)
            raise ValueError(f"the type of a memory is one of {types}") from None
        object.__setattr__(self, "metadata", dict(self.metadata or {}))

    def to_store_value(self) -> dict[str, Any]:
        """Return the value that is stored."""
        return {
            "type": self.type.value,
            "key": self.key,
            "content": self.content,
            "metadata": dict(self.metadata),
        }

    @classmethod
    def from_store_value(
        cls, value: Mapping[str, Any], *, updated_at: datetime | None = None
    ) -> Self:
        """Create a memory from its stored value; ``metadata`` may be missing.

        Raises:
            KeyError, TypeError, ValueError: it is not the value of a memory.
        """
        if not isinstance(value, Mapping):
            raise TypeError(f"the value of a memory is a mapping, not a {type(value).__name__}")
        return cls(
            type=value["type"],
            key=value["key"],
            content=value["content"],
            metadata=value.get("metadata") or {},
            updated_at=updated_at,
        )


@dataclass(frozen=True, slots=True)
class MemoryScope:
    """Namespace that a run writes its memories to, and further ones that it only reads.

    The first part of a namespace is the tenant; all namespaces of ``recall`` have the same.
    """

    namespace: tuple[str, ...]
    recall: tuple[tuple[str, ...], ...] = ()

    def __post_init__(self) -> None:
        object.__setattr__(self, "namespace", check_memory_namespace(self.namespace))
        recall = tuple(check_memory_namespace(one) for one in self.recall)
        object.__setattr__(self, "recall", recall)


@dataclass(frozen=True, slots=True)
class RunInfo:
    """Description of a run, for a function that resolves its namespace."""

    run_id: str | None = None
    metadata: Mapping[str, Any] = field(default_factory=dict)
    agent_name: str | None = None


def check_memory_namespace(namespace: Any) -> tuple[str, ...]:
    """Return a namespace of at least one text, none of them empty.

    An empty part is an id that somebody forgot to give; all who forgot would share their memories.

    Raises:
        TypeError, ValueError: it is none.
    """
    if isinstance(namespace, (str, bytes)) or not isinstance(namespace, Iterable):
        raise TypeError("a namespace is a tuple of strings")
    parts = tuple(namespace)
    if not parts:
        raise ValueError("a namespace of memories has at least one part")
    for part in parts:
        if not isinstance(part, str):
            raise TypeError(f"a namespace part must be a str, not {type(part).__name__}")
        if not part.strip():
            raise ValueError("a part of a namespace of memories must not be empty")
    return parts


def memory_block(memories: Iterable[Memory]) -> str:
    """Format memories as a block of a prompt, with an entry for each; empty without any."""
    entries = [
        f"{memory.type.value.upper()} [{escape_line(memory.key)}]: {escape_text(memory.content)}"
        for memory in memories
    ]
    lines = [HEADER, *entries] if entries else []
    return build_block(lines, tag=MEMORY_TAG, source="recalled memory")
