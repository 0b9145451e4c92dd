"""Check metadata: small JSON that filters are applied to."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

import orjson

from memalchemy._json_pointers import pointer
from memalchemy.errors import NotSerialisable, TooLarge

MAX_METADATA_BYTES = 32_000
"""Size of metadata as JSON. What is larger belongs in the state or the value."""

MATCH_BINDS = ("match_key", "match_value", "match_pair")
"""The binds that the dialects' comparisons of metadata have, each some of them."""


def check_metadata(metadata: Mapping[str, Any] | None) -> dict[str, Any]:
    """Return a copy of *metadata* that every database stores and returns unchanged.

    Raises:
        NotSerialisable: it is not JSON (str keys; str, int, float, bool, None, list, dict), or
            holds what JSON columns refuse: NaN, infinity, U+0000, a lone surrogate.
        TooLarge: it takes over 32,000 bytes as JSON.
    """
    if metadata is None:
        return {}
    if not isinstance(metadata, Mapping):
        raise NotSerialisable("", f"is a {type(metadata).__name__}; metadata is a mapping")
    checked: dict[str, Any] = _check_value(dict(metadata), "")
    size = len(orjson.dumps(checked))
    if size > MAX_METADATA_BYTES:
        raise TooLarge("metadata", size, MAX_METADATA_BYTES)
    return checked


def kind_of(value: Any) -> str:
    """Return the kind of a JSON value, as the dialects' comparisons name it."""
    if value is None:
        return "null"
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, (int, float)):
        return "number"
    return "text" if isinstance(value, str) else "container"


def _is_plain(value: Any) -> bool:
    """Return whether a value is stored as it is, as most are: then its path need not be told."""
    if type(value) is str:
        return value.isascii() and "\x00" not in value
    return type(value) is bool or (type(value) is int and -(2**63) <= value < 2**63)


def _check_value(value: Any, path: str, depth: int = 0) -> Any:
    if depth > 50:
        raise NotSerialisable(path, "is nested over 50 levels deep")
    if isinstance(value, str):
        if "\x00" in value:
            raise NotSerialisable(path, "holds U+0000, which JSON columns refuse")
        if not value.isascii() and any("\ud800" <= c <= "\udfff" for c in value):
            raise NotSerialisable(path, "holds a lone surrogate, which JSON columns refuse")
        return str.__str__(value)  # str() would return the name of an Enum's member
    if value is None or isinstance(value, bool):
        return value
    if isinstance(value, int):
        if not -(2**63) <= value < 2**63:
            raise NotSerialisable(path, "is an integer of over 64 bits")
        return int(value)
    if isinstance(value, float):
        if not math.isfinite(value):
            raise NotSerialisable(path, "is not a finite number")
        return float(value)
    if isinstance(value, Mapping):
        checked = {}
        for key, item in value.items():
            if not isinstance(key, str):
                raise NotSerialisable(path, f"has a key that is not a str: {type(key).__name__}")
            if _is_plain(key) and (item is None or _is_plain(item)):
                checked[key] = item
                continue
            step = pointer(path, key)
            checked[_check_value(key, step)] = _check_value(item, step, depth + 1)
        return checked
    if isinstance(value, (list, tuple)):
        return [_check_value(item, pointer(path, i), depth + 1) for i, item in enumerate(value)]
    raise NotSerialisable(path, f"is a {type(value).__name__}, which metadata cannot hold")
