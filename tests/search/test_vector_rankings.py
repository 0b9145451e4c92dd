"""The nearest items are those that brute force finds, on every database and in every way."""

from __future__ import annotations

import contextlib
from datetime import timedelta
from typing import Any

import numpy as np
import pytest

from memalchemy import Database
from memalchemy.keys import encode_namespace
from memalchemy.search.vectors import METRICS, nearest
from memalchemy.statements import Program
from search.vectors_in import NOW, by_hand, places, put, remove, wanted

RANDOM = np.random.default_rng(20260501)
HERE = ("notes",)


def some(count: int, dimensions: int = 24, namespace: tuple[str, ...] = HERE) -> dict[Any, Any]:
    made = RANDOM.standard_normal((count, dimensions)).astype(np.float32)
    return {(namespace, f"k{n}"): row for n, row in enumerate(made)}


@pytest.mark.parametrize("metric", METRICS)
async def test_the_nearest_are_those_of_brute_force(db: Database, metric: Any) -> None:
    vectors = some(300)
    await put(db, vectors)
    for query in RANDOM.standard_normal((5, 24)):
        ranking = nearest(db, wanted(db, HERE, query, metric=metric), NOW)
        found = await ranking.page(20)
        assert places(found) == by_hand(vectors, query, metric)[:20]
        assert [n.score for n in found] == sorted((n.score for n in found), reverse=True)
        assert all(0 <= n.score <= 1 for n in found)
        assert not ranking.exhausted
        assert ranking.plan.strategy == "exact vectors"


async def test_pages_follow_each_other_to_the_end(db: Database) -> None:
    vectors = some(57)
    await put(db, vectors)
    query = RANDOM.standard_normal(24)
    ranking = nearest(db, wanted(db, HERE, query), NOW)
    found = []
    while not ranking.exhausted:
        found += await ranking.page(10)
    assert places(found) == by_hand(vectors, query)
    assert await ranking.page(10) == []


async def test_the_same_direction_scores_one_and_the_opposite_zero(db: Database) -> None:
    await put(db, {(HERE, "same"): [3.0, 0], (HERE, "other"): [0, 2.0], (HERE, "not"): [-1.0, 0]})
    found = await nearest(db, wanted(db, HERE, [1.0, 0]), NOW).page(10)
    assert [(n.key, round(n.score, 6)) for n in found] == [("same", 1), ("other", 0.5), ("not", 0)]


@pytest.mark.parametrize("metric", METRICS)
async def test_equally_near_items_come_in_the_order_of_their_keys(
    db: Database, metric: Any
) -> None:
    vectors = {(HERE, f"k{n:03}"): [1.0, 2.0, 3.0] for n in RANDOM.permutation(200)}
    await put(db, vectors)
    ranking = nearest(db, wanted(db, HERE, [1.0, 1.0, 0.0], metric=metric), NOW)
    found = [n.key for _ in range(4) for n in await ranking.page(50)]
    assert found == [f"k{n:03}" for n in range(200)]


async def test_an_item_of_many_parts_comes_once_with_its_nearest(db: Database) -> None:
    vectors: dict[Any, Any] = {}
    for n in range(30):
        parts = {("/text", part): RANDOM.standard_normal(24) for part in range(7)}
        vectors[HERE, f"k{n}"] = parts | {("/title", 0): RANDOM.standard_normal(24)}
    vectors[HERE, "k5"]["/title", 0] = query = RANDOM.standard_normal(24)
    await put(db, vectors)
    found = await nearest(db, wanted(db, HERE, query), NOW).page(30)
    assert places(found) == by_hand(vectors, query)
    assert (found[0].key, found[0].field, found[0].part) == ("k5", "/title", 0)


async def test_only_the_namespace_model_and_size_that_are_asked_for(db: Database) -> None:
    mine = some(20)
    await put(db, mine)
    await put(db, some(20, namespace=("notes", "below")))
    await put(db, some(20, namespace=("other",)))
    await put(db, {(HERE, f"big{n}"): RANDOM.standard_normal(48) for n in range(5)})
    await put(db, {(HERE, f"x{n}"): RANDOM.standard_normal(24) for n in range(5)}, model="x")
    await put(db.for_tenant("somebody-else"), some(20))
    query = RANDOM.standard_normal(24)
    found = await nearest(db, wanted(db, HERE, query), NOW).page(1000)
    assert places(found) == by_hand(mine, query)
    await remove(db.for_tenant("somebody-else"), list(mine))


async def test_below_a_namespace_are_it_and_all_under_it(db: Database) -> None:
    long = ("notes", "x" * 250, "y" * 200)
    inside = some(30) | some(30, namespace=("notes", "a")) | some(30, namespace=("notes", "a", "b"))
    inside |= some(30, namespace=long)
    await put(db, inside)
    await put(db, some(30, namespace=("notes2",)))
    query = RANDOM.standard_normal(24)
    found = await nearest(db, wanted(db, HERE, query, below=True), NOW).page(1000)
    assert places(found) == by_hand(inside, query)
    await put(db, late := {(long, "late"): query, (("notes", "new"), "late"): query})
    await remove(db, [(("notes", "a"), "k3")])
    del inside[("notes", "a"), "k3"]
    found = await nearest(db, wanted(db, HERE, query, below=True), NOW).page(1000)
    assert places(found) == by_hand(inside | late, query)


async def test_what_has_expired_is_not_found_and_another_takes_its_place(db: Database) -> None:
    query = RANDOM.standard_normal(24)
    expired = {(HERE, f"gone{n}"): query + n / 1000 for n in range(60)}
    await put(db, expired, expires_at=NOW)
    soon = {(HERE, "soon"): query}
    await put(db, soon, expires_at=NOW + timedelta(seconds=1))
    vectors = some(40)
    await put(db, vectors)
    ranking = nearest(db, wanted(db, HERE, query), NOW)
    found = await ranking.page(30)
    assert places(found) == by_hand(vectors | soon, query)[:30]


async def test_only_the_items_that_are_named_are_compared(db: Database) -> None:
    vectors = some(200) | {(HERE, "\x00odd\ud800"): RANDOM.standard_normal(24)}
    await put(db, vectors)
    chosen = {place: v for place, v in vectors.items() if place[1][-1] in "37\ud800"}
    asked = []

    def among(most: int) -> Program[Any]:
        asked.append(most)
        return [(encode_namespace(ns), key) for ns, key in chosen]
        yield

    query = RANDOM.standard_normal(24)
    for _ in range(2):
        ranking = nearest(db, wanted(db, HERE, query, candidates=among), NOW)
        assert places(await ranking.page(1000)) == by_hand(chosen, query)
    assert len(asked) == 2
    none = nearest(db, wanted(db, HERE, query, candidates=lambda most: _nothing()), NOW)
    assert await none.page(5) == []
    assert none.exhausted


def _nothing() -> Program[Any]:
    return []
    yield


async def test_an_empty_place_has_nothing(db: Database) -> None:
    ranking = nearest(db, wanted(db, ("nowhere",), [1.0, 2.0]), NOW)
    assert await ranking.page(5) == []
    assert ranking.exhausted


async def test_inside_a_transaction_what_it_wrote_is_found_and_nothing_of_it_after_a_rollback(
    db: Database,
) -> None:
    vectors = some(30)
    await put(db, vectors)
    query = RANDOM.standard_normal(24)
    assert (
        places(await nearest(db, wanted(db, HERE, query), NOW).page(3))
        == by_hand(vectors, query)[:3]
    )
    with contextlib.suppress(ZeroDivisionError):
        async with db.transaction() as tx:
            await put(db, {(HERE, "mine"): query, (HERE, "k1"): query}, connection=tx)
            found = await nearest(db, wanted(db, HERE, query), NOW, connection=tx).page(2)
            assert [n.key for n in found] == ["k1", "mine"]
            raise ZeroDivisionError
    assert places(await nearest(db, wanted(db, HERE, query), NOW).page(30)) == by_hand(
        vectors, query
    )
    # The same version again, of another history.
    await put(db, new := {(HERE, "other"): query})
    found = await nearest(db, wanted(db, HERE, query), NOW).page(40)
    assert places(found) == by_hand(vectors | new, query)


@pytest.mark.parametrize("dimensions", [1, 1536, 4001, 16_000])
async def test_any_size_is_compared(db: Database, dimensions: int) -> None:
    vectors = some(12, dimensions)
    await put(db, vectors)
    query = RANDOM.standard_normal(dimensions)
    found = await nearest(db, wanted(db, HERE, query, metric="l2"), NOW).page(12)
    assert places(found) == by_hand(vectors, query, "l2")
