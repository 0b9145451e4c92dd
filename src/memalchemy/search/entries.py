"""Text search over the entries of logs: terms in, the best of them out, alike on every database."""

from __future__ import annotations

from sqlalchemy import Executable, Float, and_, bindparam, cast, select

from memalchemy.dialects import Dialect
from memalchemy.log.entries import is_entry
from memalchemy.log.tables import DELTAS, THREADS, live, same_log
from memalchemy.search.ranking import ranked
from memalchemy.statements import statement

_KEY = ("tenant", "thread_id", "namespace", "seq")
_SHOWN = (*_KEY, "entry_key", "occurred_at", "stored_at")
_FETCHED = ("codec", "checksum", "search_text", "payload")


@statement(scope=("namespace", "log"))
def search_entries(d: Dialect, scope: str) -> Executable:
    """Entries that hold a term, best first; binds ``terms``, ``p_terms`` (their number).

    Of all threads in a namespace, or of one log. How rare a word is, is told by the namespace.
    """
    found, asked = ranked(d.text_hits(), _KEY)
    # Payloads and texts of the best few only: each is a row of its own to fetch.
    best = (
        select(*(DELTAS.c[name] for name in _SHOWN), found.c.bits)
        .select_from(found)
        .join(DELTAS, and_(same_log(DELTAS, found), DELTAS.c.seq == found.c.seq))
        .join(THREADS, same_log(THREADS, found))
        .where(live(), is_entry())
        .order_by(found.c.bits.desc(), DELTAS.c.stored_at.desc(), DELTAS.c.seq.desc())
        .limit(bindparam("p_limit"))
    )
    if scope == "log":
        best = best.where(THREADS.c.thread_id == bindparam("k_thread_id"))
    few = best.subquery("best")
    whole = DELTAS.alias("whole")
    return (
        select(
            *(few.c[name] for name in _SHOWN if name not in ("tenant", "namespace")),
            (cast(few.c.bits, Float) / asked).label("score"),
            *(whole.c[name] for name in _FETCHED),
        )
        .select_from(few)
        .join(whole, and_(same_log(whole, few), whole.c.seq == few.c.seq))
        .order_by(few.c.bits.desc(), few.c.stored_at.desc(), few.c.seq.desc())
    )
