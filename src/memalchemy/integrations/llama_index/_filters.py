"""LlamaIndex's metadata filters in the language of `memalchemy.filters`."""

from __future__ import annotations

import operator
from collections.abc import Callable, Iterable
from typing import Any

from llama_index.core.vector_stores.types import (
    FilterCondition,
    FilterOperator,
    MetadataFilter,
    MetadataFilters,
)

from memalchemy._json_pointers import pointer
from memalchemy.integrations._filters import EVERYTHING, NOTHING, Filter, is_none
from memalchemy.integrations._wordless import stored_forms, wordless

DOCUMENT_KEYS = frozenset({"doc_id", "document_id", "ref_doc_id"})
"""Names of LlamaIndex's for the id of a node's document."""

_COMPARISONS = {
    FilterOperator.GT: ("$gt", operator.gt),
    FilterOperator.GTE: ("$gte", operator.ge),
    FilterOperator.LT: ("$lt", operator.lt),
    FilterOperator.LTE: ("$lte", operator.le),
}
_TEXT_MATCHES = {
    FilterOperator.TEXT_MATCH: "$contains",
    FilterOperator.TEXT_MATCH_INSENSITIVE: "$icontains",
}


def document_fields(ref_doc_id: str | None) -> dict[str, str | None]:
    """Return what is stored of a node for filters by the id of its document."""
    if ref_doc_id is None:
        return {"ref_doc_id": None, "folded_ref_doc_id": None}
    return {
        "ref_doc_id": wordless(ref_doc_id),
        "folded_ref_doc_id": wordless(ref_doc_id.casefold()),
    }


def native_filter(
    filters: MetadataFilters | None,
    *,
    ids: Iterable[str] | None = None,
    documents: Iterable[str] | None = None,
) -> Filter | None:
    """Return the filter of nodes with these ids, of these documents, that pass *filters*.

    Raises:
        ValueError, TypeError: an operator takes no such value.
    """
    parts: list[Filter] = []
    if ids is not None:
        parts.append({"$value": {"id": _one_of(ids)}})
    if documents is not None:
        parts.append({"$value": {"ref_doc_id": _one_of(documents)}})
    if filters is not None and filters.filters:
        parts.append(_filter_of_group(filters))
    return {"$and": parts} if parts else None


def without_text(
    filters: MetadataFilters | None, *, ids: Iterable[str] | None = None
) -> Filter | None:
    """Return the filter of nodes that a search for a part of a text cannot look at.

    Their field holds something else. ``None`` if *filters* search for none.
    """
    parts: list[Filter] = []
    groups = [] if filters is None else [filters]
    while groups:
        for one in groups.pop().filters:
            if isinstance(one, MetadataFilters):
                groups.append(one)
            elif one.operator in _TEXT_MATCHES:
                field = _path_of_field(one)
                parts.append({"$not": {"$or": [is_none(field), {field: {"$type": "text"}}]}})
    if not parts:
        return None
    among = {} if ids is None else {"id": _one_of(ids)}
    return {"$value": {**among, "$or": parts}}


def _filter_of_group(group: MetadataFilters) -> Filter:
    parts = [
        _filter_of_group(one) if isinstance(one, MetadataFilters) else _filter_of_one(one)
        for one in group.filters
    ]
    condition = group.condition or FilterCondition.AND
    if condition is FilterCondition.NOT:  # none of them is true
        return {"$not": {"$or": parts}} if parts else EVERYTHING
    if not parts:
        return EVERYTHING
    return {"$and" if condition is FilterCondition.AND else "$or": parts}


def _one_of(ids: Iterable[str]) -> Filter:
    return {"$in": stored_forms(ids)}


def _path_of_field(one: MetadataFilter) -> str:
    return "/ref_doc_id" if one.key in DOCUMENT_KEYS else pointer("/metadata", one.key)


def _filter_of_one(one: MetadataFilter) -> Filter:
    if one.key in DOCUMENT_KEYS:
        if one.operator is FilterOperator.TEXT_MATCH_INSENSITIVE and isinstance(one.value, str):
            return {"$value": {"folded_ref_doc_id": {"$contains": wordless(one.value.casefold())}}}
        if one.operator is FilterOperator.EQ and isinstance(one.value, str):
            return {"$value": {"ref_doc_id": _one_of([one.value])}}
        one = one.model_copy(update={"value": _as_stored(one.value)})
    value = one.value

    def field(operators: Filter) -> Filter:
        return {"$value": {_path_of_field(one): operators}}

    match one.operator:
        case FilterOperator.IS_EMPTY:
            return {"$or": [field({"$exists": False}), field({"$in": [None, "", []]})]}
        case FilterOperator.EQ:
            return NOTHING if value is None else field({"$in": _values_alike(value)})
        case FilterOperator.NE:
            return EVERYTHING if value is None else field({"$nin": _values_alike(value)})
        case FilterOperator.IN:
            return field(
                {"$in": [same for part in _require_list(one) for same in _values_alike(part)]}
            )
        case FilterOperator.NIN:
            return field(
                {"$nin": [same for part in _require_list(one) for same in _values_alike(part)]}
            )
        case FilterOperator.CONTAINS:
            return _contains_filter(field, value)
        case FilterOperator.ANY:
            either = [_contains_filter(field, part) for part in _require_list(one)]
            return {"$or": either} if either else NOTHING
        case FilterOperator.ALL:
            each = [_contains_filter(field, part) for part in _require_list(one)]
            return {"$and": each} if each else field({"$ne": None, "$exists": True})
    if one.operator in _TEXT_MATCHES:
        if not isinstance(value, str):
            raise TypeError(f"the filter {one.operator.value!r} of {one.key!r} takes a text")
        return field({_TEXT_MATCHES[one.operator]: value})
    if one.operator in _COMPARISONS:
        name, compare = _COMPARISONS[one.operator]
        found = field({name: value})
        if not isinstance(value, (int, float)):
            return found
        truths = [truth for truth in (False, True) if compare(truth, value)]
        return {"$or": [found, field({"$in": truths})]} if truths else found
    raise ValueError(
        f"the filter operator {one.operator.value!r} is not supported; supported are "
        + ", ".join(repr(known.value) for known in FilterOperator if known is not one.operator)
    )


def _as_stored(value: Any) -> Any:
    """Return the value of a filter by the id of a document as such ids are stored."""
    if isinstance(value, list):
        return [_as_stored(one) for one in value]
    return wordless(value) if isinstance(value, str) else value


def _values_alike(value: Any) -> list[Any]:
    """Return the values that a filter's value equals.

    LlamaIndex's filters take no booleans: 1 stands for True, and 0 for False.
    """
    number = isinstance(value, (int, float))
    return [value, bool(value)] if number and value in (0, 1) else [value]


def _contains_filter(field: Callable[[Filter], Filter], value: Any) -> Filter:
    either = [field({"$contains": one}) for one in _values_alike(value)]
    return either[0] if len(either) == 1 else {"$or": either}


def _require_list(one: MetadataFilter) -> list[Any]:
    if not isinstance(one.value, list):
        raise ValueError(f"the filter {one.operator.value!r} of {one.key!r} takes a list")
    return one.value
