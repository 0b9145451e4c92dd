"""Search over steps, entries and items at once."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterable, Sequence
from typing import Any

from memalchemy._together import together
from memalchemy.checkpoints.found_texts import read_found_texts
from memalchemy.checkpoints.listing import found_info
from memalchemy.codec.search_text import joined_texts
from memalchemy.codec.snippets import highlighted, snippet
from memalchemy.codec.tokens import Term
from memalchemy.contracts import Match, check_limit, check_match, check_query
from memalchemy.database import READ_REPLICA, Database
from memalchemy.errors import InvalidArgument
from memalchemy.inspection._records import Record, framework_of, time
from memalchemy.inspection.internal_items import holds_internal_items
from memalchemy.keys import check_namespace, check_thread_id, decode_namespace, encode_namespace
from memalchemy.log import Log
from memalchemy.search.ranking import ScoredRow
from memalchemy.search.text import find_checkpoints, find_entries, search_scope
from memalchemy.search.word_query import WordQuery
from memalchemy.store import Store
from memalchemy.threads import entry_rows

KINDS = ("step", "entry", "item")
"""The kinds of what a search finds."""


async def search(
    store: Store,
    query: str,
    *,
    limit: int = 30,
    match: Match = "any",
    kinds: Iterable[str] = KINDS,
    namespace: Iterable[str] = (),
    below: bool = True,
    thread_id: str | None = None,
) -> Record:
    """Return the steps, entries and items that hold words of *query*, the best first.

    They are ``hits``. Each has ``kind``, ``framework``, ``namespace``, ``thread_id``,
    ``checkpoint_id``, ``position``, ``key``, ``score`` and ``occurred_at``; what a kind does not
    have is ``None``. Their ``snippet`` is pieces of ``text``, with ``hit`` for found words.

    A score is the share of the query that the best of its kind holds, rare words counting more;
    equal scores are ordered by time, the latest first. Internal items are left out, unless
    *namespace* is one of theirs.

    Args:
        match: ``any``: what holds one of the words is found. ``all``: only what holds all.
        kinds: the kinds to look for, some of `KINDS`.
        namespace: the namespace to look in, with *below* also those under it.
        thread_id: only steps and entries of this thread; no items, which have none.

    Raises:
        CapabilityMissing: the database is encrypted, and holds no readable words.
        KeyMissing: nothing was found, the tenant is encrypted, and no key was given.
    """
    wanted, place = frozenset(kinds), check_namespace(namespace)
    if unknown := wanted.difference(KINDS):
        raise InvalidArgument(f"a kind is {', '.join(KINDS)}, not {sorted(unknown)[0]!r}")
    if thread_id is not None:
        check_thread_id(thread_id)
        wanted -= {"item"}
    limit, db = check_limit(limit), store.db
    db.keyring.check_readable("text", "a search")
    first_words = db.has_first_words
    wanted_words = WordQuery.of(check_query(query), check_match(match), first_words=first_words)
    terms = wanted_words.shown_terms()
    if not terms or not limit:
        return {"hits": []}

    async def in_logs(find: Callable[..., Any]) -> list[ScoredRow]:
        scope, binds = search_scope(
            db.dialect,
            db.tenant,
            encode_namespace(place),
            below=below,
            thread_id=thread_id,
        )
        found: list[ScoredRow] = await db.run(
            lambda: find(db.dialect, wanted_words, binds, scope, limit), READ_REPLICA
        )
        if not found:
            await db.check_search()
        return found

    async def steps() -> list[Record]:
        rows = await in_logs(find_checkpoints)
        texts = await read_found_texts(db, [row for _, row in rows], terms, None)
        return await asyncio.to_thread(
            lambda: [
                _step_record(db, row, score, text, terms)
                for (score, row), text in zip(rows, texts, strict=True)
            ]
        )

    async def entries() -> list[Record]:
        rows = await in_logs(find_entries)
        return await asyncio.to_thread(
            lambda: [_entry_record(db, row, score, terms) for score, row in rows]
        )

    async def items() -> list[Record]:
        hits = await store.search(place, query, limit, prefix=below, match=match)
        shown = [
            hit
            for hit in hits
            if holds_internal_items(place) or not holds_internal_items(hit.namespace)
        ]
        return await asyncio.to_thread(lambda: [_item_record(hit, terms) for hit in shown])

    searches: dict[str, Callable[[], Awaitable[list[Record]]]] = {
        "step": steps,
        "entry": entries,
        "item": items,
    }
    found = await together(*(searches[kind]() for kind in KINDS if kind in wanted))
    hits = [hit for some in found for hit in some]
    hits.sort(key=lambda hit: (hit["score"], hit["occurred_at"] or ""), reverse=True)
    return {"hits": hits[:limit]}


def _step_record(
    db: Database, row: Any, score: float, text: str | None, terms: Sequence[Term]
) -> Record:
    found, namespace = found_info(db, row), decode_namespace(row.namespace)
    return {
        "kind": "step",
        "framework": framework_of(namespace),
        "namespace": list(namespace),
        "thread_id": row.thread_id,
        "checkpoint_id": found.checkpoint_id,
        "position": None,
        "key": None,
        "score": score,
        "occurred_at": time(found.occurred_at),
        "snippet": highlighted(snippet(row.search_text, terms) if text is None else text, terms),
    }


def _entry_record(db: Database, row: Any, score: float, terms: Sequence[Term]) -> Record:
    namespace = decode_namespace(row.namespace)
    log = Log(db.tenant, row.thread_id, row.namespace)
    entry = entry_rows.to_entry(log, db.keyring, row)
    return {
        "kind": "entry",
        "framework": framework_of(namespace),
        "namespace": list(namespace),
        "thread_id": row.thread_id,
        "checkpoint_id": None,
        "position": entry.position,
        "key": entry.key,
        "score": score,
        "occurred_at": time(entry.occurred_at),
        "snippet": highlighted(joined_texts(entry.value), terms),
    }


def _item_record(hit: Any, terms: Sequence[Term]) -> Record:
    return {
        "kind": "item",
        "framework": None,
        "namespace": list(hit.namespace),
        "thread_id": None,
        "checkpoint_id": None,
        "position": None,
        "key": hit.key,
        "score": hit.score,
        "occurred_at": time(hit.updated_at),
        "snippet": highlighted(joined_texts(hit.value, hit.metadata), terms),
    }
