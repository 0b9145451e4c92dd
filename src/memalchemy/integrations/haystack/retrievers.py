"""Components that retrieve documents from a `MemalchemyDocumentStore` in a pipeline."""

from typing import Any, Self

from haystack import Document, component, default_from_dict, default_to_dict
from haystack.document_stores.types import FilterPolicy, apply_filter_policy

from memalchemy.integrations.haystack.document_store import MemalchemyDocumentStore


class _Retriever:
    """The base of the retrievers: filters, a limit, and a place in a pipeline's YAML."""

    def __init__(
        self,
        document_store: MemalchemyDocumentStore,
        *,
        filters: dict[str, Any] | None = None,
        top_k: int = 10,
        filter_policy: FilterPolicy | str = FilterPolicy.REPLACE,
    ) -> None:
        if not isinstance(document_store, MemalchemyDocumentStore):
            raise TypeError(
                f"document_store is a MemalchemyDocumentStore, not {type(document_store).__name__}"
            )
        self.document_store = document_store
        self.filters = filters
        self.top_k: int = _check_top_k(top_k, 1)
        self.filter_policy: FilterPolicy = (
            FilterPolicy.from_str(filter_policy)
            if isinstance(filter_policy, str)
            else filter_policy
        )

    def to_dict(self) -> dict[str, Any]:
        """Return a dict from which `from_dict` makes an equal component."""
        return default_to_dict(
            self,
            document_store=self.document_store,
            filters=self.filters,
            top_k=self.top_k,
            filter_policy=self.filter_policy.value,
            **self._options(),
        )

    @classmethod
    def from_dict(cls, data: dict[str, Any]) -> Self:
        """Create a component from the result of `to_dict`."""
        return default_from_dict(cls, data)

    def _options(self) -> dict[str, Any]:
        return {}

    def _search(self, filters: dict[str, Any] | None, top_k: int | None) -> dict[str, Any]:
        return {
            "filters": apply_filter_policy(self.filter_policy, self.filters, filters),
            "top_k": self.top_k if top_k is None else _check_top_k(top_k, 0),
        }


@component
class MemalchemyEmbeddingRetriever(_Retriever):
    """Retrieves the documents whose embeddings are the most similar to that of a query.

    Args:
        document_store: the store.
        filters: narrow all searches.
        top_k: the number of documents.
        filter_policy: filters of a run ``replace`` these, or are ``merge``\\ d with them.
        scale_score: scores are 0 to 1, rather than cosines or dot products.
        return_embedding: documents come with their embeddings.
    """

    def __init__(
        self,
        document_store: MemalchemyDocumentStore,
        *,
        filters: dict[str, Any] | None = None,
        top_k: int = 10,
        filter_policy: FilterPolicy | str = FilterPolicy.REPLACE,
        scale_score: bool = False,
        return_embedding: bool = False,
    ) -> None:
        # No super(): the decorator puts a class of its own in the place of this one.
        _Retriever.__init__(
            self, document_store, filters=filters, top_k=top_k, filter_policy=filter_policy
        )
        self.scale_score = scale_score
        self.return_embedding = return_embedding

    @component.output_types(documents=list[Document])
    def run(
        self,
        query_embedding: list[float],
        filters: dict[str, Any] | None = None,
        top_k: int | None = None,
        scale_score: bool | None = None,
        return_embedding: bool | None = None,
    ) -> dict[str, list[Document]]:
        """Return the documents, the most similar first; without *top_k*, as many as always."""
        options = self._arguments_of_search(filters, top_k, scale_score, return_embedding)
        return {"documents": self.document_store.embedding_retrieval(query_embedding, **options)}

    @component.output_types(documents=list[Document])
    async def run_async(
        self,
        query_embedding: list[float],
        filters: dict[str, Any] | None = None,
        top_k: int | None = None,
        scale_score: bool | None = None,
        return_embedding: bool | None = None,
    ) -> dict[str, list[Document]]:
        """Do as `run`, and do not block the event loop."""
        options = self._arguments_of_search(filters, top_k, scale_score, return_embedding)
        found = await self.document_store.embedding_retrieval_async(query_embedding, **options)
        return {"documents": found}

    def _options(self) -> dict[str, Any]:
        return {"scale_score": self.scale_score, "return_embedding": self.return_embedding}

    def _arguments_of_search(
        self,
        filters: dict[str, Any] | None,
        top_k: int | None,
        scale_score: bool | None,
        return_embedding: bool | None,
    ) -> dict[str, Any]:
        given = {"scale_score": scale_score, "return_embedding": return_embedding}
        chosen = {name: one for name, one in given.items() if one is not None}
        return self._search(filters, top_k) | self._options() | chosen


@component
class MemalchemyKeywordRetriever(_Retriever):
    """Retrieves the documents that have the words of a query, ranked by BM25.

    Args:
        document_store: the store.
        filters: narrow all searches.
        top_k: the number of documents.
        filter_policy: filters of a run ``replace`` these, or are ``merge``\\ d with them.
    """

    def __init__(
        self,
        document_store: MemalchemyDocumentStore,
        *,
        filters: dict[str, Any] | None = None,
        top_k: int = 10,
        filter_policy: FilterPolicy | str = FilterPolicy.REPLACE,
    ) -> None:
        _Retriever.__init__(
            self, document_store, filters=filters, top_k=top_k, filter_policy=filter_policy
        )

    @component.output_types(documents=list[Document])
    def run(
        self, query: str, filters: dict[str, Any] | None = None, top_k: int | None = None
    ) -> dict[str, list[Document]]:
        """Return the documents, the best first; without *top_k*, as many as always."""
        options = self._search(filters, top_k)
        return {"documents": self.document_store.keyword_retrieval(query, **options)}

    @component.output_types(documents=list[Document])
    async def run_async(
        self, query: str, filters: dict[str, Any] | None = None, top_k: int | None = None
    ) -> dict[str, list[Document]]:
        """Do as `run`, and do not block the event loop."""
        options = self._search(filters, top_k)
        return {"documents": await self.document_store.keyword_retrieval_async(query, **options)}


def _check_top_k(top_k: int, least: int) -> int:
    if top_k < least:
        raise ValueError(f"top_k must be at least {least}, but is {top_k}")
    return top_k
