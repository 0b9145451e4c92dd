"""PostgreSQL: the newest checkpoints that hold a word, without all others that hold it.

A GIN index has rows in no order, so it reads every row with a word before the newest are known. Of
a word in very many rows the newest are found more quickly in the logs that were active last: their
last checkpoints are tested, from the newest on, until there are enough. A text is tested for the
word itself: to make its tsvector takes fifty times as long.

The checkpoints of a log have been stored in the order of their times, but for those that were
saved at the same moment, and a log has been active since its last. So no checkpoint that is not
tested is newer than the logs beyond them were active, or than the oldest that is tested of the last
log. What is newer than that by `SLACK` is certain. If these are too few, the index is asked.
"""

from __future__ import annotations

from typing import Any, NamedTuple

from sqlalchemy import (
    CTE,
    ColumnElement,
    Integer,
    Interval,
    Select,
    Text,
    and_,
    bindparam,
    case,
    cast,
    func,
    literal_column,
    or_,
    select,
    true,
)
from sqlalchemy.dialects.postgresql import ARRAY, TSQUERY  # noqa: TID251

from memalchemy.schema import CheckpointRow, DeltaRow, ThreadRow

THREADS: Any = ThreadRow.__table__
CHECKPOINTS: Any = CheckpointRow.__table__
DELTAS: Any = DeltaRow.__table__

SAMPLE = 32
"""Checkpoints that tell whether a word is in so many that the newest with it are tested for."""

OFTEN = 9
"""The number of them that hold it."""

WINDOW = 3
"""Checkpoints that are tested at most, for each that is wanted."""

SLACK = "1 minute"
"""The time between the clocks of processes that save, with what a save waits for a lock."""


class NewestWithWord(NamedTuple):
    """The newest checkpoints that hold a term, and the term itself.

    Attributes:
        term: a row with ``term``, its ``query`` as a tsquery, and its ``word``.
        rows: ``log_id, seq`` of the newest.
        are_page: a query for whether the page that is asked for consists of them.
    """

    term: CTE
    rows: CTE
    are_page: CTE


def newest_with_word(*logs: ColumnElement[bool]) -> NewestWithWord:
    """Find the newest checkpoints of *logs*, conditions on ``threads``, with a term.

    Binds ``terms``, of which there is one, ``p_limit`` and ``p_offset``.
    """
    term, logs = _term(), (*logs, THREADS.c.head_id.is_not(None))
    sample = _last_of_active(_number(SAMPLE), logs).cte("sample").prefix_with("MATERIALIZED")
    is_common = _is_common(term, sample).cte("common").prefix_with("MATERIALIZED")
    size = cast(bindparam("p_limit", type_=Integer) + bindparam("p_offset", type_=Integer), Integer)
    if_common = case((_one(is_common.c.yes), size * _number(WINDOW)), else_=_number(0))
    recent = _last_of_active(if_common, logs).cte("recent").prefix_with("MATERIALIZED")
    beyond = _newest_beyond(recent, logs).cte("beyond").prefix_with("MATERIALIZED")
    certain = (
        select(*recent.c)
        .join(beyond, or_(beyond.c.moment.is_(None), recent.c.created_at > beyond.c.moment))
        .order_by(*_newest_first(recent))
        .subquery("certain")
    )
    rows = (
        select(certain.c.log_id, certain.c.seq)
        .join(DELTAS, _same_row(DELTAS, certain))
        .where(_holds(DELTAS.c.search_text, term))
        .order_by(*_newest_first(certain))
        .limit(_one(size))
        .cte("newest")
        .prefix_with("MATERIALIZED")
    )
    found = select(func.count()).select_from(rows).scalar_subquery()
    are_all = and_(_one(is_common.c.yes), _one(beyond.c.moment).is_(None))
    are_page = select(or_(found == size, are_all).label("yes")).cte("are_page")
    return NewestWithWord(term, rows, are_page.prefix_with("MATERIALIZED"))


def _term() -> CTE:
    # The array has one element: an index of it would need parentheses around the cast.
    terms = cast(bindparam("terms", type_=ARRAY(Text)), ARRAY(Text))
    one = func.array_to_string(terms, literal_column("''"), type_=Text)
    term = select(one.label("term")).subquery("given").c.term
    return (
        select(
            term,
            func.to_tsquery(literal_column("'simple'"), term, type_=TSQUERY).label("query"),
            func.btrim(term, literal_column("''''"), type_=Text).label("word"),
        )
        .cte("asked")
        .prefix_with("MATERIALIZED")
    )


def _last_of_active(number: ColumnElement[int], logs: Any) -> Select[Any]:
    """Return *number* checkpoints of the logs that were active last, the last of each first."""
    active = (
        select(*(THREADS.c[name] for name in ("log_id", "thread_id", "namespace", "active_at")))
        .where(*logs)
        .order_by(THREADS.c.active_at.desc())
        .limit(_one(number))
        .subquery("active")
    )
    last = (
        select(CHECKPOINTS.c.seq, CHECKPOINTS.c.created_at)
        .where(CHECKPOINTS.c.log_id == active.c.log_id)
        .order_by(CHECKPOINTS.c.seq.desc())
        .limit(_one(number))
        .lateral("last")
    )
    return (
        select(*active.c, *last.c)
        .join(last, true())
        .order_by(active.c.active_at.desc())
        .limit(_one(number))
    )


def _is_common(term: CTE, sample: CTE) -> Select[Any]:
    """Query whether a term is in many of *sample*, and is a word that texts can be tested for.

    That is one which the parser leaves as it is. A text with it has it in lower case.
    """
    holders = (
        select(func.count())
        .select_from(sample.join(DELTAS, _same_row(DELTAS, sample)))
        .where(func.strpos(func.lower(DELTAS.c.search_text), _one(term.c.word)) > _number(0))
        .scalar_subquery()
    )
    is_word = and_(
        func.numnode(term.c.query) == _number(1), term.c.query == cast(term.c.term, TSQUERY)
    )
    # The texts are not looked at for anything else.
    often = case((is_word, holders >= _number(OFTEN)), else_=literal_column("false"))
    return select(often.label("yes")).select_from(term)


def _newest_beyond(recent: CTE, logs: Any) -> Select[Any]:
    """Query a moment, ``NULL`` if there is none, up to which *logs* may have more than *recent*."""
    least = select(func.min(recent.c.active_at).label("active_at")).cte("edge")
    edge = _one(least.prefix_with("MATERIALIZED").c.active_at)
    outside = (
        select(THREADS.c.active_at + _interval("1 second"))
        .where(*logs, THREADS.c.active_at <= edge)
        .where(THREADS.c.log_id.not_in(select(recent.c.log_id)))
        .order_by(THREADS.c.active_at.desc())
        .limit(_number(1))
        .scalar_subquery()
    )
    first = (
        select(
            recent.c.log_id,
            func.min(recent.c.seq).label("seq"),
            func.min(recent.c.created_at).label("moment"),
        )
        .where(recent.c.active_at == edge)
        .group_by(recent.c.log_id)
        .subquery("first")
    )
    before = select(_number(1)).where(
        CHECKPOINTS.c.log_id == first.c.log_id, CHECKPOINTS.c.seq < first.c.seq
    )
    inside = select(func.max(first.c.moment)).where(before.exists()).scalar_subquery()
    return select((func.greatest(outside, inside) + _interval(SLACK)).label("moment"))


def _holds(text: ColumnElement[Any], term: CTE) -> ColumnElement[bool]:
    """Return whether a text's tsvector holds *term*, in the cheapest way that tells."""
    word, none = _one(term.c.word), _number(0)
    space: ColumnElement[str] = literal_column("' '", Text)
    spaced = space.op("||")(text).op("||")(space)
    alone = select(space.op("||")(term.c.word).op("||")(space)).scalar_subquery()
    vector = func.to_tsvector(literal_column("'simple'"), text)
    return or_(
        func.strpos(spaced, alone) > none,
        and_(
            func.strpos(func.lower(text), word) > none,
            vector.bool_op("@@")(_one(term.c.query)),
        ),
    )


def _newest_first(rows: Any) -> list[ColumnElement[Any]]:
    return [rows.c[name].desc() for name in ("created_at", "thread_id", "namespace", "seq")]


def _same_row(a: Any, b: Any) -> ColumnElement[bool]:
    return and_(a.c.log_id == b.c.log_id, a.c.seq == b.c.seq)


def _one(value: ColumnElement[Any]) -> ColumnElement[Any]:
    # A subquery is computed once, when the statement runs, and the planner does not see its value.
    return select(value).scalar_subquery()


def _number(value: int) -> ColumnElement[int]:
    return literal_column(str(value), Integer)


def _interval(value: str) -> ColumnElement[Any]:
    return literal_column(f"interval '{value}'", Interval)
