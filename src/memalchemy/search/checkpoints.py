"""Text search over checkpoints: terms in, the best of them out, alike on every database."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from sqlalchemy import BigInteger, Executable, Float, Integer, and_, bindparam, cast, select, tuple_

from memalchemy.dialects import Dialect
from memalchemy.log.tables import CHECKPOINTS, DELTAS, THREADS, live, same_log
from memalchemy.search.ranking import are_few, opening, ranked
from memalchemy.search.relevance import Scored, in_order
from memalchemy.statements import Program, statement

_KEY = ("log_id", "seq")
_PLACE = ("thread_id", "namespace")
_SHOWN = (
    "checkpoint_id",
    "parent_id",
    "seq",
    "meta",
    "created_at",
    "raw_size",
    "stored_size",
    "occurred_at",
)
"""In the order of the columns that make a `CheckpointInfo`, behind the place of the log."""


@statement(below=(False, True), weighed=(False, True))
def search_checkpoints(d: Dialect, below: bool, weighed: bool) -> Executable:
    """Checkpoints that hold a term, and the ``score`` that is their share of the query.

    The largest share first, then the newest. Of a namespace, with *below* also of those under it;
    how rare a word is, is told by all of them. *weighed*: with the ``opening`` of the words, and
    all that a hit shows if `are_few`; else that is NULL. Binds ``terms``, ``p_terms`` (their
    number), those of `namespace_binds`, ``p_limit``, ``p_offset``.
    """
    found, asked = ranked(d.text.log_hits(below), _KEY)
    order = (
        CHECKPOINTS.c.created_at.desc(),
        *(THREADS.c[name].desc() for name in _PLACE),
        CHECKPOINTS.c.seq.desc(),
    )
    best = d.statements.materialized(
        select(
            *(CHECKPOINTS.c[name] for name in (*_KEY, "created_at")),
            *(THREADS.c[name] for name in _PLACE),
            found.c.bits,
        )
        .select_from(found)
        .join(CHECKPOINTS, _same_place(CHECKPOINTS, found))
        .join(THREADS, same_log(THREADS, found))
        .where(live())
        .order_by(found.c.bits.desc(), *order)
        .limit(bindparam("p_limit"))
        .offset(bindparam("p_offset", type_=Integer)),
        "best",
    )
    score = (cast(best.c.bits, Float) / asked).label("score")
    if not weighed:
        query = select(*(best.c[name] for name in _KEY), score)
    else:
        words = DELTAS.alias("words")
        query = (
            select(
                *(best.c[name] for name in _PLACE),
                *((best if name == "seq" else CHECKPOINTS).c[name] for name in _SHOWN),
                best.c.log_id,
                score,
                opening(words.c.search_text),
                DELTAS.c.search_text,
            )
            .select_from(best)
            .join(words, _same_place(words, best))
            .outerjoin(CHECKPOINTS, and_(_same_place(CHECKPOINTS, best), are_few(best)))
            .outerjoin(DELTAS, and_(_same_place(DELTAS, best), are_few(best)))
        )
    order = (best.c.created_at.desc(), *(best.c[name].desc() for name in (*_PLACE, "seq")))
    return query.order_by(best.c.bits.desc(), *order)


@statement()
def read_found_checkpoints(d: Dialect) -> Executable:
    """The columns that a hit shows, of the checkpoints that ``p_keys`` lists."""
    listed = d.statements.rows_from_list("p_keys", _KEY)
    places = select(listed.c.log_id, cast(listed.c.seq, BigInteger))
    return (
        select(
            *(THREADS.c[name] for name in _PLACE),
            *(CHECKPOINTS.c[name] for name in _SHOWN),
            CHECKPOINTS.c.log_id,
            DELTAS.c.search_text,
        )
        .select_from(CHECKPOINTS)
        .join(DELTAS, _same_place(DELTAS, CHECKPOINTS))
        .join(THREADS, same_log(THREADS, CHECKPOINTS))
        .where(tuple_(*(CHECKPOINTS.c[name] for name in _KEY)).in_(places))
    )


def find_checkpoints(
    d: Dialect, terms: Sequence[Sequence[str]], binds: dict[str, Any], below: bool, limit: int
) -> Program[list[Scored]]:
    """The best *limit* checkpoints, as rows of what a hit shows, each with its score."""
    return in_order(
        d,
        terms,
        binds,
        limit,
        search=lambda weighed: search_checkpoints(d, below=below, weighed=weighed),
        read=read_found_checkpoints(d),
        is_whole=lambda row: row.checkpoint_id is not None,
    )


def _same_place(a: Any, b: Any) -> Any:
    return and_(same_log(a, b), a.c.seq == b.c.seq)
