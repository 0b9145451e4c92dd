"""Text indexes: ridding them of the words of rows that are gone."""

from __future__ import annotations

from sqlalchemy import Executable

from memalchemy.dialects import TEXT_INDEXES, Dialect
from memalchemy.statements import Program, statement


@statement(index=tuple(TEXT_INDEXES))
def purge(dialect: Dialect, index: str) -> Executable | None:
    """Rid a text index of the words of rows that are gone."""
    return dialect.text.purge(index)


def purge_all(dialect: Dialect) -> Program[None]:
    """Rid all text indexes of them, where deleting a row leaves its words in the index."""
    for index in TEXT_INDEXES:
        if dialect.text.purge(index) is not None:
            yield purge(dialect, index=index), None
