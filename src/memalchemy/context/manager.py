"""Base class of the conversation managers."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from typing import Any

from memalchemy.events import Event, publish


class ConversationManager(ABC):
    """Policy that selects the messages of a conversation which go to the model.

    `apply` returns a new list. The messages that stay are the objects that were given, unchanged
    and in their order. The result of a tool call never stays without its call. A message that a
    manager writes itself, such as a summary, is of the same kind as the others: a dict among dicts,
    an object of their class among objects.
    """

    @abstractmethod
    def apply(self, messages: Sequence[Any]) -> list[Any]:
        """Return the messages that go to the model, oldest first."""

    async def async_apply(self, messages: Sequence[Any]) -> list[Any]:
        """`apply` that does not block the event loop where a manager has to ask a model."""
        return self.apply(messages)

    def __repr__(self) -> str:
        return f"{type(self).__name__}()"


class NullManager(ConversationManager):
    """Manager that keeps every message and repairs nothing."""

    def apply(self, messages: Sequence[Any]) -> list[Any]:
        """Return a copy of the list."""
        return list(messages)


def publish_pruned(
    strategy: str, before: Sequence[Any], after: Sequence[Any], **details: object
) -> None:
    """Publish ``memory.conversation.pruned`` if messages were removed or shortened."""
    same = len(before) == len(after) and all(a is b for a, b in zip(before, after, strict=True))
    if not same:
        known = {"strategy": strategy, **details, "removed_count": len(before) - len(after)}
        publish(Event("memory.conversation.pruned", details=known))


def check_count(name: str, value: object, minimum: int = 1) -> int:
    """Return an argument that is a whole number of at least *minimum*.

    Raises:
        TypeError, ValueError: it is not.
    """
    if isinstance(value, bool) or not isinstance(value, int):
        raise TypeError(f"{name} must be a whole number, not {type(value).__name__}")
    if value < minimum:
        raise ValueError(f"{name} must be at least {minimum}, not {value}")
    return value
