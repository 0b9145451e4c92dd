"""`MemalchemyVectorStore`: mem0's memories, each a payload with a vector."""

from __future__ import annotations

import uuid
from collections.abc import Iterable, Mapping, Sequence
from functools import partial
from typing import Any

from mem0.utils.scoring import get_bm25_params
from mem0.vector_stores.base import VectorStoreBase
from pydantic import BaseModel

from memalchemy._locked_retry import retry_with_lock
from memalchemy.contracts import MAX_LIMIT, NewItem, StoreItem
from memalchemy.database import HostConnection
from memalchemy.integrations._base import AnyDatabase, SyncAdapter
from memalchemy.integrations._stored_forms import StoredForm
from memalchemy.integrations.mem0._filters import native_filter
from memalchemy.keys import check_list, check_name, check_namespace
from memalchemy.search.ranking import share_of
from memalchemy.store import Store

Payloads = Sequence[Mapping[str, Any]]


class Memory(BaseModel):
    """A memory as mem0's own stores return it: ``score`` is ``None`` if it was not searched."""

    id: str
    score: float | None
    payload: dict[str, Any]


# In the class body the name list means its method.
Memories = list[Memory]
ManyMemories = list[Memories]
Names = list[str]


class MemalchemyVectorStore(SyncAdapter, VectorStoreBase):
    """A collection of mem0's memories, which any number of processes share.

    An insert is whole or absent; a memory whose id is there is replaced. Every read builds new
    objects. Any thread may call the methods. mem0 makes the object itself: see
    `vector_store_config`.

    Filters are mem0's, and find what they find in Qdrant, its default store: equal values, lists of
    values, ``"*"``, the operators ``eq ne gt gte lt lte in nin contains icontains``, and ``AND OR
    NOT``. A list in a payload matches if one of its elements does. Times in ISO 8601 are points in
    time. ``ne`` and ``nin`` are true of another value only, ``NOT`` of a missing one, too.

    Args:
        db: a URL, the path of a SQLite file, a `Database`, a `memalchemy.sync.Database` or an
            `AsyncEngine`. Without it, the URL in ``MEMALCHEMY_URL``, or else a database in memory
            for this object alone. Stores with the same URL share their connections.
        collection_name: the collection, the last part of the namespace.
        namespace: keeps the collections of several applications apart.

    Raises, from any method:
        DatabaseUnreachable, AuthenticationFailed, SchemaOutdated, SchemaTooNew.
        Corrupt, KeyMissing, NotEncrypted: a stored memory cannot be read.
    """

    root = "mem0"
    shares_databases = True

    def __init__(
        self,
        db: AnyDatabase | None = None,
        *,
        collection_name: str = "mem0",
        namespace: Iterable[str] = (),
    ) -> None:
        super().__init__(db, namespace=("memories", *check_namespace(namespace)))
        self._parent = self.namespace
        self.create_col(collection_name)
        self.store: Store = Store(self.db)
        """The memories as items, with asynchronous methods."""

    # --- Writing ----------------------------------------------------------------------------------

    def insert(
        self,
        vectors: Sequence[Sequence[float]],
        payloads: Payloads | None = None,
        ids: Sequence[str] | None = None,
    ) -> None:
        """Insert memories, all or none, in place of those with the same ids.

        Raises:
            ValueError: the numbers of vectors, payloads and ids differ; a vector is zero, not
                finite, or of over 16,000 dimensions.
            NotSerialisable, TooLarge: a payload or an id cannot be stored.
        """
        vectors = check_list(vectors, "vectors")
        ids = None if ids is None else check_list(ids, "ids")
        for name, given in (("payloads", payloads), ("ids", ids)):
            if given is not None and len(given) != len(vectors):
                raise ValueError(f"there are {len(vectors)} vectors, and {len(given)} {name}")
        keys = [str(uuid.uuid4()) for _ in vectors] if ids is None else list(map(str, ids))
        values = [{}] * len(vectors) if payloads is None else map(dict, payloads)
        items = [
            NewItem(self.namespace, key, value, embedding=vector)
            for key, value, vector in zip(keys, values, vectors, strict=True)
        ]
        self.wait(self.store.put_batch(items))

    def update(
        self,
        vector_id: str,
        vector: Sequence[float] | None = None,
        payload: Mapping[str, Any] | None = None,
    ) -> None:
        """Give a memory another vector, another payload, or both; nothing if it is not there.

        What is not given stays, also if others write it at the same time.
        """
        self.wait(self._update(str(vector_id), vector, payload))

    def delete(self, vector_id: str) -> None:
        """Delete a memory, if it is there."""
        self.wait(self.store.delete(self.namespace, str(vector_id)))

    # --- Reading ----------------------------------------------------------------------------------

    def get(self, vector_id: str) -> Memory | None:
        """Return a memory, or ``None``."""
        item = self.wait(self.store.get_item(self.namespace, str(vector_id)))
        return None if item is None else _to_memory(item, None)

    def list(
        self, filters: Mapping[str, Any] | None = None, top_k: int | None = 100
    ) -> ManyMemories:
        """Return a list of one list: at most *top_k* memories, the newest first.

        All of them, if *top_k* is ``None``.
        """
        limit = MAX_LIMIT if top_k is None else top_k
        items = self.wait(
            self.store.list_items(self.namespace, filter=native_filter(filters), limit=limit)
        )
        return [[_to_memory(item, None) for item in items]]

    def search(
        self,
        query: str,
        vectors: Sequence[Any],
        top_k: int = 5,
        filters: Mapping[str, Any] | None = None,
    ) -> Memories:
        """Return the memories whose vectors are the nearest to *vectors*, the best first.

        The score is the cosine of the angle between the vectors, 0 to 1. *query* is not used. Some
        of mem0's callers give the vector within a list.
        """
        return self.wait(self._search(vectors, top_k, filters))

    def search_batch(
        self,
        queries: Sequence[str],
        vectors_list: Sequence[Sequence[Any]],
        top_k: int = 1,
        filters: Mapping[str, Any] | None = None,
    ) -> ManyMemories:
        """Return the results of `search` for each vector; *queries* are not used."""
        check_list(queries, "queries")
        vectors = check_list(vectors_list, "vectors_list")

        async def search_all() -> ManyMemories:
            return [await self._search(vector, top_k, filters) for vector in vectors]

        return self.wait(search_all())

    def keyword_search(
        self, query: str, top_k: int = 5, filters: Mapping[str, Any] | None = None
    ) -> Memories | None:
        """Return memories with words of *query*, the best first; ``None`` in an encrypted database.

        The score is in the range of BM25's, which `Memory.search` expects: at the middle of its
        sigmoid is a memory that has half of the query's words, counted by how rare they are.
        """
        if not self.db.keyring.is_readable("text"):
            return None
        found = self.wait(
            self.store.search(self.namespace, query, top_k, filter=native_filter(filters))
        )
        middle, _ = get_bm25_params(query, lemmatized=query)
        return [_to_memory(hit, 2 * middle * share_of(hit.score or 0.0)) for hit in found]

    # --- Collections ------------------------------------------------------------------------------

    def create_col(
        self, name: str, vector_size: int | None = None, distance: str | None = None
    ) -> None:
        """Use the collection *name* from now on. It takes vectors of any size.

        Raises:
            ValueError: *distance* is not ``cosine``.
            TooLarge: the name is too long.
        """
        if distance not in (None, "cosine"):
            raise ValueError(f"vectors are compared by cosine, not by {distance!r}")
        self.namespace: tuple[str, ...] = check_namespace(
            (*self._parent, check_name(name, "collection_name"))
        )
        self.collection_name = name

    def list_cols(self) -> Names:
        """Return the names of the collections that hold a memory."""

        async def read() -> Names:
            depth = len(self._parent) + 1
            names: dict[str, None] = {}
            after: tuple[str, ...] | None = None
            while page := await self.store.list_namespaces(self._parent, after=after):
                names |= dict.fromkeys(one[-1] for one in page if len(one) == depth)
                after = page[-1]
            return list(names)

        return self.wait(read())

    def col_info(self) -> dict[str, Any]:
        """Return the ``name`` of the collection and the ``count`` of its memories."""
        count = self.wait(self.store.count(self.namespace))
        return {"name": self.collection_name, "count": count}

    def delete_col(self) -> None:
        """Delete all memories of the collection."""
        self.wait(self.store.clear_namespace(self.namespace))

    def reset(self) -> None:
        """Delete all memories of the collection, which stays in use."""
        self.delete_col()

    # --- Shared by the methods above --------------------------------------------------------------

    async def _search(
        self, vectors: Sequence[Any], top_k: int, filters: Mapping[str, Any] | None
    ) -> Memories:
        nested = len(vectors) > 0 and isinstance(vectors[0], Sequence)
        found = await self.store.search_by_embedding(
            self.namespace, vectors[0] if nested else vectors, top_k, filter=native_filter(filters)
        )
        return [_to_memory(one.item, _cosine_similarity(one.distance)) for one in found]

    async def _update(
        self, key: str, vector: Sequence[float] | None, payload: Mapping[str, Any] | None
    ) -> None:
        where = (self.namespace, key)

        async def attempt(tx: HostConnection | None) -> None:
            item = await self.store.get_item(*where, connection=tx)
            if item is None:
                return
            value = item.value if payload is None else dict(payload)
            kept = vector
            if kept is None:
                kept = await self.store.get_embedding(*where, connection=tx)
            await self.store.put(
                *where, value, embedding=kept, expected_version=item, connection=tx
            )

        lock = partial(self.store.hold, [where])
        await retry_with_lock(self.store.db, lock, attempt, f"the memory {key!r}")


def _cosine_similarity(distance: float | None) -> float:
    """Return a similarity from 0 to 1: that of vectors at a right angle, or farther, is 0."""
    return 0.0 if distance is None else min(1.0, max(0.0, 1.0 - distance))


@StoredForm("memory of mem0")
def _to_memory(item: StoreItem, score: float | None) -> Memory:
    return Memory(id=item.key, score=score, payload=item.value)


__all__ = ["MemalchemyVectorStore"]
