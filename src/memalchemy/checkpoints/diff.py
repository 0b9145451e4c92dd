"""Difference between two states, as JSON pointers."""

from __future__ import annotations

from typing import Any

from memalchemy._json_pointers import pointer
from memalchemy._json_types import are_equal
from memalchemy.codec.foreign_msgpack import EMPTY, plain_tree
from memalchemy.contracts import Diff, Packed


def diff(a: Any, b: Any) -> Diff:
    """Return the smallest subtrees that differ, by pointer into *a* (removed) or *b* (the others).

    Dicts compare by key, lists and tuples by index; values of different types differ, so ``1``,
    ``1.0`` and ``True`` are three values. A NaN equals a NaN here. Of values that a framework has
    packed, the content is compared, as far as it can be read, and one that stands for no value is
    none.
    """
    found = Diff()
    _compare(a, b, "", found)
    return found


def _compare(a: Any, b: Any, path: str, found: Diff) -> None:
    if type(a) is type(b):
        if isinstance(a, dict):
            _compare_items(a, b, path, found)
            return
        if isinstance(a, (list, tuple)):
            _compare_items(dict(enumerate(a)), dict(enumerate(b)), path, found)
            return
        if are_equal(a, b) or not (are_equal(a, a) or are_equal(b, b)):  # NaN, of any type
            return
    if isinstance(a, Packed) or isinstance(b, Packed):
        inside = _unpacked(a), _unpacked(b)
        if not any(isinstance(value, Packed) for value in inside):
            _compare(*inside, path, found)
            return
    found.changed[path] = (a, b)


def _unpacked(value: Any) -> Any:
    return plain_tree(value) if isinstance(value, Packed) else value


def _is_not_empty(value: Any) -> bool:
    return not (isinstance(value, Packed) and value.format == EMPTY)


def _compare_items(a: dict[Any, Any], b: dict[Any, Any], path: str, found: Diff) -> None:
    a, b = ({key: one for key, one in some.items() if _is_not_empty(one)} for some in (a, b))
    for key, value in a.items():
        if key in b:
            _compare(value, b[key], pointer(path, key), found)
        else:
            found.removed[pointer(path, key)] = value
    for key, value in b.items():
        if key not in a:
            found.added[pointer(path, key)] = value
