"""How old a message is, and letting the old ones of a list go: whole exchanges, from its start on.

Pure: messages of any kind in, the same objects out. Knows nothing of where they are kept.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from datetime import UTC, datetime
from typing import Any

from memalchemy.memory.managers.base import tell_pruned
from memalchemy.memory.managers.making import replaced
from memalchemy.messages import is_system, is_user_turn, metadata_of

STORED_AT = "stored_at"
"""The metadata that `stamp_messages` gives a message: an ISO time in UTC."""

_TIMES = ("occurred_at", STORED_AT, "locus_at")


def message_time(message: Any) -> datetime | None:
    """When it was said, or else first stored, as its metadata have it; ``None`` if they do not.

    ``occurred_at``, ``stored_at`` or ``locus_at``, a datetime or an ISO text; UTC without a zone.
    """
    found = metadata_of(message)
    for name in _TIMES:
        time = found.get(name)
        if isinstance(time, str):
            try:
                time = datetime.fromisoformat(time)
            except ValueError:
                continue
        if isinstance(time, datetime):
            return time.astimezone(UTC) if time.tzinfo is not None else time.replace(tzinfo=UTC)
    return None


def stamped(message: Any, time: datetime) -> Any:
    """A copy with *time* as its ``stored_at``; itself if it has a time already."""
    if message_time(message) is not None:
        return message
    told = {**metadata_of(message), STORED_AT: time.astimezone(UTC).isoformat()}
    copy = replaced(message, "metadata", told)
    return message if copy is None else copy


def stamp_messages(messages: Sequence[Any], time: datetime) -> list[Any]:
    """The messages, those without a time of their own `stamped` with *time*."""
    return [stamped(message, time) for message in messages]


def oldest_message_time(messages: Sequence[Any]) -> datetime | None:
    """The earliest time among those that are not system messages; ``None`` if none has one."""
    talk = (message_time(message) for message in messages if not is_system(message))
    return min((time for time in talk if time is not None), default=None)


def trim_messages(
    messages: Sequence[Any], before: datetime, *, unknown: datetime | None = None
) -> list[Any]:
    """The messages without the exchanges at the start that are older than *before*.

    An exchange is what the user said and all up to what the user said next; it goes when its newest
    message is old, so that no call of a tool loses its result. The first that stays ends it. System
    messages stay. A message without a time is of the time *unknown*, or else stays.
    """
    messages = list(messages)
    kept: list[Any] = []
    rest = 0
    for start, stop in _exchanges(messages):
        part = messages[start:stop]
        talk = [message for message in part if not is_system(message)]
        times = [message_time(message) or unknown for message in talk]
        if not all(time is not None and time < before for time in times):
            break
        kept += [message for message in part if is_system(message)]
        rest = stop
    left = [*kept, *messages[rest:]]
    tell_pruned("message_age", messages, left)
    return left


def _exchanges(messages: Sequence[Any]) -> Iterator[tuple[int, int]]:
    starts = [0, *(at for at in range(1, len(messages)) if is_user_turn(messages[at]))]
    yield from zip(starts, [*starts[1:], len(messages)], strict=True) if messages else ()
