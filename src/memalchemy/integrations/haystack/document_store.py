"""`MemalchemyDocumentStore`: Haystack's documents, found by metadata, by words and by meaning."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Iterable, Mapping, Sequence
from contextlib import aclosing
from typing import Any, Final, Literal

import numpy as np
from haystack.dataclasses import ByteStream, Document, SparseEmbedding
from haystack.document_stores.errors import DocumentStoreError, DuplicateDocumentError
from haystack.document_stores.types import DuplicatePolicy
from haystack.errors import FilterError
from haystack.utils import Secret, expit

from memalchemy.contracts import NewItem, StoreItem
from memalchemy.database import HostConnection
from memalchemy.errors import Conflict, InvalidArgument, MemalchemyError
from memalchemy.integrations._base import AnyDatabase, blocking
from memalchemy.integrations._stored_forms import StoredForm
from memalchemy.integrations._wordless import plain_name, wordless
from memalchemy.integrations.haystack._adapter import HaystackAdapter, translated
from memalchemy.integrations.haystack._filters import native_filter
from memalchemy.keys import check_list
from memalchemy.store import Store

DOT_PRODUCT_SCALE = 100
"""Haystack's divisor of a dot product that is to be scaled."""

_METRICS: dict[str, Literal["cosine", "dot"]] = {"cosine": "cosine", "dot_product": "dot"}
_IF_EXISTS = {
    DuplicatePolicy.NONE: "fail",
    DuplicatePolicy.FAIL: "fail",
    DuplicatePolicy.SKIP: "skip",
    DuplicatePolicy.OVERWRITE: "replace",
}

Filters = dict[str, Any] | None


class MemalchemyDocumentStore(HaystackAdapter):
    """Stores documents that any process finds; pipelines and agents take it as a document store.

    A call writes, updates or deletes all of its documents or none, and loses no write of others.
    Documents are returned as they were given: metadata of the same types, embeddings of the same
    numbers. Without a query they come in the order of their ids. Documents that are read are new
    objects. Every method has a twin with ``_async`` at the end of its name.

    Args:
        db: a URL, the path of a SQLite file, a `Database`, a `memalchemy.sync.Database` or an
            `AsyncEngine`. Without it, the URL in ``MEMALCHEMY_URL``, or else a database in memory
            for this object alone.
        url: a `Secret` with the URL, in place of *db*. A saved pipeline has the name of its
            variable.
        namespace: keeps the documents of several stores apart in one database.
        embedding_similarity_function: ``cosine`` or ``dot_product``.
        return_embedding: whether `filter_documents` returns embeddings.
        index_text: make the words of documents searchable, which keyword retrieval needs.

    Raises, from any method:
        DocumentStoreError: caused by an error of memalchemy: the database is unreachable, a
            document cannot be stored (nothing was written), stored bytes are damaged, the embedding
            of a query has another size than those of the documents.
        FilterError: the filters are malformed.
    """

    def __init__(
        self,
        db: AnyDatabase | None = None,
        *,
        url: Secret | None = None,
        namespace: Iterable[str] = (),
        embedding_similarity_function: Literal["cosine", "dot_product"] = "cosine",
        return_embedding: bool = True,
        index_text: bool = True,
    ) -> None:
        if embedding_similarity_function not in _METRICS:
            raise ValueError(f"embedding_similarity_function is one of {', '.join(_METRICS)}")
        super().__init__(db, url=url, namespace=namespace)
        self.embedding_similarity_function = embedding_similarity_function
        self.return_embedding = return_embedding
        self.index_text = index_text
        self.store: Store = Store(
            self.db, metric=_METRICS[embedding_similarity_function], index_text=index_text
        )
        """The store underneath; a document is an item, its id the key."""
        self._place = (*self.namespace, "documents")

    def translate(self, error: Exception) -> Exception | None:
        """Return Haystack's error for one of memalchemy's."""
        if isinstance(error, Conflict):
            return DuplicateDocumentError(str(error))
        known = isinstance(error, MemalchemyError | InvalidArgument)
        return DocumentStoreError(str(error)) if known else None

    # --- Haystack's protocol ----------------------------------------------------------------------

    @translated
    async def count_documents_async(self) -> int:
        """Return the number of documents."""
        return await self.store.count(self._place)

    @translated
    async def filter_documents_async(self, filters: Filters = None) -> list[Document]:
        """Return the documents that *filters* accept, or all, by id."""
        where = native_filter(filters)
        async with aclosing(self._iter_items(where)) as items:
            found = [item async for item in items]
        return await self._to_documents(found, self.return_embedding)

    @translated
    async def write_documents_async(
        self, documents: list[Document], policy: DuplicatePolicy = DuplicatePolicy.NONE
    ) -> int:
        """Write documents, all or none; return the number of those that were written.

        ``NONE`` means ``FAIL``.

        Raises:
            DuplicateDocumentError: *policy* is ``FAIL``, and there is one of them, or two of them
                have the same id; nothing was written.
            ValueError: these are no documents, or an embedding has a number that is not finite.
        """
        if not isinstance(documents, list) or not all(
            isinstance(one, Document) for one in documents
        ):
            raise ValueError("Please provide a list of Documents.")
        items = [
            NewItem(
                self._place, one.id, _to_value(one), embedding=_searchable_vector(one), index=False
            )
            for one in documents
        ]
        versions = await self.store.put_batch(items, if_exists=_IF_EXISTS[policy])
        return sum(version > 0 for version in versions)

    @translated
    async def delete_documents_async(self, document_ids: list[str]) -> None:
        """Delete those of the documents that are there."""
        await self.store.delete_batch(
            [(self._place, one) for one in check_list(document_ids, "document_ids")]
        )

    # --- More, as Haystack's other stores have it -------------------------------------------------

    @translated
    async def delete_all_documents_async(self) -> None:
        """Delete all documents of this store."""
        await self.store.clear_namespace(self._place)

    @translated
    async def delete_by_filter_async(self, filters: dict[str, Any]) -> int:
        """Delete the documents that *filters* accept; return their number."""
        return await self.store.delete_matching(self._place, _require_filter(filters))

    @translated
    async def update_by_filter_async(self, filters: dict[str, Any], meta: dict[str, Any]) -> int:
        """Merge *meta* into the metadata of the documents that *filters* accept.

        Returns their number. Their other metadata and embeddings stay.
        """

        async def update(items: list[StoreItem], tx: HostConnection) -> None:
            places = [(item.namespace, item.key) for item in items]
            vectors = await self.store.get_embeddings(places, connection=tx)
            await self.store.put_batch(
                [
                    NewItem(
                        item.namespace,
                        item.key,
                        item.value | {"meta": _meta_of(item) | meta},
                        embedding=vectors.get((item.namespace, item.key)),
                        index=False,
                    )
                    for item in items
                ],
                connection=tx,
            )

        return await self.store.change_matching(self._place, _require_filter(filters), update)

    @translated
    async def count_documents_by_filter_async(self, filters: dict[str, Any]) -> int:
        """Return the number of documents that *filters* accept. This reads them, page by page."""
        where = native_filter(filters)
        if where is None:
            return await self.store.count(self._place)
        async with aclosing(self._iter_items(where)) as items:
            return sum([1 async for _ in items])

    @translated
    async def count_unique_metadata_by_filter_async(
        self, filters: dict[str, Any], metadata_fields: list[str]
    ) -> dict[str, int]:
        """Return the number of values that each field has in the documents of *filters*.

        Names may begin with ``meta.``, and do not in the result. This reads the documents, page by
        page.
        """
        fields = check_list(metadata_fields, "metadata_fields")
        values: dict[str, set[Any]] = {_without_meta_prefix(field): set() for field in fields}
        async with aclosing(self._iter_metadata(filters)) as found:
            async for meta in found:
                for name, seen in values.items():
                    if meta.get(name) is not None:
                        seen.add(_hashable(meta[name]))
        return {name: len(seen) for name, seen in values.items()}

    @translated
    async def get_metadata_fields_info_async(self) -> dict[str, dict[str, str]]:
        """Return the ``type`` of each metadata field: keyword, int, float or boolean.

        This reads all documents, page by page; of several types of a field one counts.
        """
        types: dict[str, str] = {}
        async with aclosing(self._iter_metadata(None)) as found:
            async for meta in found:
                types |= {name: _type_name(one) for name, one in meta.items() if one is not None}
        return {name: {"type": type_} for name, type_ in types.items()}

    @translated
    async def get_metadata_field_min_max_async(self, metadata_field: str) -> dict[str, Any]:
        """Return the ``min`` and ``max`` of a field's numbers or texts, or ``None`` for both.

        Both are ``None`` as well if the values have no common order. This reads all documents, page
        by page.
        """
        name = _without_meta_prefix(metadata_field)
        least: Any = None
        most: Any = None
        async with aclosing(self._iter_metadata(None)) as found:
            async for meta in found:
                value = meta.get(name)
                if not isinstance(value, int | float | str):
                    continue
                if least is None:
                    least = most = value
                elif isinstance(value, str) != isinstance(least, str):
                    return {"min": None, "max": None}
                least, most = min(least, value), max(most, value)
        return {"min": least, "max": most}

    @translated
    async def get_metadata_field_unique_values_async(
        self,
        metadata_field: str,
        search_term: str | None = None,
        from_: int = 0,
        size: int = 10,
        filters: Filters = None,
    ) -> tuple[list[Any], int]:
        """Return a page of the values that a field has, sorted as texts, and the number of all.

        Values of different types are different values. With *search_term* those whose text has it
        in any case. This reads the documents that *filters* accept, page by page.
        """
        name, wanted = _without_meta_prefix(metadata_field), (search_term or "").lower()
        values: dict[tuple[str, Any], Any] = {}
        async with aclosing(self._iter_metadata(filters)) as found:
            async for meta in found:
                value = meta.get(name)
                if value is not None and wanted in str(value).lower():
                    values.setdefault((type(value).__name__, _hashable(value)), value)
        keys = sorted(values, key=lambda key: (str(values[key]), key[0]))
        return [values[key] for key in keys[from_ : from_ + size]], len(keys)

    # --- Retrieval --------------------------------------------------------------------------------

    @translated
    async def embedding_retrieval_async(
        self,
        query_embedding: list[float],
        filters: Filters = None,
        top_k: int = 10,
        scale_score: bool = False,
        return_embedding: bool = False,
    ) -> list[Document]:
        """Return the *top_k* documents with the most similar embeddings, the most similar first.

        A score is the cosine or the dot product; with *scale_score* it is 0 to 1, as in Haystack's
        own store. Documents without an embedding, or with one of zeros, are not found.
        """
        if len(query_embedding) == 0:
            raise ValueError("query_embedding should be a non-empty list of floats.")
        near = await self.store.search_by_embedding(
            self._place, query_embedding, top_k, filter=native_filter(filters)
        )
        scores = [self._to_score(one.distance or 0.0, scale_score) for one in near]
        return await self._to_documents([one.item for one in near], return_embedding, scores)

    @translated
    async def keyword_retrieval_async(
        self, query: str, filters: Filters = None, top_k: int = 10
    ) -> list[Document]:
        """Return the *top_k* documents whose content and metadata have the words of *query*.

        Ranked by BM25; a score is 0 to 1. A document has at least one of the words.
        """
        if not query:
            raise ValueError("query should be a non-empty string")
        hits = await self.store.search(self._place, query, top_k, filter=native_filter(filters))
        return await self._to_documents(hits, False, [hit.score for hit in hits])

    count_documents: Final = blocking(count_documents_async)
    filter_documents: Final = blocking(filter_documents_async)
    write_documents: Final = blocking(write_documents_async)
    delete_documents: Final = blocking(delete_documents_async)
    delete_all_documents: Final = blocking(delete_all_documents_async)
    delete_by_filter: Final = blocking(delete_by_filter_async)
    update_by_filter: Final = blocking(update_by_filter_async)
    count_documents_by_filter: Final = blocking(count_documents_by_filter_async)
    count_unique_metadata_by_filter: Final = blocking(count_unique_metadata_by_filter_async)
    get_metadata_fields_info: Final = blocking(get_metadata_fields_info_async)
    get_metadata_field_min_max: Final = blocking(get_metadata_field_min_max_async)
    get_metadata_field_unique_values: Final = blocking(get_metadata_field_unique_values_async)
    embedding_retrieval: Final = blocking(embedding_retrieval_async)
    keyword_retrieval: Final = blocking(keyword_retrieval_async)

    def _options(self) -> dict[str, Any]:
        return {
            "embedding_similarity_function": self.embedding_similarity_function,
            "return_embedding": self.return_embedding,
            "index_text": self.index_text,
        }

    def _iter_items(self, where: dict[str, Any] | None) -> AsyncGenerator[StoreItem]:
        return self.store.iter_items(self._place, filter=where, order="key")

    async def _iter_metadata(self, filters: Filters) -> AsyncGenerator[dict[str, Any]]:
        async with aclosing(self._iter_items(native_filter(filters))) as items:
            async for item in items:
                yield _meta_of(item)

    async def _to_documents(
        self,
        items: Sequence[StoreItem],
        with_embedding: bool,
        scores: Sequence[float | None] | None = None,
    ) -> list[Document]:
        """Return the documents of items; their vectors take one more query, however many."""
        vectors: Mapping[Any, list[float]] = {}
        if with_embedding:
            wanted = [(one.namespace, one.key) for one in items if _is_in_table(one.value)]
            vectors = await self.store.get_embeddings(wanted) if wanted else {}
        found = []
        for at, item in enumerate(items):
            embedding = None
            if with_embedding:
                embedding = _exact_embedding(item.value)
                if embedding is None:
                    embedding = vectors.get((item.namespace, item.key))
            found.append(_to_document(item, embedding, None if scores is None else scores[at]))
        return found

    def _to_score(self, distance: float, scaled: bool) -> float:
        if self.embedding_similarity_function == "cosine":
            return 1 - distance / 2 if scaled else 1 - distance
        return float(expit(-distance / DOT_PRODUCT_SCALE)) if scaled else -distance


def _to_value(document: Document) -> dict[str, Any]:
    """Return what is stored of a document besides its vector.

    The metadata are not the item's own: databases change their types. Content and metadata are
    found by words; ids are for filters alone, and the type of a blob is bytes. The vector lies in
    float32; numbers that are not in it are stored here, too, exactly.
    """
    value: dict[str, Any] = {
        "id": wordless(document.id),
        "content": document.content,
        "meta": document.meta,
    }
    if document.blob is not None:
        blob = document.blob
        mime_type = None if blob.mime_type is None else blob.mime_type.encode()
        value["blob"] = {"data": bytes(blob.data), "meta": blob.meta, "mime_type": mime_type}
    if document.sparse_embedding is not None:
        value["sparse_embedding"] = document.sparse_embedding.to_dict()
    if document.score is not None:
        value["score"] = document.score
    if document.embedding is not None:
        numbers = np.asarray(document.embedding, dtype="<f8")
        value["dimensions"] = numbers.size
        if not numbers.any() or not np.array_equal(numbers, numbers.astype("<f4")):
            value["embedding"] = numbers.tobytes()
    return value


def _searchable_vector(document: Document) -> list[float] | None:
    """Return the embedding to be searched; one of zeros has no direction, and is not."""
    embedding = document.embedding
    return embedding if embedding is not None and any(embedding) else None


_FORM = StoredForm("document of Haystack")


@_FORM
def _is_in_table(value: Mapping[str, Any]) -> bool:
    return "dimensions" in value and "embedding" not in value


@_FORM
def _exact_embedding(value: Mapping[str, Any]) -> list[float] | None:
    if "embedding" not in value:
        return None
    numbers: list[float] = np.frombuffer(value["embedding"], dtype="<f8").tolist()
    return numbers


@_FORM
def _to_document(item: StoreItem, embedding: list[float] | None, score: float | None) -> Document:
    """Return a document, with the score that was written with it if a search has given none."""
    value = item.value
    blob, sparse = value.get("blob"), value.get("sparse_embedding")
    return Document(
        id=item.key,
        content=value["content"],
        meta=value["meta"],
        blob=None if blob is None else _to_blob(blob),
        sparse_embedding=None if sparse is None else SparseEmbedding.from_dict(sparse),
        embedding=embedding,
        score=value.get("score") if score is None else score,
    )


def _meta_of(item: StoreItem) -> dict[str, Any]:
    meta: dict[str, Any] = _FORM.fields_of(item.value, meta=dict)["meta"]
    return meta


def _to_blob(stored: Mapping[str, Any]) -> ByteStream:
    mime_type = stored["mime_type"]
    return ByteStream(
        data=stored["data"],
        meta=stored["meta"],
        mime_type=None if mime_type is None else plain_name(mime_type),
    )


def _require_filter(filters: dict[str, Any]) -> dict[str, Any]:
    where = native_filter(filters)
    if where is None:
        raise FilterError("filters are empty; delete_all_documents() deletes all documents")
    return where


def _without_meta_prefix(field: str) -> str:
    return field.removeprefix("meta.")


def _type_name(value: Any) -> str:
    if isinstance(value, bool):
        return "boolean"
    return "int" if isinstance(value, int) else "float" if isinstance(value, float) else "keyword"


def _hashable(value: Any) -> Any:
    if isinstance(value, list | tuple):
        return (type(value).__name__, tuple(map(_hashable, value)))
    if isinstance(value, dict):
        return ("dict", frozenset((name, _hashable(one)) for name, one in value.items()))
    return value
