"""mem0's filters in memalchemy's language."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

_OPERATORS = {
    name: f"${name}"
    for name in ("eq", "ne", "gt", "gte", "lt", "lte", "in", "nin", "contains", "icontains")
}


def to_filter(filters: Mapping[str, Any] | None) -> dict[str, Any] | None:
    """Return a filter of `memalchemy.filters` on the value of items, which is the payload.

    Raises:
        ValueError: an operator that mem0 does not have, or an operand that it cannot use.
    """
    return {"$value": _all(filters)} if filters else None


def _all(filters: Mapping[str, Any]) -> dict[str, Any]:
    parts = [_part(name, wanted) for name, wanted in filters.items()]
    return {"$and": parts} if len(parts) != 1 else parts[0]


def _part(name: str, wanted: Any) -> dict[str, Any]:
    if name in ("AND", "OR", "NOT", "$and", "$or", "$not"):
        if not isinstance(wanted, list) or not wanted or not all(wanted):
            raise ValueError(f"{name} wants a list of filters, and at least one")
        parts = [_all(one) for one in wanted]
        match name.strip("$").upper():
            case "AND":
                return {"$and": parts}
            case "OR":
                return {"$or": parts}
        return {"$not": {"$or": parts}}
    # A JSON pointer, because a name may begin with $ or /.
    field = "/" + name.replace("~", "~0").replace("/", "~1")
    if wanted == "*":
        return {field: {"$exists": True}}
    if isinstance(wanted, list):
        return {field: {"$in": wanted}}
    if not isinstance(wanted, Mapping):
        return {field: {"$eq": wanted}}
    if unknown := [one for one in wanted if one not in _OPERATORS]:
        raise ValueError(f"Unsupported filter operator: {unknown[0]}")
    if not wanted:
        raise ValueError(f"the filter of {name!r} has no operator")
    return {field: {_OPERATORS[one]: operand for one, operand in wanted.items()}}
