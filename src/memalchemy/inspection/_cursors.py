"""Cursors: where a page goes on, as opaque text."""

from __future__ import annotations

import base64
import json
from typing import Any

from memalchemy.errors import InvalidArgument

_MOST = 64 * 1024


def encode_cursor(value: Any) -> str:
    """Return a cursor that holds *value*, which is JSON's."""
    document = json.dumps(value, separators=(",", ":")).encode()
    return base64.urlsafe_b64encode(document).decode("ascii").rstrip("=")


def decode_cursor(cursor: str, length: int) -> list[Any]:
    """Return the list of *length* values that a cursor holds.

    Raises:
        InvalidArgument: it is none.
    """
    try:
        if len(cursor) > _MOST:
            raise ValueError
        padded = cursor.encode("ascii") + b"=" * (-len(cursor) % 4)
        found = json.loads(base64.b64decode(padded, altchars=b"-_", validate=True))
    except (ValueError, RecursionError):
        raise InvalidArgument("this cursor is not one that this server gave out") from None
    if not isinstance(found, list) or len(found) != length:
        raise InvalidArgument("this cursor is of another listing")
    return found
