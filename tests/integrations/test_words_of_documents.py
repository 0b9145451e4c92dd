"""Searches by words find what people wrote: no ids, and no names of types, of a framework."""

from __future__ import annotations

import uuid
from collections.abc import Callable
from typing import Any

import pytest
from haystack import Document
from haystack.dataclasses import ByteStream, SparseEmbedding
from hypothesis import given, settings
from hypothesis import strategies as st
from llama_index.core.schema import (
    Document as LlamaDocument,
)
from llama_index.core.schema import (
    ImageNode,
    IndexNode,
    Node,
    NodeRelationship,
    RelatedNodeInfo,
    TextNode,
)
from llama_index.core.vector_stores.types import (
    FilterOperator,
    MetadataFilter,
    MetadataFilters,
    VectorStoreQuery,
    VectorStoreQueryMode,
)

from drawn_examples import examples
from memalchemy import Database, Store
from memalchemy.integrations._wordless import wordless
from memalchemy.integrations.haystack import MemalchemyDocumentStore
from memalchemy.integrations.llama_index import MemalchemyVectorStore

SAID, TAG = "zebras graze", "savanna"

texts = st.text(st.characters(codec=None), max_size=12)


@settings(max_examples=examples(500))
@given(texts, texts)
def test_texts_without_words_compare_as_texts_do(one: str, other: str) -> None:
    a, b = wordless(one), wordless(other)
    assert (a == b, a in b, a < b) == (one == other, one in other, one < other)


def of_document(node: Any) -> Any:
    source = RelatedNodeInfo(node_id="Doc-okapi file.txt")
    node.relationships = {NodeRelationship.SOURCE: source}
    node.embedding = [1.0, 0.0]
    return node


NODES: dict[str, Callable[[], Any]] = {
    "TextNode": lambda: TextNode(id_="node-quagga", text=SAID, metadata={"tag": TAG}),
    "ImageNode": lambda: ImageNode(
        id_="node-quagga", text=SAID, metadata={"tag": TAG}, image_mimetype="image/png"
    ),
    "IndexNode": lambda: IndexNode(
        id_="node-quagga", text=SAID, metadata={"tag": TAG}, index_id="index-eland"
    ),
    "Document": lambda: LlamaDocument(id_="node-quagga", text=SAID, metadata={"tag": TAG}),
    "Node": lambda: Node(id_="node-quagga", metadata={"tag": TAG}, text_resource={"text": SAID}),
}


@pytest.mark.parametrize("kind", NODES)
def test_nodes_are_found_by_text_and_metadata_alone(db: Database, kind: str) -> None:
    store = MemalchemyVectorStore(db, namespace=(uuid.uuid4().hex,))
    node = of_document(NODES[kind]())
    store.add([node])

    def found(words: str) -> list[str]:
        mode = VectorStoreQueryMode.TEXT_SEARCH
        return store.query(VectorStoreQuery(query_str=words, mode=mode)).ids or []

    assert found("zebras") == found(TAG) == ["node-quagga"]
    for words in ("node quagga", "Doc okapi file txt", "image png", "eland", *kind.split(), *NODES):
        assert found(words) == [], words
    (read,) = store.get_nodes()
    assert (type(read).__name__, read.node_id, read.ref_doc_id) == (
        *(kind, "node-quagga"),
        "Doc-okapi file.txt",
    )
    assert read.hash == node.hash


DOCUMENT_ID = [
    (FilterOperator.EQ, "Doc-okapi file.txt", True),
    (FilterOperator.EQ, "doc-okapi file.txt", False),
    (FilterOperator.NE, "Doc-okapi file.txt", False),
    (FilterOperator.IN, ["other", "Doc-okapi file.txt"], True),
    (FilterOperator.NIN, ["Doc-okapi file.txt"], False),
    (FilterOperator.TEXT_MATCH, "okapi", True),
    (FilterOperator.TEXT_MATCH, "OKAPI", False),
    (FilterOperator.TEXT_MATCH_INSENSITIVE, "OKAPI FILE", True),
    (FilterOperator.TEXT_MATCH_INSENSITIVE, "quagga", False),
    (FilterOperator.GT, "Doc", True),
    (FilterOperator.LT, "Doc", False),
    (FilterOperator.IS_EMPTY, None, False),
]


@pytest.mark.parametrize("key", ["doc_id", "document_id", "ref_doc_id"])
@pytest.mark.parametrize(("operator", "value", "expected"), DOCUMENT_ID)
def test_filters_find_nodes_by_the_id_of_their_document(
    db: Database, key: str, operator: FilterOperator, value: Any, expected: bool
) -> None:
    store = MemalchemyVectorStore(db, namespace=(uuid.uuid4().hex,))
    store.add([of_document(NODES["TextNode"]())])
    wanted = MetadataFilters(filters=[MetadataFilter(key=key, operator=operator, value=value)])
    assert bool(store.get_nodes(filters=wanted)) is expected
    store.delete("Doc-okapi")
    assert len(store.get_nodes()) == 1
    store.delete("Doc-okapi file.txt")
    assert store.get_nodes() == []


def test_documents_are_found_by_content_and_metadata_alone(db: Database) -> None:
    store = MemalchemyDocumentStore(db, namespace=(uuid.uuid4().hex,))
    given = Document(
        id="document-quagga",
        content=SAID,
        meta={"tag": TAG},
        blob=ByteStream(b"PNG okapi", meta={}, mime_type="image/png"),
        sparse_embedding=SparseEmbedding([1], [0.5]),
        embedding=[1.0, 0.0],
        score=0.25,
    )
    store.write_documents([given, Document(content="others", blob=ByteStream(b"x"))])

    def found(words: str) -> list[str]:
        return [one.id for one in store.keyword_retrieval(words)]

    assert found("zebras") == found(TAG) == ["document-quagga"]
    for words in ("image", "png", "document", "quagga", "okapi", "application octet stream"):
        assert found(words) == [], words
    wanted = {"field": "id", "operator": "==", "value": "document-quagga"}
    (read,) = store.filter_documents(wanted)
    assert read == given
    for operator, value, number in (
        ("!=", "document-quagga", 1),
        ("in", ["document-quagga", "other"], 1),
        ("not in", ["document-quagga"], 1),
        ("in", [], 0),
    ):
        wanted = {"field": "id", "operator": operator, "value": value}
        assert len(store.filter_documents(wanted)) == number, operator


async def test_rows_with_plain_ids_and_types_are_read_and_found(db: Database) -> None:
    nodes = MemalchemyVectorStore(db, namespace=(uuid.uuid4().hex,))
    documents = MemalchemyDocumentStore(db, namespace=(uuid.uuid4().hex,))
    node = of_document(NODES["TextNode"]())
    document = Document(id="plain", content=SAID, blob=ByteStream(b"x", mime_type="image/png"))
    await nodes.async_add([node])
    await documents.write_documents_async([document])
    store = Store(db)
    for place in (nodes._place, documents._place):
        (item,) = [item async for item in store.iter_items(place)]
        value = item.value | {"id": item.key}
        if "type" in value:
            value |= {"type": value["type"].decode(), "ref_doc_id": node.ref_doc_id}
        else:
            value["blob"]["mime_type"] = "image/png"
        await store.put(place, item.key, value, item.metadata, index=False)

    (read,) = await nodes.aget_nodes([node.node_id])
    assert read.hash == node.hash
    of_it = MetadataFilter(key="doc_id", operator=FilterOperator.EQ, value=node.ref_doc_id)
    assert len(await nodes.aget_nodes(filters=MetadataFilters(filters=[of_it]))) == 1
    for operator, value in (("==", "plain"), ("in", ["plain"])):
        wanted = {"field": "id", "operator": operator, "value": value}
        assert await documents.filter_documents_async(wanted) == [document]
    await nodes.adelete(node.ref_doc_id)
    assert await nodes.aget_nodes() == []
