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

from memalchemy import Database
from memalchemy.integrations._wordless import wordless
from memalchemy.integrations.haystack import MemalchemyDocumentStore
from memalchemy.integrations.llama_index import MemalchemyVectorStore

SAID, TAG = "zebras graze", "savanna"

texts = st.text(st.characters(codec=None), max_size=12)


@settings(max_examples=500)
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
