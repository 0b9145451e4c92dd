"""Which signed columns a statement returns: itself, in a value made of them, or from a subquery."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Mapping
from typing import Any

from sqlalchemy import ColumnClause, Table
from sqlalchemy.sql.dml import UpdateBase
from sqlalchemy.sql.selectable import AliasedReturnsRows, SelectBase
from stored_edits import SIGNED

import golden
from memalchemy.statements import Statement

DATABASES = ("sqlite", "postgresql", "citus", "oracle")
"""Together they have the statements of all variants."""


def columns_returned_by(families: Mapping[str, Statement[Any]]) -> dict[str, set[str]]:
    """Return the signed columns that statements return, by the names of their families.

    Those of all choices, on all databases.
    """
    found: dict[str, set[str]] = defaultdict(set)
    for dialect in map(golden.dialect_called, DATABASES):
        for name, family in families.items():
            for _, statement in family.enumerate(dialect):
                found[name].update(signed_columns(statement))
    return found


def signed_columns(statement: Any) -> Iterator[str]:
    """Yield the signed columns behind what a statement returns; of a text nobody knows."""
    if isinstance(statement, SelectBase | UpdateBase):
        seen: set[int] = set()
        for column in statement.exported_columns:
            yield from _behind(column, seen)


def _behind(element: Any, seen: set[int]) -> Iterator[str]:
    if id(element) in seen or isinstance(element, Table):
        return
    seen.add(id(element))
    if not isinstance(element, ColumnClause):
        for part in (*getattr(element, "base_columns", ()), *element.get_children()):
            yield from _behind(part, seen)
        return
    source: Any = element.table
    if isinstance(source, AliasedReturnsRows) and not isinstance(source.element, Table):
        for original in element.proxy_set - {element}:
            yield from _behind(original, seen)
        return
    table = getattr(source, "element", source)
    if element.name in SIGNED.get(getattr(table, "name", ""), ()):
        yield f"{table.name}.{element.name}"


def silent(families: Mapping[str, Statement[Any]]) -> list[str]:
    """Return the families that return a signed column, and say neither what proves it nor why."""
    returned = columns_returned_by(families)
    return [name for name in families if returned[name] and not says(families[name])]


def idle(families: Mapping[str, Statement[Any]]) -> list[str]:
    """Return the families that say one of both, and return no signed column."""
    returned = columns_returned_by(families)
    return [name for name in families if says(families[name]) and not returned[name]]


def says(family: Statement[Any]) -> bool:
    """Return whether a family says what proves what it returns, or why nothing does."""
    return bool(family.proof or family.checks or family.unproven)
