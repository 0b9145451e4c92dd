"""Text search over the entries of logs: terms in, the best of them out, alike on every database."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from sqlalchemy import BigInteger, Executable, Float, Integer, and_, bindparam, cast, select, tuple_

from memalchemy.dialects import Dialect
from memalchemy.log.entries import is_entry
from memalchemy.log.tables import DELTAS, THREADS, live, same_log
from memalchemy.search.ranking import are_few, opening, ranked
from memalchemy.search.relevance import Scored, in_order
from memalchemy.statements import Program, statement

_KEY = ("log_id", "seq")
_WHOLE = ("entry_key", "occurred_at", "stored_at", "codec", "checksum", "search_text", "payload")


@statement(scope=("namespace", "log"), weighed=(False, True))
def search_entries(d: Dialect, scope: str, weighed: bool) -> Executable:
    """Entries that hold a term, and the ``score`` that is their share of the query.

    The largest share first, then the newest. Of all threads in a namespace, or of one log; how rare
    a word is, is told by the namespace. *weighed*: with the ``opening`` of the words, and the whole
    entry if `are_few`; else the rest of it is NULL. Binds ``terms``, ``p_terms`` (their number),
    ``k_tenant``, ``k_namespace``, ``p_limit``, ``p_offset``.
    """
    found, asked = ranked(d.text.log_hits(), _KEY)
    order = (DELTAS.c.stored_at.desc(), DELTAS.c.seq.desc(), THREADS.c.thread_id.desc())
    chosen = (
        select(
            *(DELTAS.c[name] for name in (*_KEY, "stored_at")), THREADS.c.thread_id, found.c.bits
        )
        .select_from(found)
        .join(DELTAS, _same_place(DELTAS, found))
        .join(THREADS, same_log(THREADS, found))
        .where(live(), is_entry())
        .order_by(found.c.bits.desc(), *order)
        .limit(bindparam("p_limit"))
        .offset(bindparam("p_offset", type_=Integer))
    )
    if scope == "log":
        chosen = chosen.where(THREADS.c.thread_id == bindparam("k_thread_id"))
    best = d.statements.materialized(chosen, "best")
    score = (cast(best.c.bits, Float) / asked).label("score")
    query = select(*(best.c[name] for name in (*_KEY, "thread_id")), score)
    if weighed:
        whole = DELTAS.alias("whole")
        query = (
            query.add_columns(opening(DELTAS.c.search_text), *(whole.c[name] for name in _WHOLE))
            .select_from(best)
            .join(DELTAS, _same_place(DELTAS, best))
            .outerjoin(whole, and_(_same_place(whole, best), are_few(best)))
        )
    order = (best.c.stored_at.desc(), best.c.seq.desc(), best.c.thread_id.desc())
    return query.order_by(best.c.bits.desc(), *order)


@statement()
def read_found_entries(d: Dialect) -> Executable:
    """The entries that ``p_keys`` lists, with what a hit shows."""
    listed = d.statements.rows_from_list("p_keys", _KEY)
    places = select(listed.c.log_id, cast(listed.c.seq, BigInteger))
    return (
        select(*(DELTAS.c[name] for name in (*_KEY, *_WHOLE)), THREADS.c.thread_id)
        .join(THREADS, same_log(THREADS, DELTAS))
        .where(tuple_(*(DELTAS.c[name] for name in _KEY)).in_(places), is_entry())
    )


def find_entries(
    d: Dialect, terms: Sequence[Sequence[str]], binds: dict[str, Any], scope: str, limit: int
) -> Program[list[Scored]]:
    """The best *limit* entries, as rows of what a hit shows, each with its score."""
    return in_order(
        d,
        terms,
        binds,
        limit,
        search=lambda weighed: search_entries(d, scope=scope, weighed=weighed),
        read=read_found_entries(d),
        is_whole=lambda row: row.codec is not None,
    )


def _same_place(a: Any, b: Any) -> Any:
    return and_(same_log(a, b), a.c.seq == b.c.seq)
