"""Cursors: where a page goes on, as opaque text."""

from __future__ import annotations

import base64
import json
from datetime import datetime
from typing import Any

from memalchemy.errors import InvalidArgument

_MOST = 64 * 1024


def encode_cursor(value: Any) -> str:
    """Return a cursor that holds *value*, which is JSON's."""
    document = json.dumps(value, separators=(",", ":")).encode()
    return base64.urlsafe_b64encode(document).decode("ascii").rstrip("=")


def decode_cursor(cursor: str, *lengths: int) -> list[Any]:
    """Return the list of values, one of *lengths* of them, that a cursor holds.

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
    if not isinstance(found, list) or len(found) not in lengths:
        raise InvalidArgument("this cursor is of another listing")
    return found


def moment_of(stamp: Any) -> datetime:
    """Return the time that a cursor holds in ISO 8601.

    Raises:
        InvalidArgument: it is none.
    """
    try:
        moment = datetime.fromisoformat(stamp)
        if moment.utcoffset() is None:
            raise ValueError
    except (TypeError, ValueError):
        raise InvalidArgument("this cursor holds no time") from None
    return moment
