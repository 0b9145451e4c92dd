"""Purge the text indexes: remove the words of rows that are gone."""

from __future__ import annotations

from sqlalchemy import Executable

from memalchemy.dialects import TEXT_INDEXES, Dialect
from memalchemy.statements import Program, statement


@statement(index=tuple(TEXT_INDEXES))
def purge(dialect: Dialect, index: str) -> Executable | None:
    """Remove the words of deleted rows from a text index."""
    return dialect.text.purge(index)


def purge_all(dialect: Dialect) -> Program[None]:
    """Remove the words of deleted rows from all text indexes, where deleting leaves them there."""
    for index in TEXT_INDEXES:
        if dialect.text.purge(index) is not None:
            yield purge(dialect, index=index), None
