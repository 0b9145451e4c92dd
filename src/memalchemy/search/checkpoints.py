"""Text search over checkpoints: terms in, the best of them out, alike on every database."""

from __future__ import annotations

from sqlalchemy import Executable, Float, and_, bindparam, cast, select

from memalchemy.dialects import Dialect
from memalchemy.log.tables import CHECKPOINTS, DELTAS, THREADS, live, same_log
from memalchemy.search.ranking import ranked
from memalchemy.statements import statement


@statement(below=(False, True))
def search_checkpoints(d: Dialect, below: bool) -> Executable:
    """Checkpoints that hold a term, best first; binds ``terms``, ``p_terms`` (their number).

    Of a namespace, with *below* also of those under it; how rare a word is, is told by all of them.
    """
    found, asked = ranked(d.text_hits(below), ("tenant", "thread_id", "namespace", "seq"))
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
            "occurred_at",
        )
    ]
    # The texts of the best few only: each is a row of its own to fetch.
    best = (
        select(*named, found.c.bits)
        .select_from(found)
        .join(CHECKPOINTS, and_(same_log(CHECKPOINTS, found), CHECKPOINTS.c.seq == found.c.seq))
        .join(THREADS, same_log(THREADS, found))
        .where(live())
        .order_by(found.c.bits.desc(), CHECKPOINTS.c.created_at.desc(), CHECKPOINTS.c.seq.desc())
        .limit(bindparam("p_limit"))
        .subquery("best")
    )
    score = cast(best.c.bits, Float) / asked
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
            best.c.occurred_at,
            score.label("score"),
            DELTAS.c.search_text,
            best.c.namespace,
        )
        .select_from(best)
        .join(DELTAS, and_(same_log(DELTAS, best), DELTAS.c.seq == best.c.seq))
        .order_by(best.c.bits.desc(), best.c.created_at.desc(), best.c.seq.desc())
    )
