"""Messages of Pydantic AI as values that memalchemy stores, for both adapters of it."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from datetime import datetime
from typing import Any, Literal, TypeVar

from pydantic_ai.messages import ModelMessage, ModelMessagesTypeAdapter
from pydantic_core import PydanticSerializationError

from memalchemy.errors import NotSerialisable

T = TypeVar("T")

Mode = Literal["python", "json"]
"""Modes of pydantic's dumps: with the types that memalchemy stores, or with those of JSON."""


def dump_messages(messages: Sequence[ModelMessage], mode: Mode) -> list[dict[str, Any]]:
    """Return messages as dicts, each with its ``kind`` and ``parts``.

    Raises:
        NotSerialisable: pydantic cannot dump one of them.
    """
    try:
        found: list[dict[str, Any]] = ModelMessagesTypeAdapter.dump_python(
            list(messages), mode=mode, warnings=False
        )
    except PydanticSerializationError as error:
        raise NotSerialisable("messages", f"cannot be dumped by pydantic: {error}") from error
    for message in found:
        # Nearly all messages have times, and a value without any takes a faster form.
        for holder in (message, *message["parts"]):
            if isinstance(time := holder.get("timestamp"), datetime):
                holder["timestamp"] = time.isoformat()
    return found


def load_messages(stored: Sequence[dict[str, Any]]) -> list[ModelMessage]:
    """Return the messages of `dump_messages`, equal to those that were dumped."""
    return ModelMessagesTypeAdapter.validate_python(stored)


async def in_storable_mode(write: Callable[[Mode], Awaitable[T]]) -> T:
    """Call *write* with the mode that keeps types; if a value is of no storable type, as JSON.

    Raises:
        NotSerialisable: a value is not JSON's either.
    """
    try:
        return await write("python")
    except NotSerialisable:
        return await write("json")
