"""`MemalchemyVectorStore`: documents that lauren-ai's agents and knowledge bases look in."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from lauren_ai._memory import MemoryResult

from memalchemy import Database, VectorStore, collections
from memalchemy.integrations.lauren_ai.place import IN_MEMORY, Place
from memalchemy.keys import check_list
from memalchemy.store.embedding import Embedder


class MemalchemyVectorStore(Place):
    """Documents, found by their words, and with an embedder by their meaning as well.

    What one process writes, all find. What has nothing to do with a query is not returned.

    Args:
        db: a `Database`, which may hold anything else besides, or a URL; without one a database in
            memory, for this object alone.
        embedder: a function of a list of texts that gives a vector for each; it may be a coroutine.
        namespace: keeps these documents apart from others.

    ``native`` is the `memalchemy.VectorStore` underneath.
    """

    def __init__(
        self,
        db: Database | str = IN_MEMORY,
        *,
        embedder: Embedder | None = None,
        namespace: Iterable[str] = (),
    ) -> None:
        super().__init__(db, namespace=namespace)
        place = (*self._namespace, "documents")
        self.native = VectorStore(self.db, embedder=embedder, namespace=place)

    async def upsert(
        self,
        content: str,
        *,
        id: str | None = None,
        metadata: Mapping[str, Any] | None = None,
        embedding: Sequence[float] | None = None,
    ) -> str:
        """Write a document and return its id, a new one unless given; one of that id is replaced.

        A vector of zeros says nothing, and is none.
        """
        vector = None if embedding is None or not any(embedding) else embedding
        with self._as_theirs():
            return await self.native.upsert(
                content, id=id or None, metadata=metadata, embedding=vector
            )

    async def search(
        self,
        query: str,
        *,
        k: int = 5,
        filter: Mapping[str, Any] | None = None,
        embedding: Sequence[float] | None = None,
    ) -> list[MemoryResult]:
        """At most *k* documents that have something to do with *query*, the best first.

        Args:
            filter: what the metadata must hold, equal values by name.
            embedding: the vector to look for, in place of the embedder's of *query*.
        """
        wanted = {_pointer(name): {"$eq": value} for name, value in (filter or {}).items()}
        with self._as_theirs():
            found = await self.native.search(query, k=k, filter=wanted, embedding=embedding)
        return [_result(one) for one in found]

    async def get(self, id: str) -> MemoryResult | None:
        """A document, its score 1.0; or ``None``."""
        with self._as_theirs():
            found = await self.native.get(id)
        return None if found is None else _result(found)

    async def delete(self, ids: list[str]) -> None:
        """Remove documents, those that are there."""
        given = check_list(ids, "ids")
        with self._as_theirs():
            await self.native.delete(given)

    async def clear(self) -> None:
        """Remove all documents of this store."""
        with self._as_theirs():
            await self.native.clear()


def _pointer(name: str) -> str:
    """A name in a filter is a name, whatever it begins with."""
    return "/" + name.replace("~", "~0").replace("/", "~1")


def _result(found: collections.MemoryResult) -> MemoryResult:
    return MemoryResult(found.id, found.content, found.score, dict(found.metadata))
