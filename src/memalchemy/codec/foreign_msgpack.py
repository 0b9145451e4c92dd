"""Read MessagePack that a framework has written: the texts in it, and its content as a plain tree.

`memalchemy.contracts.Packed` is a value that a framework has serialised itself. Frameworks write an
object as an extension that holds MessagePack: a list of the names of a module and of a class, the
content, and what else the object is rebuilt with. No object is ever rebuilt here.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import ormsgpack

from memalchemy._bounds import unpack_extension, unpack_foreign
from memalchemy.codec.deltas import added, edits
from memalchemy.contracts import Packed

Range = tuple[int, int]

FORMAT = "msgpack"
EMPTY = "memalchemy:empty"
"""Format of a value that stands for no value: see the adapter of LangGraph."""
_UNREADABLE = (ValueError, TypeError, RecursionError)
_NO_TEXT = frozenset({"id", "type"})
"""Fields of an object that hold names, and nothing that anybody said."""


class Extension:
    """An extension that was not decoded."""

    __slots__ = ("code", "data")

    def __init__(self, code: int, data: bytes) -> None:
        self.code: int = code
        self.data: bytes = data


def plain_tree(value: Packed) -> Any:
    """Return the content as dicts, lists and scalars; *value* itself if it cannot be read."""
    if value.format in ("null", "bytes"):  # as LangGraph's serialiser writes these
        return None if value.format == "null" else value.data
    if value.format != FORMAT:
        return value
    try:
        return _to_plain(_unpack(value.data))
    except _UNREADABLE:
        return value


@dataclass(frozen=True, slots=True)
class ForeignObject:
    """Object of a framework's class, as `object_tree` has it."""

    module: str
    name: str
    content: Any


def object_tree(value: Packed) -> Any:
    """Return the content as `plain_tree` does, with a `ForeignObject` for each object in it."""
    if value.format != FORMAT:
        return plain_tree(value)
    try:
        return _to_plain(_unpack(value.data), ForeignObject)
    except _UNREADABLE:
        return value


def texts(value: Packed, ranges: Sequence[Range] | None = None) -> Iterator[str]:
    """Yield the texts of *value*; with *ranges* of its bytes, the whole texts that touch these."""
    if value.format != FORMAT:
        return
    try:
        found = _unpack(value.data)
        if ranges is None:
            yield from _texts_in(found)
        else:
            yield from _texts_touching(found, 0, len(value.data), ranges)
    except _UNREADABLE:
        return


_TAG = b"\xc1\x81\xa2~p\x92"
_LENGTHS = {0xC4: 1, 0xC5: 2, 0xC6: 4}


def find_packed_content(encoded: bytes) -> tuple[str, int] | None:
    """Return the format of an encoded `Packed`, and where its bytes begin, which are the rest.

    ``None`` if *encoded* is another value.
    """
    if not encoded.startswith(_TAG):
        return None
    at = len(_TAG)
    if encoded[at] & 0xE0 != 0xA0:
        return None  # a long name, which no known format has
    name = encoded[at + 1 : at + 1 + (encoded[at] & 0x1F)]
    at += 1 + len(name)
    return name.decode("utf-8", "replace"), at + 1 + _LENGTHS[encoded[at]]


def added_packed_texts(encoded: bytes, form: str, start: int, old: bytes | None) -> Iterator[str]:
    """Yield the texts of an encoded `Packed` that *old*, an earlier one, did not have.

    *form* and *start* are those of `find_packed_content`.
    """
    if form != FORMAT:
        return
    if old is None or find_packed_content(old) is None:
        yield from texts(Packed(form, encoded[start:]))
        return
    if (appended := _appended_elements(encoded, start, old)) is not None:
        yield from _texts_in(appended)
        return
    value = Packed(form, encoded[start:])
    changes = edits(old[(find_packed_content(old) or ("", 0))[1] :], value.data)
    if ranges := [(low, high) for low, high in added(changes) if low < high]:
        yield from texts(value, ranges)


def _appended_elements(encoded: bytes, start: int, old: bytes) -> Any:
    """Return what was appended to a list, without reading what was in it before.

    ``None`` if the value is not a list that begins with all of the old one.
    """
    before, old_body = _length_of_list(old, (find_packed_content(old) or ("", 0))[1])
    now, body = _length_of_list(encoded, start)
    if now is None or before is None or not 0 < now - before < 0x10000:
        return None
    if not encoded.startswith(old[old_body:], body):
        return None
    head = b"\xdc" + (now - before).to_bytes(2, "big")
    try:
        return _unpack(head + encoded[body + len(old) - old_body :])
    except _UNREADABLE:
        return None


def _length_of_list(encoded: bytes, at: int) -> tuple[int | None, int]:
    """Return the length of the list at a position, and where its first element is."""
    first = encoded[at] if at < len(encoded) else 0
    if first & 0xF0 == 0x90:
        return first & 0x0F, at + 1
    if first in (0xDC, 0xDD):
        body = at + (3 if first == 0xDC else 5)
        return int.from_bytes(encoded[at + 1 : body], "big"), body
    return None, at


def _unpack(data: bytes) -> Any:
    return unpack_foreign(data, Extension)


def _unpack_extension(extension: Extension) -> Any:
    try:
        return unpack_extension(extension.data, Extension)
    except _UNREADABLE:
        return None


def _is_object(value: Any) -> bool:
    return type(value) is list and len(value) > 2 and {type(value[0]), type(value[1])} == {str}


def _to_plain(value: Any, make: Callable[[str, str, Any], Any] | None = None) -> Any:
    if type(value) is Extension:
        inside = _unpack_extension(value)
        if not _is_object(inside):
            return _to_plain(inside, make)
        content = _to_plain(inside[2], make)
        return content if make is None else make(inside[0], inside[1], content)
    if type(value) is list:
        return [_to_plain(item, make) for item in value]
    if type(value) is dict:
        return {
            key if type(key) is str else str(key): _to_plain(v, make) for key, v in value.items()
        }
    return value


def _texts_in(value: Any) -> Iterator[str]:
    if type(value) is str:
        yield value
    elif type(value) is Extension:
        inside = _unpack_extension(value)
        yield from _object_texts(inside) if _is_object(inside) else _texts_in(inside)
    elif type(value) is list:
        for item in value:
            yield from _texts_in(item)
    elif type(value) is dict:
        for item in value.values():
            yield from _texts_in(item)


def _object_texts(found: list[Any]) -> Iterator[str]:
    """Yield the texts of an object's content."""
    content = found[2]
    if type(content) is dict:
        content = [item for key, item in content.items() if key not in _NO_TEXT]
    yield from _texts_in(content)


def _texts_touching(value: Any, start: int, end: int, ranges: Sequence[Range]) -> Iterator[str]:
    """Yield the texts that touch *ranges* of a value that is encoded at ``[start, end)``."""
    if any(low <= start and end <= high for low, high in ranges):
        yield from _texts_in(value)
    elif type(value) is str:
        yield value
    elif type(value) is Extension:
        # All texts of an object: objects are small, so the positions inside are not worth finding.
        yield from _texts_in(value)
    elif type(value) in (list, dict):
        # Before the first element is only the length, which has changed where the container grew.
        body = start + (1 if len(value) < 16 else 3 if len(value) < 65_536 else 5)
        if inside := [(low, high) for low, high in ranges if high > body]:
            yield from _children_touching(value, end, inside)


def _children_touching(value: Any, end: int, ranges: Sequence[Range]) -> Iterator[str]:
    """Yield such texts of a container, from its end back: most additions are there."""
    named = type(value) is dict
    at, lowest = end, min(low for low, _ in ranges)
    found: list[tuple[Any, int, int]] = []
    for item in reversed(value.items() if named else value):
        if at < lowest:
            break
        name, child = item if named else (None, item)
        first = at - _encoded_size(child)
        if any(low < at and first < high for low, high in ranges):
            found.append((child, first, at))
        at = first - (_encoded_size(name) if named else 0)
    for child, first, last in reversed(found):
        yield from _texts_touching(child, first, last, ranges)


def _encoded_size(value: Any) -> int:
    """Return how many bytes *value* takes."""
    if type(value) is Extension:
        length = len(value.data)
        if length in (1, 2, 4, 8, 16):
            return length + 2
        return length + (3 if length < 0x100 else 4 if length < 0x10000 else 6)
    return len(ormsgpack.packb(value, default=_pack_extension, option=ormsgpack.OPT_NON_STR_KEYS))


def _pack_extension(value: Any) -> Any:
    if type(value) is Extension:
        return ormsgpack.Ext(value.code, value.data)
    raise TypeError(type(value).__name__)
