"""`MemalchemyVectorStore`: documents for lauren-ai's agents and knowledge bases."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

# What lauren-ai's own vector store returns; lauren-ai does not export it.
from lauren_ai._memory import MemoryResult

from memalchemy import VectorStore, collections
from memalchemy._json_pointers import pointer
from memalchemy.integrations._base import AnyDatabase
from memalchemy.integrations._filters import equals
from memalchemy.integrations.lauren_ai._adapter import LaurenAdapter
from memalchemy.keys import check_list
from memalchemy.store.embedding import Embedder


class MemalchemyVectorStore(LaurenAdapter):
    """Stores documents, and finds them by words, and with an embedder by meaning as well.

    Every process finds what any process wrote. A search returns no document that is unrelated to
    the query.

    Args:
        db: a URL, the path of a SQLite file, a `Database`, a `memalchemy.sync.Database` or an
            `AsyncEngine`. Without it, the URL in ``MEMALCHEMY_URL``, or else a database in memory
            for this object alone.
        embedder: a function that returns a vector for each of a list of texts; it may be a
            coroutine function.
        namespace: keeps these documents apart from others.

    ``native`` is the `memalchemy.VectorStore` underneath.
    """

    def __init__(
        self,
        db: AnyDatabase | None = None,
        *,
        embedder: Embedder | None = None,
        namespace: Iterable[str] = (),
    ) -> None:
        super().__init__(db, namespace=namespace)
        self.native: VectorStore = VectorStore(
            self.db, embedder=embedder, namespace=(*self.namespace, "documents")
        )

    async def upsert(
        self,
        content: str,
        *,
        id: str | None = None,
        metadata: Mapping[str, Any] | None = None,
        embedding: Sequence[float] | None = None,
    ) -> str:
        """Write a document, replacing one with the same id, and return its id.

        Without *id* the id is a new one. A vector of zeros counts as none.
        """
        vector = None if embedding is None or not any(embedding) else embedding
        with self.translated_errors():
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
        """Return at most *k* documents that are related to *query*, the best first.

        Args:
            filter: names and values that the metadata must have; ``None`` equals a missing name.
            embedding: the vector of the query, in place of the embedder's.
        """
        equal = [equals(pointer("", name), value) for name, value in (filter or {}).items()]
        wanted = {"$and": equal} if equal else None
        with self.translated_errors():
            found = await self.native.search(query, k=k, filter=wanted, embedding=embedding)
        return [_to_result(one) for one in found]

    async def get(self, id: str) -> MemoryResult | None:
        """Return a document with the score 1.0, or ``None``."""
        with self.translated_errors():
            found = await self.native.get(id)
        return None if found is None else _to_result(found)

    async def delete(self, ids: list[str]) -> None:
        """Delete those of the documents that are there."""
        given = check_list(ids, "ids")
        with self.translated_errors():
            await self.native.delete(given)

    async def clear(self) -> None:
        """Delete all documents of this store."""
        with self.translated_errors():
            await self.native.clear()


def _to_result(found: collections.MemoryResult) -> MemoryResult:
    return MemoryResult(found.id, found.content, found.score, dict(found.metadata))
