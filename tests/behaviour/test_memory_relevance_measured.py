"""Facts are found by prompts as well as by meaning alone, on a hundred and sixty prompts.

The vectors are those of a real sentence model: see `benchmarks.memory_relevance`.
"""

from __future__ import annotations

import random
from datetime import UTC, datetime, timedelta

import pytest
from benchmarks.memory_relevance.people import PEOPLE
from benchmarks.memory_relevance.recorded import RecordedModel

from memalchemy import Database, MemoryFact, Store, UserMemoryStore


@pytest.mark.asyncio_only("the order does not depend on who asks")
async def test_facts_are_found_as_well_as_by_meaning_alone_however_old_they_are(
    db: Database,
) -> None:
    store = Store(db, embedder=RecordedModel())
    facts, ranks = UserMemoryStore(store), dict[str, list[float]]()
    draw = random.Random(0)
    for user, known in PEOPLE.items():
        contents = [one.fact for one in known]

        async def learn(at: int, days: int, user: str = user, of: list[str] = contents) -> None:
            seen = datetime.now(UTC) - timedelta(days=days)
            await facts.add(MemoryFact(f"{at}", user, of[at], last_seen_at=seen))

        async def rank(way: str, wanted: int, prompt: str, user: str = user) -> None:
            if way == "meaning alone":
                hits = await store.search(("facts", user), prompt, 99, mode="vector")
                found = [hit.key for hit in hits]
            else:
                found = [one.memory_id for one in await facts.search(user, prompt, 99)]
            ranks.setdefault(way, []).append(1 / (found.index(f"{wanted}") + 1))

        for at in range(len(known)):
            await learn(at, 0)
        for at, one in enumerate(known):
            await rank("meaning alone", at, one.prompt)
            await rank("all seen today", at, one.prompt)
            await learn(at, 60)
            await rank("seen sixty days ago, the others today", at, one.prompt)
            await learn(at, 0)
        for at in range(len(known)):
            await learn(at, draw.randrange(180))
        for at, one in enumerate(known):
            await rank("all seen in the last half year", at, one.prompt)

    means = {way: sum(some) / len(some) for way, some in ranks.items()}
    assert len(ranks["all seen today"]) >= 100
    assert 0.7 < means["meaning alone"] == min(means.values()) < 0.8, means
