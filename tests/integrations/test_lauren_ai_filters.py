"""Filters of lauren-ai's documents find here what they find in its own store in memory."""

from __future__ import annotations

import uuid
from typing import Any

from beside import EQUALITIES, MANY_METADATA, each_example_again, with_present
from hypothesis import given
from hypothesis import strategies as st
from lauren_ai import InMemoryVectorStore

from memalchemy import Database
from memalchemy.integrations.lauren_ai import MemalchemyVectorStore


@each_example_again
@given(metadata=MANY_METADATA, filters=st.lists(EQUALITIES, min_size=3, max_size=10))
async def test_filters_find_what_they_find_in_lauren_ais_store_in_memory(
    db: Database, metadata: list[dict[str, Any]], filters: list[dict[str, Any]]
) -> None:
    ours = MemalchemyVectorStore(db, namespace=(uuid.uuid4().hex,))
    theirs = InMemoryVectorStore()
    for at, one in enumerate(metadata):
        await ours.upsert("policy", id=str(at), metadata=one)
        await theirs.upsert("policy", id=str(at), metadata=one)
    for wanted in with_present(filters, metadata):
        found = await ours.search("policy", k=100, filter=wanted)
        expected = await theirs.search("policy", k=100, filter=wanted)
        assert {one.id for one in found} == {one.id for one in expected}, wanted
