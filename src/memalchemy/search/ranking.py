"""Rank by inverse document frequency, in SQL that every database has.

A term is worth the bits that finding it tells, in whole bits, and a row is worth the sum over the
terms it holds, as a share of all that were asked for. Whole bits need no logarithm, which not every
SQLite has.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from sqlalchemy import (
    CTE,
    ColumnElement,
    Float,
    FromClause,
    Integer,
    Text,
    bindparam,
    case,
    cast,
    func,
    literal_column,
    select,
)

from memalchemy.search.relevance import OPENING

FEW = 50
"""Hits that are read whole at once; of more, only those that are wanted are, by their keys."""

RARE = 20
"""The bits of a term that occurs once, and of one that does not occur."""


def ranked(hits: FromClause, key: Sequence[str]) -> tuple[CTE, ColumnElement[float]]:
    """The *key* columns of *hits* with their ``bits``, and what all terms together are worth.

    *hits* is a row for each ``term`` that each key holds; binds ``p_terms``, the number of terms.
    """
    found = (
        select(hits.c.term, func.count().label("occurrences")).group_by(hits.c.term).cte("found")
    )
    # The n-th line says: in fewer than 2 to the n rows.
    bits = case(
        *((found.c.occurrences < _whole(2 ** (n + 1)), _whole(RARE - n)) for n in range(RARE)),
        else_=_whole(1),
    )
    worth = select(found.c.term, bits.label("bits")).cte("worth")
    asked = (
        select(
            func.coalesce(func.sum(worth.c.bits), _whole(0))
            + _whole(RARE) * (bindparam("p_terms") - func.count())
        )
        .select_from(worth)
        .scalar_subquery()
    )
    columns: list[Any] = [hits.c[name] for name in key]
    rows = (
        select(*columns, func.sum(worth.c.bits).label("bits"))
        .join(worth, worth.c.term == hits.c.term)
        .group_by(*columns)
        .cte("ranked")
    )
    return rows, cast(asked, Float)


def opening(text: ColumnElement[Any]) -> ColumnElement[Any]:
    """The beginning of a search text: what BM25 looks at."""
    return func.substr(text, _whole(1), _whole(OPENING), type_=Text).label("opening")


def are_few(rows: FromClause) -> ColumnElement[bool]:
    """Whether *rows* are so few that all of each is read with them."""
    number: ColumnElement[int] = select(func.count()).select_from(rows).scalar_subquery()
    return number <= _whole(FEW)


def _whole(number: int) -> ColumnElement[int]:
    # Part of the text: as values to bind they are two score, at each execution.
    return literal_column(str(number), Integer)
