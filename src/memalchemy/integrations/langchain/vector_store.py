"""`MemalchemyVectorStore`: documents that are found by meaning, or by meaning and words."""

from __future__ import annotations

import uuid
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, Self

from langchain_core.documents import Document
from langchain_core.embeddings import Embeddings
from langchain_core.vectorstores import VectorStore

from memalchemy.contracts import NewItem, SearchHit, SearchMode, Seconds, StoreItem
from memalchemy.integrations._base import AnyDatabase, blocking
from memalchemy.integrations._stored_forms import StoredForm
from memalchemy.integrations.langchain._adapter import LangChainAdapter
from memalchemy.keys import check_list
from memalchemy.search.diversity import diversify
from memalchemy.search.hybrid import Ranked
from memalchemy.search.vectors import Metric
from memalchemy.store import Store

Scored = list[tuple[Document, float]]


class MemalchemyVectorStore(LangChainAdapter, VectorStore):
    """Documents with their vectors, which any number of processes share.

    Documents are added all or none; one whose id is there is replaced, with its vector. Scores are
    from 0 to 1, higher is better: by the metric ``cosine``, 1 for the same direction and 0.5 for
    vectors at a right angle. The embedding is called in the caller's own thread and event loop.

    The searching methods take ``filter=``, equal values by name or a filter of
    `memalchemy.filters` on the metadata, and those with a query ``mode="hybrid"``, which ranks by
    words as well.

    A document is stored as `memalchemy.VectorStore` stores it, and found by that, too.

    Args:
        db: a URL, the path of a SQLite file, a `Database`, a `memalchemy.sync.Database` or an
            `AsyncEngine`. Without it, the URL in ``MEMALCHEMY_URL``, or else a database in memory
            for this object alone.
        embedding: makes the vectors of documents and queries.
        namespace: keeps several collections apart in one database.
        metric: the measure that compares vectors: ``cosine``, ``dot`` or ``l2``.
        index_text: let a hybrid search find the words of documents.
        ttl: the lifetime of a document after it was added, in seconds or as a timedelta.

    Raises, from any method:
        DatabaseUnreachable, AuthenticationFailed, SchemaOutdated, SchemaTooNew.
        Corrupt, KeyMissing, NotEncrypted: a stored document cannot be read.
        StoreCapabilityError: the database is encrypted, and may hold no vectors.
    """

    kind = "documents"

    def __init__(
        self,
        db: AnyDatabase | None = None,
        *,
        embedding: Embeddings,
        namespace: Iterable[str] = (),
        metric: Metric = "cosine",
        index_text: bool = True,
        ttl: Seconds | None = None,
    ) -> None:
        super().__init__(db, namespace=namespace)
        self.embedding = embedding
        self.store: Store = Store(self.db, metric=metric, index_text=index_text, ttl=ttl)
        """The documents as items, with asynchronous methods."""

    @property
    def embeddings(self) -> Embeddings:
        """The embedding of documents and queries."""
        return self.embedding

    # --- Writing ----------------------------------------------------------------------------------

    def add_texts(
        self,
        texts: Iterable[str],
        metadatas: list[dict[str, Any]] | None = None,
        *,
        ids: Sequence[str | None] | None = None,
        batch_size: int | None = None,
        ttl: Seconds | None = None,
        **kwargs: Any,
    ) -> list[str]:
        """Add texts, all or none, and return their ids; a text without an id is given a new one.

        Args:
            batch_size: is ignored: all texts are one batch.
            ttl: their lifetime, if not that of the store.

        Raises:
            ValueError: the numbers of texts, metadatas and ids differ; or a vector is zero or not
                finite.
            NotSerialisable, TooLarge: a text, its metadata or its id cannot be stored. Metadata is
                JSON of up to 32,000 bytes.
        """
        _refuse_unknown(kwargs)
        given, ids = check_list(texts, "texts"), _check_ids(ids)
        vectors = self.embedding.embed_documents(given)
        return self.wait(self._put_texts(given, vectors, metadatas, ids, ttl))

    async def aadd_texts(
        self,
        texts: Iterable[str],
        metadatas: list[dict[str, Any]] | None = None,
        *,
        ids: Sequence[str | None] | None = None,
        batch_size: int | None = None,
        ttl: Seconds | None = None,
        **kwargs: Any,
    ) -> list[str]:
        """Add texts, as `add_texts`."""
        _refuse_unknown(kwargs)
        given, ids = check_list(texts, "texts"), _check_ids(ids)
        vectors = await self.embedding.aembed_documents(given)
        return await self._put_texts(given, vectors, metadatas, ids, ttl)

    async def adelete(self, ids: Sequence[str] | None = None, **kwargs: Any) -> bool:
        """Delete the documents with these ids, in one transaction; all, if *ids* is ``None``."""
        _refuse_unknown(kwargs)
        if ids is None:
            await self.store.clear_namespace(self.namespace)
        else:
            await self.store.delete_batch([(self.namespace, id_) for id_ in check_list(ids, "ids")])
        return True

    def delete(self, ids: Sequence[str] | None = None, **kwargs: Any) -> bool:
        """Delete documents, as `adelete`."""
        return self.wait(self.adelete(ids, **kwargs))

    # --- Reading ----------------------------------------------------------------------------------

    async def aget_by_ids(self, ids: Sequence[str], /) -> list[Document]:
        """Return the documents with these ids that exist, in the order of *ids*."""
        places = [(self.namespace, id_) for id_ in check_list(ids, "ids")]
        found = await self.store.get_items(places)
        return [_to_document(item) for item in found.values()]

    get_by_ids = blocking(aget_by_ids)

    def similarity_search(self, query: str, k: int = 4, **kwargs: Any) -> list[Document]:
        """Return the *k* documents that are the most similar to *query*, the best first."""
        return _to_documents(self.similarity_search_with_score(query, k, **kwargs))

    async def asimilarity_search(self, query: str, k: int = 4, **kwargs: Any) -> list[Document]:
        """Search as `similarity_search`."""
        return _to_documents(await self.asimilarity_search_with_score(query, k, **kwargs))

    def similarity_search_with_score(self, query: str, k: int = 4, **kwargs: Any) -> Scored:
        """Search as `similarity_search`, and return each document with its score, 0 to 1."""
        return self.wait(self._search(query, self.embedding.embed_query(query), k, **kwargs))

    async def asimilarity_search_with_score(self, query: str, k: int = 4, **kwargs: Any) -> Scored:
        """Search as `similarity_search_with_score`."""
        return await self._search(query, await self.embedding.aembed_query(query), k, **kwargs)

    def similarity_search_by_vector(
        self, embedding: list[float], k: int = 4, **kwargs: Any
    ) -> list[Document]:
        """Return the *k* documents whose vectors are the nearest to *embedding*."""
        return _to_documents(self.wait(self._search(None, embedding, k, **kwargs)))

    async def asimilarity_search_by_vector(
        self, embedding: list[float], k: int = 4, **kwargs: Any
    ) -> list[Document]:
        """Search as `similarity_search_by_vector`."""
        return _to_documents(await self._search(None, embedding, k, **kwargs))

    def max_marginal_relevance_search(
        self, query: str, k: int = 4, fetch_k: int = 20, lambda_mult: float = 0.5, **kwargs: Any
    ) -> list[Document]:
        """Return *k* documents that are similar to *query* and differ from each other.

        They are chosen among the *fetch_k* that are the most similar. *lambda_mult* is the weight
        of the similarity against the difference, 0 to 1.
        """
        vector = self.embedding.embed_query(query)
        return self.wait(self._search_diverse(vector, k, fetch_k, lambda_mult, **kwargs))

    async def amax_marginal_relevance_search(
        self, query: str, k: int = 4, fetch_k: int = 20, lambda_mult: float = 0.5, **kwargs: Any
    ) -> list[Document]:
        """Search as `max_marginal_relevance_search`."""
        vector = await self.embedding.aembed_query(query)
        return await self._search_diverse(vector, k, fetch_k, lambda_mult, **kwargs)

    def max_marginal_relevance_search_by_vector(
        self,
        embedding: list[float],
        k: int = 4,
        fetch_k: int = 20,
        lambda_mult: float = 0.5,
        **kwargs: Any,
    ) -> list[Document]:
        """Search as `max_marginal_relevance_search`, for documents near to a vector."""
        return self.wait(self._search_diverse(embedding, k, fetch_k, lambda_mult, **kwargs))

    async def amax_marginal_relevance_search_by_vector(
        self,
        embedding: list[float],
        k: int = 4,
        fetch_k: int = 20,
        lambda_mult: float = 0.5,
        **kwargs: Any,
    ) -> list[Document]:
        """Search as `max_marginal_relevance_search_by_vector`."""
        return await self._search_diverse(embedding, k, fetch_k, lambda_mult, **kwargs)

    # --- Making -----------------------------------------------------------------------------------

    @classmethod
    def from_texts(
        cls,
        texts: list[str],
        embedding: Embeddings,
        metadatas: list[dict[str, Any]] | None = None,
        *,
        ids: Sequence[str | None] | None = None,
        **kwargs: Any,
    ) -> Self:
        """Return a store to which *texts* were added. *kwargs* are those of the class: ``db=``."""
        made = cls(embedding=embedding, **kwargs)
        made.add_texts(texts, metadatas, ids=ids)
        return made

    @classmethod
    async def afrom_texts(
        cls,
        texts: list[str],
        embedding: Embeddings,
        metadatas: list[dict[str, Any]] | None = None,
        *,
        ids: Sequence[str | None] | None = None,
        **kwargs: Any,
    ) -> Self:
        """Make a store, as `from_texts`."""
        made = cls(embedding=embedding, **kwargs)
        await made.aadd_texts(texts, metadatas, ids=ids)
        return made

    # --- Shared by the methods above --------------------------------------------------------------

    async def _put_texts(
        self,
        texts: list[str],
        vectors: Sequence[Sequence[float]],
        metadatas: Sequence[dict[str, Any]] | None,
        ids: Sequence[str | None] | None,
        ttl: Seconds | None,
    ) -> list[str]:
        for name, given in (("metadatas", metadatas), ("ids", ids), ("vectors", vectors)):
            if given is not None and len(given) != len(texts):
                raise ValueError(f"there are {len(texts)} texts, and {len(given)} {name}")
        keys = [id_ or str(uuid.uuid4()) for id_ in ids or [None] * len(texts)]
        parts = zip(keys, texts, metadatas or [{}] * len(texts), vectors, strict=True)
        await self.store.put_batch(
            [
                NewItem(self.namespace, key, text, metadata, embedding=vector)
                for key, text, metadata, vector in parts
            ],
            ttl=ttl,
        )
        return keys

    async def _search(
        self,
        query: str | None,
        vector: Sequence[float],
        k: int,
        *,
        filter: Mapping[str, Any] | None = None,
        mode: SearchMode = "vector",
        **others: Any,
    ) -> Scored:
        _refuse_unknown(others)
        found = await self._search_hits(query, vector, k, filter, mode)
        return [(_to_document(hit), hit.score or 0.0) for hit in found]

    async def _search_diverse(
        self,
        vector: Sequence[float],
        k: int,
        fetch_k: int,
        share: float,
        *,
        filter: Mapping[str, Any] | None = None,
        **others: Any,
    ) -> list[Document]:
        _refuse_unknown(others)
        found = await self._search_hits(None, vector, fetch_k, filter, "vector")
        ranked = [Ranked(hit, hit.score or 0.0) for hit in found]
        model = self.store.settings.model_of(None)
        chosen = await diversify(self.db, ranked, share, k, model, None, from_all=True)
        return [_to_document(one.item) for one in chosen]

    async def _search_hits(
        self,
        query: str | None,
        vector: Sequence[float],
        limit: int,
        filter: Mapping[str, Any] | None,
        mode: SearchMode,
    ) -> list[SearchHit]:
        if filter is not None and not isinstance(filter, Mapping):
            raise TypeError(f"filter is a mapping of metadata, not a {type(filter).__name__}")
        return await self.store.search(
            self.namespace,
            None if mode == "vector" else query,
            limit,
            mode=mode,
            filter={"$metadata": filter} if filter else None,
            embedding=vector,
        )

    def _select_relevance_score_fn(self) -> Callable[[float], float]:
        """Return the function that makes a score from 0 to 1 of a score; it is one already."""
        return float


def _refuse_unknown(unknown: Mapping[str, Any]) -> None:
    if unknown:
        raise TypeError(f"unknown arguments: {', '.join(sorted(unknown))}")


def _check_ids(given: Sequence[str | None] | None) -> list[str | None] | None:
    return None if given is None else check_list(given, "ids")


@StoredForm("document of LangChain")
def _to_document(item: StoreItem) -> Document:
    return Document(id=item.key, page_content=item.value, metadata=item.metadata)


def _to_documents(scored: Scored) -> list[Document]:
    return [document for document, _ in scored]


__all__ = ["MemalchemyVectorStore"]
