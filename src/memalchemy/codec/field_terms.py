"""Field terms: words, stored beside an item, by which an index finds what may pass a filter.

Each scalar field of an item, by its JSON pointer and its value, is one word: a hash of both. A
filter on equal values looks for these words first and then tests the items that have them.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass
from decimal import Decimal
from functools import lru_cache
from hashlib import blake2b
from math import isfinite
from typing import Any

from memalchemy.codec.values import pointer

MAX_FIELDS = 64
"""Scalar fields of an item beyond which only the fields that the store names have words."""

OTHERS = "fothers"
"""Word of an item that also has fields without words: a filter has to test it."""

_SCALARS = frozenset({str, int, float, bool, type(None)})
_CACHED_CHARACTERS = 100
"""Characters of a pointer and its value up to which the word is cached."""


def field_terms(value: Any, metadata: Mapping[str, Any], named: Collection[str] = ()) -> str | None:
    """Return the words of an item's scalar fields; ``None`` if it has no fields.

    With *named* pointers, and for an item with more than `MAX_FIELDS` fields, only named fields
    have words. A word does not tell whether a field is one of the value or of the metadata: a
    filter finds out from the item itself.
    """
    found: dict[str, None] = {}
    if named or not all(_collect(tree, "", found, None) for tree in (value, metadata)):
        found = {OTHERS: None}
        for tree in (value, metadata):
            _collect(tree, "", found, named)
        found |= {_mark(path): None for path in named}
    return " ".join(found) or None


def may_be_field_terms(stored: str | None, value: Any, metadata: Mapping[str, Any]) -> bool:
    """Return whether *stored* can be the `field_terms` of an item, whatever fields were named."""
    found = set((stored or "").split())
    if OTHERS in found:
        return {word for word in found if word[0] == "f"} <= _all_terms(value, metadata) | {OTHERS}
    # A database may return a large float as the integer that it was written as.
    return any(found == _all_terms(value, meta) for meta in (metadata, _floats(metadata)))


def _all_terms(value: Any, metadata: Mapping[str, Any]) -> set[str]:
    found: dict[str, None] = {}
    for tree in (value, metadata):
        _collect(tree, "", found, None, limit=None)
    return set(found)


def _floats(tree: Any) -> Any:
    if isinstance(tree, Mapping):
        return {key: _floats(value) for key, value in tree.items()}
    return float(tree) if isinstance(tree, int) and abs(tree) >= 2**53 else tree


def _collect(
    tree: Any,
    path: str,
    found: dict[str, None],
    only: Collection[str] | None,
    limit: int | None = MAX_FIELDS,
) -> bool:
    """Add the words of the fields below *path* to *found*; return false if there are too many."""
    if not isinstance(tree, Mapping):
        return True
    for key, value in tree.items():
        here = pointer(path, key)
        if type(value) not in _SCALARS and isinstance(value, Mapping):
            if not _collect(value, here, found, only, limit):
                return False
        elif (only is None or here in only) and (term := field_term(here, value)) is not None:
            found[term] = None
            if only is None and limit is not None and len(found) > limit:
                return False
    return True


@dataclass(frozen=True, slots=True)
class FieldTerms:
    """Words of an item whose field may have one of several values.

    The item has one of ``words``; or it has `OTHERS`, unless it also has ``mark``, which says that
    this field has words.
    """

    words: tuple[str, ...]
    mark: str

    @classmethod
    def of(cls, path: str, values: Iterable[Any]) -> FieldTerms:
        """Create them from a JSON pointer and scalars."""
        words = (field_term(path, value) for value in values)
        return cls(tuple(word for word in words if word is not None), _mark(path))


def _mark(path: str) -> str:
    return "m" + blake2b(path.encode("utf-8", "surrogatepass"), digest_size=10).hexdigest()


def field_term(path: str, value: Any) -> str | None:
    """Return the word of a field, the same for values that a filter takes for equal.

    ``None`` if the value is not scalar.
    """
    written = _canonical(value)
    if written is None:
        return None
    whole = f"{path}\x1f{written}"
    return _word(whole) if len(whole) <= _CACHED_CHARACTERS else _word.__wrapped__(whole)


@lru_cache(maxsize=4096)
def _word(whole: str) -> str:
    # Many items have the same values in a field, and a hash takes a microsecond.
    return "f" + blake2b(whole.encode("utf-8", "surrogatepass"), digest_size=10).hexdigest()


def _canonical(value: Any) -> str | None:
    if type(value) is str:
        return "t" + value
    if value is None:
        return "null"
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, str):
        return "t" + value
    if isinstance(value, int):
        return _canonical_int(value)
    if isinstance(value, (float, Decimal)) and isfinite(value):
        whole = int(value)
        return _canonical_int(whole) if whole == value else f"n{float(value)!r}"
    return None


def _canonical_int(value: int) -> str:
    # Python refuses to convert more than 4,300 digits to decimal.
    return f"n{value}" if value.bit_length() < 4096 else f"n{value:#x}"
