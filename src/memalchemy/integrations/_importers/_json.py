"""JSON as drivers return it: parsed, or as text."""

from __future__ import annotations

from typing import Any

from memalchemy._bounds import parse_json
from memalchemy.importers.unreadable import Unusable


def value_of(stored: Any) -> Any:
    """Return what a JSON column holds.

    Raises:
        ValueError, RecursionError: it is no JSON.
    """
    return parse_json(stored) if isinstance(stored, str | bytes) else stored


def object_of(stored: Any) -> dict[str, Any] | None:
    """Return a JSON object; ``None`` for any other value, and for what is no JSON."""
    try:
        found = value_of(stored)
    except (ValueError, RecursionError):
        return None
    return found if isinstance(found, dict) else None


def object_in(stored: Any) -> dict[str, Any]:
    """Return a JSON object.

    Raises:
        ValueError, RecursionError: it is no JSON, or another value.
    """
    found = value_of(stored)
    if not isinstance(found, dict):
        raise Unusable("is no JSON object")
    return found
