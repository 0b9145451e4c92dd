"""`MemalchemyStore`: the long-term memory of locus' agents."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict
from typing import Any

from locus.memory.store import (
    BaseStore,
    SemanticSearchResult,
    StoreCapabilities,
    StoreCapabilityError,
    StoreItem,
)

from memalchemy import Store, contracts
from memalchemy.contracts import Seconds
from memalchemy.database import HostConnection
from memalchemy.integrations._base import AnyDatabase
from memalchemy.integrations.locus._adapter import LocusAdapter
from memalchemy.keys import check_list, check_namespace
from memalchemy.search.vectors import Metric
from memalchemy.store.embedding import Embedder, Index, embed
from memalchemy.store.settings import Lifetimes

Namespace = tuple[str, ...]


class MemalchemyStore(LocusAdapter, BaseStore):
    """Stores values under a namespace and a key in a SQL database, and finds them.

    Unlike in locus' own stores, any two namespaces and any two keys are told apart, a stored
    ``None`` exists, values that are read are copies, and a search ranks by words, or also by
    meaning.

    Args:
        db: a URL, the path of a SQLite file, a `Database`, a `memalchemy.sync.Database` or an
            `AsyncEngine`. Without it, the URL in ``MEMALCHEMY_URL``, or else a database in memory
            for this object alone.
        namespace: stands, below ``locus``, before every namespace that a method is given.
        embedder: a function that returns a vector for each of a list of texts; it may be a
            coroutine function. With it `put` embeds items, and `search` goes by words and meaning.
        model: the name under which its vectors are stored.
        index: the fields of a value that are embedded: all texts by default, none if false.
        metric: how vectors compare: ``cosine``, ``dot`` or ``l2``.
        index_text: make the words of values and metadata findable with `search`.
        ttl: how long an item lives after a write, in seconds or as a timedelta; or a mapping of
            namespaces to lifetimes, each for the namespaces below it as well.
        refresh_ttl: reading an item starts its lifetime anew.

    ``native`` is the `memalchemy.Store` underneath, with filters, compare-and-swap and more. Its
    namespaces are the whole ones: ``("locus", …)``.
    """

    def __init__(
        self,
        db: AnyDatabase | None = None,
        *,
        namespace: Iterable[str] = (),
        embedder: Embedder | None = None,
        model: str = "default",
        index: Index = None,
        metric: Metric = "cosine",
        index_text: bool = True,
        ttl: Lifetimes = None,
        refresh_ttl: bool = False,
    ) -> None:
        super().__init__(db, namespace=namespace)
        if isinstance(ttl, Mapping):
            ttl = {self._absolute_namespace(parent): lifetime for parent, lifetime in ttl.items()}
        self.native: Store = Store(
            self.db,
            embedder=embedder,
            model=model,
            index=index,
            metric=metric,
            index_text=index_text,
            ttl=ttl,
            refresh_ttl=refresh_ttl,
        )
        self._index_text = index_text

    @property
    def capabilities(self) -> StoreCapabilities:
        """All capabilities; without searches in words or vectors that are not stored.

        Vectors of any dimensions are stored side by side, so ``embedding_dimension`` is ``None``.
        For transactions, use ``connection=`` of `put`.
        """
        known = asdict(self.native.capabilities)
        return StoreCapabilities(**known | {"search": known["search"] and self._index_text})

    async def put(
        self,
        namespace: Namespace,
        key: str,
        value: Any,
        metadata: dict[str, Any] | None = None,
        *,
        ttl: Seconds | None = None,
        connection: HostConnection | None = None,
    ) -> None:
        """Write an item: its version grows by one, its metadata and lifetime are replaced."""
        await self.native.put(
            self._absolute_namespace(namespace),
            key,
            value,
            metadata,
            ttl=ttl,
            connection=connection,
        )

    async def get(
        self, namespace: Namespace, key: str, *, connection: HostConnection | None = None
    ) -> Any | None:
        """Return the value, or ``None`` without one; `exists` tells a stored ``None`` from that."""
        return await self.native.get(
            self._absolute_namespace(namespace), key, connection=connection
        )

    async def delete(
        self, namespace: Namespace, key: str, *, connection: HostConnection | None = None
    ) -> bool:
        """Delete an item with its vectors; return ``True`` if it was there."""
        return await self.native.delete(
            self._absolute_namespace(namespace), key, connection=connection
        )

    async def list_keys(self, namespace: Namespace, limit: int = 100) -> list[str]:
        """Return the keys of exactly this namespace, sorted by code point."""
        return await self.native.list_keys(self._absolute_namespace(namespace), limit)

    async def exists(self, namespace: Namespace, key: str) -> bool:
        """Return ``True`` if the item is there, also with the value ``None``."""
        return await self.native.exists(self._absolute_namespace(namespace), key)

    async def get_item(
        self, namespace: Namespace, key: str, *, connection: HostConnection | None = None
    ) -> StoreItem | None:
        """Return the value with its metadata, version and times, or ``None``."""
        found = await self.native.get_item(
            self._absolute_namespace(namespace), key, connection=connection
        )
        return None if found is None else self._to_item(found)

    async def search(
        self,
        namespace: Namespace,
        query: str | None = None,
        limit: int = 10,
        *,
        filter: Mapping[str, Any] | None = None,
        embedding: Any | None = None,
    ) -> list[StoreItem]:
        """Return items of exactly this namespace that match *query*, best first.

        Items match by words, and with an embedder by words and meaning. Without a query, all match,
        newest first.

        Args:
            filter: conditions on the value, and on the metadata under ``$metadata``; see
                `memalchemy.filters`.
            embedding: the vector of *query*, in place of the embedder's.
        """
        options: dict[str, Any] = {"limit": limit, "filter": filter}
        if query and embedding is None:
            embedding = await self._embed_query(query)
        if query and embedding is not None:
            options |= {"mode": "hybrid", "embedding": embedding}
        elif query:
            self._require_capability("search")
        found = await self.native.search(
            self._absolute_namespace(namespace), query or None, **options
        )
        return [self._to_item(hit) for hit in found]

    async def search_many(
        self, namespaces: Sequence[Namespace], query: str | None = None, limit: int = 10
    ) -> list[list[StoreItem]]:
        """Search in each namespace as `search` does; the embedder is called once."""
        given = check_list(namespaces, "namespaces")
        known = {} if not query else {"embedding": await self._embed_query(query)}
        known = {name: vector for name, vector in known.items() if vector is not None}
        return [await self.search(one, query=query, limit=limit, **known) for one in given]

    async def put_with_embedding(
        self,
        namespace: Namespace,
        key: str,
        value: Any,
        embedding: list[float],
        metadata: dict[str, Any] | None = None,
        *,
        ttl: Seconds | None = None,
        connection: HostConnection | None = None,
    ) -> None:
        """Write an item with a vector, in place of the embedder's."""
        self._require_capability("semantic_search")
        await self.native.put_with_embedding(
            self._absolute_namespace(namespace),
            key,
            value,
            embedding,
            metadata,
            ttl=ttl,
            connection=connection,
        )

    async def search_by_embedding(
        self,
        namespace: Namespace,
        query_embedding: list[float],
        limit: int = 10,
        threshold: float | None = None,
        metadata_filter: dict[str, Any] | None = None,
    ) -> list[SemanticSearchResult]:
        """Return the items whose vectors are nearest, nearest first; scores are 0 to 1."""
        self._require_capability("semantic_search")
        found = await self.native.search_by_embedding(
            self._absolute_namespace(namespace), query_embedding, limit, threshold, metadata_filter
        )
        return [
            SemanticSearchResult(self._to_item(one.item), one.score, one.distance) for one in found
        ]

    async def get_embedding(self, namespace: Namespace, key: str) -> list[float] | None:
        """Return the vector of a whole item, in float32 precision; ``None`` without one."""
        self._require_capability("semantic_search")
        return await self.native.get_embedding(self._absolute_namespace(namespace), key)

    async def put_batch(
        self,
        items: Iterable[tuple[Namespace, str, Any, dict[str, Any] | None]],
        *,
        ttl: Seconds | None = None,
        connection: HostConnection | None = None,
    ) -> None:
        """Write all items or none, in one transaction."""
        given = check_list(items, "items")
        absolute = [(self._absolute_namespace(namespace), *rest) for namespace, *rest in given]
        await self.native.put_batch(absolute, ttl=ttl, connection=connection)

    async def get_batch(
        self, keys: Iterable[tuple[Namespace, str]]
    ) -> dict[tuple[Namespace, str], Any]:
        """Return the values of those items that are there, in one round trip."""
        names = [
            (self._absolute_namespace(namespace), key)
            for namespace, key in check_list(keys, "keys")
        ]
        found = await self.native.get_batch(names)
        return {
            (self._relative_namespace(namespace), key): v for (namespace, key), v in found.items()
        }

    async def list_namespaces(
        self, prefix: Namespace | None = None, limit: int = 100
    ) -> list[Namespace]:
        """Return the namespaces that hold an item; with *prefix*, it and those below it."""
        found = await self.native.list_namespaces(self._absolute_namespace(prefix or ()), limit)
        return [self._relative_namespace(namespace) for namespace in found]

    async def clear_namespace(self, namespace: Namespace) -> int:
        """Delete all items of exactly this namespace, and return their number."""
        return await self.native.clear_namespace(self._absolute_namespace(namespace))

    def _absolute_namespace(self, namespace: Namespace) -> Namespace:
        """Return the whole namespace, as it is stored, of a caller's."""
        return (*self.namespace, *check_namespace(namespace))

    def _relative_namespace(self, namespace: Sequence[str]) -> Namespace:
        """Return a caller's namespace of a whole one."""
        return tuple(namespace[len(self.namespace) :])

    def _to_item(self, found: contracts.StoreItem) -> StoreItem:
        return StoreItem(
            namespace=self._relative_namespace(found.namespace),
            key=found.key,
            value=found.value,
            metadata=found.metadata,
            created_at=found.created_at,
            updated_at=found.updated_at,
            version=found.version,
        )

    async def _embed_query(self, query: str) -> Any | None:
        embedder = self.native.embedder
        if embedder is None or not query.strip():
            return None
        return (await embed(embedder, [query]))[0]

    def _require_capability(self, capability: str) -> None:
        if not getattr(self.capabilities, capability):
            raise StoreCapabilityError(
                capability,
                type(self).__name__,
                "The database is encrypted, and searches only what `Database(readable=…)` lets it "
                "store unencrypted.",
            )
