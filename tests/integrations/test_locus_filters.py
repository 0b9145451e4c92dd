"""Equal metadata finds in locus' store what it finds in its store of documents in memory."""

from __future__ import annotations

import uuid
from typing import Any

from beside import EQUALITIES, MANY_METADATA, each_example_again, with_present
from hypothesis import given
from hypothesis import strategies as st
from locus.rag.stores.base import Document
from locus.rag.stores.memory import InMemoryVectorStore

from memalchemy import Database
from memalchemy.integrations.locus import MemalchemyStore


@each_example_again
@given(metadata=MANY_METADATA, filters=st.lists(EQUALITIES, min_size=3, max_size=10))
async def test_metadata_finds_what_it_finds_in_locus_store_of_documents(
    db: Database, metadata: list[dict[str, Any]], filters: list[dict[str, Any]]
) -> None:
    ours, theirs = MemalchemyStore(db), InMemoryVectorStore(dimension=2)
    here = (uuid.uuid4().hex,)
    for at, one in enumerate(metadata):
        await ours.put_with_embedding(here, str(at), "x", [1.0, at / 9], one)
        await theirs.add(Document(id=str(at), content="x", embedding=[1.0, at / 9], metadata=one))
    for wanted in with_present(filters, metadata):
        if None in wanted.values():
            continue  # which here is a stored None, and not a missing name
        found = await ours.search_by_embedding(here, [1.0, 0.0], 100, metadata_filter=wanted)
        expected = await theirs.search([1.0, 0.0], 100, metadata_filter=wanted)
        assert {one.item.key for one in found} == {one.document.id for one in expected}, wanted
