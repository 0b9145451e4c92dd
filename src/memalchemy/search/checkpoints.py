"""The read side of text search: terms in, ranked checkpoints out, alike on every database.

Rank is by inverse document frequency: a term is worth the bits that finding it tells, in whole
bits, and a checkpoint is worth the sum over the terms it holds, as a share of all that were asked
for. Whole bits need no logarithm, which not every SQLite has.
"""

from __future__ import annotations

from sqlalchemy import Executable, Float, and_, bindparam, case, cast, func, select

from memalchemy.dialects import Dialect
from memalchemy.log.tables import CHECKPOINTS, DELTAS, THREADS, live, same_log
from memalchemy.statements import statement

RARE = 20
"""The bits of a term that occurs once, and of one that does not occur."""


@statement()
def search_checkpoints(d: Dialect) -> Executable:
    """Checkpoints that hold a term, best first; binds ``terms``, ``p_terms`` (their number)."""
    hits = d.text_hits()
    found = (
        select(hits.c.term, func.count().label("occurrences")).group_by(hits.c.term).cte("found")
    )
    # The n-th line says: in fewer than 2 to the n rows.
    bits = case(
        *((found.c.occurrences < 2 ** (n + 1), RARE - n) for n in range(RARE)),
        else_=1,
    )
    worth = select(found.c.term, bits.label("bits")).cte("worth")
    asked = (
        select(
            func.coalesce(func.sum(worth.c.bits), 0) + RARE * (bindparam("p_terms") - func.count())
        )
        .select_from(worth)
        .scalar_subquery()
    )
    key = [hits.c[name] for name in ("tenant", "thread_id", "namespace", "seq")]
    ranked = (
        select(*key, func.sum(worth.c.bits).label("bits"))
        .join(worth, worth.c.term == hits.c.term)
        .group_by(*key)
        .cte("ranked")
    )
    named = [
        CHECKPOINTS.c[name]
        for name in (
            "tenant",
            "thread_id",
            "namespace",
            "checkpoint_id",
            "parent_id",
            "seq",
            "meta",
            "created_at",
            "raw_size",
            "stored_size",
        )
    ]
    # The texts of the best few only: each is a row of its own to fetch.
    best = (
        select(*named, ranked.c.bits)
        .select_from(ranked)
        .join(CHECKPOINTS, and_(same_log(CHECKPOINTS, ranked), CHECKPOINTS.c.seq == ranked.c.seq))
        .join(THREADS, same_log(THREADS, ranked))
        .where(live())
        .order_by(ranked.c.bits.desc(), CHECKPOINTS.c.created_at.desc(), CHECKPOINTS.c.seq.desc())
        .limit(bindparam("p_limit"))
        .subquery("best")
    )
    score = cast(best.c.bits, Float) / cast(asked, Float)
    return (
        select(
            best.c.thread_id,
            best.c.checkpoint_id,
            best.c.parent_id,
            best.c.seq,
            best.c.meta,
            best.c.created_at,
            best.c.raw_size,
            best.c.stored_size,
            score.label("score"),
            DELTAS.c.search_text,
        )
        .select_from(best)
        .join(DELTAS, and_(same_log(DELTAS, best), DELTAS.c.seq == best.c.seq))
        .order_by(best.c.bits.desc(), best.c.created_at.desc(), best.c.seq.desc())
    )
