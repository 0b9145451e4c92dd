"""Haystack's filters in the language of `memalchemy.filters`."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from haystack.errors import FilterError

from memalchemy import filters as filters_of_store
from memalchemy._json_pointers import pointer
from memalchemy.filters import as_datetime
from memalchemy.integrations._filters import EVERYTHING, NOTHING, Filter, is_none
from memalchemy.integrations._wordless import stored_forms

_ORDER = {">": "$gt", ">=": "$gte", "<": "$lt", "<=": "$lte"}
_FIELDS = frozenset({"id", "content", "score"})
_PRESENT = {
    "embedding": "/dimensions",
    "blob": "/blob",
    "sparse_embedding": "/sparse_embedding",
}
"""Fields that are compared with ``None`` only, and what is stored of a document that has one."""


def native_filter(filters: Mapping[str, Any] | None) -> Filter | None:
    """Return the filter that means what Haystack's *filters* mean; ``None`` for none.

    Raises:
        FilterError: they are malformed, or compare what cannot be compared.
    """
    if not filters:
        return None
    found = _convert(filters)
    try:
        filters_of_store.Filter.parse(found)
    except (TypeError, ValueError) as error:
        raise FilterError(str(error)) from error
    return found


def _convert(condition: Any) -> Filter:
    if not isinstance(condition, Mapping):
        raise FilterError(f"a condition is a dict, not {type(condition).__name__}")
    return _convert_comparison(condition) if "field" in condition else _convert_logic(condition)


def _require_key(condition: Mapping[str, Any], key: str) -> Any:
    if key not in condition:
        raise FilterError(f"the key {key!r} is missing in a filter with {sorted(condition)}")
    return condition[key]


def _convert_logic(condition: Mapping[str, Any]) -> Filter:
    operator = _require_key(condition, "operator")
    parts = [_convert(one) for one in _require_key(condition, "conditions")]
    if operator == "AND":
        return {"$and": parts} if parts else EVERYTHING
    if operator == "OR":
        return {"$or": parts} if parts else NOTHING
    if operator == "NOT":
        return {"$not": {"$and": parts}} if parts else NOTHING
    raise FilterError(f"unknown logical operator {operator!r}: known are AND, OR, NOT")


def _convert_comparison(condition: Mapping[str, Any]) -> Filter:
    name, operator = condition["field"], _require_key(condition, "operator")
    value = _require_key(condition, "value")
    if name in _PRESENT:
        return _presence_filter(name, operator, value)
    if operator == "==":
        return _equals_filter(name, value)
    if operator == "!=":
        return {"$not": _equals_filter(name, value)}
    if operator in ("in", "not in"):
        found = _membership_filter(name, value)
        return found if operator == "in" else {"$not": found}
    if operator in _ORDER:
        return _order_filter(name, _ORDER[operator], value)
    known = ", ".join(("==", "!=", "in", "not in", *_ORDER))
    raise FilterError(f"unknown comparison operator {operator!r}: known are {known}")


def _field_filter(name: str, operators: Filter) -> Filter:
    return {"$value": {_path_of_field(name): operators}}


def _path_of_field(name: str) -> str:
    if name in _FIELDS:
        return f"/{name}"
    first, dot, rest = name.partition(".")
    if not dot:  # Haystack's old filters leave out "meta."
        return pointer("/meta", name)
    if first != "meta":
        return "/missing"
    path = "/meta"
    for step in rest.split("."):
        path = pointer(path, step)
    return path


def _presence_filter(name: str, operator: str, value: Any) -> Filter:
    if value is not None or operator not in ("==", "!="):
        raise FilterError(f"{name!r} can be compared with None only, by == and !=")
    return {"$value": {_PRESENT[name]: {"$exists": operator == "!="}}}


def _equals_filter(name: str, value: Any) -> Filter:
    if value is None:
        return {"$value": is_none(_path_of_field(name))}
    if name == "id" and isinstance(value, str):
        return _field_filter(name, {"$in": stored_forms([value])})
    same = _field_filter(name, {"$eq": value})
    moment = as_datetime(value)
    if moment is None:
        return same
    return {"$or": [same, _field_filter(name, {"$date": {"$eq": moment}})]}


def _membership_filter(name: str, values: Any) -> Filter:
    if not isinstance(values, list):
        raise FilterError(f"'in' and 'not in' take a list, not {type(values).__name__}")
    if name == "id":
        return _field_filter(name, {"$in": stored_forms(one for one in values if type(one) is str)})
    plain = [one for one in values if one is not None and as_datetime(one) is None]
    others = [
        _equals_filter(name, one) for one in values if one is None or as_datetime(one) is not None
    ]
    found = _field_filter(name, {"$in": plain})
    return {"$or": [found, *others]} if others else found


def _order_filter(name: str, operator: str, value: Any) -> Filter:
    if value is None:
        return NOTHING
    moment = as_datetime(value)
    if moment is not None:
        return _field_filter(name, {"$date": {operator: moment}})
    if isinstance(value, bool) or not isinstance(value, int | float):
        raise FilterError(
            f"'>', '>=', '<' and '<=' compare numbers and dates in ISO 8601, not this "
            f"{type(value).__name__}"
        )
    return _field_filter(name, {operator: value})
