"""Searches of one namespace, which Citus sends to one node: see `memalchemy.log.citus`."""

from __future__ import annotations

from typing import Any

from sqlalchemy import ColumnElement

from memalchemy.dialects import Dialect
from memalchemy.search._vector_statements import place_in_index
from memalchemy.search.scope import namespace_bind, routed_items
from memalchemy.variants import CITUS


@routed_items.on(CITUS)
def _routed_items(dialect: Dialect, below: bool, *tables: Any) -> list[ColumnElement[bool]]:
    if below:
        return []
    return [table.c.namespace == namespace_bind("k_namespace") for table in tables]


@place_in_index.on(CITUS)
def _place_in_index(dialect: Dialect, rough: ColumnElement[float]) -> ColumnElement[Any]:
    # Rows of several nodes are merged by it. A row number would have all rows sent to one node.
    return rough
