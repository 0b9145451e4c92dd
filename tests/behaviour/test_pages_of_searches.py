"""Pages of a search fit together: none overlaps another, nothing is lost, whatever their size."""

from __future__ import annotations

import asyncio
import uuid
from collections.abc import AsyncIterator
from random import Random
from typing import Any

import numpy as np
import pytest

from memalchemy import Database, NewItem, Store, VectorStore

HERE = ("paged",)
NUMBER = 620
"""Items: more than are ranked at once."""
QUERY = "common blue boat"
WORDS = ("red", "green", "blue", "fast", "slow", "car", "boat", "plane", "tree", "house", "river")
DIMENSIONS = 24
VECTOR = np.random.default_rng(4).normal(size=DIMENSIONS)
BORDERS = (0, 24, 25, 99, 100, 199, 200, 499, 500, NUMBER - 1)
"""Hits before and behind which another set of hits is ranked."""

SEARCHES: dict[str, dict[str, Any]] = {
    "text": {"mode": "text"},
    "vector": {"mode": "vector"},
    "hybrid": {"mode": "hybrid"},
    "hybrid, mostly words": {"mode": "hybrid", "alpha": 0.1},
    "hybrid, words alone": {"mode": "hybrid", "alpha": 0.0},
    "hybrid with a filter": {"mode": "hybrid", "filter": {"n": {"$ne": 3}}},
    "hybrid with a narrow filter": {"mode": "hybrid", "filter": {"n": 3}},
    "vector with a filter": {"mode": "vector", "filter": {"n": {"$nin": [2, 4]}}},
    "diverse": {"mode": "vector", "mmr": 0.5},
    "diverse, near relevance": {"mode": "vector", "mmr": 0.95},
    "diverse hybrid": {"mode": "hybrid", "mmr": 0.4},
    "diverse with a filter": {"mode": "vector", "mmr": 0.3, "filter": {"n": {"$ne": 3}}},
}


def items() -> list[NewItem]:
    """Texts of which many hold the words of the query; some have the vector of another."""
    dice, random = Random(5), np.random.default_rng(5)
    vectors = random.normal(size=(NUMBER, DIMENSIONS))
    made = []
    for number in range(NUMBER):
        text = " ".join(dice.choices(WORDS, k=dice.randint(3, 12)))
        text += " common" if number % 3 else ""
        vector = vectors[number // 2 if number % 5 == 0 else number]
        value = {"content": text, "n": number % 7}
        made.append(NewItem(HERE, f"k{number:04}", value, {}, embedding=vector))
    return made


async def embedder(texts: list[str]) -> list[Any]:
    return [VECTOR for _ in texts]


@pytest.fixture(scope="module")
def tenant(shared_url: str, database: str) -> str:
    made = f"t-{uuid.uuid4().hex[:16]}"

    async def fill() -> None:
        async with Database(shared_url, tenant=made) as db:
            await Store(db).put_batch(items())

    asyncio.run(fill())
    return made


@pytest.fixture
async def db(shared_url: str, tenant: str, database: str) -> AsyncIterator[Database]:
    async with Database(shared_url, tenant=tenant) as made:
        if database == "sqlite-memory":  # it began with this object
            await Store(made).put_batch(items())
        yield made


async def found(store: Store, given: dict[str, Any], offset: int, limit: int) -> list[Any]:
    embedding = None if given["mode"] == "text" else VECTOR
    hits = await store.search(HERE, QUERY, embedding=embedding, offset=offset, limit=limit, **given)
    return [(hit.key, hit.score) for hit in hits]


@pytest.mark.parametrize("size", [7, 60, 101, 333])
@pytest.mark.parametrize("name", SEARCHES)
async def test_a_page_is_that_part_of_the_whole(db: Database, name: str, size: int) -> None:
    store, given = Store(db), SEARCHES[name]
    whole = await found(store, given, 0, NUMBER)
    assert len({key for key, _ in whole}) == len(whole) > 50
    if "mmr" not in given:
        assert [score for _, score in whole] == sorted((s for _, s in whole), reverse=True)
    for page in sorted({hit // size for hit in (*BORDERS, size) if hit < len(whole)}):
        start = page * size
        assert await found(store, given, start, size) == whole[start : start + size]


@pytest.mark.parametrize("name", ["vector", "hybrid", "diverse", "diverse hybrid"])
async def test_all_pages_together_have_each_item_once(db: Database, name: str) -> None:
    store, size, pages = Store(db), 90, list[str]()
    while page := await found(store, SEARCHES[name], len(pages), size):
        pages += [key for key, _ in page]
    assert sorted(pages) == sorted(item.key for item in items())


@pytest.mark.parametrize("more", [{}, {"alpha": 0.2}, {"mmr": 0.5}, {"mmr": 0.5, "alpha": 0.8}])
async def test_more_documents_begin_with_those_of_a_smaller_number(
    db: Database, more: dict[str, Any]
) -> None:
    documents = VectorStore(db, embedder=embedder, namespace=HERE)
    longest = [hit.id for hit in await documents.search(QUERY, k=450, **more)]
    assert len(set(longest)) == len(longest) > 100
    for k in (1, 5, 24, 26, 90, 120):
        assert [hit.id for hit in await documents.search(QUERY, k=k, **more)] == longest[:k]
