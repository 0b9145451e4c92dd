"""Arguments that are more than a word: durations and metadata."""

from __future__ import annotations

import json
import re
from datetime import timedelta
from typing import Any

from memalchemy.cli.exits import UsageProblem

_DURATION = re.compile(r"(\d+(?:\.\d+)?)([smhdw])")
_UNITS = {"s": "seconds", "m": "minutes", "h": "hours", "d": "days", "w": "weeks"}


def duration(text: str) -> timedelta:
    """Read ``30d``, ``12h``, ``90m``, ``45s`` or ``2w``."""
    match = _DURATION.fullmatch(text.strip())
    if match is None:
        raise UsageProblem(f"{text!r} is not a duration; write 30d, 12h, 90m, 45s or 2w")
    try:
        return timedelta(**{_UNITS[match[2]]: float(match[1])})
    except OverflowError:
        raise UsageProblem(f"{text!r} is too long a duration") from None


def metadata(pairs: list[str] | None) -> dict[str, Any] | None:
    """Read ``key=value`` pairs. A value that is JSON is that value, any other is a text."""
    if not pairs:
        return None
    found: dict[str, Any] = {}
    for pair in pairs:
        key, equals, value = pair.partition("=")
        if not equals or not key:
            raise UsageProblem(f"{pair!r} is not key=value")
        try:
            found[key] = json.loads(value)
        except ValueError:
            found[key] = value
    return found
