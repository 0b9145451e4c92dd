"""`MemalchemyStore`: LangGraph's `BaseStore` over `memalchemy.Store`, with and without ``await``.

Reading operations is `operations`' work, gathering calls `ticks`', expiry `sweeper`'s.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Mapping
from concurrent.futures import Future
from copy import deepcopy
from typing import Any, Self

from langchain_core.embeddings import Embeddings
from langgraph.store.base import (
    BaseStore,
    IndexConfig,
    Item,
    ListNamespacesOp,
    Op,
    PutOp,
    Result,
    SearchItem,
    TTLConfig,
    ensure_embeddings,
)
from langgraph.store.base.embed import EmbeddingsLambda

from memalchemy.contracts import NewItem, StoreItem
from memalchemy.database import Database
from memalchemy.integrations.langgraph.operations import (
    Asked,
    Name,
    Search,
    asked_by,
    literal_prefix,
    matches,
    vectors_by_path,
)
from memalchemy.integrations.langgraph.sweeper import Sweeper
from memalchemy.integrations.langgraph.ticks import Ticks
from memalchemy.keys import check_namespace
from memalchemy.search.vectors import Metric
from memalchemy.store import Store
from memalchemy.sync.bridge import Bridge

ROOT = ("langgraph",)
PAGE = 1000
"""Namespaces that are listed in one round trip."""
METRICS: dict[str, Metric] = {"cosine": "cosine", "l2": "l2", "inner_product": "dot"}

Vectors = Mapping[str, Any]
"""Vectors by the texts they were made of."""


class MemalchemyStore(BaseStore):
    """Keeps LangGraph's long-term memory in a `memalchemy.Database`.

    The methods are `BaseStore`'s, plain ones and those with ``a``, on one object, in any thread,
    with or without a running event loop. A plain one, called in a loop, makes it wait.

    Args:
        database: a URL, a `memalchemy.Database`, or a `memalchemy.sync.Database`.
        index: what is found by meaning, as LangGraph's stores take it: ``embed`` (an `Embeddings`,
            a function, a coroutine function or ``"provider:model"``), ``fields`` (``["$"]`` if not
            given), ``dims`` (checked if given), and ``distance_type``: ``cosine`` (if not given),
            ``l2`` or ``inner_product``.
        ttl: LangGraph's `TTLConfig`: minutes. What has expired is never given out, whether
            ``omit_expired`` says so or not; `sweep_ttl` removes its rows.
        namespace: where its items lie in memalchemy's own `Store`: ``("users", "ada")`` of
            LangGraph's is ``("langgraph", "users", "ada")`` there.

    A batch reads first and writes then, all or nothing; of one item that is put twice the last
    counts. Errors are those of `memalchemy.Store`, and ``InvalidNamespaceError``.
    """

    supports_ttl = True

    def __init__(
        self,
        database: str | Database | Any,
        *,
        index: IndexConfig | None = None,
        ttl: TTLConfig | None = None,
        namespace: Iterable[str] = ROOT,
    ) -> None:
        self._bridge = Bridge(database, self)
        self.index_config = index.copy() if index else None
        self.embeddings: Embeddings | None = ensure_embeddings(index["embed"]) if index else None
        self.ttl_config = ttl
        self.namespace = check_namespace(namespace)
        self.store = Store(self._bridge.db, metric=_metric(index), refresh_ttl=False)
        self._ticks = Ticks(self._together)
        self._sweeper = Sweeper(self._sweep)

    @classmethod
    def from_conn_string(
        cls, conn_string: str, *, index: IndexConfig | None = None, ttl: TTLConfig | None = None
    ) -> Self:
        """The store of a URL, for ``with`` and ``async with``, as LangGraph's stores are made."""
        return cls(conn_string, index=index, ttl=ttl)

    def setup(self) -> None:
        """Bring the database's schema to this release's; a SQLite file needs no call for it."""
        self._bridge.wait(self._bridge.db.migrate())

    async def asetup(self) -> None:
        """`setup`."""
        await self._bridge.db.migrate()

    def batch(self, ops: Iterable[Op]) -> list[Result]:
        """The results of *ops*, in their order."""
        asked = asked_by(ops, self.namespace, self.index_config)
        vectors = self._checked(asked.documents(), self._embedded(asked.documents()))
        queries = {query: self._embedded_query(query) for query in asked.queries()}
        return self._bridge.wait(self._run(asked, vectors, queries))

    async def abatch(self, ops: Iterable[Op]) -> list[Result]:
        """The results of *ops*, in their order.

        A single one, which is what `aget`, `aput` and the others are, joins those that other tasks
        of the loop are calling.
        """
        some = list(ops)
        # Within its own transaction a task must not wait for others, who wait for its end.
        if len(some) == 1 and not self.store.db.holds_writer:
            return [await self._ticks.call(some[0])]
        return await self._together(some)

    async def _together(self, ops: Iterable[Op]) -> list[Result]:
        asked = asked_by(ops, self.namespace, self.index_config)
        vectors: Vectors = {}
        queries: dict[str, Any] = {}
        if self.embeddings is not None:
            if texts := asked.documents():
                vectors = self._checked(texts, await self.embeddings.aembed_documents(texts))
            queries = {
                query: await self.embeddings.aembed_query(query) for query in asked.queries()
            }
        return await self._run(asked, vectors, queries)

    async def _run(self, asked: Asked, vectors: Vectors, queries: Vectors) -> list[Result]:
        results: list[Result] = [None] * asked.count
        await self._get(asked, results)
        done: dict[str, list[SearchItem]] = {}
        for at, search in asked.searches.items():
            said = repr(search)
            if said not in done:
                done[said] = results[at] = await self._search(search, queries)
            else:
                results[at] = deepcopy(done[said])
        listed: dict[str, list[tuple[str, ...]]] = {}
        for at, op in asked.listings.items():
            said = repr(op)
            if said not in listed:
                listed[said] = await self._namespaces(op)
            results[at] = list(listed[said])
        await self._write(asked, vectors)
        return results

    async def _get(self, asked: Asked, results: list[Result]) -> None:
        found: dict[Name, StoreItem] = {}
        for refresh in (True, False):
            names = [n for n in asked.gets.values() if (n in asked.refreshing) is refresh]
            if names:
                found |= await self.store.get_items(names, refresh=refresh)
        given: set[Name] = set()
        for at, name in asked.gets.items():
            if name in found:
                item = deepcopy(found[name]) if name in given else found[name]
                given.add(name)
                results[at] = Item(**self._fields(item))

    async def _search(self, search: Search, queries: Vectors) -> list[SearchItem]:
        asked: dict[str, Any] = {"filter": search.filter, "offset": search.offset, "prefix": True}
        vector = None if search.query is None else queries[search.query]
        found: list[tuple[StoreItem, float | None]]
        if vector is not None and any(vector):
            near = await self.store.search_by_embedding(search.place, vector, search.limit, **asked)
            found = [(one.item, self._score(one.distance)) for one in near]
        else:
            hits = await self.store.search(search.place, limit=search.limit, **asked)
            found = [(hit, None) for hit in hits]
        if search.refreshes:
            ending = [(i.namespace, i.key) for i, _ in found if i.expires_at is not None]
            if ending and not self.store.db.read_only:
                await self.store.refresh(ending)
        return [SearchItem(**self._fields(item), score=score) for item, score in found]

    async def _namespaces(self, op: ListNamespacesOp) -> list[tuple[str, ...]]:
        found: list[tuple[str, ...]] = []
        page: list[tuple[str, ...]] = []
        depth, wanted = len(self.namespace), op.offset + op.limit
        while len(found) < wanted:
            top = (*self.namespace, *literal_prefix(op))
            page = await self.store.list_namespaces(top, PAGE, after=page[-1] if page else None)
            for namespace in (place[depth:] for place in page):
                shown = namespace[: op.max_depth]
                # In the order of their paths, all that begin alike stand together.
                if matches(namespace, op.match_conditions) and shown not in found[-1:]:
                    found.append(shown)
            if len(page) < PAGE:
                break
        return found[op.offset : wanted]

    def _sweep(self) -> int:
        return self._bridge.wait(self.store.sweep())

    async def _write(self, asked: Asked, vectors: Vectors) -> None:
        gone = [name for name, op in asked.puts.items() if op.value is None]
        new = [
            _new_item(name, op, vectors_by_path(asked.texts.get(name, ()), vectors))
            for name, op in asked.puts.items()
            if op.value is not None
        ]
        if new and gone:
            async with self.store.db.transaction() as tx:
                await self.store.put_batch(new, connection=tx)
                await self.store.delete_batch(gone, connection=tx)
        elif new:
            await self.store.put_batch(new)
        elif gone:
            await self.store.delete_batch(gone)

    def _fields(self, item: StoreItem) -> dict[str, Any]:
        return {
            "value": item.value,
            "key": item.key,
            "namespace": item.namespace[len(self.namespace) :],
            "created_at": item.created_at,
            "updated_at": item.updated_at,
        }

    def _score(self, distance: float | None) -> float | None:
        """As LangGraph's: the cosine, the product, or the distance below zero."""
        if distance is None:
            return None
        return 1 - distance if self.store.metric == "cosine" else -distance

    def _embedded(self, texts: list[str]) -> list[Any]:
        if self.embeddings is None or not texts:
            return []
        if _has_only_async(self.embeddings):
            return self._bridge.wait(self.embeddings.aembed_documents(texts))
        return self.embeddings.embed_documents(texts)

    def _embedded_query(self, query: str) -> Any:
        assert self.embeddings is not None
        if _has_only_async(self.embeddings):
            return self._bridge.wait(self.embeddings.aembed_query(query))
        return self.embeddings.embed_query(query)

    def _checked(self, texts: list[str], vectors: list[Any]) -> Vectors:
        """Vectors by text. One of zeros has no direction: its text is not found by meaning."""
        if len(vectors) != len(texts):
            raise ValueError(f"embed gave {len(vectors)} vectors for {len(texts)} texts")
        wanted = (self.index_config or {}).get("dims")
        for vector in vectors:
            if wanted and len(vector) != wanted:
                raise ValueError(
                    f"embed gave a vector of {len(vector):,} dimensions; index says {wanted:,}"
                )
        return {text: v for text, v in zip(texts, vectors, strict=True) if any(v)}

    # Expiry, and the end.

    def sweep_ttl(self) -> int:
        """Remove the rows of what has expired; how many."""
        return self._sweep()

    async def asweep_ttl(self) -> int:
        """`sweep_ttl`."""
        return await self.store.sweep()

    def start_ttl_sweeper(self, sweep_interval_minutes: float | None = None) -> Future[None]:
        """Sweep every so many minutes in a thread, until `stop_ttl_sweeper`.

        Without an argument ``sweep_interval_minutes`` of the ttl configuration counts, or 5. The
        thread ends with the store, or if what this returns is cancelled.
        """
        minutes = sweep_interval_minutes or (self.ttl_config or {}).get("sweep_interval_minutes")
        return self._sweeper.start(60 * float(minutes or 5))

    def stop_ttl_sweeper(self, timeout: float | None = None) -> bool:
        """End it; whether it has ended within *timeout* seconds."""
        return self._sweeper.stop(timeout)

    async def astop_ttl_sweeper(self) -> bool:
        """`stop_ttl_sweeper`, without making the loop wait."""
        return await asyncio.to_thread(self._sweeper.stop)

    def close(self) -> None:
        """End the sweeper, and close the database if it was given as a URL."""
        self._sweeper.stop()
        self._bridge.close()

    async def aclose(self) -> None:
        """`close`."""
        await self.astop_ttl_sweeper()
        await self._bridge.aclose()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *error: object) -> None:
        self.close()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *error: object) -> None:
        await self.aclose()

    def __repr__(self) -> str:
        return f"MemalchemyStore({self.store.db!r})"


def _new_item(name: Name, op: PutOp, embedding: Any | None) -> NewItem:
    assert op.value is not None
    ttl = None if op.ttl is None else op.ttl * 60
    return NewItem(*name, dict(op.value), embedding=embedding, ttl=ttl)


def _metric(index: Mapping[str, Any] | None) -> Metric:
    name = (index or {}).get("distance_type") or "cosine"
    if name not in METRICS:
        raise ValueError(f"distance_type is one of {', '.join(METRICS)}, not {name!r}")
    return METRICS[name]


def _has_only_async(embeddings: Embeddings) -> bool:
    """Whether an ``embed`` was given that is a coroutine function."""
    return isinstance(embeddings, EmbeddingsLambda) and not hasattr(embeddings, "func")
