"""What a framework loads comes from the primary: it finds what it wrote a moment ago."""

from __future__ import annotations

import uuid
from collections.abc import Iterator
from typing import Any

import pytest
from subjects import INSTALLED

from memalchemy import Database
from memalchemy.conformance import Subject
from servers import Postgres, migrated_database

SEARCHED = ("Haystack's documents",)
"""What is only found by a search, which a replica may answer."""
SUBJECTS = {
    name: subject
    for module in INSTALLED.values()
    for name, subject in module.SUBJECTS.items()
    if name not in SEARCHED
}


@pytest.fixture(scope="module")
def urls(postgres: Postgres) -> Iterator[tuple[str, str]]:
    """A primary, and a replica that has replayed the schema and nothing since."""
    with migrated_database(postgres) as primary, migrated_database(postgres) as replica:
        yield postgres.url(primary), postgres.url(replica)


@pytest.mark.parametrize("subject", SUBJECTS.values(), ids=[*SUBJECTS])
async def test_what_was_written_is_read(urls: tuple[str, str], subject: Subject[Any]) -> None:
    tenant = f"t-{uuid.uuid4().hex[:16]}"
    async with Database(urls[0], read_url=urls[1], tenant=tenant) as db:
        adapter = subject.open(db)
        for text in ("first", "second"):
            await subject.write(adapter, "ada-1", text)

        found = await subject.read(adapter, "ada-1")

    assert found == (["first", "second"] if subject.appends else ["second"])
