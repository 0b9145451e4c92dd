"""Bounds on the memory and time that parsing takes: all bytes and JSON from outside pass here.

A byte may become an empty map of 72 bytes of memory, and compressed it takes a fraction of a bit.
The hashes of numbers, UUIDs, decimals, and of tuples and frozensets of these can be foreseen, so
that a set of them can compare each member with all others. Both are counted here before
anything is built, at a cost that grows with the bytes and not with what they would become.
"""

from __future__ import annotations

import json
import math
import re
import sys
from collections.abc import Callable, Iterable, Sequence
from contextlib import suppress
from datetime import timedelta
from decimal import Decimal
from functools import lru_cache
from ipaddress import IPv4Interface, IPv4Network, IPv6Interface, IPv6Network
from itertools import chain
from typing import Any, NamedTuple, NoReturn
from uuid import UUID

import orjson
import ormsgpack

MAX_OVERHEAD = 64 * 1024 * 1024
"""Bytes of memory that a value may take above `EXPANSION` times the size of its encoding."""

EXPANSION = 6
"""Bytes of memory that a byte of an ordinary value may take: those of a long conversation of short
messages take five, an empty map takes seventy.
"""

_ALLOWANCE = 4 * 1024 * 1024
"""Bytes for what is not counted, such as blocks of memory that are not full."""

_SMALL = MAX_OVERHEAD // 200
"""Bytes of a value in the plain form that cannot take too much memory."""

SMALL = (MAX_OVERHEAD - _ALLOWANCE) // 448
"""Bytes of values in either form that cannot take too much memory."""

COMPARISONS = 1_000
"""Comparisons of members with equal hashes that any set may need."""

COMPARISONS_A_MEMBER = 16
"""Comparisons that a set may need beyond that, for each of its members."""

_TAGGED = b"\xc1"
"""First byte of the tagged form of a value, from which a second tree is built."""


class Oversized(ValueError):
    """Bytes that would take more memory to decode than their size allows."""

    def __init__(self, size: int, limit: int) -> None:
        super().__init__(f"would take over {limit:,} bytes of memory")
        self.size = size
        self.limit = limit


class Colliding(ValueError):
    """Building a set would compare each member with all others, as their hashes are equal."""

    def __init__(self) -> None:
        super().__init__("is a set or map whose members have too many equal hashes")


# --- MessagePack ----------------------------------------------------------------------------------


def unpack(encoded: bytes) -> Any:
    """Parse a value in the plain form, or in the tagged form as the tree with its tags.

    Raises:
        Oversized: the value would take too much memory.
        ValueError: it is not MessagePack.
    """
    check_memory((encoded,))
    return unpack_checked(encoded)


def unpack_checked(encoded: bytes) -> Any:
    """Parse a value as `unpack` does whose memory `check_memory` has counted already."""
    return ormsgpack.unpackb(memoryview(encoded)[1:] if encoded[:1] == _TAGGED else encoded)


def unpack_foreign(encoded: bytes, extension: Callable[[int, bytes], Any]) -> Any:
    """Parse MessagePack that another library wrote, whose keys may be other things than texts.

    What *extension* gets was counted, with the extensions in it: it parses its own by
    `unpack_extension`.

    Raises:
        Oversized, ValueError: as `unpack`.
        Colliding: keys that are lists, or the members of a set, have too many equal hashes.
    """
    return _Foreign(encoded).unpack(extension)


def unpack_extension(content: bytes, extension: Callable[[int, bytes], Any]) -> Any:
    """Parse the content of an extension that `unpack_foreign` gave to its caller.

    Raises:
        ValueError: it is not MessagePack.
    """
    return ormsgpack.unpackb(content, ext_hook=extension, option=ormsgpack.OPT_NON_STR_KEYS)


def check_foreign(encoded: bytes) -> None:
    """Check MessagePack of another library that is parsed elsewhere, as `unpack_foreign` does.

    Raises:
        Oversized, Colliding: as `unpack_foreign`.
        ValueError: it is not MessagePack.
    """
    if len(encoded) > _SMALL or len(encoded) != len(encoded.translate(None, _EXTENSION_HEADS)):
        _Foreign(encoded).unpack(lambda code, content: None)
    else:
        _check_list_keys(encoded)


def unpack_plain(encoded: bytes) -> Any:
    """Parse a value in the plain form, as `unpack` does; one in the tagged form is a ValueError."""
    if len(encoded) > _SMALL:
        check_memory((encoded,))
    return ormsgpack.unpackb(encoded)


def check_memory(parts: Iterable[bytes]) -> None:
    """Check that values, which are decoded together, do not take too much memory.

    Raises:
        Oversized: they do.
    """
    parts = tuple(parts)
    limit = MAX_OVERHEAD - _ALLOWANCE + EXPANSION * sum(map(len, parts))
    if _is_plainly_within(parts, limit):
        return
    size = 0
    for part in parts:
        size += _decoded_memory(part, limit - size)
        if size > limit:
            raise Oversized(size, limit)


_ASCII = bytes(range(0x80))
_PIECE = 64 * 1024
"""Bytes of which those of ASCII are counted at once."""


class _Rates(NamedTuple):
    """The most memory that a byte can become: one of ASCII, any other, and either of them.

    Where all bytes count as either, those of a value are taken together. A map costs most then: 84
    bytes, 100 for each key with its value, and what these two become, which is 144 bytes if they
    are empty texts of a byte each.
    """

    ascii: int
    other: int
    either: int


_PLAIN_RATES = _Rates(8, 200, 122)
_TAGGED_RATES = _Rates(96, 448, 448)


def _is_plainly_within(parts: Sequence[bytes], limit: int) -> bool:
    """Return whether the ASCII bytes say already that the parts take at most *limit* memory.

    Bytes are counted, in C, until it is certain: of a few megabytes that is the beginning.
    """
    rates = list(map(_rates_of, parts))
    most = sum(len(part) * of_part.either for part, of_part in zip(parts, rates, strict=True))
    if most <= limit:
        return True
    for part, of_part in zip(parts, rates, strict=True):
        for at in range(0, len(part), _PIECE):
            piece = part[at : at + _PIECE]
            most += _most_memory(piece, of_part) - len(piece) * of_part.either
            if most <= limit:
                return True
    return sum(map(_most_memory_by_heads, parts)) <= limit


def _rates_of(part: bytes) -> _Rates:
    return _TAGGED_RATES if part[:1] == _TAGGED else _PLAIN_RATES


def _most_memory(part: bytes, rates: _Rates = _PLAIN_RATES) -> int:
    """Return an upper bound of `_decoded_memory`, in one pass that is written in C."""
    others = len(part.translate(None, _ASCII))
    return (len(part) - others) * rates.ascii + others * rates.other


_NO_HEADS = bytes({*range(256)}.difference(range(0x80, 0xA0), range(0xDC, 0xE0)))
"""Bytes that no list and no map begins with."""
_MEMBERS = bytes([0] * 0x80 + [2 * n for n in range(16)] + [*range(16)] + [0] * 0x60)
"""The members of a short list, and the keys and values of a short map, by its first byte."""
_ENTRIES = bytes([0] * 0x80 + [*range(16)] + [0] * 0x70)
"""The keys of a short map, by its first byte."""
_MOST_LONG = 1_000
"""Lists and maps of over 15 members in a value of which each is looked at."""
_OF_FOUR_BYTES = [bytes((first,)) for first in range(0xF0, 0xF5)]
"""First bytes of characters of four bytes."""


def _most_memory_by_heads(part: bytes) -> int:
    """Return an upper bound of `_decoded_memory`, by the lengths that lists and maps begin with.

    Bytes of a text that look like the beginning of one count as well. It is the lower bound of a
    value of many bytes, most of which are in its texts.
    """
    heads = part.translate(None, _NO_HEADS)
    long = {first: heads.count(first) for first in range(0xDC, 0xE0)}
    if part[:1] == _TAGGED or sum(long.values()) > _MOST_LONG:
        return _most_memory(part, _rates_of(part))
    members, entries = 1 + sum(heads.translate(_MEMBERS)), sum(heads.translate(_ENTRIES))
    for first, number in long.items():
        at = -1
        for _ in range(number):
            at = part.index(first, at + 1)
            length = min(_read_length(part, at, first)[0], len(part))
            members += length * (2 if first >= 0xDE else 1)
            entries += length * (first >= 0xDE)
    width = 4 if any(map(part.__contains__, _OF_FOUR_BYTES)) else 2
    of_members = members * (_POINTER + _OBJECT + 32)  # 32 more of a text beyond ASCII
    return width * len(part) + of_members + 84 * len(heads) + 100 * entries


# Values of one width that stand side by side: small numbers and constants, longer numbers, empty
# lists, empty maps.
_RUNS = re.compile(
    rb"([\x00-\x7f\xc0\xc2\xc3\xe0-\xff]++)|((?:[\xcc\xd0].)++)|((?:[\xcd\xd1]..)++)"
    rb"|((?:[\xca\xce\xd2].{4})++)|((?:[\xcb\xcf\xd3].{8})++)|(\x90++)|(\x80++)",
    re.DOTALL,
)
_WIDTHS = (0, 1, 2, 3, 5, 9, 1, 1)
_LENGTHS = {
    **{0xC4: 1, 0xC5: 2, 0xC6: 4, 0xC7: 1, 0xC8: 2, 0xC9: 4},
    **{0xD9: 1, 0xDA: 2, 0xDB: 4, 0xDC: 2, 0xDD: 4, 0xDE: 2, 0xDF: 4},
}
"""Bytes of the length that follows the first byte of a long value."""
_EXTENSIONS = {0xD4: 1, 0xD5: 2, 0xD6: 4, 0xD7: 8, 0xD8: 16}
_POINTER = 8
_COPIED_POINTER = 18
"""Bytes of a place in a list, and in the copy that grows while the tags of a list are read."""
_LIST, _COPIED_LIST = 56, 56 + 88
_OBJECT = 64
"""Bytes of a number, or of a text or bytes without the content."""
_LEAF_TAGS = {b"~dt": 256, b"~h": 1024, b"~m": 96, b"~p": 96}
"""Bytes of the object that a tag becomes; of another tag it is 128."""


def _decoded_memory(part: bytes, limit: int, *, has_objects: bool = False) -> int:
    """Return the bytes of memory that a value is decoded in, until they are over *limit*.

    If it *has_objects*, its extensions are values in turn.
    """
    size, inside = 0, [part]
    for depth in range(_MAX_NESTING):
        inside, values = [], inside
        for value in values:
            size += _memory_without_extensions(value, limit - size, inside if has_objects else None)
            size += _object_memory(value) if depth else 0
        if not inside:
            return size
    return limit + 1


def _memory_without_extensions(part: bytes, limit: int, inside: list[bytes] | None) -> int:
    """Return the memory of a value without its extensions, which are added to *inside*."""
    is_tagged = part[:1] == _TAGGED
    pointer, list_ = (_COPIED_POINTER, _COPIED_LIST) if is_tagged else (_POINTER, _LIST)
    run_sizes = (0, 0, 32, 32, 32, 32, list_, (1 + is_tagged) * _SMALL_MAPS[0])
    size, at, end = 0, int(is_tagged), len(part)
    while at < end and size <= limit:
        first = part[at]
        if (run := _RUNS.match(part, at)) is not None:
            kind = run.lastindex or 0
            number = (run.end() - at) // _WIDTHS[kind]
            size += number * (pointer + run_sizes[kind])
            at = run.end()
            continue
        length, body = _read_length(part, at, first)
        size += pointer
        if first & 0xF0 == 0x90 or first in (0xDC, 0xDD):
            size += list_
            if inside is not None and at < _NAMES and _BUILTINS in part[:at]:
                size += set_memory(min(length, end - at))
            at = body
        elif first & 0xF0 == 0x80 or first in (0xDE, 0xDF):
            tag = _tag_at(part, body) if is_tagged and length == 1 else b""
            if tag:
                size += _map_memory(1) + _LEAF_TAGS.get(tag, 128)
                body += 1 + len(tag)
                if tag in (b"~s", b"~f") and body < end:
                    members, _ = _read_length(part, body, part[body])
                    size += set_memory(min(members, end - body))
            else:
                size += (1 + is_tagged) * _map_memory(min(length, end - at))
            at = body
        else:
            if inside is not None and bytes((first,)) in _EXTENSION_HEADS:
                inside.append(part[body : body + length])
            size += _OBJECT + (
                _text_memory(part[body : body + length])
                if first & 0xE0 == 0xA0 or 0xD9 <= first <= 0xDB
                else length
            )
            at = body + length
    return size


def _read_length(part: bytes, at: int, first: int) -> tuple[int, int]:
    """Return the length of a value, in bytes or in members, and where its content begins."""
    if 0x80 <= first < 0xA0:
        return first & 0x0F, at + 1
    if 0xA0 <= first < 0xC0:
        return first & 0x1F, at + 1
    if (extension := _EXTENSIONS.get(first)) is not None:
        return extension, at + 2
    digits = _LENGTHS.get(first, 0)
    is_extension = 0xC7 <= first <= 0xC9
    length = int.from_bytes(part[at + 1 : at + 1 + digits], "big")
    return length, at + 1 + digits + is_extension


def _tag_at(part: bytes, at: int) -> bytes:
    """Return the tag that a map of one key has there; nothing if it has another key."""
    name = part[at + 1 : at + 1 + (part[at] & 0x1F)] if part[at : at + 1] in _SHORT_NAMES else b""
    return name if name[:1] == b"~" else b""


_SHORT_NAMES = (b"\xa2", b"\xa3")


def _text_memory(text: bytes) -> int:
    """Return the bytes of a text's characters: one character of four bytes makes all of them so."""
    if text.isascii():
        return len(text)
    width = 4 if _ASTRAL.search(text) else 2
    return 32 + width * len(text.translate(None, _CONTINUATIONS))


_ASTRAL = re.compile(rb"[\xf0-\xff]")
_CONTINUATIONS = bytes(range(0x80, 0xC0))
"""Bytes of UTF-8 that do not begin a character."""

_SMALL_MAPS = [sys.getsizeof({str(i): i for i in range(size)}) for size in range(32)]


def _map_memory(length: int) -> int:
    return _SMALL_MAPS[length] if length < len(_SMALL_MAPS) else 64 + 100 * length


@lru_cache(maxsize=256)
def set_memory(members: int) -> int:
    """Return the bytes that building a set takes beside its members, their hashes counted first."""
    slots = 8
    while members * 5 >= (slots - 1) * 3:
        filled = -(-(slots - 1) * 3 // 5)
        grown = filled * 2 if filled > 50_000 else filled * 4
        while slots <= grown:
            slots *= 2
    # The set, a second one of the hashes, the hashes and a list of the members.
    return 2 * (216 + (slots * 16 if slots > 8 else 0)) + 48 * members


# --- Members of sets, keys of maps ----------------------------------------------------------------


def check_members(members: Sequence[Any]) -> None:
    """Check that a set of *members*, or a map with these keys, is built in linear time.

    Raises:
        Colliding: it is not.
        TypeError: a member cannot be one.
    """
    if len(set(map(hash, members))) == len(members):
        return
    allowed = COMPARISONS + COMPARISONS_A_MEMBER * len(members)
    groups: dict[int, list[Any]] = {}
    for member in members:
        group = groups.setdefault(hash(member), [])
        for other in group:
            allowed -= _count_comparison_steps(member, other, allowed)
            if allowed < 0:
                raise Colliding
            if member == other:
                break
        else:
            group.append(member)


def _count_comparison_steps(a: Any, b: Any, limit: int) -> int:
    """Return how many steps it takes to compare two values, at most one more than *limit*."""
    kinds = {type(a), type(b)}
    if kinds == {int, Decimal}:  # which converts the int to the other base
        number = a if type(a) is int else b
        return min((number.bit_length() // 1024 + 1) ** 2, limit + 1)
    if kinds == {tuple}:
        steps = 1
        for left, right in zip(a, b, strict=False):
            if steps > limit:
                break
            steps += _count_comparison_steps(left, right, limit - steps)
        return steps
    if kinds == {frozenset}:  # whose members may have equal hashes again
        return min(_count_nested_members(a, limit) * _count_nested_members(b, limit), limit + 1)
    return 1


def _count_nested_members(value: Any, limit: int) -> int:
    weight, level = 0, [value]
    while level and weight <= limit:
        weight += len(level)
        level = list(chain.from_iterable(one for one in level if type(one) in (tuple, frozenset)))
    return weight


_LISTS = bytes([*range(0x90, 0xA0), 0xDC, 0xDD])
_FEW_LISTS = 64


def _check_list_keys(part: bytes) -> None:
    """Check the keys of maps that are lists, which become tuples.

    The hashes of other keys are random, or at most a few dozen numbers have the same one.

    Raises:
        Colliding: too many have equal hashes.
    """
    if len(part) - len(part.translate(None, _LISTS)) < _FEW_LISTS:
        return
    try:
        ormsgpack.unpackb(part, ext_hook=lambda code, content: None)
    except ValueError:
        pass  # there are keys that are no texts, or this is no MessagePack
    else:
        return
    for ranges in _find_list_keys(part):
        keys = [
            _as_key(ormsgpack.unpackb(part[low:high], option=ormsgpack.OPT_NON_STR_KEYS))
            for low, high in ranges
        ]
        check_members(keys)


def _as_key(tree: Any) -> Any:
    return tuple(map(_as_key, tree)) if type(tree) is list else tree


def _find_list_keys(part: bytes) -> list[list[tuple[int, int]]]:
    """Return for each map the ranges of bytes of its keys that are lists."""
    found: list[list[tuple[int, int]]] = []
    # Of each open container: values left, whether it is a map, its keys, its first byte.
    open_: list[list[Any]] = []
    at, end = 0, len(part)
    while at < end:
        first, start = part[at], at
        left = 0
        if first not in (0x80, 0x90) and (run := _RUNS.match(part, at)) is not None:
            at += _WIDTHS[run.lastindex or 0]
        else:
            length, body = _read_length(part, at, first)
            if 0x80 <= first < 0xA0 or 0xDC <= first <= 0xDF:
                is_map = first & 0xF0 == 0x80 or first in (0xDE, 0xDF)
                left = length * (2 if is_map else 1)
                at = body
                if left:
                    open_.append([left, is_map, [], start])
                    continue
                if not is_map and open_ and open_[-1][1] and open_[-1][0] % 2 == 0:
                    open_[-1][2].append((start, at))
            else:
                at = body + length
        while open_:
            open_[-1][0] -= 1
            if open_[-1][0]:
                break
            _, is_map, keys, start = open_.pop()
            if keys:
                found.append(keys)
            if not is_map and open_ and open_[-1][1] and open_[-1][0] % 2 == 0:
                open_[-1][2].append((start, at))
    return found


# --- Extensions of MessagePack --------------------------------------------------------------------

_EXTENSION_HEADS = bytes([0xC7, 0xC8, 0xC9, 0xD4, 0xD5, 0xD6, 0xD7, 0xD8])
_BUILTINS = b"builtins"
"""The module of Python's sets, which the content of their extension names."""
_WITH_FORESEEN_HASHES: dict[tuple[str, str], Callable[..., Any]] = {
    ("uuid", "UUID"): UUID,
    ("decimal", "Decimal"): Decimal,
    ("datetime", "timedelta"): timedelta,
    **{
        ("ipaddress", kind.__name__): kind
        for kind in (IPv4Interface, IPv4Network, IPv6Interface, IPv6Network)
    },
}
_NAMES = 32
"""Bytes in which the module and the class of a set, or of a pattern, stand."""
_MAX_NESTING = 100
"""Extensions within each other, which are copied at each level."""
_FOREIGN_OBJECT = 1024
"""Bytes of the object that an extension becomes, beside its content; a model has many fields."""
_COMPILED = 512
"""Bytes in which a byte of a pattern is compiled."""


def _object_memory(content: bytes) -> int:
    is_pattern = b"compile" in content[:_NAMES]
    return _FOREIGN_OBJECT + (_COMPILED * len(content) if is_pattern else 0)


class _Foreign:
    """A value in MessagePack of another library, whose extensions are MessagePack in turn.

    An extension is a list of a module, a class and the content that the class is called with, as
    LangGraph writes them. Its bytes are counted when they are met, before their object is made.
    """

    def __init__(self, encoded: bytes) -> None:
        if encoded[:1] == _TAGGED:
            raise ValueError("no MessagePack begins with this byte")
        self._encoded = encoded
        self._limit = MAX_OVERHEAD - _ALLOWANCE + EXPANSION * len(encoded)
        self._most = 0
        """The most memory that what was met may take."""
        self._is_counted = False
        self._refusal: ValueError | None = None

    def unpack(self, extension: Callable[[int, bytes], Any]) -> Any:
        """Parse the value; *extension* makes what an extension stands for."""
        self._add_memory(_most_memory(self._encoded))
        _check_list_keys(self._encoded)

        def checked(code: int, content: bytes) -> Any:
            try:
                self._check_extension(content)
            except (Oversized, Colliding) as error:
                self._refusal = error
                raise
            return extension(code, content)

        try:
            return unpack_extension(self._encoded, checked)
        except ValueError:
            if self._refusal is not None:  # of which the parser tells nothing
                raise self._refusal from None
            raise

    def _check_extension(self, content: bytes) -> None:
        heads = len(content) - len(content.translate(None, _EXTENSION_HEADS))
        has_sets = _BUILTINS in content
        if not self._is_counted:
            if has_sets or b"compile" in content:
                self._count_exactly()
            # Of the extensions in it, each begins with one of the heads and copies its bytes.
            objects = (1 + heads) * _FOREIGN_OBJECT + min(heads, _MAX_NESTING) * len(content)
            self._add_memory(_most_memory(content) + objects)
        _check_list_keys(content)
        if heads or has_sets:
            _stand_in_of_object(content)

    def _add_memory(self, most: int) -> None:
        self._most += most
        if self._most > self._limit:
            self._count_exactly()

    def _count_exactly(self) -> None:
        """Count all of the value, where the most that it may take is not enough to know."""
        if not self._is_counted:
            size = _decoded_memory(self._encoded, self._limit, has_objects=True)
            if size > self._limit:
                raise Oversized(size, self._limit)
            self._is_counted = True


class _Unhashed:
    """Stand-in of an object whose hash cannot be foreseen, or that is not made at all."""


def _stand_in_of_object(content: bytes, depth: int = 1) -> Any:
    """Return a stand-in of an extension's object, with the same hash if that can be foreseen.

    Raises:
        Colliding: a set in it, or the keys of a map, have too many equal hashes.
    """
    if depth > _MAX_NESTING:
        raise Colliding
    refusal: list[Colliding] = []

    def inner(_: int, found: bytes) -> Any:
        try:
            return _stand_in_of_object(found, depth + 1)
        except Colliding as error:
            refusal.append(error)
            raise

    _check_list_keys(content)
    try:
        tree = unpack_extension(content, inner)
    except ValueError:
        if refusal:
            raise refusal[0] from None
        return _Unhashed()
    if type(tree) is not list or len(tree) < 3 or {type(tree[0]), type(tree[1])} != {str}:
        return _Unhashed()
    module, name, given = tree[:3]
    if module == "builtins" and name in ("set", "frozenset") and type(given) is list:
        try:
            check_members(given)
            return frozenset(given)
        except TypeError:  # so that no set is made
            return _Unhashed()
    made = _WITH_FORESEEN_HASHES.get((module, name))
    try:
        if made is not None:
            return made(*given) if type(given) is list else made(given)
        fields = tuple(given.values() if type(given) is dict else given)
        hash(fields)
    except (TypeError, ValueError, ArithmeticError):
        return _Unhashed()
    return fields


# --- JSON -----------------------------------------------------------------------------------------

_STRINGS = re.compile(rb'"(?:[^"\\]|\\.)*+(?:"|\\?\Z)', re.DOTALL)
_JSON_SIGNS = ((b"{", 248), (b"[", 72), (b",", 56), (b":", 32), (b'"', 36))
"""Maximum bytes of memory for each occurrence of a sign; for a text, without its content."""


def parse_json(document: bytes | str, **options: Any) -> Any:
    """Parse JSON as `json.loads` does.

    Raises:
        Oversized: it would take too much memory.
        ValueError: it is not JSON.
    """
    check_json(document)
    return json.loads(document, **options)


class NumberTooLarge(ValueError):
    """A number of a JSON document would be infinite."""


def parse_strict_json(document: bytes | str) -> Any:
    """Parse JSON of a user: only what can be written as JSON again.

    Raises:
        ValueError: as `parse_json`; also for NaN, and for a number too large for a float.
    """
    return parse_json(document, parse_constant=_refuse_constant, parse_float=_parse_float)


def _refuse_constant(text: str) -> NoReturn:
    raise ValueError(f"JSON has no {text}")


def _parse_float(text: str) -> float:
    number = float(text)
    if math.isinf(number):
        shown = text if len(text) <= 40 else f"{text[:40]}…"
        raise NumberTooLarge(f"the number {shown} is too large for a float")
    return number


def parse_plain_json(document: bytes | str) -> Any:
    """Parse JSON as `orjson.loads` does, which is faster and takes no numbers of over 64 bits.

    Raises:
        ValueError: as `parse_json`.
    """
    check_json(document)
    return orjson.loads(document)


MAX_METADATA_BYTES = 2_000_000
"""Bytes of metadata in a row: 32,000 as they were given, where a server spells 1e300 in full."""
_SHORT_METADATA = 64_000


def parse_metadata(text: bytes | str) -> Any:
    """Parse the JSON of a row's metadata, which is short in every row that was saved.

    Raises:
        Oversized, ValueError: as `parse_json`.
    """
    if len(text) > MAX_METADATA_BYTES:
        raise Oversized(len(text), MAX_METADATA_BYTES)
    if len(text) > _SHORT_METADATA:
        check_json(text)
    if isinstance(text, str):
        # As json.loads does it, without looking for white space, of which jsonb has none around.
        with suppress(ValueError):
            found, end = _decode_first(text)
            if end == len(text):
                return found
    return json.loads(text)


_decode_first = json.JSONDecoder().raw_decode


def check_json(document: bytes | str) -> None:
    """Check that a JSON document does not take too much memory.

    Raises:
        Oversized: it does.
    """
    if len(document) * _JSON_SIGNS[0][1] <= MAX_OVERHEAD:
        return
    encoded = document if isinstance(document, bytes) else document.encode("utf-8", "replace")
    limit = MAX_OVERHEAD + len(encoded)
    text = len(encoded)
    if b"\\u" in encoded or not encoded.isascii():
        text *= 4 if b"\\u" in encoded or _ASTRAL.search(encoded) else 2
    size = 2 * text + _memory_of_signs(encoded)
    if size > limit:
        for string in _STRINGS.finditer(encoded):
            size -= _memory_of_signs(encoded[string.start() + 1 : string.end() - 1])
            if size <= limit:
                return
        raise Oversized(size, limit)


def _memory_of_signs(document: bytes) -> int:
    return sum(document.count(sign) * size for sign, size in _JSON_SIGNS)


def check_tree(tree: Any) -> None:
    """Check that the value for which a JSON tree with tags stands does not take too much memory.

    Raises:
        Oversized: it does.
    """
    size, own = 0, 0
    level: list[Any] = [tree]
    while level:
        below: list[Any] = []
        for one in level:
            kind = type(one)
            if kind is list:
                size += _COPIED_LIST + _COPIED_POINTER * len(one)
                own += len(one) + 2
                below += one
            elif kind is dict:
                size += 2 * _map_memory(len(one)) + _POINTER
                own += 4 * len(one) + 2
                if len(one) == 1:
                    ((tag, content),) = one.items()
                    if tag in ("~s", "~f") and type(content) is list:
                        size += set_memory(len(content))
                    elif tag == "~h":
                        size += _LEAF_TAGS[b"~h"]
                below += one.values()
            elif kind is str:
                size += _OBJECT + len(one)
                own += len(one) + 2
            else:
                size += 32
                own += 2
        if size - own > MAX_OVERHEAD:
            raise Oversized(size, MAX_OVERHEAD + own)
        level = below


class Room:
    """Memory that is left for a value whose bytes are parsed step by step."""

    def __init__(self, encoded: bytes) -> None:
        self._left = self._limit = MAX_OVERHEAD - _ALLOWANCE + EXPANSION * len(encoded)

    def take(self, size: int) -> None:
        """Take memory.

        Raises:
            Oversized: none is left.
        """
        self._left -= size
        if self._left < 0:
            raise Oversized(self._limit - self._left, self._limit)


# --- Protocol buffers -----------------------------------------------------------------------------

_MESSAGE_OF_TWO_BYTES = 100
"""Bytes of memory that an empty message takes, which two bytes stand for."""
_ENTRY = 200
"""Bytes of an entry of a map."""
_SKIPPED = {0: 0, 1: 8, 5: 4}
"""Bytes of a value by its wire type, beside a number of variable length."""


def check_protobuf(encoded: bytes, descriptor: Any) -> None:
    """Check that a message of protocol buffers of this *descriptor* takes bounded memory.

    Raises:
        Oversized: it does not.
    """
    limit = MAX_OVERHEAD - _ALLOWANCE + EXPANSION * len(encoded)
    if len(encoded) * _ENTRY // 2 <= limit:
        return
    size = len(encoded)
    open_ = [(0, len(encoded), descriptor)]
    while open_ and size <= limit:
        at, end, kind = open_.pop()
        while at < end and size <= limit:
            tag, at = _parse_varint(encoded, at)
            if tag & 7 != 2:
                if tag & 7 == 0:
                    _, at = _parse_varint(encoded, at)
                at += _SKIPPED.get(tag & 7, 0)
                size += _POINTER
                continue
            length, at = _parse_varint(encoded, at)
            field = kind.fields_by_number.get(tag >> 3)
            inner = None if field is None else field.message_type
            size += _OBJECT
            if inner is not None:
                size += _ENTRY if inner.GetOptions().map_entry else _MESSAGE_OF_TWO_BYTES
                open_.append((at, min(at + length, end), inner))
            at += length
    if size > limit:
        raise Oversized(size, limit)


def _parse_varint(encoded: bytes, at: int) -> tuple[int, int]:
    """Return a number of variable length, and where it ends."""
    number = shift = 0
    while at < len(encoded) and shift < 70:
        byte = encoded[at]
        at += 1
        number |= (byte & 0x7F) << shift
        if byte < 0x80:
            break
        shift += 7
    return number, at
