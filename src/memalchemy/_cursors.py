"""Cursors of lists: where the next page begins, as an opaque text."""

from __future__ import annotations

import base64
import json
from collections.abc import Sequence
from datetime import datetime
from typing import Any

from memalchemy._bounds import parse_json
from memalchemy.errors import InvalidArgument

_MOST = 64 * 1024

Kind = type | tuple[type, ...]
"""The type of a value, or several that it may have.

A datetime is encoded in ISO 8601, a list holds texts, and ``object`` is any JSON value.
"""


def encode_cursor(listing: str, *values: Any) -> str:
    """Return a cursor of a listing that holds *values*: datetimes and JSON values."""
    document = json.dumps([listing, *values], separators=(",", ":"), default=datetime.isoformat)
    return base64.urlsafe_b64encode(document.encode()).decode("ascii").rstrip("=")


def decode_cursor(listing: str, cursor: str, kinds: Sequence[Kind]) -> list[Any]:
    """Return the values that a cursor of a listing holds; they are of these *kinds*.

    Raises:
        InvalidArgument: *cursor* is not one of this listing.
    """
    try:
        name, *values = _parse_cursor(cursor)
        if name != listing or len(values) != len(kinds):
            raise ValueError
        return [_check_value(value, kind) for value, kind in zip(values, kinds, strict=True)]
    except (ValueError, TypeError, RecursionError):
        raise InvalidArgument("this cursor is not one that this list gave out") from None


def is_of_listing(listing: str, cursor: str) -> bool:
    """Return whether a cursor says that it is one of a listing."""
    try:
        name, *_ = _parse_cursor(cursor)
    except (ValueError, TypeError, RecursionError):
        return False
    return bool(name == listing)


def _parse_cursor(cursor: str) -> Any:
    if len(cursor) > _MOST:
        raise ValueError
    padded = cursor.encode("ascii") + b"=" * (-len(cursor) % 4)
    return parse_json(base64.b64decode(padded, altchars=b"-_", validate=True))


def _check_value(value: Any, kind: Kind) -> Any:
    if kind is object:
        return value
    if kind is datetime:
        found = datetime.fromisoformat(value)
        if found.tzinfo is None:
            raise ValueError
        return found
    if type(value) not in (kind if isinstance(kind, tuple) else (kind,)):
        raise ValueError
    if isinstance(value, list) and not all(type(text) is str for text in value):
        raise ValueError
    return value
