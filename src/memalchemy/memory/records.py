"""Messages from the records that `Message.to_record` made, fast, and records that are held safely.

Most messages are a role and a text. Such a record cannot be changed through a message made from it,
so one may be held and made into a message again; of others the encoding is held.
"""

from __future__ import annotations

from typing import Any

from memalchemy.codec.values import decode_value, encode_value
from memalchemy.contracts import LogReading
from memalchemy.state import Message, Role

HELD = 8 * 1024 * 1024
"""Characters, about, that a conversation object holds of what it has read."""

_ROLES: dict[str, Role | str] = {role.value: role for role in Role}
_TEXTS = frozenset({"role", "content", "tool_call_id", "name"})
_set = object.__setattr__
_given: dict[tuple[str, ...], set[str]] = {}
"""Which fields were given: one set for all messages alike, which `model_copy` copies."""


def is_plain(record: Any) -> bool:
    """Whether a record is a role and texts alone."""
    if type(record) is not dict or not record.keys() <= _TEXTS or "role" not in record:
        return False
    return all([type(value) is str for value in record.values()])


def message_of(record: Any) -> Message:
    """`Message.of`, without a validation that can find nothing: of a role and texts alone.

    Raises:
        TypeError, ValueError: it is no record of a message.
    """
    return _plain_message(record) if is_plain(record) else Message.of(record)


def _plain_message(record: dict[str, str]) -> Message:
    # As `model_construct` does it, which takes twice as long. The fields are all that there are.
    message = Message.__new__(Message)
    names = tuple(record)
    role, get = record["role"], record.get
    fields: dict[str, Any] = {
        "role": _ROLES.get(role, role),
        "content": get("content"),
        "tool_calls": (),
        "tool_call_id": get("tool_call_id"),
        "name": get("name"),
        "metadata": {},
    }
    _set(message, "__dict__", fields)
    _set(message, "__pydantic_fields_set__", _given.get(names) or _remembered(names))
    _set(message, "__pydantic_extra__", {})
    _set(message, "__pydantic_private__", None)
    return message


def _remembered(names: tuple[str, ...]) -> set[str]:
    return _given.setdefault(names, set(names))


Held = dict[str, str] | bytes
"""A plain record, or the encoding of another."""


def held(position: int, record: Any, mark: int) -> Held:
    """A record so that nobody who is given a message of it can change it."""
    return record if is_plain(record) else encode_value(record)


class Records:
    """What one object has read of a log: with it, the next reading is of what is new."""

    def __init__(self) -> None:
        self._known: tuple[LogReading | None, list[Held]] = (None, [])

    @property
    def known(self) -> tuple[LogReading | None, list[Held]]:
        """The last reading, and what it had come to by then. Nobody may change the list."""
        return self._known

    def hold(self, reading: LogReading, records: list[Held]) -> None:
        """Know this from now on, unless it is too much."""
        size = sum(len(r) if isinstance(r, bytes) else len(r.get("content", "")) for r in records)
        self._known = (reading, records) if size <= HELD else (None, [])


def messages_of_held(records: list[Held]) -> list[Message]:
    """New messages, each call anew."""
    return [
        Message.of(decode_value(record)) if isinstance(record, bytes) else _plain_message(record)
        for record in records
    ]
