"""One search over steps, entries and items."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from datetime import UTC, datetime
from typing import Any

from memalchemy.checkpoints import Checkpointer
from memalchemy.codec.search_text import MAX_TEXT, highlighted, query_terms, texts_in
from memalchemy.database import READ_REPLICA, Database
from memalchemy.dialects import namespace_binds
from memalchemy.inspection._internal import is_internal
from memalchemy.inspection._records import Record, time
from memalchemy.keys import decode_namespace
from memalchemy.search.text import find_entries
from memalchemy.store import Store
from memalchemy.threads import entry_rows


async def search(store: Store, query: str, *, limit: int = 30) -> Record:
    """Return the steps, entries and items that hold words of *query*, the best first.

    A score is the share of the query that the best of its kind holds, rare words counting more;
    equal scores are ordered by time, the latest first.

    Raises:
        CapabilityMissing: the database is encrypted, and holds no readable words.
    """
    terms = query_terms(query)
    if not terms:
        return {"hits": []}
    found = await asyncio.gather(
        _found_steps(store.db, query, terms, limit),
        _found_entries(store.db, terms, limit),
        _found_in_store(store, query, terms, limit),
    )
    hits = [hit for some in found for hit in some]
    hits.sort(key=lambda hit: (hit["score"], hit["occurred_at"] or ""), reverse=True)
    return {"hits": hits[:limit]}


async def _found_steps(
    db: Database, query: str, terms: Sequence[list[str]], limit: int
) -> list[Record]:
    found = await Checkpointer(db).search(query, limit, below=True)
    return [
        {
            "kind": "step",
            "namespace": list(hit["namespace"]),
            "thread_id": hit["thread_id"],
            "checkpoint_id": hit["checkpoint_id"],
            "position": None,
            "key": None,
            "score": hit["score"],
            "occurred_at": time(hit["occurred_at"]),
            "snippet": highlighted(hit["snippet"], terms),
        }
        for hit in found
    ]


async def _found_entries(db: Database, terms: list[list[str]], limit: int) -> list[Record]:
    d = db.dialect
    binds: dict[str, Any] = {
        **namespace_binds(db.tenant, "/", below=True),
        **d.text.log_scope_binds(db.tenant),
        "terms": d.text.terms(terms),
        "p_terms": len(terms),
        "p_now": datetime.now(UTC),
    }
    rows = await db.run(lambda: find_entries(d, terms, binds, "below", limit), READ_REPLICA)

    def record(score: float, row: Any) -> Record:
        entry = entry_rows.to_entry(row.thread_id, db.keyring, row)
        return {
            "kind": "entry",
            "namespace": list(decode_namespace(row.namespace)),
            "thread_id": row.thread_id,
            "checkpoint_id": None,
            "position": entry.position,
            "key": entry.key,
            "score": score,
            "occurred_at": time(entry.occurred_at),
            "snippet": highlighted(_words(entry.value), terms),
        }

    return await asyncio.to_thread(lambda: [record(score, row) for score, row in rows])


async def _found_in_store(
    store: Store, query: str, terms: Sequence[list[str]], limit: int
) -> list[Record]:
    hits = await store.search((), query, limit, prefix=True)

    def records() -> list[Record]:
        return [
            {
                "kind": "item",
                "namespace": list(hit.namespace),
                "thread_id": None,
                "checkpoint_id": None,
                "position": None,
                "key": hit.key,
                "score": hit.score,
                "occurred_at": time(hit.updated_at),
                "snippet": highlighted(_words(hit.value), terms),
            }
            for hit in hits
            if not is_internal(hit.namespace)
        ]

    return await asyncio.to_thread(records)


def _words(value: Any) -> str:
    """Return the texts of a value in which a search looks for words, up to some length."""
    found: list[str] = []
    room = MAX_TEXT
    for text in texts_in(value):
        found.append(text[:room])
        room -= len(text)
        if room <= 0:
            break
    return "\n".join(found)
