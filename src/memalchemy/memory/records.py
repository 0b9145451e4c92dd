"""Messages from the records that `Message.to_record` made, fast, and records that are held safely.

Most messages are a role and a text. Such a record cannot be changed through a message made from it,
so one may be held and made into a message again; of others the encoding is held.
"""

from __future__ import annotations

from typing import Any, NamedTuple

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
    return _made(*_template(record)) if is_plain(record) else Message.of(record)


Template = tuple[dict[str, Any], set[str]]
"""The fields of a message of texts alone, and which were given."""


def _template(record: dict[str, str]) -> Template:
    role, get, names = record["role"], record.get, tuple(record)
    fields: dict[str, Any] = {
        "role": _ROLES.get(role, role),
        "content": get("content"),
        "tool_calls": (),
        "tool_call_id": get("tool_call_id"),
        "name": get("name"),
        "metadata": None,
    }
    return fields, _given.get(names) or _given.setdefault(names, set(names))


def _made(template: dict[str, Any], given: set[str]) -> Message:
    # As `model_construct` does it, which takes five times as long. The fields are all there are.
    message = Message.__new__(Message)
    fields = template.copy()
    fields["metadata"] = {}
    _set(message, "__dict__", fields)
    _set(message, "__pydantic_fields_set__", given)
    _set(message, "__pydantic_extra__", {})
    _set(message, "__pydantic_private__", None)
    return message


Held = Template | bytes
"""What nobody can change who is given a message of it: texts, or the encoding of a record."""


def held(position: int, record: Any, mark: int) -> Held:
    """A record as it may be held."""
    return _template(record) if is_plain(record) else encode_value(record)


class Known(NamedTuple):
    """What one object has read of a log: with it, the next reading is of what is new."""

    seen: LogReading | None = None
    records: list[Held] = []  # noqa: RUF012 - nobody changes it
    size: int = 0

    def grown(self, reading: LogReading, new: list[Held]) -> Known:
        """This after a *reading* that went on from it."""
        whole = reading.complete or self.seen is None
        size = 0 if whole else self.size
        for one in new:
            size += len(one) if isinstance(one, bytes) else len(one[0]["content"] or "")
        if whole:
            return Known(reading, new, size)
        return Known(reading, [*self.records, *new] if new else self.records, size)

    def kept(self) -> Known:
        """This, or nothing if it is too much to hold."""
        return self if self.size <= HELD else Known()


def messages_of_held(records: list[Held]) -> list[Message]:
    """New messages, each call anew."""
    return [
        Message.of(decode_value(one)) if isinstance(one, bytes) else _made(*one) for one in records
    ]
