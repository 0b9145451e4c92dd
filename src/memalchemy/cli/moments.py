"""Times on the command line: a date, a time, or how long ago."""

from __future__ import annotations

from datetime import UTC, datetime

from memalchemy.cli.parsers import parse_duration
from memalchemy.cli.usage_errors import UsageError


def parse_moment(text: str | None, option: str) -> datetime | None:
    """Parse ``2026-11-01`` or ``2026-11-01T12:00``, in UTC if it does not say, or ``7d`` ago."""
    if text is None:
        return None
    try:
        found = datetime.fromisoformat(text)
    except ValueError:
        pass
    else:
        return found.replace(tzinfo=UTC) if found.tzinfo is None else found.astimezone(UTC)
    try:
        return datetime.now(UTC) - parse_duration(text)
    except (UsageError, OverflowError):
        raise UsageError(
            f"{option} {text!r} is not a time; write 2026-11-01, 2026-11-01T12:00, or 7d for "
            "seven days ago"
        ) from None
