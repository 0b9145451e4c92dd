"""A vector search with a filter finds what numpy finds, for every operator, with an index or not.

The operators are those that the library names itself when it is given an unknown one.
"""

from __future__ import annotations

import asyncio
import re
import uuid
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import contextmanager
from datetime import timedelta
from itertools import pairwise
from typing import Any, NamedTuple

import pytest
from vector_corpus import CLUSTERS, FIRST_DAY, HERE, NUMBER, Corpus, check_hits

from memalchemy import Database, NewItem, Store
from memalchemy.events import subscribe_statements
from memalchemy.filters import Filter
from memalchemy.search.indexes import build_index
from servers import Postgres


class Selection(NamedTuple):
    """A filter, and the clusters whose items pass it."""

    filter: dict[str, Any]
    clusters: set[int]


ALL = set(range(CLUSTERS))


def day(cluster: int) -> str:
    return (FIRST_DAY + timedelta(days=cluster)).isoformat()


def topic(cluster: int) -> str:
    return f"topic {cluster:02}"


UNDER_A_FIELD: dict[str, Callable[[int], Selection]] = {
    "$eq": lambda one: Selection({"topic": {"$eq": topic(one)}}, {one}),
    "$ne": lambda one: Selection({"cluster": {"$ne": one}}, ALL - {one}),
    "$gt": lambda one: Selection({"cluster": {"$gt": one}}, set(range(one + 1, CLUSTERS))),
    "$gte": lambda one: Selection({"topic": {"$gte": topic(one)}}, set(range(one, CLUSTERS))),
    "$lt": lambda one: Selection({"cluster": {"$lt": one}}, set(range(one))),
    "$lte": lambda one: Selection({"topic": {"$lte": topic(one)}}, set(range(one + 1))),
    "$in": lambda one: Selection({"topic": {"$in": [topic(one), "none"]}}, {one}),
    "$nin": lambda one: Selection({"cluster": {"$nin": sorted(ALL - {one})}}, {one}),
    "$contains": lambda one: Selection({"tags": {"$contains": topic(one)}}, {one}),
    "$icontains": lambda one: Selection({"topic": {"$icontains": f"PIC {one:02}"}}, {one}),
    "$exists": lambda one: Selection({f"only{one}": {"$exists": True}}, {one}),
    "$type": lambda one: Selection({f"only{one}": {"$type": "boolean"}}, {one}),
    "$any": lambda one: Selection({"tags": {"$any": {"$eq": topic(one)}}}, {one}),
    "$date": lambda one: Selection(
        {"day": {"$date": {"$gte": day(one), "$lt": day(one + 1)}}}, {one}
    ),
    "$not": lambda one: Selection({"cluster": {"$not": {"$ne": one}}}, {one}),
}
BESIDE_FIELDS: dict[str, Callable[[int], Selection]] = {
    "$and": lambda one: Selection(
        {"$and": [{"tags": {"$contains": "all"}}, {"day": {"$date": {"$eq": day(one)}}}]}, {one}
    ),
    "$or": lambda one: Selection(
        {"$or": [{"tags": {"$contains": topic(one)}}, {"topic": "none"}]}, {one}
    ),
    "$not": lambda one: Selection({"$not": {"cluster": {"$ne": one}}}, {one}),
    "$value": lambda one: Selection({"$value": {"tags": {"$contains": topic(one)}}}, {one}),
    "$metadata": lambda one: Selection({"$metadata": {"group": {"$nin": [one]}}}, ALL - {one}),
}
CASES = [
    pytest.param(build, id=f"{name} {where}")
    for where, table in (("under a field", UNDER_A_FIELD), ("beside fields", BESIDE_FIELDS))
    for name, build in table.items()
]


def names_that_are_known(filter: dict[str, Any]) -> set[str]:
    with pytest.raises(ValueError, match="unknown operator") as caught:
        Filter.parse(filter)
    known = re.search("known there are (.*)\\. A field", str(caught.value))
    assert known
    return set(known[1].split(", "))


def test_every_operator_is_among_the_cases() -> None:
    assert names_that_are_known({"field": {"$unknown": 1}}) == set(UNDER_A_FIELD)
    assert names_that_are_known({"$unknown": 1}) == set(BESIDE_FIELDS)


@pytest.fixture(scope="module")
def corpus() -> Corpus:
    return Corpus()


@pytest.fixture(scope="module")
def filled(shared_url: str, database: str, corpus: Corpus) -> tuple[str, str]:
    """A database with the items: its URL and the tenant."""
    return shared_url, _fill(shared_url, corpus)


def _fill(url: str, corpus: Corpus) -> str:
    tenant = f"t-{uuid.uuid4().hex[:16]}"

    async def fill() -> None:
        async with Database(url, tenant=tenant) as db:
            await corpus.put(db)

    asyncio.run(fill())
    return tenant


@pytest.fixture
async def clustered(filled: tuple[str, str], database: str, corpus: Corpus) -> AsyncIterator[Store]:
    url, tenant = filled
    async with Database(url, tenant=tenant) as db:
        if database == "sqlite-memory":  # it began with this object
            await corpus.put(db)
        yield Store(db)


@pytest.fixture(scope="module")
def indexed(postgres: Postgres, name: str, corpus: Corpus) -> tuple[str, str]:
    """A database of PostgreSQL with the items and an index of their vectors."""
    url = postgres.url(name)
    tenant = _fill(url, corpus)
    _fill(url, Corpus(seed=8))  # another tenant's, in the same index

    async def build() -> None:
        async with Database(url) as db:
            await build_index(db, dimensions=corpus.vectors.shape[1])

    asyncio.run(build())
    return url, tenant


async def check(
    store: Store, corpus: Corpus, build: Callable[[int], Selection], limits: tuple[int, ...]
) -> list[str]:
    """Search where the matches are near, far and between; return the strategies."""
    strategies = []
    query = corpus.query()
    by_distance = corpus.clusters_by_distance(query)
    for one in (by_distance[0], by_distance[CLUSTERS // 2], by_distance[-1]):
        filter, clusters = build(one)
        for limit in limits:
            hits = await store.search(
                HERE, mode="vector", embedding=query, filter=filter, limit=limit, explain=True
            )
            check_hits(hits, corpus.best(query, clusters, limit), corpus.scores(query))
            strategies.append(hits.plans[0].strategy)
    return strategies


@pytest.mark.parametrize("build", CASES)
async def test_the_hits_are_those_of_numpy(
    clustered: Store, corpus: Corpus, build: Callable[[int], Selection]
) -> None:
    assert set(await check(clustered, corpus, build, (10,))) == {"exact vectors"}


@pytest.mark.parametrize("build", CASES)
async def test_with_an_index_the_hits_are_those_of_numpy(
    indexed: tuple[str, str], corpus: Corpus, build: Callable[[int], Selection]
) -> None:
    url, tenant = indexed
    async with Database(url, tenant=tenant) as db:
        strategies = await check(Store(db), corpus, build, (5, 10, 150))
    assert "exact vectors" in strategies  # where most of the nearest do not match


async def test_an_index_serves_a_filter_that_most_of_the_nearest_pass(
    indexed: tuple[str, str], corpus: Corpus
) -> None:
    url, tenant = indexed
    async with Database(url, tenant=tenant) as db:
        for _ in range(10):
            query = corpus.query()
            far = corpus.clusters_by_distance(query)[-1]
            hits = await Store(db).search(
                HERE,
                mode="vector",
                embedding=query,
                filter={"topic": {"$ne": topic(far)}},
                explain=True,
            )
            check_hits(hits, corpus.best(query, ALL - {far}, 10), corpus.scores(query))
            assert [plan.strategy for plan in hits.plans] == ["hnsw"]


@pytest.mark.parametrize("size", [7, 40, 100, 333])
@pytest.mark.parametrize("which", ["no filter", "near", "far", "all but the nearest"])
async def test_pages_of_an_index_fit_together(
    indexed: tuple[str, str], corpus: Corpus, size: int, which: str
) -> None:
    url, tenant = indexed
    query = corpus.query()
    by_distance = corpus.clusters_by_distance(query)
    filter = {
        "no filter": None,
        "near": {"tags": {"$contains": topic(by_distance[0])}},
        "far": {"tags": {"$contains": topic(by_distance[-1])}},
        "all but the nearest": {"topic": {"$ne": topic(by_distance[0])}},
    }[which]
    most = 1200
    async with Database(url, tenant=tenant) as db:
        store = Store(db)

        async def search(offset: int, limit: int) -> list[tuple[str, Any]]:
            hits = await store.search(
                HERE, mode="vector", embedding=query, filter=filter, offset=offset, limit=limit
            )
            return [(hit.key, hit.score) for hit in hits]

        whole = await search(0, most)
        scores = [score for _, score in whole]
        # What the index overlooks comes behind all that it finds.
        runs = 1 + sum(after > before for before, after in pairwise(scores))
        assert runs <= 2
        assert len({key for key, _ in whole}) == len(whole) > 0
        pages = {hit // size for hit in (0, size, 19, 20, 99, 100, 499, 500, 1000, most - 1)}
        for offset in sorted(page * size for page in pages):
            limit = min(size, most - offset)
            assert await search(offset, limit) == whole[offset : offset + limit]


@contextmanager
def statements() -> Iterator[list[str]]:
    """Yield a list of the statements that are sent meanwhile."""
    sent: list[str] = []
    stop = subscribe_statements(lambda event: sent.append(event.sql))
    try:
        yield sent
    finally:
        stop()


@pytest.mark.needs("an index of fields")
async def test_a_filter_that_matches_nothing_takes_few_statements(clustered: Store) -> None:
    with statements() as sent:
        hits = await clustered.search(
            HERE,
            mode="vector",
            embedding=[1.0] * 16,
            filter={"topic": {"$contains": "nowhere"}},
        )
    assert hits == []
    about_items = [sql for sql in sent if "checksum" in sql]
    assert 0 < len(about_items) < NUMBER / 250  # a page is nine times as long as all before it


EITHER = [
    {"$or": [{"cluster": 3}, {"cluster": {"$eq": 5}}]},
    {"$or": [{"/cluster": 3}, {"$and": [{"cluster": 5}, {"tags": {"$contains": "all"}}]}]},
    {"$or": [{"$or": [{"cluster": 3}, {"cluster": {"$in": [5]}}]}, {"cluster": 99}]},
]


@pytest.mark.needs("an index of fields")
@pytest.mark.parametrize("filter", EITHER, ids=["plain", "with more", "nested"])
async def test_a_field_that_equals_one_or_another_is_narrowed_as_by_a_list(
    clustered: Store, corpus: Corpus, filter: dict[str, Any]
) -> None:
    async def search(filter: dict[str, Any]) -> tuple[list[str], bool]:
        with statements() as sent:
            hits = await clustered.search(
                HERE, mode="vector", embedding=corpus.vectors[0], filter=filter, limit=30
            )
        asks_index = any(" @@ " in sql or " MATCH " in sql for sql in sent)
        return [hit.key for hit in hits], asks_index

    found, asks_index = await search(filter)
    assert len(found) == 30
    assert asks_index
    assert await search({"cluster": {"$in": [3, 5]}}) == (found, True)
    assert await search({"cluster": {"$not": {"$nin": [3, 5]}}}) == (found, False)


@pytest.mark.needs("an index of fields")
async def test_alternatives_of_which_none_exists_are_no_candidates(db: Database) -> None:
    store = Store(db, index_text=False)
    await store.put_batch(
        [NewItem(HERE, f"k{n}", {"n": n % 7}, embedding=[1.0, n + 1.0]) for n in range(300)]
    )
    nothing = {"$or": [{"n": 70}, {"n": 71}]}
    with statements() as sent:
        hits = await store.search(HERE, mode="vector", embedding=[1.0, 1.0], filter=nothing)
    assert sent
    assert hits == []
    assert [sql for sql in sent if "checksum" in sql] == []
    some = {"$or": [{"n": 3}, {"n": 71}]}
    hits = await store.search(HERE, mode="vector", embedding=[1.0, 1.0], filter=some, limit=500)
    assert len(hits) == len([n for n in range(300) if n % 7 == 3])


def test_the_corpus_is_larger_than_what_is_compared_beside_an_index() -> None:
    from memalchemy.search.vectors import max_compared

    assert max_compared(16) < NUMBER
