"""Messages from the records that `Message.to_record` made, fast, and records that are held safely.

Most messages are a role and a text. Such a record cannot be changed through a message made from it,
so it may be held and made into a message again; of others the encoding is held. What is held of
which conversation is in ``recalling``.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

from pydantic import BaseModel

from memalchemy.codec.values import decode_value, encode_value
from memalchemy.state import Message, Role

_ROLES: dict[str, Role | str] = {role.value: role for role in Role}
_TEXTS = dict.fromkeys(("role", "content", "tool_call_id", "name"))
"""What a plain record has, in the order of `Message.to_record`."""
_ONLY_TEXTS = {str}
_SAID = {"role", "content"}
_given: dict[tuple[str, ...], set[str]] = {}
"""Which fields were given: one set for all messages alike, which `model_copy` copies."""

_new = Message.__new__
# What a model consists of. To set it by name takes twice as long.
_set_fields, _set_given, _set_extra, _set_private = (
    BaseModel.__dict__[name].__set__
    for name in (
        "__dict__",
        "__pydantic_fields_set__",
        "__pydantic_extra__",
        "__pydantic_private__",
    )
)

Held = dict[str, str] | bytes
"""What nobody can change who is given a message of it: texts, or the encoding of a record."""


def _is_saying(record: Any) -> bool:
    """Whether a record is a role and a text; most are, and what `is_plain` asks takes longer."""
    return (
        type(record) is dict
        and len(record) == 2
        and type(record.get("content")) is str
        and type(record.get("role")) is str
    )


def is_plain(record: Any) -> bool:
    """Whether a record is a role and texts alone."""
    if _is_saying(record):
        return True
    if type(record) is not dict or "role" not in record or not record.keys() <= _TEXTS.keys():
        return False
    return set(map(type, record.values())) == _ONLY_TEXTS


def message_of(record: Any) -> Message:
    """`Message.of`, without a validation that can find nothing: of a role and texts alone.

    Raises:
        TypeError, ValueError: it is no record of a message.
    """
    return _made(record) if is_plain(record) else Message.of(record)


def record_of(message: Any) -> dict[str, Any]:
    """The record of what `Message.of` takes; its own, whatever becomes of *message*.

    Raises:
        TypeError, ValueError: it is no message.
    """
    if _is_saying(message):
        return {"role": message["role"], "content": message["content"]}
    if is_plain(message):
        return {name: message[name] for name in _TEXTS if name in message}
    return Message.of(message).to_record()


def held(records: Iterable[Any]) -> tuple[list[Held], int]:
    """Records as they may be held, which are given up for it; and the characters of their texts."""
    found: list[Held] = []
    size = 0
    for record in records:
        if is_plain(record):
            found.append(record)
            size += len(record.get("content", ""))
        else:
            found.append(encode_value(record))
            size += len(found[-1])
    return found, size


def messages_of_held(records: Iterable[Held]) -> list[Message]:
    """New messages, each call anew."""
    return [
        Message.of(decode_value(one)) if isinstance(one, bytes) else _made(one) for one in records
    ]


def records_of_held(records: Iterable[Held]) -> list[dict[str, Any]]:
    """New records, each call anew."""
    return [decode_value(one) if isinstance(one, bytes) else one.copy() for one in records]


def is_held(one: Held, record: Any) -> bool:
    """Whether *one* is what would be held of *record*, of `record_of`; True is not 1."""
    if isinstance(one, bytes):
        return bool(decode_value(one) == record) and one == encode_value(record)
    is_same: bool = one == record
    return is_same


def same_until(known: Sequence[Held], records: Sequence[dict[str, Any]]) -> int:
    """How many of *known*, from the first on, are these records already."""
    pairs = enumerate(zip(known, records, strict=False))
    return next((at for at, two in pairs if not is_held(*two)), min(len(known), len(records)))


def _made(record: dict[str, str]) -> Message:
    # As `model_construct` does it, which takes five times as long. The fields are all there are.
    role = record["role"]
    fields: dict[str, Any] = {
        "role": _ROLES.get(role, role),
        "content": record.get("content"),
        "tool_calls": (),
        "tool_call_id": None,
        "name": None,
        "metadata": {},
    }
    given = _SAID
    if len(record) != 2 or "content" not in record:
        fields |= record | {"role": fields["role"]}
        names = tuple(record)
        given = _given.get(names) or _given.setdefault(names, set(names))
    message = _new(Message)
    _set_fields(message, fields)
    _set_given(message, given)
    _set_extra(message, {})
    _set_private(message, None)
    return message
