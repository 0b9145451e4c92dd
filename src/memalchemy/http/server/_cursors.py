"""Cursors of lists: where the next page begins, as an opaque text."""

from __future__ import annotations

import base64
import json
from collections.abc import Sequence
from datetime import datetime
from typing import Any

from memalchemy.errors import InvalidArgument

_MOST = 16 * 1024


def encode_cursor(listing: str, *values: Any) -> str:
    """Return a cursor of a listing that holds *values*, which are JSON's."""
    document = json.dumps([listing, *values], separators=(",", ":")).encode()
    return base64.urlsafe_b64encode(document).decode("ascii").rstrip("=")


def decode_cursor(listing: str, cursor: str, kinds: Sequence[type]) -> list[Any]:
    """Return the values that a cursor of a listing holds; they are of these *kinds*.

    Raises:
        InvalidArgument: it is none of this listing.
    """
    try:
        if len(cursor) > _MOST:
            raise ValueError
        padded = cursor.encode("ascii") + b"=" * (-len(cursor) % 4)
        name, *values = json.loads(base64.b64decode(padded, altchars=b"-_", validate=True))
        if name != listing or len(values) != len(kinds):
            raise ValueError
        return [_value(value, kind) for value, kind in zip(values, kinds, strict=True)]
    except (ValueError, TypeError, RecursionError):
        raise InvalidArgument("this cursor is not one that this list gave out") from None


def _value(value: Any, kind: type) -> Any:
    if kind is datetime:
        found = datetime.fromisoformat(value)
        if found.tzinfo is None:
            raise ValueError
        return found
    if type(value) is not kind:
        raise ValueError
    if isinstance(value, list) and not all(type(text) is str for text in value):
        raise ValueError
    return value
