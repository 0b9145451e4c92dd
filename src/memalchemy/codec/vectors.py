"""Vectors as bytes: float32, little-endian, one number after the other."""

from __future__ import annotations

import sys
from array import array
from collections.abc import Iterable
from typing import Any


def to_bytes(vector: Iterable[float]) -> bytes:
    """Encode a sequence of numbers; a numpy array is converted at once."""
    convert: Any = getattr(vector, "astype", None)
    if convert is not None:
        encoded: bytes = convert("<f4").tobytes()
        return encoded
    return _swap_on_big_endian(array("f", vector)).tobytes()


def from_bytes(raw: bytes | memoryview) -> array[float]:
    """Decode what `to_bytes` returned."""
    decoded = array("f")
    decoded.frombytes(raw)
    return _swap_on_big_endian(decoded)


def _swap_on_big_endian(numbers: array[float]) -> array[float]:
    if sys.byteorder == "big":
        numbers.byteswap()
    return numbers
