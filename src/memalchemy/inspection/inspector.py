"""`Inspector`: reads what a database holds, as pages of plain JSON for people to look at.

It sends no statement that writes. Every listing is paged, and every value is a bounded tree.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from functools import partial
from hashlib import blake2b
from typing import Any, TypeVar

from memalchemy import space
from memalchemy._cache import BoundedCache
from memalchemy._version import __version__
from memalchemy.checkpoints import Checkpointer, diff, listing, load
from memalchemy.codec.search_text import MAX_TEXT, highlighted, query_terms, texts_in
from memalchemy.contracts import MAX_LIMIT, CheckpointInfo, Entry, PendingWrite, StoreItem
from memalchemy.conversations._stored_summary import SUMMARY, StoredSummary
from memalchemy.database import READ_REPLICA, Database
from memalchemy.dialects import namespace_binds
from memalchemy.errors import (
    InvalidArgument,
    KeyMissing,
    MemalchemyError,
    NotEncrypted,
    NotFound,
)
from memalchemy.inspection import _statements as statements
from memalchemy.inspection._cursors import decode_cursor, encode_cursor
from memalchemy.inspection._records import (
    MEMORY_TYPES,
    Record,
    entry_record,
    framework_of,
    item_preview,
    item_record,
    kind_of,
    step_record,
    thread_record,
    time,
)
from memalchemy.inspection._timeline import GAP, Lanes, parent_to_follow
from memalchemy.inspection.transcript import (
    Path,
    is_empty,
    message,
    messages_of,
    plain,
    rest_of,
    whole_texts,
)
from memalchemy.inspection.tree import resolved, tree, value_at
from memalchemy.keys import (
    check_namespace,
    check_thread_id,
    decode_namespace,
    encode_id,
    encode_namespace,
)
from memalchemy.log import Log
from memalchemy.log.listing import list_logs, list_logs_of_thread, measure_logs
from memalchemy.log.pending_writes import bind_write_keys
from memalchemy.log.scan import run_query
from memalchemy.log.tables import truncate_to_second
from memalchemy.memory import MemoryFact
from memalchemy.search.scope import scope_binds
from memalchemy.search.text import find_entries
from memalchemy.store import Store
from memalchemy.store.read import decode_value
from memalchemy.threads import ThreadLog, entry_rows

T = TypeVar("T")

Namespace = tuple[str, ...]

MATCHES = 1_000
"""Matching ids up to which all are read, and sorted here."""
EXACT = 5_000
"""Logs up to which sums are exact; of more, those of a random sample are projected."""
SAMPLE = 2_000
"""Logs of a sample."""
SIBLINGS = 200
FRAMEWORKS = 100
COUNTED = 20_000
"""Items that are counted, at most."""
COUNTED_BELOW = 1_000
"""Items of each namespace in a list that are counted, at most."""
SORTED = 5_000
"""Items below a namespace up to which they are sorted by time."""
SMALL = 64 * 1024
"""Bytes of a value, or of pending writes, that a list reads."""
CHANGES = 500
"""Differences of two states that are returned."""
ANCESTORS = 2_000
"""Steps whose writes a transcript is rebuilt from, at most."""
CHANGED = 200
"""Changed threads that are named at once."""
OVERLAP = timedelta(seconds=5)
"""Time for which writers' clocks may be behind each other without a change being missed."""
MEASURED_FOR = timedelta(seconds=60)
"""Time for which a measurement of a large database is shown again."""
CACHE_BYTES = 64 * 1024 * 1024

INTERRUPT = "__interrupt__"
"""LangGraph's channel of interrupts."""


@dataclass(frozen=True)
class _Loaded:
    """A state that was read, with where its messages are."""

    state: Any
    size: int
    found: tuple[Path, list[Any]] | None


class Inspector:
    """Pages of what a database holds, as plain JSON.

        inspector = Inspector(db)
        page = await inspector.threads(query="support", limit=50)

    It reads the tenant of *db* and no other, and writes nothing. Times are texts in ISO 8601, sizes
    are bytes, and a ``next`` or ``previous`` is an opaque cursor, or ``None`` at the end. States
    that were read are kept in memory.

    Args:
        db: the database.
        cache_bytes: the encoded size of the states that are kept, at most.

    Raises, from any method:
        NotFound: there is no such thread, checkpoint, item or path.
        InvalidArgument: an argument or a cursor is malformed.
        KeyMissing, NotEncrypted, Corrupt: what is stored cannot be read.
        DatabaseUnreachable, SchemaOutdated, SchemaTooNew.
    """

    def __init__(self, db: Database, *, cache_bytes: int = CACHE_BYTES) -> None:
        self.db = db
        self._store = Store(db, refresh_ttl=False)
        self._states: BoundedCache[Any, _Loaded] = BoundedCache(
            cache_bytes, lambda loaded: max(loaded.size, 1)
        )
        self._measured: tuple[datetime, Record] | None = None
        self._measuring: asyncio.Task[None] | None = None

    # --- The database -----------------------------------------------------------------------------

    async def overview(self) -> Record:
        """Return what the database is, and how much is in it.

        In a large database sizes are projected from a random sample: ``estimated``.
        """
        sums = await self._sums()
        items = await self._count_items((), below=True, most=COUNTED)
        return {
            "database": self._display,
            "dialect": self.db.dialect.name,
            "tenant": self.db.tenant,
            "revision": await self.db.current(),
            "version": __version__,
            "encrypted": self.db.keyring.encrypts,
            "threads": sums["threads"],
            "checkpoints": sums["checkpoints"],
            "items": items,
            "estimated": sums["estimated"] or items >= COUNTED,
            "frameworks": sums["frameworks"],
        }

    async def space(self) -> Record:
        """Return what takes the space.

        A large database is measured in the background: until that has ended, ``largest``,
        ``kinds`` and ``tables`` are empty and ``measuring`` is true.
        """
        sums = await self._sums()
        known = self._measured
        now = datetime.now(UTC)
        if known is None or now - known[0] > MEASURED_FOR:
            if self._measuring is None or self._measuring.done():
                self._measuring = asyncio.create_task(self._measure())
            if not sums["estimated"]:
                await asyncio.shield(self._measuring)
                known = self._measured
        totals = {
            "stored_bytes": sum(one["stored_bytes"] for one in sums["frameworks"]),
            "raw_bytes": sum(one["raw_bytes"] for one in sums["frameworks"]),
            "frameworks": sums["frameworks"],
        }
        if known is None:
            empty: Record = {"file_bytes": self.db.file_bytes, "free_bytes": None}
            empty |= {"largest": [], "kinds": [], "tables": [], "measured_at": None}
            return totals | empty | {"estimated": True, "measuring": True}
        measuring = self._measuring is not None and not self._measuring.done()
        return totals | known[1] | {"measuring": measuring}

    async def changes(self, since: str | None = None) -> Record:
        """Return the threads that were written since a token, and a new token.

        Without *since*, only the token of now. One look into an index.
        """
        now = datetime.now(UTC)
        if since is None:
            after, seen = now - OVERLAP, None
        else:
            stamp, marks = decode_cursor(since, 2)
            after, seen = _moment(stamp), frozenset(marks if isinstance(marks, list) else ())
        binds = {"k_tenant": self.db.tenant, "p_limit": CHANGED}
        binds["p_active_at"] = truncate_to_second(after)
        rows = await self._query(statements.changed_logs, binds)
        marks_of = {_mark(row): row for row in rows}
        newest = max((row.updated_at for row in rows), default=after)
        # Of what is older than this a token need not know that it was seen.
        bound = max(min(newest, now) - OVERLAP, after)
        second = truncate_to_second(bound)
        kept = [mark for mark, row in marks_of.items() if row.updated_at >= second]
        new = [row for mark, row in marks_of.items() if seen is not None and mark not in seen]
        return {
            "token": encode_cursor([bound.isoformat(), kept]),
            "changed": [
                {"thread_id": row.thread_id, "namespace": list(decode_namespace(row.namespace))}
                for row in new
            ],
        }

    # --- Threads ----------------------------------------------------------------------------------

    async def threads(
        self,
        query: str = "",
        *,
        framework: str = "",
        cursor: str | None = None,
        limit: int = 50,
    ) -> Record:
        """Return a page of threads, the last written first.

        Args:
            query: a part of the threads' ids, in any case of ASCII letters.
            framework: the first part of the namespace; ``/`` stands for the root.
        """
        path, scope = _place_of(framework)
        binds: dict[str, Any] = namespace_binds(self.db.tenant, path, below=True)
        after = None if cursor is None else _after_head(cursor)
        if query:
            binds |= {"p_like": _like(query)}
        heads = None
        if query:
            heads = await self._few_matching(scope, binds, after, limit)
        if heads is None:
            page = partial(_list_recent, self.db.dialect, scope, bool(query))
            if not query and (scope == "tenant" or await self._is_small(scope, binds)):
                page = partial(_list_logs, self.db.dialect, scope)
            heads = await self._page_of_heads(page, binds, after, limit)
        return {
            "threads": await self._thread_records(heads[:limit]),
            "next": _head_cursor(heads[limit - 1]) if len(heads) > limit else None,
        }

    async def thread(self, thread_id: str, namespace: Iterable[str] = ()) -> Record:
        """Return what a log is and holds, and the thread's logs in other namespaces."""
        log = self._log(thread_id, namespace)
        head = await self._head(log)
        (record,) = await self._thread_records([head])
        binds = {"k_tenant": log.tenant, "k_thread_id": log.thread_id}
        rows = await self._query(list_logs_of_thread, binds)
        others = [
            row.namespace
            for row in rows
            if row.deleted_at is None and row.namespace != log.namespace
        ]
        kind = "entries" if not record["checkpoints"] else "steps"
        return record | {
            "kind": "both" if record["checkpoints"] and record["entries"] else kind,
            "newest_id": head.head_id,
            "metadata": head.meta,
            "forked_from": head.forked_from,
            "siblings": [{"namespace": list(decode_namespace(path))} for path in others[:SIBLINGS]],
            "more_siblings": len(others) > SIBLINGS,
        }

    async def transcript(
        self,
        thread_id: str,
        namespace: Iterable[str] = (),
        *,
        at: str | None = None,
        before: int | None = None,
        limit: int = 100,
    ) -> Record:
        """Return a state's messages, or a log's entries as messages: those *before* an index.

        The messages of a state are looked for in whatever form a framework keeps it. A log of
        entries, or a thread whose newest state has no messages, is shown entry by entry; the index
        of an entry is its position.
        """
        log = self._log(thread_id, namespace)
        info = await self._checkpoint(log, at)
        if info is None and at is not None:
            raise NotFound(f"thread {thread_id!r} has no checkpoint {at!r}")
        if info is not None:
            loaded = await self._state(log, info)
            if loaded.found is not None:
                return await asyncio.to_thread(_transcript_of, loaded, info, before, limit)
        if at is None:
            logged = await self._log_transcript(log, before, limit)
            if logged is not None:
                if info is not None:
                    logged["rest"] = await self._rest(log, info)
                return logged
        if info is None:
            await self._head(log)
        rest = None if info is None else await self._rest(log, info)
        return {
            "source": "none",
            "at": None if info is None else info.checkpoint_id,
            "total": 0,
            "first": 0,
            "messages": [],
            "rest": rest,
            "path": None,
            "previous": None,
        }

    async def text(
        self,
        thread_id: str,
        namespace: Iterable[str] = (),
        *,
        index: int,
        at: str | None = None,
    ) -> Record:
        """Return the uncut texts of one message of a transcript."""
        log = self._log(thread_id, namespace)
        info = await self._checkpoint(log, at)
        if info is not None:
            loaded = await self._state(log, info)
            if loaded.found is not None:
                messages = loaded.found[1]
                if not 0 <= index < len(messages):
                    raise NotFound("there is no message of this index")
                return {"index": index} | whole_texts(messages[index])
        entry = await self._entry(log, index)
        return {"index": index} | whole_texts(entry.value)

    async def timeline(
        self,
        thread_id: str,
        namespace: Iterable[str] = (),
        *,
        cursor: str | None = None,
        limit: int = 200,
    ) -> Record:
        """Return a page of the steps of a thread, the newest first, with the lanes of branches."""
        log = self._log(thread_id, namespace)
        before, lanes, is_first = None, Lanes(), cursor is None
        if cursor is not None:
            before, expected = decode_cursor(cursor, 2)
            if not isinstance(before, int) or not isinstance(expected, list):
                raise InvalidArgument("this cursor is of another listing")
            lanes = Lanes([one if isinstance(one, str) else None for one in expected])
        binds = log.binds() | {"p_limit": limit + 1, "p_before": before}
        statement = listing.list_checkpoints(self.db.dialect, before=before is not None)
        rows = await run_query(self.db, statement, binds, replica_ok=True)
        if not rows and is_first:
            await self._head(log)
        infos = [listing.info(row) for row in rows]
        shown = infos[:limit]
        parents = await self._positions(log, {info.parent_id for info in shown} - {None})
        writes = await self._writes_of(log, [info.checkpoint_id for info in shown])
        steps = []
        for at, info in enumerate(shown):
            older = infos[at + 1].checkpoint_id if at + 1 < len(infos) else None
            parent = parent_to_follow(info.parent_id, info.seq, parents)
            lane = lanes.place(info.checkpoint_id, parent)
            count, interrupted = writes.get(info.checkpoint_id, (0, False))
            steps.append(
                step_record(info)
                | {
                    "is_branch": bool(parent) and parent != GAP and parent != older,
                    "lane": lane,
                    "writes": count,
                    "interrupt": interrupted,
                    "newest": is_first and not at,
                }
            )
        more = len(infos) > limit
        return {
            "steps": steps,
            "lanes": len(lanes.expected),
            "next": encode_cursor([shown[-1].seq, lanes.expected]) if more else None,
        }

    async def entries(
        self,
        thread_id: str,
        namespace: Iterable[str] = (),
        *,
        before: int | None = None,
        limit: int = 100,
    ) -> Record:
        """Return the newest entries of a log below position *before*, the oldest of them first."""
        log = self._log(thread_id, namespace)
        found = await self._tail(log, limit + 1, before)
        if not found and before is None:
            await self._head(log)
        shown = found[-limit:]
        return {
            "entries": await asyncio.to_thread(lambda: [entry_record(one) for one in shown]),
            "previous": shown[0].position if len(found) > limit else None,
        }

    async def entry(
        self,
        thread_id: str,
        namespace: Iterable[str] = (),
        *,
        position: int,
        path: str = "",
        offset: int = 0,
    ) -> Record:
        """Return a value within an entry, as a tree."""
        entry = await self._entry(self._log(thread_id, namespace), position)
        node = await asyncio.to_thread(lambda: tree(value_at(entry.value, path), offset=offset))
        return {"position": position, "path": path, "node": node}

    # --- States -----------------------------------------------------------------------------------

    async def state(
        self,
        thread_id: str,
        namespace: Iterable[str] = (),
        *,
        at: str | None = None,
        path: str = "",
        offset: int = 0,
    ) -> Record:
        """Return a value within a state, as a tree: everything of it, in pages of 100 children."""
        log = self._log(thread_id, namespace)
        info = await self._require_checkpoint(log, at)
        loaded = await self._state(log, info)
        node = await asyncio.to_thread(lambda: tree(value_at(loaded.state, path), offset=offset))
        return {"at": info.checkpoint_id, "path": path, "node": node}

    async def diff(
        self, thread_id: str, namespace: Iterable[str] = (), *, a: str, b: str
    ) -> Record:
        """Return what changed from the state of checkpoint *a* to that of *b*."""
        log = self._log(thread_id, namespace)
        states = []
        for checkpoint_id in (a, b):
            info = await self._require_checkpoint(log, checkpoint_id)
            states.append((await self._state(log, info)).state)
        changes = await asyncio.to_thread(_changes, *states)
        return {
            "a": a,
            "b": b,
            "changes": changes[:CHANGES],
            "total": len(changes),
            "truncated": len(changes) > CHANGES,
        }

    async def writes(
        self, thread_id: str, namespace: Iterable[str] = (), *, at: str | None = None
    ) -> Record:
        """Return the pending writes of a checkpoint, and the interrupts that it waits with."""
        log = self._log(thread_id, namespace)
        info = await self._require_checkpoint(log, at)
        checkpointer = self._checkpointer(log)
        found = await checkpointer.get_writes(thread_id, info.checkpoint_id)
        interrupts = [
            {"value": tree(one.get("value")), "id": _text_or_none(one.get("id"))}
            for write in found
            if write.channel == INTERRUPT
            for one in _interrupts_of(write.value)
        ]
        if not interrupts:
            loaded = await self._state(log, info)
            interrupts = [
                {"value": tree(value), "id": _text_or_none(id_)}
                for value, id_ in _waiting(loaded.state)
            ]
        return {
            "at": info.checkpoint_id,
            "writes": [
                {
                    "task_id": write.task_id,
                    "channel": write.channel,
                    "index": write.index,
                    "value": tree(write.value),
                }
                for write in found
            ],
            "interrupts": interrupts,
        }

    # --- The store --------------------------------------------------------------------------------

    async def namespaces(
        self, namespace: Iterable[str] = (), *, cursor: str | None = None, limit: int = 100
    ) -> Record:
        """Return a page of the namespaces right below one, with the number of items in each.

        At most 1,000 items of each are counted: ``more`` says that there are others.
        """
        top = check_namespace(namespace)
        after: Namespace | None = None
        if cursor is not None:
            after = check_namespace(decode_cursor(cursor, 1)[0])
        children: list[Namespace] = []
        while len(children) <= limit:
            child = await self._next_child(top, after)
            if child is None:
                break
            children.append(child)
            after = (*child, _LAST)
        records = []
        for child in children[:limit]:
            items = await self._count_items(child, below=True, most=COUNTED_BELOW + 1)
            more = items > COUNTED_BELOW
            records.append(
                {"namespace": list(child), "items": min(items, COUNTED_BELOW), "more": more}
            )
        last = children[limit - 1] if len(children) > limit else None
        return {
            "namespaces": records,
            "next": None if last is None else encode_cursor([[*last, _LAST]]),
        }

    async def items(
        self,
        namespace: Iterable[str] = (),
        query: str = "",
        *,
        below: bool = True,
        cursor: str | None = None,
        limit: int = 50,
    ) -> Record:
        """Return a page of items, the last written first; with *below* also of lower namespaces.

        Those of a large tree of namespaces come in the order of namespaces and keys: ``order``.
        With a *query* they are those that hold its words, the best first.
        """
        top = check_namespace(namespace)
        if query:
            return await self._found_items(top, query, below, cursor, limit)
        after = None if cursor is None else decode_cursor(cursor, 4)
        if after is not None:
            order = after[0]
        else:
            is_few = not below or await self._count_items(top, below=True, most=SORTED) < SORTED
            order = "newest" if is_few else "key"
        if order not in ("newest", "key"):
            raise InvalidArgument("this cursor is of another listing")
        binds = self._item_binds(top, below) | {"p_limit": limit + 1, "p_most": SMALL}
        if after is not None:
            binds |= {"p_after_namespace": after[2], "p_after_key": after[3]}
            if order == "newest":
                binds["p_after_updated_at"] = _moment(after[1])
        rows = await self._query(
            partial(statements.list_item_rows, order=order, below=below, after=after is not None),
            binds,
        )
        last = rows[limit - 1] if len(rows) > limit else None
        return {
            "items": [self._item_record(row) for row in rows[:limit]],
            "order": order,
            "next": None
            if last is None
            else encode_cursor([order, time(last.updated_at), last.namespace, last.key]),
        }

    async def item(
        self, namespace: Iterable[str], key: str, *, path: str = "", offset: int = 0
    ) -> Record:
        """Return an item with its value, or what is under *path* in it, as a tree."""
        place = check_namespace(namespace)
        item = await self._item(place, key)
        binds = self._item_key(place, key)
        sizes = await self._query(statements.measure_item, binds)
        vectors = await self._query(statements.list_vectors, binds | {"p_limit": 100})
        size = int(sizes[0].bytes) if sizes else None
        node = await asyncio.to_thread(lambda: tree(value_at(item.value, path), offset=offset))
        return item_record(place, item, size, len(vectors), item_preview(item.value)) | {
            "kind": kind_of(item),
            "path": path,
            "value": node,
            "metadata": tree(item.metadata),
            "models": [
                {
                    "field": row.field,
                    "model": row.model,
                    "part": row.part,
                    "dimensions": row.dimensions,
                }
                for row in vectors
            ],
        }

    async def neighbours(self, namespace: Iterable[str], key: str, *, limit: int = 10) -> Record:
        """Return the items of the namespace whose vectors are nearest to the item's first one."""
        place = check_namespace(namespace)
        await self._item(place, key)
        vectors = await self._query(
            statements.list_vectors, self._item_key(place, key) | {"p_limit": 1}
        )
        if not vectors:
            return {"neighbours": []}
        first = vectors[0]
        vector = await self._store.get_embedding(
            place, key, field=first.field, part=first.part, model=first.model
        )
        found = await self._store.search_by_embedding(place, vector, limit + 1, model=first.model)
        return {
            "neighbours": [
                {
                    "namespace": list(hit.item.namespace),
                    "key": hit.item.key,
                    "score": hit.score,
                    "preview": item_preview(hit.item.value),
                }
                for hit in found
                if hit.item.key != key
            ][:limit]
        }

    async def memories(
        self,
        kind: str,
        *,
        user: str = "",
        cursor: str | None = None,
        limit: int = 50,
    ) -> Record:
        """Return a page of facts, episodes, conversations or long-term memories.

        Args:
            kind: ``facts``, ``episodes``, ``conversations`` or ``long-term``.
            user: of facts, only those of this user.
        """
        if kind == "conversations":
            return await self._conversations(cursor, limit)
        if kind not in _IS_PLACE:
            known = "facts, episodes, conversations or long-term"
            raise InvalidArgument(f"kind is {known}, not {kind!r}")
        return await self._memories_in_store(kind, user, cursor, limit)

    # --- Search -----------------------------------------------------------------------------------

    async def search(self, query: str, *, limit: int = 30) -> Record:
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
            self._found_steps(query, terms, limit),
            self._found_entries(terms, limit),
            self._found_in_store(query, terms, limit),
        )
        hits = [hit for some in found for hit in some]
        hits.sort(key=lambda hit: (hit["score"], hit["occurred_at"] or ""), reverse=True)
        return {"hits": hits[:limit]}

    async def _found_steps(
        self, query: str, terms: Sequence[list[str]], limit: int
    ) -> list[Record]:
        found = await Checkpointer(self.db).search(query, limit, below=True)
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

    async def _found_entries(self, terms: list[list[str]], limit: int) -> list[Record]:
        d = self.db.dialect
        binds: dict[str, Any] = {
            **namespace_binds(self.db.tenant, "/", below=True),
            **d.text.log_scope_binds(self.db.tenant),
            "terms": d.text.terms(terms),
            "p_terms": len(terms),
            "p_now": datetime.now(UTC),
        }
        rows = await self.db.run(
            lambda: find_entries(d, terms, binds, "below", limit), READ_REPLICA
        )

        def record(score: float, row: Any) -> Record:
            log = Log(self.db.tenant, row.thread_id, row.namespace)
            entry = entry_rows.to_entry(log, self.db.keyring, row)
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
        self, query: str, terms: Sequence[list[str]], limit: int
    ) -> list[Record]:
        hits = await self._store.search((), query, limit, prefix=True)

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
            ]

        return await asyncio.to_thread(records)

    # --- Shared by the methods above: threads -----------------------------------------------------

    def _log(self, thread_id: str, namespace: Iterable[str]) -> Log:
        path = encode_namespace(check_namespace(namespace))
        return Log(self.db.tenant, check_thread_id(thread_id), path)

    def _checkpointer(self, log: Log) -> Checkpointer:
        return Checkpointer(self.db, namespace=decode_namespace(log.namespace))

    def _entry_log(self, log: Log) -> ThreadLog:
        return ThreadLog(self.db, namespace=decode_namespace(log.namespace))

    async def _query(self, family: Callable[..., Any], binds: Mapping[str, Any]) -> Any:
        return await run_query(self.db, family(self.db.dialect), binds, replica_ok=True)

    @property
    def _display(self) -> str:
        backend: Any = self.db.identity
        return str(getattr(backend, "display", self.db.dialect.name))

    async def _head(self, log: Log) -> Any:
        """Return the head of a log.

        Raises:
            NotFound: there is no such log, or it is empty.
        """
        rows = await self._heads([log])
        if not rows:
            namespace = "/".join(decode_namespace(log.namespace)) or "/"
            raise NotFound(f"there is no thread {log.thread_id!r} in namespace {namespace}")
        return rows[0]

    async def _heads(self, logs: Sequence[Log]) -> list[Any]:
        found: list[Any] = []
        listed = [(log.key,) for log in logs]
        for binds in self.db.dialect.statements.list_batches("p_logs", listed):
            found += await self._query(statements.read_heads, binds)
        return found

    async def _page_of_heads(
        self,
        page: Callable[[bool], Any],
        binds: Mapping[str, Any],
        after: dict[str, Any] | None,
        limit: int,
    ) -> list[Any]:
        values = {**binds, **(after or {}), "p_limit": limit + 1}
        return await run_query(self.db, page(after is not None), values, replica_ok=True)

    async def _few_matching(
        self, scope: str, binds: dict[str, Any], after: dict[str, Any] | None, limit: int
    ) -> list[Any] | None:
        """Return a page of the heads that match a part of an id; ``None`` if many do."""
        matched = await self._query(
            partial(statements.match_ids, scope=scope), binds | {"p_limit": MATCHES + 1}
        )
        if len(matched) > MATCHES:
            return None
        logs = [Log(self.db.tenant, row.thread_id, row.namespace) for row in matched]
        heads = sorted(await self._heads(logs), key=_newest_first)
        if after is not None:
            last = _head_order(after["p_updated_at"], after["p_thread_id"], after["p_namespace"])
            heads = [head for head in heads if _newest_first(head) > last]
        return heads[: limit + 1]

    async def _is_small(self, scope: str, binds: Mapping[str, Any]) -> bool:
        """Return whether a scope has few logs, which can be sorted."""
        counted = await self._query(
            partial(statements.count_logs, scope=scope, exact=False),
            {**binds, "p_limit": MATCHES},
        )
        return int(counted[0].logs) < MATCHES

    async def _thread_records(self, heads: Sequence[Any]) -> list[Record]:
        sizes: dict[Any, Any] = {}
        listed = [(head.log_id,) for head in heads]
        for binds in self.db.dialect.statements.list_batches("p_logs", listed):
            for row in await self._query(measure_logs, binds):
                sizes[row.log_id] = row
        return [thread_record(head, sizes[head.log_id]) for head in heads if head.log_id in sizes]

    # --- Shared: states and entries ---------------------------------------------------------------

    async def _checkpoint(self, log: Log, at: str | None) -> CheckpointInfo | None:
        binds = log.binds()
        if at is None:
            statement: Any = listing.list_checkpoints(self.db.dialect, before=False)
            binds |= {"p_limit": 1}
        else:
            statement = listing.read_checkpoint(self.db.dialect)
            binds |= {"p_checkpoint_id": at}
        rows = await run_query(self.db, statement, binds)
        return listing.info(rows[0]) if rows else None

    async def _require_checkpoint(self, log: Log, at: str | None) -> CheckpointInfo:
        info = await self._checkpoint(log, at)
        if info is None:
            wanted = "any checkpoint" if at is None else f"checkpoint {at!r}"
            raise NotFound(f"thread {log.thread_id!r} does not have {wanted} in this namespace")
        return info

    async def _state(self, log: Log, info: CheckpointInfo) -> _Loaded:
        key = (log, info.checkpoint_id, info.seq, info.created_at)
        loaded = self._states.get(key)
        if loaded is None:
            checkpointer = self._checkpointer(log)
            state = await checkpointer.load(log.thread_id, info.checkpoint_id)
            if state is None:
                raise NotFound(f"checkpoint {info.checkpoint_id!r} was deleted meanwhile")
            state = await self._with_delta_channels(log, info, state)
            found = await asyncio.to_thread(messages_of, state)
            loaded = _Loaded(state, info.raw_size, found)
            if loaded.size < self._states.max_value_size:
                self._states.put(key, loaded)
        return loaded

    async def _with_delta_channels(self, log: Log, info: CheckpointInfo, state: Any) -> Any:
        """Return a state of LangGraph with those channels that earlier steps' writes make up."""
        counters = info.metadata.get("counters_since_delta_snapshot")
        if not isinstance(counters, dict) or not isinstance(state, dict):
            return state
        wanted = {name for name in counters if is_empty(state.get(name))}
        if not wanted:
            return state
        made: dict[str, list[Any]] = {name: [] for name in wanted}
        path = await self._ancestors(log, info)
        async for one in self._checkpointer(log).snapshots(log.thread_id, path):
            for write in reversed(one.writes):
                if write.channel in wanted:
                    made[write.channel].insert(0, resolved(write.value))
            for name in list(wanted):
                value = one.state.get(name)
                if value is not None and not is_empty(value):
                    made[name].insert(0, resolved(value))
                    wanted.discard(name)
            if not wanted:
                break
        return state | {name: _merged(pieces) for name, pieces in made.items()}

    async def _ancestors(self, log: Log, info: CheckpointInfo) -> list[str]:
        parents: dict[str, str | None] = {}
        history = self._checkpointer(log).history(log.thread_id, limit=2 * ANCESTORS)
        async for one in history:
            parents[one.checkpoint_id] = one.parent_id
        path: list[str] = []
        current: str | None = info.parent_id
        while current in parents and len(path) < ANCESTORS and current not in path[-1:]:
            assert current is not None
            path.append(current)
            current = parents.pop(current)
        return path

    async def _rest(self, log: Log, info: CheckpointInfo) -> Record | None:
        loaded = await self._state(log, info)
        return await asyncio.to_thread(lambda: _tree_or_none(rest_of(loaded.state, ())))

    async def _tail(self, log: Log, limit: int, before: int | None) -> list[Entry]:
        return await self._entry_log(log).tail(log.thread_id, limit, before=before)

    async def _entry(self, log: Log, position: int) -> Entry:
        found = await self._tail(log, 1, position + 1)
        if not found or found[0].position != position:
            raise NotFound(f"thread {log.thread_id!r} has no entry at {position}")
        return found[0]

    async def _log_transcript(self, log: Log, before: int | None, limit: int) -> Record | None:
        found = await self._tail(log, limit + 1, before)
        if not found and before is None:
            return None
        total = await self._entry_log(log).count(log.thread_id)
        shown = found[-limit:]

        def messages() -> list[Record]:
            return [message(one.position, one.value, one.occurred_at) for one in shown]

        return {
            "source": "log",
            "at": None,
            "total": total,
            "first": shown[0].position if shown else 0,
            "messages": await asyncio.to_thread(messages),
            "rest": None,
            "path": None,
            "previous": shown[0].position if len(found) > limit else None,
        }

    async def _positions(self, log: Log, ids: Iterable[Any]) -> dict[str, int]:
        found: dict[str, int] = {}
        listed = [(encode_id(one),) for one in ids]
        for binds in self.db.dialect.statements.list_batches("p_keys", listed):
            for row in await self._query(statements.find_checkpoints, log.binds() | binds):
                found[row.checkpoint_id] = row.seq
        return found

    async def _writes_of(self, log: Log, ids: Sequence[str]) -> dict[str, tuple[int, bool]]:
        """Return the number of each checkpoint's writes, and whether one is an interrupt."""
        by_id: dict[str, list[Any]] = {}
        for binds in bind_write_keys(self.db.dialect, ids):
            values = log.binds() | binds | {"p_most": SMALL}
            for row in await self._query(statements.read_small_writes, values):
                by_id.setdefault(row.label, []).append(row)
        return {id_: self._count_writes(log, id_, rows) for id_, rows in by_id.items()}

    def _count_writes(self, log: Log, id_: str, rows: Sequence[Any]) -> tuple[int, bool]:
        small = [row for row in rows if row.payload is not None]
        found: list[PendingWrite] = []
        with suppress(KeyMissing, NotEncrypted):  # the steps themselves are readable
            found = load.decode_writes(log, id_, small, self.db.keyring)
        count = len(found) + len(rows) - len(small) if found else len(rows)
        return count, any(write.channel == INTERRUPT for write in found)

    # --- Shared: the store ------------------------------------------------------------------------

    def _item_binds(self, namespace: Namespace, below: bool) -> dict[str, Any]:
        return scope_binds(self.db.tenant, encode_namespace(namespace), below)

    def _item_key(self, namespace: Namespace, key: str) -> dict[str, Any]:
        path = encode_namespace(namespace)
        return {"k_tenant": self.db.tenant, "k_namespace": path, "k_key": key}

    async def _count_items(self, namespace: Namespace, *, below: bool, most: int) -> int:
        binds = self._item_binds(namespace, below) | {"p_limit": most}
        rows = await self._query(partial(statements.count_some_items, below=below), binds)
        return int(rows[0].items)

    async def _next_child(self, top: Namespace, after: Namespace | None) -> Namespace | None:
        found = await self._store.list_namespaces(top, 2, after=after or top)
        return next((one[: len(top) + 1] for one in found if len(one) > len(top)), None)

    async def _item(self, namespace: Namespace, key: str) -> StoreItem:
        item = await self._store.get_item(namespace, key)
        if item is None:
            place = "/".join(namespace) or "/"
            raise NotFound(f"there is no item {key!r} in namespace {place}")
        return item

    def _item_record(self, row: Any) -> Record:
        if row.value is None:
            shown = None
        else:
            try:
                shown = item_preview(decode_value(self.db.tenant, row, self.db.keyring))
            except (KeyMissing, NotEncrypted):
                shown = None
        namespace = decode_namespace(row.namespace)
        return item_record(namespace, row, int(row.bytes), int(row.vectors), shown)

    async def _found_items(
        self, top: Namespace, query: str, below: bool, cursor: str | None, limit: int
    ) -> Record:
        offset = 0 if cursor is None else decode_cursor(cursor, 1)[0]
        if not isinstance(offset, int) or not 0 <= offset < 1_000_000:
            raise InvalidArgument("this cursor is of another listing")
        found: list[Any] = []
        if not offset and (exact := await self._store.get_item(top, query)) is not None:
            found.append(exact)
        hits = await self._store.search(top, query, limit + 1, prefix=below, offset=offset)
        found += [hit for hit in hits[:limit] if (hit.namespace, hit.key) != (top, query)]
        more = len(hits) > limit
        return {
            "items": [
                item_record(item.namespace, item, None, 0, item_preview(item.value))
                for item in found
            ],
            "order": "score",
            "next": encode_cursor([offset + limit]) if more else None,
        }

    async def _memories_in_store(
        self, kind: str, user: str, cursor: str | None, limit: int
    ) -> Record:
        """Return a page of the items in the namespaces that such memories are stored in."""
        place, after = (None, None) if cursor is None else decode_cursor(cursor, 2)
        low = None if place is None else check_namespace(place)
        is_place = _IS_PLACE[kind]
        found: list[tuple[StoreItem, Any]] = []
        looked = 0
        while len(found) <= limit and looked < 200:
            if low is None or after is None:
                page = await self._store.list_namespaces((), 50, after=low)
            else:
                page = [low]
            if not page:
                low = None
                break
            for namespace in page:
                low, looked = namespace, looked + 1
                if not is_place(namespace) or (user and namespace[-1] != user):
                    after = None
                    continue
                items = await self._store.list_items(
                    namespace,
                    limit=limit + 1 - len(found),
                    order="key",
                    after=None if after is None else _key_mark(namespace, after),
                )
                found += [(item, namespace) for item in items]
                after = None
                if len(found) > limit:
                    break
        records = [self._memory(kind, item) for item, _ in found[:limit]]
        following: str | None
        if len(found) > limit:
            last, namespace = found[limit - 1]
            following = encode_cursor([list(namespace), last.key])
        else:
            following = None if low is None else encode_cursor([list(low), None])
        return {"kind": kind, "memories": records, "next": following}

    def _memory(self, kind: str, item: StoreItem) -> Record:
        link = {
            "namespace": list(item.namespace),
            "key": item.key,
            "updated_at": time(item.updated_at),
        }
        value = item.value if isinstance(item.value, dict) else {}
        if kind == "facts":
            with suppress(TypeError, ValueError):
                stored = MemoryFact(memory_id=item.key, user_id=item.namespace[-1], **value)
                fact = stored.decay(datetime.now(UTC))
                return link | {
                    "user": fact.user_id,
                    "text": fact.content,
                    "topics": list(fact.topics),
                    "confidence": round(fact.confidence, 4),
                    "last_seen_at": time(fact.last_seen_at),
                    "created_at": time(fact.created_at),
                    "source_conversation_id": fact.source_conversation_id,
                }
        elif kind == "episodes":
            completed = value.get("completed_at")
            return link | {
                "task": _cut(value.get("task")),
                "result": _cut(value.get("result")),
                "error": _cut(value.get("error")),
                "rollout": _cut(value.get("rollout")),
                "completed_at": time(completed) if isinstance(completed, datetime) else None,
                "metadata": tree(value.get("metadata") or {}),
            }
        elif kind == "long-term" and "content" in value:
            return link | {
                "type": str(value.get("type")),
                "text": _cut(value.get("content")),
                "metadata": tree(value.get("metadata") or {}),
            }
        return link | {"text": item_preview(item.value)}

    async def _conversations(self, cursor: str | None, limit: int) -> Record:
        """Return a page of the logs of conversations, the last written first."""
        binds = namespace_binds(self.db.tenant, _CONVERSATIONS, below=False)
        after = None if cursor is None else _after_head(cursor)
        page = partial(_list_logs, self.db.dialect, "namespace")
        heads = await self._page_of_heads(page, binds, after, limit)
        records = []
        for record in await self._thread_records(heads[:limit]):
            namespace = (*record["namespace"], SUMMARY)
            newest = await ThreadLog(self.db, namespace=namespace).tail(record["thread_id"], 1)
            summary = None
            if newest:
                with suppress(TypeError):
                    summary = StoredSummary(**newest[0].value).text
            records.append(
                {
                    "thread_id": record["thread_id"],
                    "namespace": record["namespace"],
                    "messages": record["entries"],
                    "summary": _cut(summary),
                    "updated_at": record["updated_at"],
                }
            )
        return {
            "kind": "conversations",
            "memories": records,
            "next": _head_cursor(heads[limit - 1]) if len(heads) > limit else None,
        }

    # --- Shared: sums -----------------------------------------------------------------------------

    async def _sums(self) -> Record:
        """Return the numbers of threads and checkpoints, and their bytes, by framework."""
        frameworks = await self._count_logs(exact=False)
        total = sum(frameworks.values())
        estimated = total > EXACT
        binds = {"k_tenant": self.db.tenant, "p_limit": SAMPLE}
        share = 1.0
        if estimated:
            rows = await self._query(partial(statements.sum_logs, sampled=True), binds)
            share = sum(row.logs for row in rows) / total
        if not estimated or share * total < SAMPLE / 10:  # others' logs are the most
            share = 1.0
            rows = await self._query(partial(statements.sum_logs, sampled=False), binds)
            frameworks = await self._count_logs(exact=True) if not estimated else frameworks
        sums = {name: [0, 0, 0] for name in frameworks}
        for row in rows:
            name = framework_of(decode_namespace(row.namespace))
            held = sums.setdefault(name, [0, 0, 0])
            for at, value in enumerate((row.checkpoints, row.raw_size, row.stored_size)):
                held[at] += int(value)
        return {
            "threads": sum(frameworks.values()),
            "checkpoints": round(sum(held[0] for held in sums.values()) / share),
            "estimated": estimated,
            "frameworks": [
                {
                    "name": name,
                    "threads": threads,
                    "raw_bytes": round(sums[name][1] / share),
                    "stored_bytes": round(sums[name][2] / share),
                }
                for name, threads in sorted(frameworks.items(), key=lambda one: -one[1])
                if threads
            ],
        }

    async def _count_logs(self, *, exact: bool) -> dict[str, int]:
        """Return the number of logs of each framework."""
        found: dict[str, int] = {}
        low = "/"
        while len(found) < FRAMEWORKS:
            binds: dict[str, Any] = {"k_tenant": self.db.tenant, "p_low": low}
            place = (await self._query(statements.next_namespace, binds))[0].place
            if place is None:
                break
            name = framework_of(decode_namespace(place))
            path = encode_namespace((name,)) if place != "/" else "/"
            scope = "namespace" if path == "/" else "below"
            binds = namespace_binds(self.db.tenant, path, below=scope == "below")
            counted = await self._query(
                partial(statements.count_logs, scope=scope, exact=exact),
                binds | {"p_limit": MAX_LIMIT},
            )
            found[name] = found.get(name, 0) + int(counted[0].logs)
            low = "/\x01" if path == "/" else path[:-1] + "0"
        return found

    async def _measure(self) -> None:
        with suppress(MemalchemyError):  # the next call measures again
            measured = await space.measure(self.db, largest=20)
            now = datetime.now(UTC)
            logs = [
                Log(self.db.tenant, share.thread_id, encode_namespace(share.namespace))
                for share in measured.largest
            ]
            heads = {head.log_id: head for head in await self._heads(logs)}
            known = [heads[log.key] for log in logs if log.key in heads]
            self._measured = (
                now,
                {
                    "file_bytes": measured.file_bytes,
                    "free_bytes": measured.free_bytes,
                    "largest": await self._thread_records(known),
                    "kinds": [{"name": one.name, "bytes": one.bytes} for one in measured.kinds],
                    "tables": [
                        {"name": one.name, "bytes": one.bytes, "kind": one.kind}
                        for one in measured.pieces
                    ],
                    "estimated": measured.estimated,
                    "measured_at": now.isoformat(),
                },
            )


# --- Functions of the class ----------------------------------------------------------------------

_CONVERSATIONS = encode_namespace(("conversation",))

_LAST = "\U0010ffff"
"""A part behind all others that stand below a namespace."""


def _is_facts(namespace: Namespace) -> bool:
    return len(namespace) > 1 and namespace[-2] == "facts"


def _is_episodes(namespace: Namespace) -> bool:
    return namespace[-1:] == ("episodes",)


def _is_long_term(namespace: Namespace) -> bool:
    return len(namespace) > 1 and namespace[-1] in MEMORY_TYPES


_IS_PLACE: dict[str, Callable[[Namespace], bool]] = {
    "facts": _is_facts,
    "episodes": _is_episodes,
    "long-term": _is_long_term,
}


def _place_of(framework: str) -> tuple[str, str]:
    """Return the path and the scope of a framework's logs."""
    if not framework:
        return "/", "tenant"
    if framework == "/":
        return "/", "namespace"
    return encode_namespace((framework,)), "below"


def _list_recent(dialect: Any, scope: str, like: bool, after: bool) -> Any:
    return statements.list_recent(dialect, scope=scope, like=like, after=after)


def _list_logs(dialect: Any, scope: str, after: bool) -> Any:
    return list_logs(dialect, which="all", scope=scope, after=after)


_ASCII_LOWER = {code: code + 32 for code in range(ord("A"), ord("Z") + 1)}


def _like(query: str) -> str:
    """Return the pattern of LIKE for ids that contain *query*, as they are stored."""
    if len(query) > 255:
        raise InvalidArgument("an id has 255 characters at most, and so has a part of one")
    stored = encode_id(query).translate(_ASCII_LOWER)
    for sign in ("\\", "%", "_"):
        stored = stored.replace(sign, "\\" + sign)
    return f"%{stored}%"


def _head_order(moment: datetime, thread_id: str, namespace: str) -> tuple[float, str, str]:
    return -moment.timestamp(), thread_id, namespace


def _newest_first(head: Any) -> tuple[float, str, str]:
    return _head_order(head.updated_at, head.thread_id, head.namespace)


def _head_cursor(head: Any) -> str:
    return encode_cursor([head.updated_at.isoformat(), head.thread_id, head.namespace])


def _after_head(cursor: str) -> dict[str, Any]:
    stamp, thread_id, path = decode_cursor(cursor, 3)
    if not isinstance(thread_id, str) or not isinstance(path, str):
        raise InvalidArgument("this cursor is of another listing")
    moment = _moment(stamp)
    return {
        "p_updated_at": moment,
        "p_active_at": truncate_to_second(moment),
        "p_thread_id": thread_id,
        "p_namespace": path,
    }


def _moment(stamp: Any) -> datetime:
    try:
        moment = datetime.fromisoformat(stamp)
        if moment.utcoffset() is None:
            raise ValueError
    except (TypeError, ValueError):
        raise InvalidArgument("this cursor holds no time") from None
    return moment


def _mark(row: Any) -> str:
    """Return a short text that changes with every write to a log."""
    written = f"{row.log_id}/{row.version}/{row.next_seq}/{row.updated_at.isoformat()}"
    return blake2b(written.encode(), digest_size=6).hexdigest()


def _key_mark(namespace: Namespace, key: str) -> StoreItem:
    """Return an item that stands for the end of a page in the order of keys."""
    moment = datetime.now(UTC)
    return StoreItem(namespace, key, None, {}, moment, moment)


def _transcript_of(loaded: _Loaded, info: CheckpointInfo, before: int | None, limit: int) -> Record:
    assert loaded.found is not None
    path, messages = loaded.found
    end = len(messages) if before is None else max(0, min(before, len(messages)))
    first = max(0, end - limit)
    return {
        "source": "state",
        "at": info.checkpoint_id,
        "total": len(messages),
        "first": first,
        "messages": [message(at, messages[at]) for at in range(first, end)],
        "rest": _tree_or_none(rest_of(loaded.state, path)),
        "path": "".join(f"/{_escaped(step)}" for step in path),
        "previous": first or None,
    }


def _escaped(step: str | int) -> str:
    return str(step).replace("~", "~0").replace("/", "~1")


def _tree_or_none(value: Any) -> Record | None:
    return None if value is None else tree(value)


def _merged(pieces: Sequence[Any]) -> Any:
    """Return what the writes of a channel add up to: lists are joined, of others the last counts.

    A message that has the id of an earlier one takes its place.
    """
    joined: list[Any] = []
    places: dict[Any, int] = {}
    for piece in pieces:
        for one in piece if isinstance(piece, list) else [piece]:
            known = plain(one)
            id_ = known.get("id") if isinstance(known, dict) else None
            if isinstance(id_, str) and id_ in places:
                joined[places[id_]] = one
                continue
            if isinstance(id_, str):
                places[id_] = len(joined)
            joined.append(one)
    return joined


def _changes(a: Any, b: Any) -> list[Record]:
    found = diff.diff(a, b)
    changes: list[Record] = []
    for path, value in found.removed.items():
        changes.append({"op": "removed", "path": path, "a": value, "b": None})
    for path, (old, new) in found.changed.items():
        changes.append({"op": "changed", "path": path, "a": old, "b": new})
    for path, value in found.added.items():
        changes.append({"op": "added", "path": path, "a": None, "b": value})
    for change in changes[:CHANGES]:
        for side, op in (("a", "added"), ("b", "removed")):
            if change["op"] != op:
                change[side] = tree(change[side], depth=2)
    return changes


def _interrupts_of(value: Any) -> list[dict[str, Any]]:
    """Return the interrupts of a write: LangGraph's objects, as dicts."""
    found = plain(value)
    return [
        one if isinstance(one, dict) and "value" in one else {"value": one}
        for one in (found if isinstance(found, list) else [found])
    ]


def _waiting(state: Any) -> list[tuple[Any, Any]]:
    """Return what a state of a framework without pending writes waits for, with its id."""
    found = plain(state) if isinstance(state, dict) else None
    if not isinstance(found, dict):
        return []
    requests = found.get("pending_request_info_events")  # of Microsoft's Agent Framework
    if isinstance(requests, dict):
        return [(one, id_) for id_, one in requests.items()]
    step = found.get("current_step") or found.get("currentStep")  # of OpenAI's Agents SDK
    if isinstance(step, dict):
        data = step.get("data") if isinstance(step.get("data"), dict) else step
        waiting = data.get("interruptions") if isinstance(data, dict) else None
        if isinstance(waiting, list):
            return [(one, _call_id(one)) for one in waiting]
    internal = found.get("_internal_state")  # of Strands
    holder = internal if isinstance(internal, dict) else found
    interrupts = holder.get("interrupt_state")
    if isinstance(interrupts, dict) and isinstance(interrupts.get("interrupts"), dict):
        return [(one, id_) for id_, one in interrupts["interrupts"].items()]
    if isinstance(found.get("context"), dict) and "state" in found:  # of a flow of CrewAI
        return [(found["context"], found["context"].get("flow_id"))]
    return []


def _call_id(interruption: Any) -> Any:
    raw = interruption.get("raw_item", interruption) if isinstance(interruption, dict) else None
    return raw.get("call_id") or raw.get("callId") if isinstance(raw, dict) else None


def _text_or_none(value: Any) -> str | None:
    return None if value is None else str(value)


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


def _cut(text: Any) -> str | None:
    return text[:2_000] if isinstance(text, str) else None
