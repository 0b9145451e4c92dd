"""Times as other libraries store them."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

from memalchemy.importers.unreadable import Unusable


def to_utc(stored: Any) -> datetime:
    """Return a datetime, or a text of one in ISO 8601, in UTC; without a zone it is UTC already.

    Raises:
        Unusable: it is neither, or lies outside of the calendar.
    """
    try:
        time = datetime.fromisoformat(stored) if isinstance(stored, str) else stored
        if isinstance(time, datetime):
            return time.replace(tzinfo=UTC) if time.tzinfo is None else time.astimezone(UTC)
    except (ValueError, OverflowError) as error:
        raise Unusable("has a time that is none") from error
    raise Unusable("has a time that is none")


def from_seconds(stored: Any) -> datetime:
    """Return a number of seconds since 1970 as a datetime in UTC.

    Raises:
        Unusable: it is no number, or lies outside of the calendar.
    """
    try:
        if isinstance(stored, (int, float)) and not isinstance(stored, bool):
            return datetime.fromtimestamp(stored, UTC)
    except (ValueError, OverflowError, OSError) as error:
        raise Unusable("has a time that is none") from error
    raise Unusable("has a time that is none")
