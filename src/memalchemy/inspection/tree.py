"""Any stored value as a tree of bounded nodes, which are plain JSON."""

from __future__ import annotations

import math
from collections.abc import Iterator
from datetime import date, datetime
from decimal import Decimal
from itertools import islice
from typing import Any
from uuid import UUID

from memalchemy._json_types import spell_value
from memalchemy.codec.foreign_msgpack import ForeignObject
from memalchemy.contracts import Packed
from memalchemy.errors import InvalidArgument, NotFound
from memalchemy.stored_messages import resolved

CHILDREN = 100
"""Children of a node, at most."""
DEPTH = 3
"""Levels below the node that is asked for."""
TEXT = 2_000
"""Characters of a string in a tree."""
WHOLE_TEXT = 20_000
"""Characters of a string that is asked for by itself."""
BYTES = 256
"""Bytes of which a node shows the hexadecimal digits."""
NODES = 3_000
"""Nodes of a tree, at most."""
CHARACTERS = 400_000
"""Characters in the strings of a tree, at most; later strings are cut shorter."""
SHORT_TEXT = 100
KEY = 500
"""Characters of a key. A longer key is cut, so what is below it cannot be asked for."""

_EXACT = 2**53

_SCALARS: dict[type, str] = {
    datetime: "datetime",
    date: "date",
    UUID: "uuid",
    Decimal: "decimal",
}

Node = dict[str, Any]


class _Budget:
    """Nodes and characters that a tree may still have."""

    def __init__(self) -> None:
        self.nodes = NODES
        self.characters = CHARACTERS


def tree(value: Any, *, offset: int = 0, depth: int = DEPTH) -> Node:
    """Return *value* as a node with its children down to *depth* levels.

    Args:
        offset: skips as many of the children of *value* itself, or characters if it is a string.
    """
    whole = resolved(value)
    if type(whole) is str:
        return _node_of_string(whole, WHOLE_TEXT if depth == DEPTH else TEXT, offset)
    return _node_of(whole, depth, offset, _Budget())


def value_at(value: Any, path: str) -> Any:
    """Return the value under a JSON pointer.

    Raises:
        NotFound: there is none.
        InvalidArgument: *path* is no JSON pointer.
    """
    if path and not path.startswith("/"):
        raise InvalidArgument("a path is a JSON pointer: empty, or a slash before each key")
    for token in path.split("/")[1:]:
        key = token.replace("~1", "/").replace("~0", "~")
        value = _member(_unwrapped(value), key)
    return value


def _unwrapped(value: Any) -> Any:
    value = resolved(value)
    return value.content if type(value) is ForeignObject else value


def _member(value: Any, key: str) -> Any:
    if type(value) is dict:
        if key in value:
            return value[key]
    elif isinstance(value, (list, tuple, set, frozenset)) and key.isascii() and key.isdigit():
        members = value if isinstance(value, (list, tuple)) else _sort_members(value)
        if int(key) < len(members):
            return members[int(key)]
    raise NotFound("there is no value at this path")


def _sort_members(members: Any) -> list[Any]:
    """Return a set in an order that is the same in every process."""
    return sorted(members, key=lambda one: (type(one).__name__, spell_value(one)))


def _named_members(value: Any) -> Iterator[tuple[str, Any]]:
    if type(value) is dict:
        yield from value.items()
        return
    members = value if isinstance(value, (list, tuple)) else _sort_members(value)
    for at, one in enumerate(members):
        yield str(at), one


def _node_of(value: Any, depth: int, offset: int, budget: _Budget) -> Node:
    budget.nodes -= 1
    value = resolved(value)
    if type(value) is ForeignObject:
        node = _node_of(value.content, depth, offset, budget)
        if node["type"] == "dict":
            node["type"] = "object"
        return node | {"class": f"{value.module}.{value.name}"}
    if isinstance(value, (dict, list, tuple, set, frozenset)):
        return _node_of_container(value, depth, offset, budget)
    if type(value) is str:
        limit = TEXT if budget.characters > 0 else SHORT_TEXT
        node = _node_of_string(value, limit, 0)
        budget.characters -= len(node["text"])
        return node
    return _node_of_scalar(value)


def _node_of_container(value: Any, depth: int, offset: int, budget: _Budget) -> Node:
    node: Node = {"type": type(value).__name__, "length": len(value)}
    children = []
    if depth > 0:
        for key, child in islice(_named_members(value), offset, offset + CHILDREN):
            if budget.nodes <= 0:
                break
            shown = key if len(key) <= KEY else key[:KEY]
            entry = {"key": shown, "node": _node_of(child, depth - 1, 0, budget)}
            children.append(entry if shown is key else entry | {"cut": True})
    node["children"] = children
    node["more"] = offset + len(children) < len(value)
    return node


def _node_of_string(value: str, limit: int, offset: int) -> Node:
    text = value[offset : offset + limit]
    cut = offset + len(text) < len(value)
    return {"type": "string", "length": len(value), "text": text, "cut": cut}


def _node_of_scalar(value: Any) -> Node:
    if value is None:
        return {"type": "null", "value": None}
    if type(value) is bool:
        return {"type": "bool", "value": value}
    if isinstance(value, (int, float)):
        return {"type": "number", "value": _to_javascript_number(value)}
    if isinstance(value, (bytes, bytearray, memoryview)):
        data = bytes(value)
        start = data[:BYTES].hex()
        return {"type": "bytes", "length": len(data), "text": start, "cut": len(data) > BYTES}
    if isinstance(value, Packed):
        data = value.data
        start, cut = data[:BYTES].hex(), len(data) > BYTES
        node = {"type": "packed", "class": value.format, "length": len(data)}
        return node | {"text": start, "cut": cut}
    for kind, name in _SCALARS.items():
        if isinstance(value, kind):
            shown = value.isoformat() if isinstance(value, date) else str(value)
            return {"type": name, "value": shown[:TEXT]}
    return {"type": type(value).__name__, "value": str(value)[:TEXT]}


def _to_javascript_number(value: float) -> int | float | str:
    """Return a number that JavaScript reads exactly, or else its text."""
    if isinstance(value, int):
        if -_EXACT < value < _EXACT:
            return value
        # Python refuses to write very large numbers as decimal digits.
        return str(value) if value.bit_length() < 10_000 else hex(value)[:TEXT]
    return value if math.isfinite(value) else str(value)


def preview(value: Any, width: int = 160) -> str:
    """Return *value* on one line of at most *width* characters, for a list."""
    pieces: list[str] = []
    _write_preview(value, pieces, [width + 40], 4)
    text = " ".join("".join(pieces).split())
    return text if len(text) <= width else text[: width - 1] + "…"


def _write_preview(value: Any, pieces: list[str], left: list[int], depth: int) -> None:
    value = _unwrapped(value)
    if type(value) is str:
        _add_piece(value[: left[0]], pieces, left)
        return
    if not isinstance(value, (dict, list, tuple, set, frozenset)):
        scalar = _node_of_scalar(value)
        shown = f"{scalar['length']:,} bytes" if "length" in scalar else _literal(scalar["value"])
        _add_piece(shown, pieces, left)
        return
    if not depth:
        _add_piece("…", pieces, left)
        return
    named = type(value) is dict
    _add_piece("{" if named else "[", pieces, left)
    for at, (key, child) in enumerate(_named_members(value)):
        if left[0] <= 0:
            break
        name = f"{key[:60]}: " if named else ""
        _add_piece((", " if at else "") + name, pieces, left)
        _write_preview(child, pieces, left, depth - 1)
    _add_piece("}" if named else "]", pieces, left)


def _add_piece(text: str, pieces: list[str], left: list[int]) -> None:
    pieces.append(text)
    left[0] -= len(text)


def _literal(value: Any) -> str:
    if value is None:
        return "null"
    return str(value).lower() if isinstance(value, bool) else str(value)
