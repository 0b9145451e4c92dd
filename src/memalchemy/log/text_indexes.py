"""Purge the text indexes: remove the words of rows that are gone."""

from __future__ import annotations

from sqlalchemy import Executable

from memalchemy.dialects import TEXT_INDEXES, Dialect
from memalchemy.statements import Program, statement


@statement(index=tuple(TEXT_INDEXES))
def purge(dialect: Dialect, index: str) -> Executable | None:
    """Remove the words of deleted rows from a text index."""
    return dialect.text.purge(index)


@statement(index=tuple(TEXT_INDEXES))
def index_is_aside(dialect: Dialect, index: str) -> Executable | None:
    """Select one row if a text index has been set aside because it was damaged."""
    return dialect.text.is_aside(index)


def purge_all(dialect: Dialect) -> Program[None]:
    """Remove the words of deleted rows from all text indexes, where deleting leaves them there."""
    for index in TEXT_INDEXES:
        if dialect.text.purge(index) is None:
            continue
        if not (yield index_is_aside(dialect, index=index), None):
            yield purge(dialect, index=index), None
