"""What every conversation manager is, and the one that keeps everything."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from typing import Any

from memalchemy.events import Event, publish


class ConversationManager(ABC):
    """A policy: which messages of a conversation go to the model.

    ``apply`` returns a new list: the messages that stay are the very objects that were given, in
    their order, and none is changed. A tool's result never stays without its call. What a manager
    has to write itself, such as a summary, is of the kind of the other messages: a dict among
    dicts, an object of their class among objects.
    """

    @abstractmethod
    def apply(self, messages: Sequence[Any]) -> list[Any]:
        """The messages that go to the model, oldest first."""

    async def async_apply(self, messages: Sequence[Any]) -> list[Any]:
        """`apply`, without blocking the event loop where a manager has to ask a model."""
        return self.apply(messages)

    def __repr__(self) -> str:
        return f"{type(self).__name__}()"


class NullManager(ConversationManager):
    """Keeps every message, and mends nothing."""

    def apply(self, messages: Sequence[Any]) -> list[Any]:
        """A copy of the list."""
        return list(messages)


def tell_pruned(
    strategy: str, before: Sequence[Any], after: Sequence[Any], **known: object
) -> None:
    """Publish ``memory.conversation.pruned``, if messages are gone or were shortened."""
    same = len(before) == len(after) and all(a is b for a, b in zip(before, after, strict=True))
    if not same:
        details = {"strategy": strategy, **known, "removed_count": len(before) - len(after)}
        publish(Event("memory.conversation.pruned", details=details))
