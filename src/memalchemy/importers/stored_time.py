"""Times as other libraries store them."""

from __future__ import annotations

from datetime import UTC, datetime


def to_utc(stored: str | datetime) -> datetime:
    """Return a datetime, or a text of one in ISO 8601, in UTC; without a zone it is UTC already."""
    time = datetime.fromisoformat(stored) if isinstance(stored, str) else stored
    return time.replace(tzinfo=UTC) if time.tzinfo is None else time.astimezone(UTC)
