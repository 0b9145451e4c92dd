"""Field terms: words, stored beside an item, by which an index finds what may pass a filter.

Each scalar field of an item is one word: a hash of its JSON pointer, a letter for the kind of its
value, and the value in hexadecimal digits that sort as the values do. Equal values have one word,
and a range is a set of prefixes. A filter looks for these first and then tests what they find.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import dataclass, replace
from datetime import date, datetime, timedelta
from decimal import Decimal
from functools import lru_cache
from hashlib import blake2b
from math import inf, isnan
from struct import Struct
from typing import Any

from memalchemy._json_pointers import pointer
from memalchemy.contracts import plain_number

MAX_FIELDS = 64
"""Scalar fields of an item beyond which only the fields that the store names have words."""

OTHERS = "fothers"
"""Word of an item that also has fields without words: a filter has to test it."""

MAX_PREFIXES = 300
"""Prefixes that describe a range; a range that would need more is described more widely."""

_as_bytes, _as_integer = Struct(">d").pack, Struct(">Q").unpack

_DIGITS = {"n": 16, "t": 20, "i": 16, "d": 8}
"""Kinds that have an order, and the digits of a word that keep it: numbers, texts, instants, dates.

Of a text these are its first ten bytes, and a hash of a longer one follows.
"""

ORDERED_BYTES = _DIGITS["t"] // 2
"""The first bytes of a text by which its words have an order."""


def field_terms(value: Any, metadata: Mapping[str, Any], named: Collection[str] = ()) -> str | None:
    """Return the words of an item's scalar fields; ``None`` if it has no fields.

    With *named* pointers, and for an item with more than `MAX_FIELDS` fields, only named fields
    have words. A word does not tell whether a field is one of the value or of the metadata: a
    filter finds out from the item itself.
    """
    found: dict[str, None] = {}
    if named or not (
        _collect_terms(value, "", found, None) and _collect_terms(metadata, "", found, None)
    ):
        found = {OTHERS: None}
        for tree in (value, metadata):
            _collect_terms(tree, "", found, named)
        found |= {_mark_of_field(path): None for path in named}
    return " ".join(found) or None


def may_be_field_terms(stored: str | None, value: Any, metadata: Mapping[str, Any]) -> bool:
    """Return whether *stored* can be the `field_terms` of an item, whatever fields were named."""
    found, possible = (
        set((stored or "").split()),
        words_of_fields(value) | words_of_fields(metadata),
    )
    if OTHERS in found:
        return {word for word in found if word[0] == "f"} <= possible | {OTHERS}
    return found == possible


def words_of_fields(tree: Any) -> set[str]:
    """Return the words of all scalar fields of a value or of metadata, however many there are."""
    found: dict[str, None] = {}
    _collect_terms(tree, "", found, None, limit=None)
    return set(found)


def _collect_terms(
    tree: Any,
    path: str,
    found: dict[str, None],
    only: Collection[str] | None,
    limit: int | None = MAX_FIELDS,
) -> bool:
    """Add the words of the fields below *path* to *found*; return false if there are too many."""
    if type(tree) is not dict and not isinstance(tree, Mapping):
        return True
    for key, value in tree.items():
        here = pointer(path, key)
        spell = _SPELLINGS.get(type(value))
        if spell is None and isinstance(value, Mapping):
            if not _collect_terms(value, here, found, only, limit):
                return False
        elif only is None or here in only:
            if (spelling := (spell or _spelling)(value)) is None:
                continue
            found[_start_of_terms(here) + spelling] = None
            if only is None and limit is not None and len(found) > limit:
                return False
    return True


@dataclass(frozen=True, slots=True)
class FieldTerms:
    """Words of an item whose field may have one of several values, or one in a range.

    The item has one of ``words``, or one that begins with one of ``prefixes``; or it has `OTHERS`,
    unless it also has ``mark``, which says that this field has words. With ``mark`` ``None`` an
    item that has only `OTHERS` is left out.
    """

    words: tuple[str, ...]
    prefixes: tuple[str, ...]
    mark: str | None

    @classmethod
    def of(cls, path: str, values: Iterable[Any]) -> FieldTerms:
        """Create them from a JSON pointer and scalars."""
        words = (field_term(path, value) for value in values)
        return cls(tuple(word for word in words if word is not None), (), _mark_of_field(path))

    @classmethod
    def any(cls, path: str) -> FieldTerms:
        """Create them for all values of a field."""
        return cls((), (_start_of_terms(path),), _mark_of_field(path))

    def certain(self) -> FieldTerms:
        """Return them without the items of which only the value tells what the field has."""
        return replace(self, mark=None)

    @classmethod
    def between(cls, path: str, low: Any, high: Any, *, ends: bool = True) -> FieldTerms:
        """Create them for a range, its ends included; ``None`` is an end that is open.

        The ends are numbers, texts, datetimes with a zone or dates, and both of one kind. Without
        *ends*, what has the word of an end is left out.
        """
        spelled = [None if end is None else _spelling(end) for end in (low, high)]
        kind = next(end[0] for end in spelled if end)
        digits = _DIGITS[kind]
        lowest, highest = (
            int(end[1 : digits + 1], 16) if end else widest
            for end, widest in zip(spelled, (0, 16**digits - 1), strict=True)
        )
        if not ends:
            lowest, highest = lowest + (low is not None), highest - (high is not None)
        start = _start_of_terms(path) + kind
        return cls(
            (),
            tuple(start + one for one in _prefixes_covering(lowest, highest, digits)),
            _mark_of_field(path),
        )


def _prefixes_covering(lowest: int, highest: int, digits: int) -> list[str]:
    """Return hexadecimal prefixes of all numbers from *lowest* to *highest*, and of few others."""
    for dropped in range(digits):
        prefixes = _prefixes_of_exactly(
            lowest >> 4 * dropped, highest >> 4 * dropped, digits - dropped
        )
        if len(prefixes) <= MAX_PREFIXES:
            break
    return prefixes


def _prefixes_of_exactly(low: int, high: int, digits: int) -> list[str]:
    prefixes = []
    while digits and low <= high:
        # What does not fill a group of sixteen stands for itself; the rest has a digit less.
        while low <= high and low % 16:
            prefixes.append(f"{low:0{digits}x}")
            low += 1
        while low <= high and high % 16 != 15:
            prefixes.append(f"{high:0{digits}x}")
            high -= 1
        if low > high:
            return prefixes
        low, high, digits = low >> 4, high >> 4, digits - 1
    return [*prefixes, ""] if low <= high else prefixes


def field_term(path: str, value: Any) -> str | None:
    """Return the word of a field, the same for values that a filter takes for equal.

    ``None`` if the value has no word: it is a container, or has neither equals nor an order.
    """
    spelling = _spelling(value)
    return None if spelling is None else _start_of_terms(path) + spelling


def _mark_of_field(path: str) -> str:
    # Long: one that another field shares would hide an item from a filter.
    return "m" + _digest(path, 10)


@lru_cache(maxsize=4096)
def _start_of_terms(path: str) -> str:
    # Short: what two fields share is one candidate too many.
    return "f" + _digest(path, 4)


def _digest(text: str, size: int) -> str:
    return blake2b(text.encode("utf-8", "surrogatepass"), digest_size=size).hexdigest()


def _spelling(value: Any) -> str | None:
    """Return the letter of a value's kind, and its digits."""
    value = plain_number(value)
    if value is None:
        return "z"
    if isinstance(value, str):
        return _text_spelling(value)
    if isinstance(value, bool):
        return _truth_spelling(value)
    if isinstance(value, (int, float, Decimal)):
        return _number_spelling(value)
    if isinstance(value, datetime):
        return _instant_spelling(value)
    return f"d{value.toordinal():08x}" if isinstance(value, date) else None


def _truth_spelling(value: bool) -> str:
    return "b1" if value else "b0"


def _text_spelling(value: str) -> str:
    digits = _DIGITS["t"]
    head = value[:11].encode("utf-8", "surrogatepass").hex()
    if len(head) <= digits:
        return "t" + head.ljust(digits, "0")
    return "t" + head[:digits] + _digest(value, 4)


def _number_spelling(value: float | Decimal) -> str | None:
    if isinstance(value, Decimal) and value.is_nan():
        return None
    try:
        number = float(value) + 0.0  # which makes -0.0 the same as 0.0
    except OverflowError:
        number = inf if value > 0 else -inf
    if isnan(number):
        return None
    (bits,) = _as_integer(_as_bytes(number))
    # As integers, negative floats sort backwards, and after the positive ones.
    return f"n{bits ^ (2**64 - 1 if bits >> 63 else 1 << 63):016x}"


def _instant_spelling(value: datetime) -> str | None:
    offset = value.utcoffset()
    if offset is None:
        return None
    # Subtracted, as some instants of the years 1 and 9999 have no UTC; so it may be negative.
    since = value.replace(tzinfo=None) - datetime.min - offset + timedelta(days=1)
    return f"i{since // timedelta(microseconds=1):016x}"


_SPELLINGS: Mapping[type, Callable[[Any], str | None]] = {
    str: _text_spelling,
    int: _number_spelling,
    float: _number_spelling,
    bool: _truth_spelling,
    type(None): _spelling,
}
"""The functions of `_spelling` for values of these types themselves."""
