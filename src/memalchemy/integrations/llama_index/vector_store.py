"""`MemalchemyVectorStore`: LlamaIndex's nodes, found by meaning, by words and by metadata."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from contextlib import aclosing
from typing import Any

import orjson
from llama_index.core.bridge.pydantic import Field, PrivateAttr
from llama_index.core.schema import (
    BaseNode,
    Document,
    ImageDocument,
    ImageNode,
    IndexNode,
    MetadataMode,
    Node,
    TextNode,
)
from llama_index.core.vector_stores.types import (
    BasePydanticVectorStore,
    MetadataFilters,
    VectorStoreQuery,
    VectorStoreQueryMode,
    VectorStoreQueryResult,
)

from memalchemy._bounds import parse_plain_json
from memalchemy.contracts import NewItem, StoreItem
from memalchemy.filters import Filter
from memalchemy.integrations._base import Adapter, AnyDatabase, SyncAdapter, blocking
from memalchemy.integrations._stored_forms import StoredForm
from memalchemy.integrations._wordless import plain_name, wordless
from memalchemy.integrations.llama_index._filters import (
    document_fields,
    native_filter,
    without_text,
)
from memalchemy.integrations.llama_index._pydantic_adapter import ModelAdapter
from memalchemy.keys import check_list
from memalchemy.store import Store

NODES: dict[str, type[BaseNode]] = {
    cls.class_name(): cls for cls in (TextNode, ImageNode, IndexNode, Node, Document, ImageDocument)
}
"""The classes of nodes that are restored; a node of a subclass becomes one of these."""

MMR_THRESHOLD = 0.5
"""LlamaIndex's default."""

WORDS = (VectorStoreQueryMode.TEXT_SEARCH, VectorStoreQueryMode.SPARSE)
VECTORS = (VectorStoreQueryMode.DEFAULT, VectorStoreQueryMode.MMR)


class MemalchemyVectorStore(ModelAdapter, SyncAdapter, BasePydanticVectorStore):
    """Stores nodes with their texts, metadata and vectors, which any process finds.

    A call of `add` or of a deletion is done as a whole or not at all. Nodes that are read are new
    objects, and have no embedding, as in LlamaIndex's other stores.

    Args:
        db: a URL, the path of a SQLite file, a `Database`, a `memalchemy.sync.Database` or an
            `AsyncEngine`. Without it, the URL in ``MEMALCHEMY_URL``, or else a database in memory
            for this object alone.
        namespace: keeps the nodes of several indexes apart in one database.
        index_text: make the words of nodes searchable, which the modes ``text_search`` and
            ``hybrid`` need.

    Raises, from any method:
        DatabaseUnreachable, AuthenticationFailed, SchemaOutdated, SchemaTooNew.
        Corrupt, KeyMissing, NotEncrypted: a stored node cannot be read.
        NotSerialisable, TooLarge: a node cannot be stored; nothing was written.
        StoreCapabilityError: the database is encrypted and may hold no vectors or words.
    """

    stores_text: bool = Field(default=True, exclude=True)
    is_embedding_query: bool = Field(default=True, exclude=True)

    _store: Store = PrivateAttr()
    _place: tuple[str, ...] = PrivateAttr()

    def __init__(
        self,
        db: AnyDatabase | None = None,
        *,
        namespace: Iterable[str] = (),
        index_text: bool = True,
    ) -> None:
        BasePydanticVectorStore.__init__(self, stores_text=True)
        Adapter.__init__(self, db, namespace=namespace)
        self._store = Store(self.db, index_text=index_text)
        self._place = (*self.namespace, "nodes")

    @classmethod
    def class_name(cls) -> str:
        """Return the name under which LlamaIndex knows the class."""
        return "MemalchemyVectorStore"

    @property
    def client(self) -> Store:
        """The store underneath; a node is an item, its id the key."""
        return self._store

    async def async_add(self, nodes: Sequence[BaseNode], **kwargs: Any) -> list[str]:
        """Write nodes with their embeddings, replacing those of the same ids; return the ids.

        Raises:
            ValueError: a node has no embedding, or one that is zero or not finite.
        """
        items = [
            NewItem(
                self._place,
                node.node_id,
                _to_value(node),
                embedding=node.get_embedding(),
            )
            for node in nodes
        ]
        await self._store.put_batch(items)
        return [item.key for item in items]

    async def adelete(self, ref_doc_id: str, **delete_kwargs: Any) -> None:
        """Delete the nodes of a document."""
        where = native_filter(None, documents=[ref_doc_id])
        assert where is not None
        await self._store.delete_matching(self._place, where)

    async def adelete_nodes(
        self,
        node_ids: list[str] | None = None,
        filters: MetadataFilters | None = None,
        **delete_kwargs: Any,
    ) -> None:
        """Delete the nodes with these ids, or that pass *filters*; with both, those that do both.

        Raises:
            ValueError: neither is given; `clear` deletes all nodes.
        """
        ids = None if node_ids is None else check_list(node_ids, "node_ids")
        if ids is not None and not (filters and filters.filters):
            await self._store.delete_batch([(self._place, node_id) for node_id in ids])
            return
        where = native_filter(filters, ids=ids)
        if where is None:
            raise ValueError("give node_ids or filters; clear() deletes all nodes")
        await self._check_texts(filters, ids)
        await self._store.delete_matching(self._place, where)

    async def aget_nodes(
        self, node_ids: list[str] | None = None, filters: MetadataFilters | None = None
    ) -> list[BaseNode]:
        """Return the nodes with these ids, in their order, or all by id; that pass *filters*."""
        where = native_filter(filters)
        ids = None if node_ids is None else check_list(node_ids, "node_ids")
        await self._check_texts(filters, ids)
        if ids is not None:
            found = await self._store.get_items((self._place, one) for one in ids)
            accepts = Filter.parse(where)
            return [
                _to_node(item)
                for item in found.values()
                if accepts is None or accepts.matches(item.value, item.metadata)
            ]
        items = self._store.iter_items(self._place, filter=where, order="key")
        async with aclosing(items):
            return [_to_node(item) async for item in items]

    async def aclear(self) -> None:
        """Delete all nodes of this store."""
        await self._store.clear_namespace(self._place)

    async def aquery(self, query: VectorStoreQuery, **kwargs: Any) -> VectorStoreQueryResult:
        """Return the nodes that answer a query best, with their similarities, the best first.

        ``default`` and ``mmr`` go by the vector: a similarity is a cosine. ``text_search`` and
        ``sparse`` go by the words of the query, ``hybrid`` by both: a similarity is 0 to 1.
        ``alpha`` is the weight of the vector, 0 to 1.

        Raises:
            ValueError: another mode, no vector or no words where the mode needs them, or a filter
                that is not supported.
            TypeError: a filter looks for a part of a text where a node has something else.
        """
        # LlamaIndex's retriever gives an empty list where it restricts nothing.
        where = native_filter(
            query.filters, ids=query.node_ids or None, documents=query.doc_ids or None
        )
        await self._check_texts(query.filters, query.node_ids or None)
        limit, mode = query.similarity_top_k, query.mode
        if mode is VectorStoreQueryMode.DEFAULT:
            near = await self._store.search_by_embedding(
                self._place, _require_vector(query), limit, filter=where
            )
            return _to_result([(one.item, 1 - (one.distance or 0.0)) for one in near])
        if mode is VectorStoreQueryMode.MMR:
            given = kwargs.get("mmr_threshold", query.mmr_threshold)
            diverse = await self._store.search(
                self._place,
                mode="vector",
                embedding=_require_vector(query),
                limit=limit,
                filter=where,
                mmr=MMR_THRESHOLD if given is None else given,
            )
            return _to_result([(hit, 2 * (hit.score or 0.0) - 1) for hit in diverse])
        if mode in WORDS:
            hits = await self._store.search(self._place, _require_words(query), limit, filter=where)
        elif mode is VectorStoreQueryMode.HYBRID:
            if query.hybrid_top_k is not None:
                limit = query.hybrid_top_k
            hits = await self._store.search(
                self._place,
                _require_words(query),
                limit,
                mode="hybrid",
                embedding=_require_vector(query),
                alpha=query.alpha,
                filter=where,
            )
        else:
            known = ", ".join(one.value for one in (*VECTORS, *WORDS, VectorStoreQueryMode.HYBRID))
            raise ValueError(f"the query mode {mode.value!r} is not supported; supported: {known}")
        return _to_result([(hit, hit.score or 0.0) for hit in hits])

    add = blocking(async_add)  # type: ignore[arg-type]
    delete = blocking(adelete)  # type: ignore[arg-type]
    delete_nodes = blocking(adelete_nodes)  # type: ignore[arg-type]
    get_nodes = blocking(aget_nodes)
    clear = blocking(aclear)
    query = blocking(aquery)  # type: ignore[arg-type]

    async def _check_texts(self, filters: MetadataFilters | None, ids: list[str] | None) -> None:
        """Refuse a search for a part of a text where a node has something else, as theirs does."""
        where = without_text(filters, ids=ids)
        if where is None:
            return
        for item in await self._store.list_items(self._place, filter=where, limit=1):
            raise TypeError(
                f"a filter looks for a part of a text in what is none in node {item.key!r}"
            )


def _to_value(node: BaseNode) -> dict[str, Any]:
    """Return what is stored of a node besides its vector.

    Text and metadata are readable, and found by words. Ids are for filters alone, and the rest is
    bytes: no search finds the hashes and names in it. The metadata are not the item's own:
    databases sort the keys of those, and the order is a part of what a model reads and of the
    node's hash.
    """
    known = [name for cls in type(node).__mro__ for name, one in NODES.items() if one is cls]
    if not known:
        raise TypeError(f"a {type(node).__name__} cannot be stored: {', '.join(NODES)} can")
    text = node.get_content(metadata_mode=MetadataMode.NONE)
    rest = node.model_dump(mode="json", exclude={"metadata", "embedding"})
    if "text" in rest:
        rest["text"] = ""
    elif resource := rest.get("text_resource"):
        resource["text"] = None
    return {
        "id": wordless(node.node_id),
        **document_fields(node.ref_doc_id),
        "type": known[0].encode(),
        "text": text,
        "metadata": node.metadata,
        "node": orjson.dumps(rest),
    }


@StoredForm("node of LlamaIndex")
def _to_node(item: StoreItem) -> BaseNode:
    rest = parse_plain_json(item.value["node"])
    if "text" in rest:
        rest["text"] = item.value["text"]
    elif resource := rest.get("text_resource"):
        resource["text"] = item.value["text"]
    return NODES[plain_name(item.value["type"])].from_dict(
        rest | {"metadata": item.value["metadata"]}
    )


def _to_result(found: list[tuple[StoreItem, float]]) -> VectorStoreQueryResult:
    return VectorStoreQueryResult(
        nodes=[_to_node(item) for item, _ in found],
        similarities=[similarity for _, similarity in found],
        ids=[item.key for item, _ in found],
    )


def _require_vector(query: VectorStoreQuery) -> list[float]:
    if query.query_embedding is None:
        raise ValueError(f"the query mode {query.mode.value!r} needs query_embedding")
    return query.query_embedding


def _require_words(query: VectorStoreQuery) -> str:
    if query.query_str is None:
        raise ValueError(f"the query mode {query.mode.value!r} needs query_str")
    return query.query_str
