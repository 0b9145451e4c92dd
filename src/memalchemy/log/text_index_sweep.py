"""Sweep the text indexes: remove the words of rows that are gone."""

from __future__ import annotations

from sqlalchemy import Executable

from memalchemy.dialects import TEXT_INDEXES, Dialect
from memalchemy.statements import Program, statement


@statement(index=tuple(TEXT_INDEXES))
def sweep_index(dialect: Dialect, index: str) -> Executable | None:
    """Remove the words of deleted rows from a text index."""
    return dialect.text.purge(index)


@statement(index=tuple(TEXT_INDEXES))
def index_is_aside(dialect: Dialect, index: str) -> Executable | None:
    """Select one row if a text index has been set aside because it was damaged."""
    return dialect.text.is_aside(index)


def sweep_indexes(dialect: Dialect) -> Program[None]:
    """Remove the words of deleted rows from all text indexes, where deleting leaves them there."""
    for index in TEXT_INDEXES:
        if dialect.text.purge(index) is None or (yield from is_aside(dialect, index)):
            continue
        yield sweep_index(dialect, index=index), None


def is_aside(dialect: Dialect, index: str) -> Program[bool]:
    """Return whether a text index has been set aside, where that can be."""
    if dialect.text.is_aside(index) is None:
        return False
    return bool((yield index_is_aside(dialect, index=index), None))
