"""The texts in MessagePack that somebody else has made, and it as a plain tree to look at.

Frameworks write an object as an extension that holds MessagePack itself: an array of the names of a
module and of a class, the content, and what else it is rebuilt with. Nothing is ever rebuilt here.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import ormsgpack

from memalchemy.codec.deltas import added, edits
from memalchemy.contracts import Packed

Range = tuple[int, int]

FORMAT = "msgpack"
_UNREADABLE = (ValueError, TypeError, RecursionError)
_UNSPOKEN = frozenset({"id", "type"})
"""Fields of an object that nobody says: what it is, and which one."""


class Extension:
    """An extension, unread."""

    __slots__ = ("code", "data")

    def __init__(self, code: int, data: bytes) -> None:
        self.code, self.data = code, data


def tree(value: Packed) -> Any:
    """What *value* holds, as dicts, lists and scalars; the value itself if that cannot be told."""
    if value.format != FORMAT:
        return value.data if value.format == "bytes" else value
    try:
        return _plain(_unpacked(value.data))
    except _UNREADABLE:
        return value


def texts(value: Packed, ranges: Sequence[Range] | None = None) -> Iterator[str]:
    """The texts of *value*, or those that touch *ranges* of its bytes, whole."""
    if value.format != FORMAT:
        return
    try:
        found = _unpacked(value.data)
        if ranges is None:
            yield from _texts(found)
        else:
            yield from _touched(found, 0, len(value.data), ranges)
    except _UNREADABLE:
        return


_TAG = b"\xc1\x81\xa2~p\x92"
_LENGTHS = {0xC4: 1, 0xC5: 2, 0xC6: 4}


def place_in(encoded: bytes) -> tuple[str, int] | None:
    """The format of a packed value, and where its bytes begin in its encoding, which they end."""
    if not encoded.startswith(_TAG):
        return None
    at = len(_TAG)
    if encoded[at] & 0xE0 != 0xA0:
        return None  # a long name, which no format has that is known here
    name = encoded[at + 1 : at + 1 + (encoded[at] & 0x1F)]
    at += 1 + len(name)
    return name.decode("utf-8", "replace"), at + 1 + _LENGTHS[encoded[at]]


def added_texts(encoded: bytes, form: str, start: int, old: bytes | None) -> Iterator[str]:
    """The texts of an encoded packed value that *old*, another one, had not."""
    if form != FORMAT:
        return
    if old is None or place_in(old) is None:
        yield from texts(Packed(form, encoded[start:]))
        return
    if (appended := _appended(encoded, start, old)) is not None:
        yield from _texts(appended)
        return
    value = Packed(form, encoded[start:])
    changes = edits(old[(place_in(old) or ("", 0))[1] :], value.data)
    if ranges := [(low, high) for low, high in added(changes) if low < high]:
        yield from texts(value, ranges)


def _appended(encoded: bytes, start: int, old: bytes) -> Any:
    """The items of a list that was a shorter one, the same so far; ``None`` if it is not so.

    Then nothing of what was there has to be read.
    """
    before, old_body = _length(old, (place_in(old) or ("", 0))[1])
    now, body = _length(encoded, start)
    if now is None or before is None or not 0 < now - before < 0x10000:
        return None
    if not encoded.startswith(old[old_body:], body):
        return None
    head = b"\xdc" + (now - before).to_bytes(2, "big")
    try:
        return _unpacked(head + encoded[body + len(old) - old_body :])
    except _UNREADABLE:
        return None


def _length(encoded: bytes, at: int) -> tuple[int | None, int]:
    """How many items the list at a place has, and where the first of them is."""
    first = encoded[at] if at < len(encoded) else 0
    if first & 0xF0 == 0x90:
        return first & 0x0F, at + 1
    if first in (0xDC, 0xDD):
        body = at + (3 if first == 0xDC else 5)
        return int.from_bytes(encoded[at + 1 : body], "big"), body
    return None, at


def _unpacked(data: bytes) -> Any:
    return ormsgpack.unpackb(data, ext_hook=Extension, option=ormsgpack.OPT_NON_STR_KEYS)


def _inside(extension: Extension) -> Any:
    try:
        return _unpacked(extension.data)
    except _UNREADABLE:
        return None


def _is_object(value: Any) -> bool:
    return type(value) is list and len(value) > 2 and {type(value[0]), type(value[1])} == {str}


def _plain(value: Any) -> Any:
    if type(value) is Extension:
        inside = _inside(value)
        return _plain(inside[2] if _is_object(inside) else inside)
    if type(value) is list:
        return [_plain(item) for item in value]
    if type(value) is dict:
        return {key if type(key) is str else str(key): _plain(v) for key, v in value.items()}
    return value


def _texts(value: Any) -> Iterator[str]:
    if type(value) is str:
        yield value
    elif type(value) is Extension:
        inside = _inside(value)
        yield from _said(inside) if _is_object(inside) else _texts(inside)
    elif type(value) is list:
        for item in value:
            yield from _texts(item)
    elif type(value) is dict:
        for item in value.values():
            yield from _texts(item)


def _said(found: list[Any]) -> Iterator[str]:
    """The texts of an object's content."""
    content = found[2]
    if type(content) is dict:
        content = [item for key, item in content.items() if key not in _UNSPOKEN]
    yield from _texts(content)


def _touched(value: Any, start: int, end: int, ranges: Sequence[Range]) -> Iterator[str]:
    """The texts of *value*, whose bytes are ``[start, end)``, that touch *ranges*."""
    if any(low <= start and end <= high for low, high in ranges):
        yield from _texts(value)
    elif type(value) is str:
        yield value
    elif type(value) is Extension:
        # All of what is inside: an object is small, and its position within is not worth knowing.
        yield from _texts(value)
    elif type(value) in (list, dict):
        # Where a container has grown, its length has changed, which is no text.
        body = start + (1 if len(value) < 16 else 3 if len(value) < 65_536 else 5)
        if inside := [(low, high) for low, high in ranges if high > body]:
            yield from _children(value, end, inside)


def _children(value: Any, end: int, ranges: Sequence[Range]) -> Iterator[str]:
    """`_touched` of what is in a container, from its end down: what was added is mostly there."""
    named = type(value) is dict
    at, lowest = end, min(low for low, _ in ranges)
    found: list[tuple[Any, int, int]] = []
    for item in reversed(value.items() if named else value):
        if at < lowest:
            break
        name, child = item if named else (None, item)
        first = at - _size(child)
        if any(low < at and first < high for low, high in ranges):
            found.append((child, first, at))
        at = first - (_size(name) if named else 0)
    for child, first, last in reversed(found):
        yield from _touched(child, first, last, ranges)


def _size(value: Any) -> int:
    """How many bytes *value* takes."""
    if type(value) is Extension:
        length = len(value.data)
        if length in (1, 2, 4, 8, 16):
            return length + 2
        return length + (3 if length < 0x100 else 4 if length < 0x10000 else 6)
    return len(ormsgpack.packb(value, default=_repacked, option=ormsgpack.OPT_NON_STR_KEYS))


def _repacked(value: Any) -> Any:
    if type(value) is Extension:
        return ormsgpack.Ext(value.code, value.data)
    raise TypeError(type(value).__name__)
