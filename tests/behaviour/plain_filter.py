"""What a filter means, in plain Python and from its words alone: the tests' own second opinion.

Must not use `memalchemy.filters`, which it judges.
"""

from __future__ import annotations

from typing import Any

MISSING = object()


def matches(wanted: dict[str, Any], value: Any, metadata: dict[str, Any]) -> bool:
    """Whether an item with this value and metadata is one of those that a filter asks for."""
    return all(_part(name, condition, value, metadata) for name, condition in wanted.items())


def _part(name: str, condition: Any, value: Any, metadata: dict[str, Any]) -> bool:
    match name:
        case "$and":
            return all(matches(one, value, metadata) for one in condition)
        case "$or":
            return any(matches(one, value, metadata) for one in condition)
        case "$not":
            return not matches(condition, value, metadata)
        case "$value":
            return matches(condition, value, {})
        case "$metadata":
            return matches(condition, metadata, {})
    found = field(name, value, metadata)
    if isinstance(condition, dict) and condition and all(key[:1] == "$" for key in condition):
        return all(_holds(operator, found, operand) for operator, operand in condition.items())
    return equal(found, condition)


def field(name: str, value: Any, metadata: dict[str, Any]) -> Any:
    for place in (value, metadata):
        found = _pointed(name, place) if name.startswith("/") else _named(name, place)
        if found is not MISSING:
            return found
    return MISSING


def _named(name: str, place: Any) -> Any:
    return place.get(name, MISSING) if isinstance(place, dict) else MISSING


def _pointed(name: str, place: Any) -> Any:
    for step in name[1:].split("/"):
        step = step.replace("~1", "/").replace("~0", "~")
        if isinstance(place, dict):
            place = place.get(step, MISSING)
        elif isinstance(place, list) and step.isdigit() and int(step) < len(place):
            place = place[int(step)]
        else:
            return MISSING
    return place


def _holds(operator: str, found: Any, operand: Any) -> bool:
    match operator:
        case "$eq":
            return equal(found, operand)
        case "$ne":
            return not equal(found, operand)
        case "$in":
            return any(equal(found, one) for one in operand)
        case "$nin":
            return not any(equal(found, one) for one in operand)
        case "$exists":
            return (found is not MISSING) is operand
        case "$contains" if isinstance(found, str):
            return isinstance(operand, str) and found.count(operand) > 0
        case "$contains":
            return isinstance(found, list) and any(equal(one, operand) for one in found)
        case "$any":
            return isinstance(found, list) and any(
                all(_holds(name, one, part) for name, part in operand.items()) for one in found
            )
        case "$type":
            return {"dict": "object", "list": "array", "none": "null"}.get(
                _kind(found), _kind(found)
            ) == operand
        case "$icontains":
            return isinstance(found, str) and found.lower().count(operand.lower()) > 0
    kind = _kind(found)
    if kind != _kind(operand) or kind not in ("number", "text"):
        return False
    return {
        "$gt": found > operand,
        "$gte": found >= operand,
        "$lt": found < operand,
        "$lte": found <= operand,
    }[operator]


def equal(one: Any, other: Any) -> bool:
    """Of one kind and the same, all the way down; a missing field equals nothing."""
    kind = _kind(one)
    if kind != _kind(other) or kind == "missing":
        return False
    if kind == "dict":
        return one.keys() == other.keys() and all(equal(one[key], other[key]) for key in one)
    if kind == "list":
        return len(one) == len(other) and all(map(equal, one, other))
    return bool(one == other)


def _kind(value: Any) -> str:
    if value is MISSING:
        return "missing"
    if value is None:
        return "none"
    if isinstance(value, bool):
        return "boolean"
    if isinstance(value, (int, float)):
        return "number"
    return {str: "text", dict: "dict", list: "list"}.get(type(value), "other")
