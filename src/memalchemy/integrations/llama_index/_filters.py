"""LlamaIndex's metadata filters in the language of `memalchemy.filters`."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from llama_index.core.vector_stores.types import (
    FilterCondition,
    FilterOperator,
    MetadataFilter,
    MetadataFilters,
)

from memalchemy.codec.values import pointer

Filter = dict[str, Any]

NOTHING: Filter = {"$value": {"id": {"$in": []}}}
"""A filter that no node passes."""

DOCUMENT_KEYS = frozenset({"doc_id", "document_id", "ref_doc_id"})
"""Names of LlamaIndex's for the id of a node's document."""

_COMPARISONS = {
    FilterOperator.GT: "$gt",
    FilterOperator.GTE: "$gte",
    FilterOperator.LT: "$lt",
    FilterOperator.LTE: "$lte",
    FilterOperator.CONTAINS: "$contains",
}


def native_filter(
    filters: MetadataFilters | None,
    *,
    ids: Iterable[str] | None = None,
    documents: Iterable[str] | None = None,
) -> Filter | None:
    """Return the filter of nodes with these ids, of these documents, that pass *filters*.

    Raises:
        ValueError: an operator is not supported, or takes no such value.
    """
    parts: list[Filter] = []
    if ids is not None:
        parts.append({"$value": {"id": {"$in": list(ids)}}})
    if documents is not None:
        parts.append({"$value": {"ref_doc_id": {"$in": list(documents)}}})
    if filters is not None and filters.filters:
        parts.append(_of_group(filters))
    return {"$and": parts} if parts else None


def _of_group(group: MetadataFilters) -> Filter:
    parts = [
        _of_group(one) if isinstance(one, MetadataFilters) else _of_one(one)
        for one in group.filters
    ]
    condition = group.condition or FilterCondition.AND
    if condition is FilterCondition.NOT:  # none of them is true
        return {"$not": {"$or": parts}} if parts else {"$not": NOTHING}
    if not parts:
        return {"$not": NOTHING}
    return {"$and" if condition is FilterCondition.AND else "$or": parts}


def _of_one(one: MetadataFilter) -> Filter:
    operator, value = one.operator, one.value

    def field(operators: Filter) -> Filter:
        name = "/ref_doc_id" if one.key in DOCUMENT_KEYS else pointer("/metadata", one.key)
        return {"$value": {name: operators}}

    if operator is FilterOperator.IS_EMPTY:
        return {"$or": [field({"$exists": False}), field({"$in": [None, "", []]})]}
    if operator is FilterOperator.EQ:
        return NOTHING if value is None else field({"$eq": value})
    if operator is FilterOperator.NE:
        return {"$not": NOTHING} if value is None else field({"$ne": value})
    if operator in (FilterOperator.IN, FilterOperator.NIN):
        operands = _list(one)
        return field({"$in" if operator is FilterOperator.IN else "$nin": operands})
    if operator is FilterOperator.ANY:
        either = [field({"$contains": part}) for part in _list(one)]
        return {"$or": either} if either else NOTHING
    if operator is FilterOperator.ALL:
        each = [field({"$contains": part}) for part in _list(one)]
        return {"$and": each} if each else field({"$ne": None, "$exists": True})
    if operator is FilterOperator.TEXT_MATCH:
        if not isinstance(value, str):
            raise ValueError(f"the filter {operator.value!r} of {one.key!r} takes a text")
        return field({"$contains": value})
    if operator in _COMPARISONS:
        return field({_COMPARISONS[operator]: value})
    raise ValueError(
        f"the filter operator {operator.value!r} is not supported; supported are "
        + ", ".join(repr(known.value) for known in FilterOperator if known is not operator)
    )


def _list(one: MetadataFilter) -> list[Any]:
    if not isinstance(one.value, list):
        raise ValueError(f"the filter {one.operator.value!r} of {one.key!r} takes a list")
    return one.value
