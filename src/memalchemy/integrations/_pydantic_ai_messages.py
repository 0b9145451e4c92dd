"""Messages of Pydantic AI as values that memalchemy stores, for both adapters of it."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from datetime import datetime
from typing import Any, TypeVar

from pydantic_ai.messages import ModelMessage, ModelMessagesTypeAdapter

from memalchemy.errors import NotSerialisable
from memalchemy.integrations._stored_forms import StoredForm
from memalchemy.integrations._values import storable

T = TypeVar("T")
Convert = Callable[[Any], Any]
"""A function that is called on all that is stored."""


def dump_messages(messages: Sequence[ModelMessage]) -> list[dict[str, Any]]:
    """Return messages as dicts, each with its ``kind`` and ``parts``, with the types of Python.

    Raises:
        NotSerialisable: pydantic cannot dump one of them.
    """
    try:
        found: list[dict[str, Any]] = ModelMessagesTypeAdapter.dump_python(
            list(messages), warnings=False
        )
    except (TypeError, ValueError, RecursionError) as error:
        raise NotSerialisable("messages", f"cannot be dumped by pydantic: {error}") from error
    for message in found:
        # Nearly all messages have times, and a value without any takes a faster form.
        for holder in (message, *message["parts"]):
            if isinstance(time := holder.get("timestamp"), datetime):
                holder["timestamp"] = time.isoformat()
    return found


@StoredForm("list of messages of Pydantic AI")
def load_messages(stored: Sequence[dict[str, Any]]) -> list[ModelMessage]:
    """Return the messages of `dump_messages`, equal to those that were dumped.

    Raises:
        Corrupt: they are none.
    """
    return ModelMessagesTypeAdapter.validate_python(stored)


async def write_storable(write: Callable[[Convert], Awaitable[T]]) -> T:
    """Call *write* with a function that prepares values to be stored.

    It returns values as they are; if one of them is refused, *write* is called again with
    `storable`, which changes no other one. Most messages need no look at each value.

    Raises:
        NotSerialisable: a value is not JSON's either.
    """
    try:
        return await write(lambda value: value)
    except NotSerialisable:
        return await write(storable)
