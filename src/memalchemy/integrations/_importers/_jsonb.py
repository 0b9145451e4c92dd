"""SQLite's JSONB, its binary form of JSON: https://sqlite.org/jsonb.html.

It is read here, because SQLite before 3.45 cannot.
"""

from __future__ import annotations

from typing import Any

from memalchemy._bounds import Room, parse_json

_CONSTANTS = {0: None, 1: True, 2: False}
_INTEGER, _FLOAT, _TEXT, _ESCAPED_TEXT, _RAW_TEXT, _ARRAY, _OBJECT = 3, 5, 7, 8, 10, 11, 12
_INLINE = 11
"""The largest size that a header holds itself."""
_ELEMENT, _CONTAINER = 88, 184
"""Bytes of memory that an element takes beside its text, and a container besides."""


def decode_jsonb(blob: bytes) -> Any:
    """Return the JSON value that a blob holds.

    Raises:
        ValueError: it is no JSONB, has what is not JSON but JSON5, or would take too much memory.
    """
    try:
        value, end = _read_element(memoryview(blob), 0, Room(blob))
    except (IndexError, UnicodeDecodeError, RecursionError) as error:
        raise ValueError("this is no JSONB") from error
    if end != len(blob):
        raise ValueError("this is no JSONB")
    return value


def _read_element(blob: memoryview, at: int, room: Room) -> tuple[Any, int]:
    """Return the element that begins at a byte, and where it ends."""
    room.take(_ELEMENT)
    kind, size = blob[at] & 0xF, blob[at] >> 4
    at += 1
    if size > _INLINE:
        width = 1 << (size - _INLINE - 1)
        size = int.from_bytes(blob[at : at + width], "big")
        at += width
    end = at + size
    if end > len(blob):
        raise ValueError("this is no JSONB")
    if kind in _CONSTANTS:
        return _CONSTANTS[kind], end
    if kind in (_ARRAY, _OBJECT):
        room.take(_CONTAINER)
        parts = []
        while at < end:
            part, at = _read_element(blob, at, room)
            parts.append(part)
        if kind == _ARRAY:
            return parts, end
        if not all(type(name) is str for name in parts[::2]):
            raise ValueError("this is no JSONB")
        return dict(zip(parts[::2], parts[1::2], strict=True)), end
    text = str(blob[at:end], "utf-8")
    if kind in (_TEXT, _RAW_TEXT):
        return text, end
    if kind == _ESCAPED_TEXT:
        return parse_json(f'"{text}"', strict=False), end
    if kind == _INTEGER:
        return int(text), end
    if kind == _FLOAT:
        return float(text), end
    raise ValueError(f"the element type {kind} is not JSON's")
