"""Equal metadata finds here what a function that compares it finds in LangChain's own store."""

from __future__ import annotations

import uuid
from typing import Any

from beside import EQUALITIES, MANY_METADATA, each_example_again, with_present
from hypothesis import given
from hypothesis import strategies as st
from langchain_core.documents import Document
from langchain_core.embeddings import DeterministicFakeEmbedding
from langchain_core.vectorstores import InMemoryVectorStore

from memalchemy import Database
from memalchemy.integrations.langchain import MemalchemyVectorStore

MISSING = object()


@each_example_again
@given(metadata=MANY_METADATA, filters=st.lists(EQUALITIES, min_size=3, max_size=10))
def test_filters_find_what_they_find_in_langchains_store_in_memory(
    db: Database, metadata: list[dict[str, Any]], filters: list[dict[str, Any]]
) -> None:
    vectors = DeterministicFakeEmbedding(size=3)
    ours = MemalchemyVectorStore(db, embedding=vectors, namespace=(uuid.uuid4().hex,))
    theirs = InMemoryVectorStore(vectors)
    for store in (ours, theirs):
        store.add_documents(
            [Document("x", id=str(at), metadata=one) for at, one in enumerate(metadata)]
        )

    for wanted in with_present(filters, metadata):

        def is_equal(found: Document, wanted: dict[str, Any] = wanted) -> bool:
            return all(found.metadata.get(name, MISSING) == wanted[name] for name in wanted)

        expected = theirs.similarity_search("x", 100, filter=is_equal)
        found = ours.similarity_search("x", 100, filter=wanted)
        assert {one.id for one in found} == {one.id for one in expected}, wanted
        diverse = ours.max_marginal_relevance_search("x", 100, 100, filter=wanted)
        assert {one.id for one in diverse} == {one.id for one in expected}, wanted
