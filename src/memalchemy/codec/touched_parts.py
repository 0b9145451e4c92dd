"""Parts of a value whose encoding has changed, found in time that goes by the change."""

from __future__ import annotations

from typing import Any

import ormsgpack

Range = tuple[int, int]
"""Bytes of an encoding, the end excluded."""

Touched = tuple[Any, int, int, list[Range] | None]
"""A part, where its encoding begins and ends, and the ranges in it; ``None`` if one has it all."""

_HEADERS = {0xD9: 2, 0xDA: 3, 0xDC: 3, 0xDE: 3, 0xDB: 5, 0xDD: 5, 0xDF: 5}
"""Bytes before the content of a MessagePack value, by its first byte; of other values 1."""


def header_size(encoded: bytes, start: int) -> int:
    """Return the number of bytes before the content of the value that begins at *start*."""
    return _HEADERS.get(encoded[start], 1)


def touched_parts(value: Any, encoded: bytes, ranges: list[Range]) -> list[Touched]:
    """Return the parts of a value that *ranges* of its encoding touch; both are in order.

    A part is a leaf, or a container that a range has all of.
    """
    found: list[Touched] = []
    left: list[tuple[Any, int, int, list[Range]]] = [(value, 0, len(encoded), ranges)]
    while left:
        part, start, end, touching = left.pop()
        kind = type(part)
        # In the tagged form ~x is a text with lone surrogates, encoded as bytes.
        is_covered = kind is dict and part.keys() == {"~x"}
        for low, high in touching:
            if low <= start and end <= high:
                is_covered = True
                break
        if is_covered:
            found.append((part, start, end, None))
        elif kind is list or kind is dict:
            body = start + _HEADERS.get(encoded[start], 1)
            inside = [one for one in touching if one[1] > body]
            if inside:
                left += _children_touching(part, end, inside)
        else:
            found.append((part, start, end, touching))
    return found


def _children_touching(
    value: Any, end: int, ranges: list[Range]
) -> list[tuple[Any, int, int, list[Range]]]:
    """Return the members of a container that ends at *end*, and the ranges that touch each.

    The last comes first: most additions are at the end, and nothing before them is looked at.
    """
    found: list[tuple[Any, int, int, list[Range]]] = []
    named = type(value) is dict
    at, lowest = end, ranges[0][0]
    for item in reversed(value.items() if named else value):
        if at < lowest:
            break
        name, child = item if named else (None, item)
        first = at - len(ormsgpack.packb(child))
        touching, overlaps = [], False
        for low, high in ranges:
            if first <= high and low <= at:
                touching.append((low, high))
                overlaps = overlaps or (first < high and low < at)
        if overlaps:
            found.append((child, first, at, touching))
        at = first - (len(ormsgpack.packb(name)) if named else 0)
    return found
