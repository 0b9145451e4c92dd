"""`MemalchemyStore`: what locus' agents remember beyond a thread."""

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

from memalchemy import Database, Store, contracts
from memalchemy.contracts import Seconds
from memalchemy.database import HostConnection
from memalchemy.integrations.locus.place import Place
from memalchemy.keys import check_list, check_namespace
from memalchemy.search.vectors import Metric
from memalchemy.store.embedding import Embedder, Index, embed
from memalchemy.store.settings import Lifetimes

Namespace = tuple[str, ...]


class MemalchemyStore(Place, BaseStore):
    """Keeps values under a namespace and a key, in a SQL database, and finds them.

    What differs from locus' own: any namespaces and keys are told apart, a stored ``None`` is
    there, values read are copies, and a search ranks by words, or by meaning too.

    Args:
        db: a `Database`, which may hold anything else besides, or a URL. Without it the URL in
            ``MEMALCHEMY_URL``, and without that a database in memory, for this object alone.
        namespace: stands before every namespace given to a method, behind ``locus``.
        embedder: a function of a list of texts that gives a vector for each; it may be a coroutine.
            With it what is put is embedded, and `search` goes by words and meaning.
        model: the name under which its vectors are kept.
        index: what of a value is embedded: all its texts, unless this names fields, or is false.
        metric: how vectors compare: ``cosine``, ``dot`` or ``l2``.
        index_text: make the words of values and metadata findable with `search`.
        ttl: how long an item lives after a write, in seconds or as a timedelta; or a mapping of
            namespaces to that, which hold for all below them.
        refresh_ttl: reading an item lets it live for its ttl from then on.

    ``native`` is the `memalchemy.Store` underneath, with filters, compare-and-swap and more. Its
    namespaces are the whole ones: ``("locus", …)``.
    """

    def __init__(
        self,
        db: Database | str | None = None,
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
        self._settle(db, namespace)
        if isinstance(ttl, Mapping):
            ttl = {self._inside(below): life for below, life in ttl.items()}
        self.native = Store(
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
        """Everything, but searches in what is not stored, or may not be. Vectors of any dimensions
        lie side by side, so ``embedding_dimension`` is ``None``. Transactions are `put`'s
        ``connection=``.
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
        """Write an item; its version grows by one, its metadata and lifetime are replaced."""
        place = self._inside(namespace)
        await self.native.put(place, key, value, metadata, ttl=ttl, connection=connection)

    async def get(
        self, namespace: Namespace, key: str, *, connection: HostConnection | None = None
    ) -> Any | None:
        """The value, or ``None`` if there is none; `exists` tells a stored ``None`` from that."""
        return await self.native.get(self._inside(namespace), key, connection=connection)

    async def delete(
        self, namespace: Namespace, key: str, *, connection: HostConnection | None = None
    ) -> bool:
        """Remove an item with its vectors; whether it was there."""
        return await self.native.delete(self._inside(namespace), key, connection=connection)

    async def list_keys(self, namespace: Namespace, limit: int = 100) -> list[str]:
        """Keys of this very namespace, in the order of their code points."""
        return await self.native.list_keys(self._inside(namespace), limit)

    async def exists(self, namespace: Namespace, key: str) -> bool:
        """Whether the item is there, whatever its value."""
        return await self.native.exists(self._inside(namespace), key)

    async def get_item(
        self, namespace: Namespace, key: str, *, connection: HostConnection | None = None
    ) -> StoreItem | None:
        """The value with all that is known of it, or ``None``."""
        found = await self.native.get_item(self._inside(namespace), key, connection=connection)
        return None if found is None else self._item(found)

    async def search(
        self,
        namespace: Namespace,
        query: str | None = None,
        limit: int = 10,
        *,
        filter: Mapping[str, Any] | None = None,
        embedding: Any | None = None,
    ) -> list[StoreItem]:
        """Items of this very namespace by the words of *query*, the best first; with an embedder
        by words and meaning. Without a query the newest first.

        Args:
            filter: conditions on the value, and on the metadata under ``$metadata``; see
                `memalchemy.filters`.
            embedding: of *query*, if it is known, in place of the embedder's.
        """
        options: dict[str, Any] = {"limit": limit, "filter": filter}
        if query and embedding is None:
            embedding = await self._embedding(query)
        if query and embedding is not None:
            options |= {"mode": "hybrid", "embedding": embedding}
        elif query:
            self._require("search")
        found = await self.native.search(self._inside(namespace), query or None, **options)
        return [self._item(hit) for hit in found]

    async def search_many(
        self, namespaces: Sequence[Namespace], query: str | None = None, limit: int = 10
    ) -> list[list[StoreItem]]:
        """`search` in each namespace, in their order; the embedder is called once."""
        places = check_list(namespaces, "namespaces")
        known = {} if not query else {"embedding": await self._embedding(query)}
        known = {name: vector for name, vector in known.items() if vector is not None}
        return [await self.search(one, query=query, limit=limit, **known) for one in places]

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
        """`put` with a vector, in place of the embedder's."""
        self._require("semantic_search")
        place = self._inside(namespace)
        await self.native.put_with_embedding(
            place, key, value, embedding, metadata, ttl=ttl, connection=connection
        )

    async def search_by_embedding(
        self,
        namespace: Namespace,
        query_embedding: list[float],
        limit: int = 10,
        threshold: float | None = None,
        metadata_filter: dict[str, Any] | None = None,
    ) -> list[SemanticSearchResult]:
        """Items by the nearness of their vectors, the nearest first; scores are 0 to 1."""
        self._require("semantic_search")
        found = await self.native.search_by_embedding(
            self._inside(namespace), query_embedding, limit, threshold, metadata_filter
        )
        return [
            SemanticSearchResult(self._item(one.item), one.score, one.distance) for one in found
        ]

    async def get_embedding(self, namespace: Namespace, key: str) -> list[float] | None:
        """The vector of a whole item, as float32 has it; ``None`` if there is none."""
        self._require("semantic_search")
        return await self.native.get_embedding(self._inside(namespace), key)

    async def put_batch(
        self,
        items: Iterable[tuple[Namespace, str, Any, dict[str, Any] | None]],
        *,
        ttl: Seconds | None = None,
        connection: HostConnection | None = None,
    ) -> None:
        """Write items, all or none, in one transaction."""
        given = check_list(items, "items")
        within = [(self._inside(namespace), *rest) for namespace, *rest in given]
        await self.native.put_batch(within, ttl=ttl, connection=connection)

    async def get_batch(
        self, keys: Iterable[tuple[Namespace, str]]
    ) -> dict[tuple[Namespace, str], Any]:
        """The values of those that are there, in one round trip."""
        within = [(self._inside(place), key) for place, key in check_list(keys, "keys")]
        found = await self.native.get_batch(within)
        return {(self._outside(place), key): value for (place, key), value in found.items()}

    async def list_namespaces(
        self, prefix: Namespace | None = None, limit: int = 100
    ) -> list[Namespace]:
        """Namespaces that hold an item; with *prefix*, it and those below it."""
        found = await self.native.list_namespaces(self._inside(prefix or ()), limit)
        return [self._outside(place) for place in found]

    async def clear_namespace(self, namespace: Namespace) -> int:
        """Remove all items of this very namespace, however many; how many."""
        return await self.native.clear_namespace(self._inside(namespace))

    def _inside(self, namespace: Namespace) -> Namespace:
        """A caller's namespace as it is in the database."""
        return (*self._namespace, *check_namespace(namespace))

    def _outside(self, place: Sequence[str]) -> Namespace:
        return tuple(place[len(self._namespace) :])

    def _item(self, found: contracts.StoreItem) -> StoreItem:
        return StoreItem(
            namespace=self._outside(found.namespace),
            key=found.key,
            value=found.value,
            metadata=found.metadata,
            created_at=found.created_at,
            updated_at=found.updated_at,
            version=found.version,
        )

    async def _embedding(self, query: str) -> Any | None:
        embedder = self.native.embedder
        if embedder is None or not query.strip():
            return None
        return (await embed(embedder, [query]))[0]

    def _require(self, capability: str) -> None:
        if not getattr(self.capabilities, capability):
            raise StoreCapabilityError(
                capability,
                type(self).__name__,
                "The database is encrypted: its `readable` says what may be stored unencrypted "
                "beside it to be searched in.",
            )
