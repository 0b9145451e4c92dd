"""Metadata finds in CrewAI's memories here what it finds in LanceDB, CrewAI's default."""

from __future__ import annotations

import uuid
from pathlib import Path
from typing import Any

from beside import EQUALITIES, MANY_METADATA, each_example_again, with_present
from crewai.memory.storage.lancedb_storage import LanceDBStorage
from crewai.memory.types import MemoryRecord
from hypothesis import given, settings
from hypothesis import strategies as st

from drawn_examples import examples
from memalchemy import Database
from memalchemy.integrations.crewai import MemalchemyMemoryStorage


@settings(each_example_again, max_examples=examples(15))
@given(metadata=MANY_METADATA, filters=st.lists(EQUALITIES, min_size=3, max_size=8))
def test_filters_find_what_they_find_in_lancedb(
    db: Database, tmp_path: Path, metadata: list[dict[str, Any]], filters: list[dict[str, Any]]
) -> None:
    name = uuid.uuid4().hex
    ours = MemalchemyMemoryStorage(db, namespace=(name,))
    theirs = LanceDBStorage(path=tmp_path / name, compact_every=0)
    for store in (ours, theirs):
        store.save(
            [
                MemoryRecord(id=str(at), content="x", metadata=one, embedding=[1.0, at / 9])
                for at, one in enumerate(metadata)
            ]
        )
    for wanted in with_present(filters, metadata):
        found, expected = (
            {one.id for one, _ in store.search([1.0, 0.0], limit=100, metadata_filter=wanted)}
            for store in (ours, theirs)
        )
        assert found == expected, wanted
