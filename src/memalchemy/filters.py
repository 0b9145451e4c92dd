"""Filters of items: their language, and the test of an item. Pure: no SQL and no I/O.

A filter is a mapping of which everything must hold: ``{"kind": "note", "stars": {"$gte": 3}}``.

**Fields.** A name is a top-level key of the value or, where the value has no such key, of the
metadata. A name that begins with ``/`` is a JSON pointer (RFC 6901) into the value or, where it
leads nowhere there, into the metadata: ``/author/name``, ``/tags/0``. A key that itself begins with
``$`` or ``/`` is written as a pointer: ``/$ref``, ``/~1path``. ``{"$value": {...}}`` and
``{"$metadata": {...}}`` look in one of the two only.

**Operators.** ``$eq $ne $gt $gte $lt $lte $in $nin $contains $icontains $exists $type $any $date
$not`` stand in a mapping under a field; anything else under a field is what it equals, a mapping as
a whole. ``$and $or $not`` combine filters. ``$ne``, ``$nin`` and ``$not`` are true of a field that
is missing. An operator without its ``$`` is refused: what is meant as a mapping to equal, such as
``{"gte": 1}``, stands under ``$eq``.

**Parts.** ``$contains`` is true of an array or set with an element that equals the operand, and of
a text that has the operand, a text, in it; ``$icontains`` of a text, whatever the case of the
letters. ``{"$any": {"$gt": 3, …}}`` is true of an array or set with an element for which all
operators hold. These read every candidate, and no index narrows them.

**Types.** ``{"$type": "text"}`` is true of a field that holds one: ``text number boolean null array
set object bytes datetime date uuid path``.

**Dates.** ``{"$date": {"$gte": …}}`` reads the field as a point in time: a datetime, a date, which
is its midnight, or a text of either in ISO 8601, such as ``2026-03-01T12:00:00+01:00``. If one of
two points has no zone, it takes that of the other. A field that holds anything else counts as
missing. Under it stand ``$eq $ne $gt $gte $lt $lte``, with operands of these kinds.

**Equality.** Numbers by exact value: 1, 1.0 and Decimal("1.00") are one, 0.1 and Decimal("0.1") are
not; NaN equals nothing. True is not 1. None equals a stored None, not a missing field. Lists and
tuples are arrays, equal in order; sets and frozensets are sets; mappings are equal whole. Datetimes
with a zone are equal at the same instant, and never to one without. The rest equal their own kind.

**Order.** Numbers, texts (by code point), datetimes with a zone, and dates are each ordered among
themselves. Nothing else has an order.
"""

from __future__ import annotations

import operator
import re
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import date, datetime, timedelta
from decimal import Decimal
from itertools import count
from pathlib import PurePath, PurePosixPath, PureWindowsPath
from typing import Any
from uuid import UUID

from memalchemy._json_pointers import pointer_of
from memalchemy.contracts import plain_number

MAX_DEPTH = 50  # of mappings, lists and sets in each other
MAX_PARTS = 10_000  # fields, operators and operands, whatever they hold included
MAX_CONDITIONS = 500  # each is tested on each item; of $in that is one, however long the list


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class Filter:
    """Filter that was checked, and that shares nothing with the mapping it was read from."""

    matches: Callable[[Any, Mapping[str, Any]], bool]
    """Return whether an item of this value and metadata matches. Never raises."""
    about_metadata_only: bool
    """`matches` does not look at the value, so that it may be given any."""
    _equalities: Sequence[tuple[str, Sequence[Any]]]
    _ranges: Sequence[tuple[str, Any, Any]] = ()
    conditions: int = 1
    """The largest number of tests that `matches` makes."""

    @staticmethod
    def parse(filter: Mapping[str, Any] | None) -> Filter | None:
        """Check *filter* as a whole. ``None`` and ``{}``, which match everything, are ``None``.

        Raises:
            TypeError: not a mapping, a key that is not a str, an operand that no item can hold
                (JSON values, tuples, sets, bytes, datetimes, dates, UUIDs, Decimals, paths and
                numbers of numpy it can).
            ValueError: an unknown operator, one without its ``$``, an operand that its operator
                cannot use, a malformed JSON pointer; nested over 50 levels deep, of over 500
                conditions, or of over 10,000 parts.
        """
        if filter is not None and not isinstance(filter, Mapping):
            raise TypeError(f"a filter is a mapping, not a {type(filter).__name__}")
        if not filter:
            return None
        read = _parse_tree(_copy_filter(filter, "the filter", MAX_DEPTH, count(1)))
        if read.conditions > MAX_CONDITIONS:
            raise ValueError(
                f"the filter has over {MAX_CONDITIONS:,} conditions; that a field has one of many "
                "values is a single one: {field: {'$in': [...]}}"
            )
        return read

    def equalities(self) -> list[tuple[str, list[Any]]]:
        """Fields that the filter fixes: JSON pointers, each with the scalars that it allows.

        Every match has one of the scalars at that pointer, in its value or its metadata, so an
        index may narrow the candidates. No pointer leads through an array.
        """
        return [(pointer, list(values)) for pointer, values in self._equalities]

    def ranges(self) -> list[tuple[str, Any, Any]]:
        """JSON pointers of fields, each with the ends of a range in which every match has a value.

        As in `equalities`, a match has it in its value or its metadata. At most one end is
        ``None``, which is open. An end itself may or may not be in the range; both are of one kind
        that has an order.
        """
        return list(self._ranges)


def field_equals(path: str, value: Any) -> Filter:
    """Return the filter of values that have *value* under a top-level key or a JSON pointer.

    Raises:
        TypeError, ValueError: as `Filter.parse`.
    """
    if not isinstance(path, str):
        raise TypeError(f"path is a key or a JSON pointer, not {type(path).__name__}")
    wanted = Filter.parse({"$value": {pointer_of(path): {"$eq": value}}})
    assert wanted is not None
    return wanted


def storable_operand(tree: Any, *, is_member: bool = False) -> Any:
    """Return an operand, or a whole filter, as the codec stores it; it accepts the same items.

    It was checked by `Filter.parse`. Subclasses become their bases, scalars of numpy Python's own
    numbers, and tuples lists, except for members of sets, which are hashable (*is_member*).
    """
    tree = plain_number(tree)
    match _kind_of(tree):
        case "array":
            items = [storable_operand(item, is_member=is_member) for item in tree]
            return tuple(items) if is_member else items
        case "set":
            return frozenset([storable_operand(item, is_member=True) for item in tree])
        case "object":
            return {str.__str__(key): storable_operand(tree[key]) for key in tree}
        case "text":
            return str.__str__(tree)
    if tree is None or isinstance(tree, bool) or type(tree) in _TO_BASES:
        return tree
    return next(to_base(tree) for base, to_base in _TO_BASES.items() if isinstance(tree, base))


_TO_BASES: dict[type, Callable[[Any], Any]] = {
    int: int,
    float: float,
    Decimal: Decimal,
    bytes: bytes,
    datetime: lambda value: datetime.combine(value.date(), value.timetz()),
    date: lambda value: date(value.year, value.month, value.day),
    UUID: lambda value: UUID(int=value.int),
    PurePosixPath: lambda value: PurePosixPath(*value.parts),
    PureWindowsPath: lambda value: PureWindowsPath(*value.parts),
}
"""Types of scalars, each with the function that makes one of a value of a subclass."""


# The grammar. It reads a checked copy: arrays are tuples, sets frozensets, mappings dicts.


def _copy_filter(tree: Any, where: str, room: int, parts: Iterator[int]) -> Any:
    tree = plain_number(tree)
    kind = _kind_of(tree)
    if next(parts) > MAX_PARTS:
        raise ValueError(f"the filter has over {MAX_PARTS:,} parts")
    if not room and kind in _CONTAINERS:
        raise ValueError(f"the filter is nested over {MAX_DEPTH} levels deep")
    match kind:
        case None:
            raise TypeError(f"{where} holds a {type(tree).__name__}, which no filter compares")
        case "text":  # str() would make another text of an Enum's member
            return str.__str__(tree)
        case "array":
            return tuple([_copy_filter(item, where, room - 1, parts) for item in tree])
        case "set":
            return frozenset([_copy_filter(item, where, room - 1, parts) for item in tree])
        case "object":
            if odd := [key for key in tree if not isinstance(key, str)]:
                raise TypeError(f"{where} has a key that is not a str: {type(odd[0]).__name__}")
            return {str.__str__(k): _copy_filter(tree[k], repr(k), room - 1, parts) for k in tree}
    return int(tree) if isinstance(tree, int) and kind == "number" else tree


def _parse_tree(tree: Any, place: str | None = None, name: str = "") -> Filter:
    if not isinstance(tree, dict):
        raise ValueError(f"{name!r} wants a filter, which is a mapping")
    return _combine(all, [_parse_condition(key, content, place) for key, content in tree.items()])


def _parse_condition(name: str, content: Any, place: str | None) -> Filter:
    match name:
        case "$and" | "$or":
            if not isinstance(content, tuple) or not content:
                raise ValueError(f"{name!r} wants a list of filters, and at least one")
            parts = [_parse_tree(item, place, name) for item in content]
            return _combine(all if name == "$and" else any, parts)
        case "$not":
            return _negate(_parse_tree(content, place, name))
        case "$value" | "$metadata":
            if place is not None:
                raise ValueError(f"{name!r} stands inside {place!r}, which says where already")
            return _parse_tree(content, name, name)
        case _ if name.startswith("$"):
            raise _unknown_operator(
                name, ("$and", "$or", "$not", "$value", "$metadata"), "beside fields"
            )
    if _is_combination_without_sign(name, content, place):
        raise ValueError(f"{_without_sign(name)}. What a field of that name equals goes under $eq")
    if bare := operators_without_sign(content):
        raise ValueError(f"{_without_sign(bare[0], name)}. A mapping to equal goes under $eq")
    return _parse_field(name, content if _has_operators(content) else {"$eq": content}, place)


def _parse_field(field: str, operators: dict[str, Any], place: str | None) -> Filter:
    steps = _steps_to_field(field)
    parts: list[Filter] = []
    for name, operand in operators.items():
        where = f"{name!r} under {field!r}"
        if f"${name}" in OPERATORS:
            raise ValueError(_without_sign(name, field))
        if not name.startswith("$"):
            raise ValueError(f"{where} stands beside operators; a mapping to equal goes under $eq")
        if name == "$not":
            if not _has_operators(operand):
                raise ValueError(
                    f"{where} wants a mapping of operators{_meant(operand)}; $ne says unequal"
                )
            parts.append(_negate(_parse_field(field, operand, place)))
        elif name == "$any":
            parts.append(_any_element_filter(place, steps, operand, where))
        elif name == "$date":
            parts += [_field_filter(place, steps, test, ()) for test in _date_tests(operand, where)]
        elif name in _TESTS:
            try:
                test = _TESTS[name](operand)
            except ValueError as error:
                raise ValueError(f"{where} {error}") from None
            among = {"$eq": (operand,), "$in": operand}.get(name, ())
            parts.append(_field_filter(place, steps, test, tuple(among)))
        else:
            raise _unknown_operator(name, OPERATORS, f"under {field!r}")
    read = _combine(all, parts)
    return replace(read, _ranges=[*read._ranges, *_range_of_operators(operators, steps)])


def _any_element_filter(place: str | None, steps: _Steps, operand: Any, where: str) -> Filter:
    if not _has_operators(operand):
        raise ValueError(f"{where} wants a mapping of operators{_meant(operand)}")
    element = _parse_field("$any", operand, "$value")  # of a mapping with the element under "$any"

    def test(found: Any) -> bool:
        return _kind_of(found) in ("array", "set") and any(
            element.matches({"$any": one}, {}) for one in found
        )

    return replace(_field_filter(place, steps, test, ()), conditions=element.conditions)


def _has_operators(content: Any) -> bool:
    return isinstance(content, dict) and any(key.startswith("$") for key in content)


def operators_without_sign(content: Any, known: Collection[str] | None = None) -> list[str]:
    """Return the keys of a mapping under a field if all are *known* operators without their ``$``.

    Of other mappings, which a field may equal, there are none.
    """
    known = OPERATORS if known is None else known
    if not isinstance(content, Mapping) or not all(f"${key}" in known for key in content):
        return []
    return list(content)


def _is_combination_without_sign(name: str, content: Any, place: str | None) -> bool:
    """Return whether a condition is what ``$and``, ``$or``, ``$not`` and so on take."""
    if name in ("and", "or"):
        is_list = isinstance(content, tuple) and bool(content)
        return is_list and all(isinstance(part, dict) for part in content)
    if name == "not" or (name in ("value", "metadata") and place is None):
        # A field of that name may have operators.
        return isinstance(content, dict) and bool(content) and not _has_operators(content)
    return False


def _without_sign(name: str, field: str | None = None) -> str:
    where = "" if field is None else f" under {field!r}"
    return f"{name!r}{where} is an operator without its $: write ${name}"


def _meant(content: Any) -> str:
    """Return which operators a mapping without any may mean, for an error."""
    bare = operators_without_sign(content)
    return f", {', '.join(f'${name}' for name in bare)}" if bare else ""


_Steps = Sequence[tuple[str, int | None]]  # each a key, and the index that it is in an array
_Test = Callable[[Any], bool]
_MISSING = object()


def _steps_to_field(field: str) -> _Steps:
    if not field.startswith("/"):
        return [(field, None)]
    if re.search("~(?![01])", field):
        raise ValueError(f"{field!r} is no JSON pointer: write ~0 for ~ and ~1 for / in a key")
    keys = [step.replace("~1", "/").replace("~0", "~") for step in field[1:].split("/")]
    return [(key, int(key) if re.fullmatch("0|[1-9][0-9]{0,17}", key) else None) for key in keys]


def _unknown_operator(name: str, known: Sequence[str], where: str) -> ValueError:
    way = "/" + name.replace("~", "~0").replace("/", "~1")
    return ValueError(
        f"unknown operator {name!r} {where}; known there are {', '.join(known)}. "
        f"A field of that name is written {way!r}."
    )


def _combine(holds: Callable[[Iterable[bool]], bool], parts: Sequence[Filter]) -> Filter:
    if len(parts) == 1:
        return parts[0]
    if holds is all:
        equalities = [pair for part in parts for pair in part._equalities]
        ranges = [one for part in parts for one in part._ranges]
    else:
        equalities, ranges = _common_equalities(parts), []
    return Filter(
        lambda value, metadata: holds(part.matches(value, metadata) for part in parts),
        all(part.about_metadata_only for part in parts),
        equalities,
        ranges,
        sum(part.conditions for part in parts),
    )


def _common_equalities(parts: Sequence[Filter]) -> list[tuple[str, Sequence[Any]]]:
    """Return the fields that each of *parts* fixes, with the scalars that any of them allows."""
    of_parts = [dict(part._equalities) for part in parts]
    first, *others = of_parts
    common = [pointer for pointer in first if all(pointer in other for other in others)]
    return [(pointer, [one for of in of_parts for one in of[pointer]]) for pointer in common]


def _negate(part: Filter) -> Filter:
    return Filter(
        lambda value, metadata: not part.matches(value, metadata),
        part.about_metadata_only,
        (),
        (),
        part.conditions,
    )


def _field_filter(place: str | None, steps: _Steps, test: _Test, among: Sequence[Any]) -> Filter:
    def matches(value: Any, metadata: Mapping[str, Any]) -> bool:
        found = _MISSING if place == "$metadata" else _find_value(value, steps)
        if found is _MISSING and place != "$value":
            found = _find_value(metadata, steps)
        return test(found)

    certain = among and all(map(_is_scalar, among)) and _leads_through_mappings(steps)
    return Filter(matches, place == "$metadata", [(_pointer(steps), among)] if certain else ())


def _range_of_operators(operators: dict[str, Any], steps: _Steps) -> list[tuple[str, Any, Any]]:
    """Return the range that operators under one field describe, if they describe one."""
    lows = [operators[name] for name in ("$gt", "$gte") if name in operators]
    highs = [operators[name] for name in ("$lt", "$lte") if name in operators]
    if not (lows or highs) or not _leads_through_mappings(steps):
        return []
    low, high = lows[0] if lows else None, highs[0] if highs else None
    if lows and highs and _comparable_form(low)[0] != _comparable_form(high)[0]:
        high = None  # nothing matches; whatever has the one end is a candidate
    return [(_pointer(steps), low, high)]


def _leads_through_mappings(steps: _Steps) -> bool:
    return all(index is None for _, index in steps)


def _pointer(steps: _Steps) -> str:
    return "".join("/" + key.replace("~", "~0").replace("/", "~1") for key, _ in steps)


def _is_scalar(wanted: Any) -> bool:
    return _kind_of(wanted) in ("number", "text", "boolean", "null")


def _find_value(document: Any, steps: _Steps) -> Any:
    for key, index in steps:
        if isinstance(document, Mapping):
            document = document.get(key, _MISSING)
        elif index is not None and isinstance(document, (list, tuple)) and index < len(document):
            document = document[index]
        else:
            return _MISSING
    return plain_number(document)


# The semantics: two things are equal if their forms are.

_KINDS: dict[type, str] = {
    **dict.fromkeys([int, float, Decimal], "number"),
    **dict.fromkeys([list, tuple], "array"),
    **dict.fromkeys([set, frozenset], "set"),
    **{type(None): "null", bool: "boolean", str: "text", bytes: "bytes", dict: "object"},
    **{datetime: "datetime", date: "date", UUID: "uuid", PurePath: "path"},
}
_TYPES = tuple(dict.fromkeys(_KINDS.values()))
_CONTAINERS = ("array", "set", "object")
_ORDERED = ("number", "text", "instant", "date")


def _kind_of(value: Any) -> str | None:
    for base in type(value).__mro__:  # a subclass is what the nearest of its bases is
        if base in _KINDS:
            return _KINDS[base]
    return "object" if isinstance(value, Mapping) else None


def _comparable_form(value: Any, room: int = MAX_DEPTH) -> tuple[str, Any]:
    """Return the kind of *value*, and a hashable form of it: equal values have equal forms.

    What nests deeper than any operand equals nothing, as NaN does.
    """
    value = plain_number(value)
    kind = _kind_of(value) if room else None
    match kind:
        case None:
            return "alone", object()
        case "number":
            # Exact, and unlike a float: some decimal contexts trap the two being compared.
            number = Decimal.from_float(value) if isinstance(value, float) else value
            nan = isinstance(number, Decimal) and number.is_nan()
            return ("alone", object()) if nan else (kind, number)
        case "datetime":  # subtracted, as some instants of the years 1 and 9999 have no UTC
            local, offset = value.replace(tzinfo=None) - datetime.min, value.utcoffset()
            return (kind, local) if offset is None else ("instant", local - offset)
        case "array":
            return kind, tuple([_comparable_form(item, room - 1) for item in value])
        case "set":
            return kind, frozenset([_comparable_form(item, room - 1) for item in value])
        case "object":
            return kind, frozenset([(key, _comparable_form(value[key], room - 1)) for key in value])
    return kind, value


def _coarse_form(value: Any) -> tuple[str | None, int]:
    """Return a key that tells most unequal values apart without a look inside."""
    kind = _kind_of(value)
    return kind, len(value) if kind in _CONTAINERS else 0


def _one_of_test(operands: Any, expected: bool) -> _Test:
    if not isinstance(operands, (tuple, frozenset)):
        raise ValueError("wants a list, a tuple or a set")
    shapes, forms = (
        {_coarse_form(item) for item in operands},
        {_comparable_form(item) for item in operands},
    )
    texts = {value for kind, value in forms if kind == "text"}

    def test(found: Any) -> bool:
        if type(found) is str:  # most are, and a text equals texts alone
            return (found in texts) is expected
        return (_coarse_form(found) in shapes and _comparable_form(found) in forms) is expected

    return test


def _exists_test(wanted: Any) -> _Test:
    if not isinstance(wanted, bool):
        raise ValueError("wants True or False")
    return lambda found: (found is not _MISSING) is wanted


def _type_test(wanted: Any) -> _Test:
    if wanted not in _TYPES:
        raise ValueError(f"wants one of {', '.join(_TYPES)}")
    return lambda found: _kind_of(found) == wanted


def _contains_test(operand: Any) -> _Test:
    shape, form = _coarse_form(operand), _comparable_form(operand)

    def test(found: Any) -> bool:
        kind = _kind_of(found)
        if kind == "text":
            return isinstance(operand, str) and operand in found
        return kind in ("array", "set") and any(
            _coarse_form(one) == shape and _comparable_form(one) == form for one in found
        )

    return test


def _contains_in_any_case_test(operand: Any) -> _Test:
    if not isinstance(operand, str):
        raise ValueError("wants a text")
    wanted = operand.casefold()
    return lambda found: _kind_of(found) == "text" and wanted in found.casefold()


def _order_test(operand: Any, compare: Callable[[Any, Any], bool]) -> _Test:
    shape, kind, limit = _coarse_form(operand), *_comparable_form(operand)
    if kind not in _ORDERED:
        raise ValueError("wants a number, a text, a date or a datetime with a zone")
    return lambda found: (
        _coarse_form(found) == shape
        and (form := _comparable_form(found))[0] == kind
        and compare(form[1], limit)
    )


_TESTS: dict[str, Callable[[Any], _Test]] = {
    "$eq": lambda operand: _one_of_test((operand,), True),
    "$ne": lambda operand: _one_of_test((operand,), False),
    "$gt": lambda operand: _order_test(operand, operator.gt),
    "$gte": lambda operand: _order_test(operand, operator.ge),
    "$lt": lambda operand: _order_test(operand, operator.lt),
    "$lte": lambda operand: _order_test(operand, operator.le),
    "$in": lambda operands: _one_of_test(operands, True),
    "$nin": lambda operands: _one_of_test(operands, False),
    "$contains": _contains_test,
    "$exists": _exists_test,
    "$icontains": _contains_in_any_case_test,
    "$type": _type_test,
}

OPERATORS = (*_TESTS, "$any", "$date", "$not")
"""The operators that stand under a field."""


# Dates

_ISO_DATE = re.compile(r"[0-9]{4}-[0-9]{2}-[0-9]{2}(?:[Tt ].+)?")
_DATE_COMPARISONS: dict[str, Callable[[timedelta, timedelta], bool]] = {
    "$eq": operator.eq,
    "$ne": operator.ne,
    "$gt": operator.gt,
    "$gte": operator.ge,
    "$lt": operator.lt,
    "$lte": operator.le,
}
_SAME_TIME = timedelta(0)


def _date_tests(operators: Any, where: str) -> list[_Test]:
    if not _has_operators(operators):
        raise ValueError(
            f"{where} wants a mapping of {', '.join(_DATE_COMPARISONS)}{_meant(operators)}"
        )
    tests = []
    for name, operand in operators.items():
        if name not in _DATE_COMPARISONS:
            raise _unknown_operator(name, tuple(_DATE_COMPARISONS), f"in {where}")
        wanted = as_datetime(operand)
        if wanted is None:
            raise ValueError(f"{name!r} in {where} wants a datetime, a date, or one in ISO 8601")
        tests.append(_date_test(name, wanted))
    return tests


def _date_test(name: str, wanted: datetime) -> _Test:
    compare = _DATE_COMPARISONS[name]

    def test(found: Any) -> bool:
        there = as_datetime(found)
        if there is None:
            return name == "$ne"
        return compare(_time_between(there, wanted), _SAME_TIME)

    return test


def as_datetime(value: Any) -> datetime | None:
    """Return a point in time as ``$date`` reads it; ``None`` of anything else."""
    kind = _kind_of(value)
    if kind == "text" and _ISO_DATE.fullmatch(value):
        try:
            return datetime.fromisoformat(value)
        except ValueError:
            return None
    if kind == "date":
        return datetime(value.year, value.month, value.day)
    return value if kind == "datetime" else None


def _time_between(one: datetime, other: datetime) -> timedelta:
    apart = one.replace(tzinfo=None) - other.replace(tzinfo=None)
    offsets = one.utcoffset(), other.utcoffset()
    if offsets[0] is None or offsets[1] is None:  # the one without a zone has that of the other
        return apart
    return apart - offsets[0] + offsets[1]
