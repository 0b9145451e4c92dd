"""The age of messages, and removal of the old ones: whole exchanges, from the start of a list.

These functions are pure: they take messages of any kind, and return the same objects.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from datetime import UTC, datetime
from typing import Any

from memalchemy.context._message_groups import message_groups
from memalchemy.context.manager import publish_pruned
from memalchemy.messages import copy_with, is_system, is_user_turn, metadata_of

STORED_AT = "stored_at"
"""Metadata key that `stamp_messages` sets to an ISO time in UTC."""

_TIME_KEYS = ("occurred_at", STORED_AT, "locus_at")


def message_time(message: Any) -> datetime | None:
    """Return when a message was said or first stored, by its metadata; ``None`` if unknown.

    The keys are ``occurred_at``, ``stored_at`` and ``locus_at``, the values a datetime or an ISO
    text; UTC if there is no time zone.
    """
    metadata = metadata_of(message)
    for name in _TIME_KEYS:
        time = metadata.get(name)
        if isinstance(time, str):
            try:
                time = datetime.fromisoformat(time)
            except ValueError:
                continue
        if isinstance(time, datetime):
            return time.astimezone(UTC) if time.tzinfo is not None else time.replace(tzinfo=UTC)
    return None


def stamp_message(message: Any, time: datetime) -> Any:
    """Return a copy with *time* as its ``stored_at``; the message itself if it has a time."""
    if message_time(message) is not None:
        return message
    metadata = {**metadata_of(message), STORED_AT: time.astimezone(UTC).isoformat()}
    copy = copy_with(message, "metadata", metadata)
    return message if copy is None else copy


def stamp_messages(messages: Sequence[Any], time: datetime) -> list[Any]:
    """Return the messages, those without a time stamped with *time*."""
    return [stamp_message(message, time) for message in messages]


def oldest_message_time(messages: Sequence[Any]) -> datetime | None:
    """Return the earliest time of the messages, system messages left out; ``None`` if unknown."""
    times = (message_time(message) for message in messages if not is_system(message))
    return min((time for time in times if time is not None), default=None)


def trim_messages(
    messages: Sequence[Any], before: datetime, *, unknown: datetime | None = None
) -> list[Any]:
    """Return the messages without the exchanges at the start that are older than *before*.

    An exchange is a user message and everything up to the next user message; what the user says
    while a tool works belongs to it. It goes when its newest message is old, so that no tool call
    loses its result. Removal ends at the first exchange that stays. System messages stay.

    Args:
        unknown: the time of messages without one; ``None`` keeps them.
    """
    messages = list(messages)
    kept: list[Any] = []
    rest = 0
    for start, stop in _exchanges(messages):
        exchange = messages[start:stop]
        dialogue = [message for message in exchange if not is_system(message)]
        times = [message_time(message) or unknown for message in dialogue]
        if not all(time is not None and time < before for time in times):
            break
        kept += [message for message in exchange if is_system(message)]
        rest = stop
    trimmed = [*kept, *messages[rest:]]
    publish_pruned("message_age", messages, trimmed)
    return trimmed


def _exchanges(messages: Sequence[Any]) -> Iterator[tuple[int, int]]:
    """Yield where each exchange starts, and where the next one does."""
    starts = [0]
    for group in message_groups(messages):
        if group[0] and is_user_turn(messages[group[0]]):
            starts.append(group[0])
    yield from zip(starts, [*starts[1:], len(messages)], strict=True) if messages else ()
