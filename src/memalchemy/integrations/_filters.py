"""Conditions that the filters of several frameworks have in common."""

from __future__ import annotations

from typing import Any, Final

Filter = dict[str, Any]
"""A filter of `memalchemy.filters`."""

NOTHING: Final[Filter] = {"$value": {"id": {"$in": []}}}
"""A filter that no item passes."""
EVERYTHING: Final[Filter] = {"$not": NOTHING}


def is_none(field: str) -> Filter:
    """Return a filter of items that have no *field*, or ``None`` in it."""
    return {"$not": {field: {"$exists": True, "$ne": None}}}


def equals(field: str, value: Any) -> Filter:
    """Return a filter that means ``mapping.get(field) == value``: ``None`` equals what is missing.

    Many frameworks filter by this expression. Here ``True`` is not 1.
    """
    return is_none(field) if value is None else {field: {"$eq": value}}
