"""PostgreSQL: the newest checkpoints that hold a word, without all others that hold it.

A GIN index has rows in no order, so it reads every row with a word before the newest are known. Of
a word in very many rows the newest are found more quickly in the logs that were active last: their
last checkpoints are tested, from the newest on, until there are enough. A text is tested for the
word itself: to make its tsvector takes fifty times as long.

The checkpoints of a log have been stored in the order of their times, but for those that were
saved at the same moment, and a log has been active since its last. So no checkpoint that is not
tested is newer than the logs beyond them were active, or than the oldest that is tested of the last
log. What is newer than that by `SLACK` is certain. If these are too few, nothing is found.
"""

from __future__ import annotations

from typing import Any

from sqlalchemy import (
    CTE,
    ColumnElement,
    Integer,
    Interval,
    Select,
    Subquery,
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

from memalchemy.dialects.namespace_range import Live, in_namespace
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

MOST_LOGS = 2000
"""Logs that were active last, whose last checkpoints are tested."""

SLACK = "1 minute"
"""The time between the clocks of processes that save, with what a save waits for a lock."""


def newest_with_word(below: bool, live: Live) -> Select[Any]:
    """Return ``log_id, seq`` of the newest checkpoints with a term, if these are a page.

    They are those of live logs in a namespace, with *below* also under it. Binds ``terms``, of
    which there is one, ``p_limit``, ``p_offset`` and those of `namespace_binds`.
    """
    term, logs = _term_with_estimate(), _Logs(below, live)
    sample = (
        _last_of_active(logs, _integer_literal(SAMPLE)).cte("sample").prefix_with("MATERIALIZED")
    )
    common = _is_common(term, sample).cte("common").prefix_with("MATERIALIZED")
    is_common = _as_scalar(common.c.yes)
    size = cast(bindparam("p_limit", type_=Integer) + bindparam("p_offset", type_=Integer), Integer)
    wanted = case((is_common, size * _integer_literal(WINDOW)), else_=_integer_literal(0))
    recent = _last_of_active(logs, wanted).cte("recent").prefix_with("MATERIALIZED")
    others = _newest_beyond(logs, recent).where(is_common)
    beyond = others.cte("beyond").prefix_with("MATERIALIZED")
    certain = (
        select(*recent.c)
        .join(beyond, or_(beyond.c.moment.is_(None), recent.c.created_at > beyond.c.moment))
        .order_by(*_newest_first(recent))
        .subquery("certain")
    )
    newest = (
        select(certain.c.log_id, certain.c.seq)
        .where(_holds_for_delta(_text_holds(DELTAS.c.search_text, term), certain))
        .order_by(*_newest_first(certain))
        .limit(_as_scalar(size))
        .cte("newest")
        .prefix_with("MATERIALIZED")
    )
    found = select(func.count()).select_from(newest).scalar_subquery()
    are_all = and_(is_common, _as_scalar(beyond.c.moment).is_(None))
    return select(*newest.c).where(or_(found == size, are_all))


class _Logs:
    """The live logs of a search that have checkpoints, from the one that was active last on.

    They are among the `MOST_LOGS` logs of the namespace that were active last, or of the tenant if
    it is those below a namespace: no index has these in the order of activity.
    """

    def __init__(self, below: bool, live: Live) -> None:
        self._below, self._live = below, live

    def last_active_logs(self) -> Subquery:
        """Return the logs, in order."""
        last = self._last_active().limit(_integer_literal(MOST_LOGS)).subquery("last_active")
        return (
            select(*(last.c[name] for name in ("log_id", "thread_id", "namespace", "active_at")))
            .where(in_namespace(last, self._below), self._live(last), last.c.head_id.is_not(None))
            .subquery("active")
        )

    def order(self, logs: Any) -> list[ColumnElement[Any]]:
        # With the namespace it is the order of an index. The planner, which does not know how many
        # logs there are in a namespace, would rather take another one, or sort all of them.
        names = ["active_at"] if self._below else ["namespace", "active_at"]
        return [logs.c[name].desc() for name in names]

    def end(self) -> ColumnElement[Any]:
        """Return when the last of the `MOST_LOGS` was active, NULL if there are fewer."""
        last = (
            self._last_active()
            .offset(_integer_literal(MOST_LOGS - 1))
            .limit(_integer_literal(1))
            .subquery("end_of_all")
        )
        return _as_scalar(last.c.active_at)

    def _last_active(self) -> Select[Any]:
        names = ("log_id", "tenant", "thread_id", "namespace", "active_at")
        columns = (THREADS.c[n] for n in (*names, "head_id", "deleted_at", "expires_at"))
        within = [THREADS.c.tenant == bindparam("k_tenant", type_=THREADS.c.tenant.type)]
        if not self._below:
            path = bindparam("k_namespace", type_=THREADS.c.namespace.type)
            # Not as an equality, of which the planner would know that it gives no order.
            within += [THREADS.c.namespace >= path, THREADS.c.namespace <= path]
        return select(*columns).where(*within).order_by(*self.order(THREADS))


def _last_of_active(logs: _Logs, number: ColumnElement[int]) -> Select[Any]:
    """Return *number* checkpoints of the logs that were active last, the last of each first."""
    active = logs.last_active_logs()
    last = (
        select(CHECKPOINTS.c.seq, CHECKPOINTS.c.created_at)
        .where(CHECKPOINTS.c.log_id == active.c.log_id)
        .order_by(CHECKPOINTS.c.seq.desc())
        .limit(_as_scalar(number))
        .lateral("last")
    )
    rows = select(*active.c, *last.c).join(last, true())
    return rows.order_by(*logs.order(active)).limit(_as_scalar(number))


def _term_with_estimate() -> CTE:
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


def _is_common(term: CTE, sample: CTE) -> Select[Any]:
    """Query whether a term is in many of *sample*, and is a word that texts can be tested for.

    Such a word is one that the parser leaves as it is. A text with it has it in lower case.
    """
    has_it = func.strpos(
        func.lower(DELTAS.c.search_text), _as_scalar(term.c.word)
    ) > _integer_literal(0)
    count = select(func.count()).select_from(sample)
    holders = count.where(_holds_for_delta(has_it, sample)).scalar_subquery()
    is_word = and_(
        func.numnode(term.c.query) == _integer_literal(1),
        term.c.query == cast(term.c.term, TSQUERY),
    )
    # The texts are not looked at for anything else.
    often = case((is_word, holders >= _integer_literal(OFTEN)), else_=literal_column("false"))
    return select(often.label("yes")).select_from(term)


def _newest_beyond(logs: _Logs, recent: CTE) -> Select[Any]:
    """Query a moment, ``NULL`` if there is none, up to which there may be others than *recent*."""
    least = select(func.min(recent.c.active_at).label("active_at")).cte("edge")
    edge = _as_scalar(least.prefix_with("MATERIALIZED").c.active_at)
    active = logs.last_active_logs()
    outside = (
        select(func.max(active.c.active_at))
        .where(active.c.active_at <= edge, active.c.log_id.not_in(select(recent.c.log_id)))
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
    before = select(_integer_literal(1)).where(
        CHECKPOINTS.c.log_id == first.c.log_id, CHECKPOINTS.c.seq < first.c.seq
    )
    inside = select(func.max(first.c.moment)).where(before.exists()).scalar_subquery()
    # A log was active within the second that ``active_at`` has.
    active_until = func.greatest(outside, logs.end()) + _interval_literal("1 second")
    return select((func.greatest(active_until, inside) + _interval_literal(SLACK)).label("moment"))


def _text_holds(text: ColumnElement[Any], term: CTE) -> ColumnElement[bool]:
    """Return whether a text's tsvector holds *term*, in the cheapest way that tells."""
    word, none = _as_scalar(term.c.word), _integer_literal(0)
    space: ColumnElement[str] = literal_column("' '", Text)
    spaced = space.op("||")(text).op("||")(space)
    alone = select(space.op("||")(term.c.word).op("||")(space)).scalar_subquery()
    vector = func.to_tsvector(literal_column("'simple'"), text)
    return or_(
        func.strpos(spaced, alone) > none,
        and_(
            func.strpos(func.lower(text), word) > none,
            vector.bool_op("@@")(_as_scalar(term.c.query)),
        ),
    )


def _newest_first(rows: Any) -> list[ColumnElement[Any]]:
    return [rows.c[name].desc() for name in ("created_at", "thread_id", "namespace", "seq")]


def _holds_for_delta(condition: ColumnElement[bool], rows: Any) -> ColumnElement[bool]:
    """Return whether *condition* holds for the delta of each of *rows*.

    It is not a join, for which the planner may scan a table of some thousand deltas, and test all.
    """
    is_same = and_(DELTAS.c.log_id == rows.c.log_id, DELTAS.c.seq == rows.c.seq)
    return select(condition).where(is_same).correlate(rows).scalar_subquery()


def _as_scalar(value: ColumnElement[Any]) -> ColumnElement[Any]:
    # A subquery is computed once, when the statement runs, and the planner does not see its value.
    return select(value).scalar_subquery()


def _integer_literal(value: int) -> ColumnElement[int]:
    return literal_column(str(value), Integer)


def _interval_literal(value: str) -> ColumnElement[Any]:
    return literal_column(f"interval '{value}'", Interval)
