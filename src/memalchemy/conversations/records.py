"""Messages as records, the plain dicts that are stored, and records that can be cached safely.

Most messages are a role and a text. Such a record holds nothing mutable that a message made from it
shares, so it may be cached and made into a message again. Of other records the encoding is cached.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

from pydantic import TypeAdapter, ValidationError

from memalchemy._foreign_rows import foreign_entry
from memalchemy.codec.values import decode_value, encode_value
from memalchemy.messages import ROLES, check_role, is_text_record
from memalchemy.state import Message

CachedRecord = dict[str, str] | bytes
"""Record of a message that callers cannot change: a dict of texts, or an encoded record."""

_MESSAGES = TypeAdapter(list[Message])


def to_messages(records: Iterable[Any]) -> list[Message]:
    """Create messages from stored records.

    Raises:
        Conflict: one of them is no message: something else has written it.
    """
    found: list[Message] = []
    for place, message in enumerate(to_own_messages(records), start=1):
        if message is None:
            raise foreign_entry(place)
        found.append(message)
    return found


def check_records(records: Iterable[Any]) -> None:
    """Raise `Conflict` as `to_messages` does, unless all are messages."""
    to_messages(records)


def to_own_messages(records: Iterable[Any]) -> Sequence[Message | None]:
    """Create messages from stored records, all in one call of pydantic's validator.

    There is ``None`` for each that is no message: something else has written it.
    """
    given = list(records)
    try:
        return _MESSAGES.validate_python(given)
    except ValidationError:
        return [_to_own_message(record) for record in given]


def _to_own_message(record: Any) -> Message | None:
    try:
        return Message.of(record)
    except (TypeError, ValueError):
        return None


def to_record(message: Any, roles: frozenset[str] = ROLES) -> dict[str, Any]:
    """Return the record of a message of any kind; a copy, whatever becomes of *message*.

    Raises:
        TypeError, ValueError: it is no message, or its role is none of *roles*.
    """
    record = dict(message) if is_text_record(message) else Message.of(message).to_record()
    check_role(record["role"], roles)
    return record


def to_records(
    messages: Sequence[Any], roles: frozenset[str], known: Sequence[CachedRecord]
) -> list[dict[str, Any]]:
    """Return the records of messages, as `to_record` does.

    *known* are cached records. A message that equals the one at its place is that one: it was
    checked before, and nobody changes it.
    """
    records: list[dict[str, Any]] = []
    for at, message in enumerate(messages):
        same = known[at] if at < len(known) else None
        if (
            isinstance(same, dict)
            and type(message) is dict
            and message == same
            and same["role"] in roles
        ):
            records.append(same)
        else:
            records.append(to_record(message, roles))
    return records


def cached_records(records: Iterable[Any]) -> tuple[list[CachedRecord], int]:
    """Return records in a form that may be cached, and the number of characters in them.

    The caller gives up *records*: dicts of texts are cached themselves.
    """
    cached: list[CachedRecord] = []
    size = 0
    for record in records:
        if is_text_record(record):
            cached.append(record)
            size += len(record.get("content", ""))
        else:
            encoded = encode_value(record)
            cached.append(encoded)
            size += len(encoded)
    return cached, size


def messages_from_cache(cached: Iterable[CachedRecord]) -> list[Message]:
    """Create new messages from cached records."""
    return to_messages(decode_value(one) if isinstance(one, bytes) else one for one in cached)


def records_from_cache(cached: Iterable[CachedRecord]) -> list[dict[str, Any]]:
    """Create new records from cached ones.

    Raises:
        Conflict: as `to_messages`.
    """
    records = [decode_value(one) if isinstance(one, bytes) else one.copy() for one in cached]
    check_records(records)
    return records


def common_prefix_length(cached: Sequence[CachedRecord], records: Sequence[dict[str, Any]]) -> int:
    """Return how many of the cached records, from the first on, equal *records*."""
    pairs = enumerate(zip(cached, records, strict=False))
    different = (at for at, (one, record) in pairs if not _is_same(one, record))
    return next(different, min(len(cached), len(records)))


def _is_same(cached: CachedRecord, record: dict[str, Any]) -> bool:
    if cached is record:
        return True
    if isinstance(cached, bytes):
        # Equal is not enough: True equals 1.
        return bool(decode_value(cached) == record) and cached == encode_value(record)
    is_equal: bool = cached == record
    return is_equal
