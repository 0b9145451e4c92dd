"""Vectors as bytes: float32, little-endian, one after the other. Knows no database."""

from __future__ import annotations

import sys
from array import array
from collections.abc import Iterable
from typing import Any


def to_bytes(vector: Iterable[float]) -> bytes:
    """The bytes of any sequence of numbers; one of numpy's arrays is converted at once."""
    convert: Any = getattr(vector, "astype", None)
    if convert is not None:
        made: bytes = convert("<f4").tobytes()
        return made
    return _little(array("f", vector)).tobytes()


def from_bytes(raw: bytes | memoryview) -> array[float]:
    """The inverse of `to_bytes`."""
    found = array("f")
    found.frombytes(raw)
    return _little(found)


def _little(numbers: array[float]) -> array[float]:
    if sys.byteorder == "big":
        numbers.byteswap()
    return numbers
