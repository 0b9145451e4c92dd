"""Stored values as values of JSON's types, for readers that do not have the codec."""

from __future__ import annotations

import base64
import json
import math
from collections.abc import Mapping
from dataclasses import asdict, is_dataclass
from datetime import date, time
from typing import Any

from memalchemy.contracts import Packed, plain_number

_DECIMAL_BITS = 10_000
"""Bits of the largest integer that is written as decimal digits: Python refuses larger ones."""


def to_json_types(value: Any) -> Any:
    """Convert any stored value, or a database's, to JSON's types, for reading.

    Dates become text, bytes base64, sets sorted lists, and what a framework has packed its content
    where the format is known. Any other value, such as a duration or a number that is not finite,
    becomes what ``str`` says of it.
    """
    if isinstance(value, int) and value.bit_length() > _DECIMAL_BITS:
        return hex(value)
    if value is None or isinstance(value, (str, int)):
        return value
    if isinstance(value, Mapping):
        return {_to_json_key(key): to_json_types(item) for key, item in value.items()}
    if isinstance(value, (list, tuple)):
        return [to_json_types(item) for item in value]
    if isinstance(value, (set, frozenset)):
        return sorted((to_json_types(item) for item in value), key=lambda item: json.dumps(item))
    if isinstance(value, (bytes, bytearray, memoryview)):
        return base64.b64encode(value).decode("ascii")
    if isinstance(value, (date, time)):
        return value.isoformat()
    if type(value).__module__ == "numpy":
        number = plain_number(value)
        return str(value) if number is value else to_json_types(number)
    if isinstance(value, Packed):
        return _unpack_framework_value(value)
    if is_dataclass(value) and not isinstance(value, type):
        return to_json_types(asdict(value))
    if isinstance(value, float) and math.isfinite(value):
        return value
    return str(value)


def _to_json_key(key: Any) -> str:
    plain = to_json_types(key)
    return plain if isinstance(plain, str) else str(key)


def _unpack_framework_value(value: Packed) -> Any:
    from memalchemy.codec.foreign_msgpack import plain_tree

    content = plain_tree(value)
    if not isinstance(content, Packed):
        return to_json_types(content)
    # An unknown format without bytes stands for no value.
    return {"format": value.format, "data": to_json_types(value.data)} if value.data else None


def spell_value(value: Any) -> bytes:
    """Return the ``repr`` of any stored value, by which equal values are told from others."""
    try:
        spelt = repr(value)
    except ValueError:  # Python refuses to write large integers
        spelt = repr(to_json_types(value))
    return spelt.encode("utf-8", "surrogatepass")


def are_equal(one: Any, other: Any) -> bool:
    """Return whether two stored values are equal, or spelt alike if they cannot be compared."""
    try:
        return bool(one == other)
    except (ValueError, ArithmeticError):  # such as an array, or a signaling NaN
        return spell_value(one) == spell_value(other)
    except RecursionError:
        return False
