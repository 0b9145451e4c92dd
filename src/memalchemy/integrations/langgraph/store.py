"""`MemalchemyStore`: LangGraph's `BaseStore` on `memalchemy.Store`."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Iterable, Mapping
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
from memalchemy.integrations._base import AnyDatabase, blocking, paged
from memalchemy.integrations.langgraph._adapter import LangGraphAdapter
from memalchemy.integrations.langgraph._batcher import OpBatcher
from memalchemy.integrations.langgraph._operations import (
    Batch,
    Name,
    Search,
    literal_prefix,
    matches_conditions,
    parse,
    vectors_by_path,
)
from memalchemy.integrations.langgraph._sweeper import Sweeper
from memalchemy.search.vectors import Metric
from memalchemy.store import Store

METRICS: dict[str, Metric] = {"cosine": "cosine", "l2": "l2", "inner_product": "dot"}
DEFAULT_SWEEP_MINUTES = 5

Vectors = Mapping[str, Any]
"""Vectors by the texts that they were made of."""


class MemalchemyStore(LangGraphAdapter, BaseStore):
    """Stores LangGraph's long-term memory in a SQL database.

    It has `BaseStore`'s methods with and without ``await``, for any thread and any event loop. One
    without ``await`` blocks the event loop of its thread, if one is running.

    Args:
        db: a URL, the path of a SQLite file, a `Database`, a `memalchemy.sync.Database` or an
            `AsyncEngine`. Without it, the URL in ``MEMALCHEMY_URL``, or else a database in memory
            for this object alone.
        index: LangGraph's `IndexConfig`, for searches by meaning: ``embed`` (an `Embeddings`, a
            function, a coroutine function or ``"provider:model"``), ``fields`` (``["$"]`` by
            default), ``dims`` (checked if given), and ``distance_type``: ``cosine`` (by default),
            ``l2`` or ``inner_product``.
        ttl: LangGraph's `TTLConfig`, in minutes. Expired items are never returned, with or without
            ``omit_expired``; `sweep_ttl` removes their rows.
        namespace: keeps stores apart: LangGraph's ``("users", "ada")`` is
            ``("langgraph", *namespace, "users", "ada")`` in `memalchemy.Store`.

    A batch reads first and writes then, all or nothing; of an item that is put twice the last value
    counts. Errors are those of `memalchemy.Store`, and ``InvalidNamespaceError``.
    """

    supports_ttl = True

    def __init__(
        self,
        db: AnyDatabase | None = None,
        *,
        index: IndexConfig | None = None,
        ttl: TTLConfig | None = None,
        namespace: Iterable[str] = (),
    ) -> None:
        super().__init__(db, namespace=namespace)
        self.index_config: IndexConfig | None = index.copy() if index else None
        self.embeddings: Embeddings | None = ensure_embeddings(index["embed"]) if index else None
        self.ttl_config = ttl
        self.store: Store = Store(self.db, metric=_metric_of(index), refresh_ttl=False)
        self._batcher = OpBatcher(self._run_ops)
        self._sweeper = Sweeper(self._sweep)

    @classmethod
    def from_conn_string(
        cls,
        conn_string: str,
        *,
        pipeline: bool = False,
        pool_config: Mapping[str, Any] | None = None,
        index: IndexConfig | None = None,
        ttl: TTLConfig | None = None,
    ) -> Self:
        """Make a store for ``with`` or ``async with``, as LangGraph's stores are made.

        *pipeline* and *pool_config* have no effect: give ``db`` a `Database` with a ``pool_size``.
        """
        return cls(conn_string, index=index, ttl=ttl)

    # --- Batches ---------------------------------------------------------------------------------

    def batch(self, ops: Iterable[Op]) -> list[Result]:
        """Run *ops* as one batch, and return their results in order."""
        batch = parse(ops, self.namespace, self.index_config)
        vectors = self._usable_vectors(batch.documents(), self._embed_texts(batch.documents()))
        queries = {query: self._embed_query(query) for query in batch.queries()}
        return self.wait(self._run_batch(batch, vectors, queries))

    async def abatch(self, ops: Iterable[Op]) -> list[Result]:
        """Run *ops* as one batch, and return their results in order.

        A single operation, such as `aget` or `aput`, joins those of other tasks of the event loop.
        """
        given = list(ops)
        # In a transaction a task must not wait for others, which wait for the transaction to end.
        if len(given) == 1 and not self.store.db.holds_writer:
            return [await self._batcher.call(given[0])]
        return await self._run_ops(given)

    async def _run_ops(self, ops: Iterable[Op]) -> list[Result]:
        batch = parse(ops, self.namespace, self.index_config)
        vectors: Vectors = {}
        queries: dict[str, Any] = {}
        if self.embeddings is not None:
            if texts := batch.documents():
                vectors = self._usable_vectors(texts, await self.embeddings.aembed_documents(texts))
            queries = {
                query: await self.embeddings.aembed_query(query) for query in batch.queries()
            }
        return await self._run_batch(batch, vectors, queries)

    async def _run_batch(self, batch: Batch, vectors: Vectors, queries: Vectors) -> list[Result]:
        results: list[Result] = [None] * batch.count
        await self._get_items(batch, results)
        found: dict[str, list[SearchItem]] = {}
        for at, search in batch.searches.items():
            key = repr(search)
            if key not in found:
                found[key] = results[at] = await self._search(search, queries)
            else:
                results[at] = deepcopy(found[key])
        listed: dict[str, list[tuple[str, ...]]] = {}
        for at, op in batch.listings.items():
            key = repr(op)
            if key not in listed:
                listed[key] = await self._list_namespaces(op)
            results[at] = list(listed[key])
        await self._write_puts(batch, vectors)
        return results

    async def _get_items(self, batch: Batch, results: list[Result]) -> None:
        found: dict[Name, StoreItem] = {}
        for refresh in (True, False):
            names = [n for n in batch.gets.values() if (n in batch.refreshing) is refresh]
            if names:
                found |= await self.store.get_items(names, refresh=refresh)
        returned: set[Name] = set()
        for at, name in batch.gets.items():
            if name in found:
                item = deepcopy(found[name]) if name in returned else found[name]
                returned.add(name)
                results[at] = Item(**self._item_fields(item))

    async def _search(self, search: Search, queries: Vectors) -> list[SearchItem]:
        options: dict[str, Any] = {
            "filter": search.filter,
            "offset": search.offset,
            "prefix": True,
        }
        vector = None if search.query is None else queries[search.query]
        found: list[tuple[StoreItem, float | None]]
        if vector is not None and any(vector):
            near = await self.store.search_by_embedding(
                search.namespace, vector, search.limit, **options
            )
            found = [(one.item, self._to_score(one.distance)) for one in near]
        else:
            hits = await self.store.search(search.namespace, limit=search.limit, **options)
            found = [(hit, None) for hit in hits]
        if search.refreshes:
            expiring = [(i.namespace, i.key) for i, _ in found if i.expires_at is not None]
            if expiring and not self.store.db.read_only:
                await self.store.refresh(expiring)
        return [SearchItem(**self._item_fields(item), score=score) for item, score in found]

    async def _list_namespaces(self, op: ListNamespacesOp) -> list[tuple[str, ...]]:
        prefix = (*self.namespace, *literal_prefix(op))
        stored: AsyncIterator[tuple[str, ...]] = paged(
            lambda after, size: self.store.list_namespaces(prefix, size, after=after)
        )
        depth, wanted = len(self.namespace), op.offset + op.limit
        found: list[tuple[str, ...]] = []
        async for path in stored:
            if len(found) == wanted:
                break
            namespace = path[depth:]
            shortened = namespace[: op.max_depth]
            # They are sorted, so those with the same beginning are adjacent.
            if matches_conditions(namespace, op.match_conditions) and shortened not in found[-1:]:
                found.append(shortened)
        return found[op.offset : wanted]

    async def _write_puts(self, batch: Batch, vectors: Vectors) -> None:
        deleted = [name for name, op in batch.puts.items() if op.value is None]
        new = [
            _new_item(name, op, vectors_by_path(batch.texts.get(name, ()), vectors))
            for name, op in batch.puts.items()
            if op.value is not None
        ]
        if new and deleted:
            async with self.store.db.transaction() as tx:
                await self.store.put_batch(new, connection=tx)
                await self.store.delete_batch(deleted, connection=tx)
        elif new:
            await self.store.put_batch(new)
        elif deleted:
            await self.store.delete_batch(deleted)

    def _item_fields(self, item: StoreItem) -> dict[str, Any]:
        return {
            "value": item.value,
            "key": item.key,
            "namespace": item.namespace[len(self.namespace) :],
            "created_at": item.created_at,
            "updated_at": item.updated_at,
        }

    # --- Vectors ---------------------------------------------------------------------------------

    def _to_score(self, distance: float | None) -> float | None:
        """Return LangGraph's score: the cosine, the product, or the negative distance."""
        if distance is None:
            return None
        return 1 - distance if self.store.metric == "cosine" else -distance

    def _embed_texts(self, texts: list[str]) -> list[Any]:
        if self.embeddings is None or not texts:
            return []
        if _is_async_only(self.embeddings):
            return self.wait(self.embeddings.aembed_documents(texts))
        return self.embeddings.embed_documents(texts)

    def _embed_query(self, query: str) -> Any:
        assert self.embeddings is not None
        if _is_async_only(self.embeddings):
            return self.wait(self.embeddings.aembed_query(query))
        return self.embeddings.embed_query(query)

    def _usable_vectors(self, texts: list[str], vectors: list[Any]) -> Vectors:
        """Return the vectors by text, without vectors of zeros, which have no direction."""
        if len(vectors) != len(texts):
            raise ValueError(f"embed gave {len(vectors)} vectors for {len(texts)} texts")
        wanted = (self.index_config or {}).get("dims")
        for vector in vectors:
            if wanted and len(vector) != wanted:
                raise ValueError(
                    f"embed gave a vector of {len(vector):,} dimensions; index says {wanted:,}"
                )
        return {text: v for text, v in zip(texts, vectors, strict=True) if any(v)}

    # --- Expiry and closing ----------------------------------------------------------------------

    async def asweep_ttl(self) -> int:
        """Remove the rows of expired items, and return their number."""
        return await self.store.sweep()

    sweep_ttl = blocking(asweep_ttl)

    def start_ttl_sweeper(self, sweep_interval_minutes: float | None = None) -> Future[None]:
        """Call `sweep_ttl` periodically in a thread, until `stop_ttl_sweeper`.

        The interval is 5 minutes, unless it is given here or as ``sweep_interval_minutes`` of the
        `TTLConfig`. The thread also ends with the store, or if the returned future is cancelled.
        """
        minutes = sweep_interval_minutes or (self.ttl_config or {}).get("sweep_interval_minutes")
        return self._sweeper.start(60 * float(minutes or DEFAULT_SWEEP_MINUTES))

    def stop_ttl_sweeper(self, timeout: float | None = None) -> bool:
        """End the sweeper; return ``True`` if it has ended within *timeout* seconds."""
        return self._sweeper.stop(timeout)

    async def astop_ttl_sweeper(self) -> bool:
        """End the sweeper without blocking the event loop."""
        return await asyncio.to_thread(self._sweeper.stop)

    def close(self) -> None:
        """End the sweeper, and close the database if this store opened it."""
        self._sweeper.stop()
        super().close()

    async def aclose(self) -> None:
        """End the sweeper, and close the database if this store opened it."""
        await self.astop_ttl_sweeper()
        await super().aclose()

    def _sweep(self) -> int:
        return self.wait(self.store.sweep())


def _new_item(name: Name, op: PutOp, embedding: Any | None) -> NewItem:
    assert op.value is not None
    ttl = None if op.ttl is None else op.ttl * 60
    return NewItem(*name, dict(op.value), embedding=embedding, ttl=ttl)


def _metric_of(index: Mapping[str, Any] | None) -> Metric:
    name = (index or {}).get("distance_type") or "cosine"
    if name not in METRICS:
        raise ValueError(f"distance_type is one of {', '.join(METRICS)}, not {name!r}")
    return METRICS[name]


def _is_async_only(embeddings: Embeddings) -> bool:
    """Return ``True`` if ``embed`` was given as a coroutine function."""
    return isinstance(embeddings, EmbeddingsLambda) and not hasattr(embeddings, "func")
