"""mem0's filters, as its default store Qdrant reads them, in memalchemy's language."""

from __future__ import annotations

import re
from collections.abc import Mapping
from datetime import UTC, date, datetime
from typing import Any

from memalchemy._json_pointers import pointer
from memalchemy.filters import as_datetime
from memalchemy.integrations._filters import Filter

_LOGIC = {"$and": "AND", "$or": "OR", "$not": "NOT"}
_RANGE = ("gt", "gte", "lt", "lte")
_OPERATORS = ("eq", "ne", *_RANGE, "in", "nin", "contains", "icontains")
_ID_OF_SCOPE = frozenset({"user_id", "agent_id", "run_id"})
"""Fields that mem0 itself fills with texts, never with lists: an index of fields serves them."""
_EACH = -1
"""A step of a path, as an index, into each element of an array: ``[]``."""
_STEP = re.compile(r'(?:"([^"]*)"|([\w-]+))((?:\[[0-9]*\])*)(\.|\Z)')


def native_filter(filters: Mapping[str, Any] | None) -> Filter | None:
    """Return a filter of `memalchemy.filters` on the value of items, which is the payload.

    Raises:
        ValueError: an operator that mem0 does not have, or an operand that it cannot use.
    """
    found = _filter_of_all(filters) if filters else None
    return {"$value": found} if found else None


def _filter_of_all(filters: Any) -> Filter | None:
    """Return the filter for which all of *filters* hold; ``None`` if they are no condition."""
    if not isinstance(filters, Mapping):
        raise ValueError(f"a filter is a dict, not {type(filters).__name__}: {filters!r}")
    given: dict[str, Any] = {}
    for name, wanted in filters.items():  # Memory passes on both what it read as OR and its $or
        given.setdefault(_LOGIC.get(name) or name, wanted)
    parts = [
        part
        for name, wanted in given.items()
        if (
            part := _filter_of_group(name, wanted)
            if name in _LOGIC.values()
            else _filter_of_field(name, wanted)
        )
    ]
    return {"$and": parts} if parts else None


def _filter_of_group(name: str, wanted: Any) -> Filter | None:
    if not isinstance(wanted, list):
        raise ValueError(f"{name} wants a list of filters, not {type(wanted).__name__}")
    parts = [part for one in wanted if (part := _filter_of_all(one))]
    if not parts:
        return None
    if name == "NOT":
        return {"$not": {"$or": parts}}
    return {"$and" if name == "AND" else "$or": parts}


def _filter_of_field(name: str, wanted: Any) -> Filter | None:
    if isinstance(wanted, list):
        wanted = {"in": wanted}
    elif not isinstance(wanted, Mapping):
        if wanted == "*":  # no condition, as under Qdrant
            return None
        wanted = {"eq": wanted}
    if unknown := [one for one in wanted if one not in _OPERATORS]:
        raise ValueError(f"Unsupported filter operator: {unknown[0]}")
    if not wanted:
        raise ValueError(f"the filter of {name!r} has no operator")
    if name in _ID_OF_SCOPE and [*wanted] == ["eq"]:
        return {name: {"$eq": wanted["eq"]}}
    path, conditions, in_each = _parse_path(name)
    given = [(one, operand) for one, operand in wanted.items() if one not in _RANGE]
    either = [_alternatives_of_operator(name, one, operand) for one, operand in given]
    if ends := {f"${one}": wanted[one] for one in _RANGE if one in wanted}:
        either.append(_of_value_or_element(_range_operators(name, ends)))
    for alternatives in either:
        operators = [{"$any": one} if in_each else one for one in alternatives]
        conditions.append({"$or": [{path: one} for one in operators]})
    return {"$and": conditions}


def _alternatives_of_operator(name: str, operator: str, operand: Any) -> list[Filter]:
    """Return operators of `memalchemy.filters`; those of one mapping at least must hold."""
    match operator:
        case "contains" | "icontains":
            operators = {f"${operator}": operand}
            return [operators, {"$any": operators}]
        case "eq":
            return _of_value_or_element({"$eq": operand})
        case "ne":
            operand = [operand]
    if not isinstance(operand, (list, tuple, set, frozenset)):
        raise ValueError(f"{operator!r} of {name!r} wants a list, not {type(operand).__name__}")
    if operator == "in":
        return _of_value_or_element({"$in": [*operand]})
    # What is missing or None is not another value.
    return _of_value_or_element({"$exists": True, "$nin": [None, *operand]})


def _of_value_or_element(operators: Filter) -> list[Filter]:
    """Return operators for values that *operators* accept, and for arrays with such an element."""
    return [{"$not": {"$type": "array"}, **operators}, {"$any": operators}]


def _range_operators(name: str, ends: Filter) -> Filter:
    """Return operators for a range of numbers or of points in time."""
    given = {operator: end for operator, end in ends.items() if end is not None}
    if not given:
        return {"$type": "number"}
    if any(isinstance(end, date) for end in given.values()) or all(
        isinstance(end, str) and re.match("[0-9]{4}-", end) for end in given.values()
    ):
        return {"$date": {operator: _parse_moment(name, end) for operator, end in given.items()}}
    return {operator: _parse_number(name, end) for operator, end in given.items()}


def _parse_moment(name: str, end: Any) -> datetime:
    found = as_datetime(end)
    if found is None:
        raise ValueError(f"the range of {name!r} wants times in ISO 8601, not {end!r}")
    if found.tzinfo is None:  # and stored ones without a zone are in UTC, too
        return found.replace(tzinfo=UTC)
    try:
        return found.astimezone(UTC)
    except OverflowError:  # in the first or the last hours that a datetime can say
        return found


def _parse_number(name: str, end: Any) -> Any:
    if isinstance(end, (str, bool)):
        try:
            return float(end)
        except ValueError:
            raise ValueError(
                f"the range of {name!r} wants numbers or times in ISO 8601, not {end!r}"
            ) from None
    return end


def _parse_path(name: str) -> tuple[str, list[Filter], bool]:
    """Return a path as a JSON pointer, what must hold on the way, and whether it ends with []."""
    steps = _split_path(name)
    in_each = len(steps) > 1 and steps[-1] == _EACH
    if _EACH in (steps := steps[:-1] if in_each else steps)[1:]:
        raise ValueError(f"{name!r}: [] stands at the end of a path only")
    path, conditions = "", []
    for step in steps:
        if path and (isinstance(step, int) or step.isdecimal()):
            # A pointer takes a number for an index and for a key.
            conditions.append({path: {"$type": "array" if isinstance(step, int) else "object"}})
        path = pointer(path, step)
    return path, conditions, in_each


def _split_path(name: str) -> list[str | int]:
    """Return keys, indexes and `_EACH`; a name that is no path of Qdrant's is one key."""
    steps: list[str | int] = []
    at = 0
    while step := _STEP.match(name, at):
        quoted, key, indexes, dot = step.groups()
        steps.append(key if quoted is None else quoted)
        found = re.findall(r"\[([0-9]*)\]", indexes)
        steps += [int(index) if index else _EACH for index in found]
        if not dot:
            return steps
        at = step.end()
    return [name]
