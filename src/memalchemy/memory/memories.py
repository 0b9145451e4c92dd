"""The vocabulary of long-term memory: what a memory is, and whose. Pure records, no I/O."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from datetime import datetime
from enum import StrEnum
from typing import Any, Self

from memalchemy.memory.fence import MEMORY, escaped, fenced, in_one_line

HEADER = "[Long-term Memory]"


class MemoryType(StrEnum):
    """What a memory is about."""

    USER = "user"
    """Who the user is: role, expertise, ways of working."""
    FEEDBACK = "feedback"
    """How to behave: what to do or to avoid, and why."""
    PROJECT = "project"
    """What is being worked on: goals, deadlines, decisions."""
    REFERENCE = "reference"
    """Where things are: trackers, dashboards, documents."""


@dataclass(frozen=True, slots=True)
class Memory:
    """Something to remember beyond a conversation.

    Type and key name it: a later one of the same name takes its place. ``updated_at`` is when it
    was last saved, of one that was read; aware UTC.
    """

    type: MemoryType
    key: str
    content: str
    metadata: dict[str, Any] = field(default_factory=dict)
    updated_at: datetime | None = field(default=None, compare=False)

    def __post_init__(self) -> None:
        for name in ("key", "content"):
            if not isinstance(getattr(self, name), str):
                kind = type(getattr(self, name)).__name__
                raise TypeError(f"the {name} of a memory is a str, not {kind}")
        if not self.key:
            raise ValueError("a memory has a key, which is not empty")
        try:
            object.__setattr__(self, "type", MemoryType(self.type))
        except ValueError:
            kinds = ", ".join(MemoryType)
            raise ValueError(f"the type of a memory is one of {kinds}") from None
        object.__setattr__(self, "metadata", dict(self.metadata or {}))

    def to_store_value(self) -> dict[str, Any]:
        """What is stored of it."""
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
        """The inverse of `to_store_value`; ``metadata`` may be missing.

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
    """Where a run's memories are written, and from where else they are recalled.

    Every namespace of ``recall`` begins as ``namespace`` does: its first part is the tenant.
    """

    namespace: tuple[str, ...]
    recall: tuple[tuple[str, ...], ...] = ()

    def __post_init__(self) -> None:
        object.__setattr__(self, "namespace", check_prefix(self.namespace))
        object.__setattr__(self, "recall", tuple(check_prefix(one) for one in self.recall))


@dataclass(frozen=True, slots=True)
class RunInfo:
    """What a resolver of namespaces is told of a run."""

    run_id: str | None = None
    metadata: Mapping[str, Any] = field(default_factory=dict)
    agent_name: str | None = None


def check_prefix(namespace: Any) -> tuple[str, ...]:
    """A namespace that is somebody's: texts, at least one, none of them empty.

    An empty part is an id that somebody forgot to give; all who forgot would share it.
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
    """The memories as a fenced block, an entry each; empty without any."""
    entries = [
        f"{memory.type.value.upper()} [{in_one_line(memory.key)}]: {escaped(memory.content)}"
        for memory in memories
    ]
    lines = [HEADER, *entries] if entries else []
    return fenced(lines, fence=MEMORY, source="recalled memory")
