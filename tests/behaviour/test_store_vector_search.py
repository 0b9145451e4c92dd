"""Finding items by their vectors, alone and together with their words."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest
from store_helpers import Embedder, found_by, keys_of, undone

from memalchemy import Conflict, Database, SemanticSearchResult, Store
from memalchemy.events import subscribe

NS = ("vectors",)

NEAR, FAR = [1.0, 0.0, 0.0], [0.0, 1.0, 0.0]

REFUSED: dict[str, list[float]] = {
    "zero": [0.0, 0.0, 0.0],
    "NaN": [1.0, math.nan, 0.0],
    "infinite": [1.0, math.inf, 0.0],
    "infinite below": [1.0, -math.inf, 0.0],
    "empty": [],
    "infinite in single precision": [1e39, 1.0, 0.0],
    "zero in single precision": [1e-60, 0.0, 0.0],
}


async def nearest(store: Store, query: Any, *args: Any, **how: Any) -> list[str]:
    return found_by(await store.search_by_embedding(NS, query, *args, **how))


async def test_the_nearest_come_first_with_scores_from_one_down(store: Store) -> None:
    for key, vector in (
        ("opposite", [-1.0, 0.0, 0.0]),
        ("same", NEAR),
        ("close", [1.0, 0.2, 0.0]),
        ("square", FAR),
    ):
        assert await store.put_with_embedding(NS, key, {"k": key}, vector, {"m": key}) == 1

    results = await store.search_by_embedding(NS, NEAR)
    assert found_by(results) == ["same", "close", "square", "opposite"]
    assert isinstance(results[0], SemanticSearchResult)
    assert results[0].distance == pytest.approx(0.0, abs=1e-6)
    scores = [result.score for result in results]
    assert scores[0] == pytest.approx(1.0, abs=1e-6)
    assert scores == sorted(scores, reverse=True)
    assert all(0 <= score <= 1 for score in scores)
    assert scores[0] > scores[1] > scores[2]
    assert results[0].item == await store.get_item(NS, "same")
    assert (results[1].item.value, results[1].item.metadata) == ({"k": "close"}, {"m": "close"})

    hits = await store.search(NS, mode="vector", embedding=NEAR)
    assert keys_of(hits) == found_by(results)
    assert [hit.score for hit in hits] == pytest.approx(scores, abs=1e-6)
    assert await nearest(store, NEAR, 2) == ["same", "close"]
    assert await nearest(store, NEAR, 0) == []
    paged = await store.search(NS, mode="vector", embedding=NEAR, limit=2, offset=1)
    assert keys_of(paged) == ["close", "square"]


@pytest.mark.parametrize(
    ("metric", "best"),
    [
        ("cosine", ["aligned", "close", "far"]),
        ("dot", ["far", "close", "aligned"]),
        ("l2", ["close", "aligned", "far"]),
    ],
)
async def test_each_metric_has_its_own_order(db: Database, metric: Any, best: list[str]) -> None:
    store = Store(db, metric=metric)
    vectors = {"far": [5.0, 3.0, 0.0], "aligned": [0.2, 0.0, 0.0], "close": [0.9, 0.3, 0.0]}
    for key, vector in vectors.items():
        await store.put_with_embedding(NS, key, key, vector)

    results = await store.search_by_embedding(NS, NEAR)
    assert found_by(results) == best
    scores = [result.score for result in results]
    assert scores == sorted(scores, reverse=True)
    assert all(0 <= score <= 1 for score in scores)
    assert await store.get_embedding(NS, "far") == [5.0, 3.0, 0.0]


@pytest.mark.parametrize("metric", ["cosine", "dot", "l2"])
async def test_a_unit_vector_that_is_the_query_scores_one(db: Database, metric: Any) -> None:
    store = Store(db, metric=metric)
    await store.put_with_embedding(NS, "same", 1, [0.6, 0.8])
    await store.put_with_embedding(NS, "other", 1, [-0.8, 0.6])

    same, other = await store.search_by_embedding(NS, [0.6, 0.8])
    assert same.item.key == "same"
    assert same.score == pytest.approx(1.0, abs=1e-6)
    assert 0 <= other.score < 0.9


def test_another_metric_is_refused(db: Database) -> None:
    with pytest.raises(ValueError, match=r"metric|manhattan"):
        Store(db, metric="manhattan")  # type: ignore[arg-type]


async def test_a_threshold_a_filter_and_a_limit_together(store: Store) -> None:
    for n in range(12):
        vector = [math.cos(n / 10), math.sin(n / 10), 0.0]
        value = {"kind": "odd"} if n == 0 else {"n": n}
        await store.put_with_embedding(
            NS, f"k{n:02}", value, vector, {"kind": ["even", "odd"][n % 2]}
        )

    whole = await store.search_by_embedding(NS, NEAR, 50)
    assert found_by(whole) == [f"k{n:02}" for n in range(12)]
    threshold = (whole[4].score + whole[5].score) / 2
    assert await nearest(store, NEAR, 50, threshold) == [f"k{n:02}" for n in range(5)]
    assert await nearest(store, NEAR, 2, threshold) == ["k00", "k01"]
    # The metadata's, whatever stands in the value.
    even = await nearest(store, NEAR, 50, None, {"kind": "even"})
    assert even == [f"k{n:02}" for n in range(0, 12, 2)]
    assert await nearest(store, NEAR, 3, metadata_filter={"kind": "odd"}) == ["k01", "k03", "k05"]
    assert await nearest(store, NEAR, 50, threshold, {"kind": "odd"}) == ["k01", "k03"]
    hits = await store.search(NS, mode="vector", embedding=NEAR, limit=50, threshold=threshold)
    assert keys_of(hits) == [f"k{n:02}" for n in range(5)]


async def test_a_search_is_of_its_namespace_or_of_all_below(store: Store) -> None:
    spaces = [(), ("a",), ("a", "b"), ("ab",), ("a/b",)]
    for n, namespace in enumerate(spaces):
        await store.put_with_embedding(namespace, "k", n, [1.0, n / 10])

    for top in spaces:
        here = await store.search_by_embedding(top, NEAR[:2])
        assert [result.item.namespace for result in here] == [top]
        below = await store.search_by_embedding(top, NEAR[:2], prefix=True)
        expected = [namespace for namespace in spaces if namespace[: len(top)] == top]
        assert [result.item.namespace for result in below] == expected
    assert await store.search_by_embedding(("nowhere",), NEAR) == []


async def test_a_vector_is_given_back_as_it_was_put(store: Store) -> None:
    vector = [0.1, -2.5, 1e-8, 3e7]
    await store.put_with_embedding(NS, "k", 1, vector)
    await store.put(NS, "array", 1, embedding=np.array(vector))
    await store.put(NS, "plain", 1)

    for key in ("k", "array"):
        read = await store.get_embedding(NS, key)
        assert isinstance(read, list)
        assert read == pytest.approx(vector, rel=1e-6)
    assert await store.get_embedding(NS, "plain") is None
    assert await store.get_embedding(NS, "absent") is None
    assert await store.get_embedding(NS, "k", part=1) is None
    assert await store.get_embedding(NS, "k", field="title") is None
    assert await store.get_embedding(NS, "k", model="other") is None


async def test_a_put_replaces_the_vector_or_drops_it(store: Store) -> None:
    await store.put_with_embedding(NS, "k", 1, NEAR)
    await store.put_with_embedding(NS, "there", 1, [0.7, 0.7, 0.0])
    assert await nearest(store, NEAR) == ["k", "there"]

    await store.put_with_embedding(NS, "k", 2, FAR)
    assert await nearest(store, NEAR) == ["there", "k"]
    assert await store.get_embedding(NS, "k") == FAR

    await store.put(NS, "k", 3)
    assert await nearest(store, NEAR) == ["there"]
    assert await store.get_embedding(NS, "k") is None
    await store.put_with_embedding(NS, "k", 4, NEAR)
    await store.delete(NS, "k")
    assert await nearest(store, NEAR) == ["there"]
    await store.put(NS, "k", 5)
    assert await nearest(store, NEAR) == ["there"]


@pytest.mark.parametrize("vector", REFUSED.values(), ids=REFUSED)
async def test_a_vector_with_no_direction_is_refused(store: Store, vector: list[float]) -> None:
    await store.put_with_embedding(NS, "old", "needle", NEAR)
    before = await store.get_item(NS, "old")

    for key in ("old", "new"):
        with pytest.raises((ValueError,)):
            await store.put_with_embedding(NS, key, "lost", vector)
        with pytest.raises((ValueError,)):
            await store.put(NS, key, "lost", embedding=vector)
        with pytest.raises((ValueError,)):
            await store.put(NS, key, "lost", embedding={"a": NEAR, "b": [NEAR, vector]})
    with pytest.raises((ValueError,)):
        await store.search_by_embedding(NS, vector)
    with pytest.raises((ValueError,)):
        await store.search(NS, "needle", mode="hybrid", embedding=vector)

    assert await store.get_item(NS, "old") == before
    assert await store.get_embedding(NS, "old") == NEAR
    assert await store.list_keys(NS) == ["old"]
    assert await store.search(NS, "lost") == []


async def test_vectors_have_from_one_to_sixteen_thousand_dimensions(store: Store) -> None:
    widest = [1.0 + n % 3 for n in range(16_000)]
    await store.put_with_embedding(NS, "narrow", 1, [0.5])
    await store.put_with_embedding(NS, "wide", 1, widest)
    await store.put_with_embedding(NS, "middle", 1, [0.5] * 3000)

    assert await nearest(store, [2.0]) == ["narrow"]
    assert await nearest(store, widest) == ["wide"]
    assert await nearest(store, [1.0] * 3000) == ["middle"]
    assert await store.get_embedding(NS, "wide") == widest
    with pytest.raises((ValueError,)):
        await store.put_with_embedding(NS, "wider", 1, [*widest, 1.0])
    assert not await store.exists(NS, "wider")


@pytest.mark.parametrize("first", ["two", "three"])
async def test_a_search_that_finds_nothing_among_several_sizes_is_no_mistake(
    store: Store, first: str
) -> None:
    vectors = {"two": [1.0, 0.1], "three": NEAR}
    for key in sorted(vectors, key=first.__ne__):
        await store.put_with_embedding(NS, key, {"n": 1}, vectors[key])

    for vector in vectors.values():
        assert await store.search(NS, embedding=vector, filter={"n": 2}) == []
        assert await store.search((), embedding=vector, filter={"n": 2}, prefix=True) == []
    with pytest.raises(ValueError, match=r"has 4 dimensions; .* but one of 2"):
        await store.search(NS, embedding=[1.0] * 4, filter={"n": 2})


async def test_vectors_of_other_sizes_are_no_neighbours(store: Store) -> None:
    await store.put_with_embedding(NS, "two", 1, [1.0, 0.1])
    await store.put_with_embedding(NS, "three", 1, NEAR)

    assert await nearest(store, [1.0, 0.0]) == ["two"]
    assert await nearest(store, NEAR) == ["three"]
    with pytest.raises((ValueError,)):
        await store.search_by_embedding(NS, [1.0, 0.0, 0.0, 0.0])
    with pytest.raises((ValueError,)):
        await store.search((), mode="vector", embedding=[1.0] * 5, prefix=True)
    assert await store.search_by_embedding(("empty",), [1.0, 0.0, 0.0, 0.0]) == []


async def test_models_lie_side_by_side(db: Database) -> None:
    small, large = Store(db, model="small"), Store(db, model="large")
    await small.put_with_embedding(NS, "s1", 1, [1.0, 0.0])
    await small.put_with_embedding(NS, "s2", 1, [0.0, 1.0])
    await large.put_with_embedding(NS, "l1", 1, [1.0, 0.5])
    await large.put_with_embedding(NS, "l3", 1, [1.0, 0.0, 0.0])

    assert await nearest(small, [1.0, 0.0]) == ["s1", "s2"]
    assert await nearest(large, [1.0, 0.0]) == ["l1"]
    assert await nearest(large, [1.0, 0.0], model="small") == ["s1", "s2"]
    hits = await small.search(NS, mode="vector", embedding=[1.0, 0.0], model="large")
    assert keys_of(hits) == ["l1"]
    assert await small.get_embedding(NS, "s1") == [1.0, 0.0]
    assert await large.get_embedding(NS, "s1") is None
    assert await large.get_embedding(NS, "s1", model="small") == [1.0, 0.0]
    with pytest.raises((ValueError,)):
        await nearest(small, [1.0, 0.0, 0.0])


async def test_of_an_items_vectors_the_nearest_counts_and_the_item_once(store: Store) -> None:
    await store.put(
        NS, "many", "x", embedding={"title": FAR, "body": [[0.0, 0.0, 1.0], NEAR, [1.0, 0.1, 0.0]]}
    )
    await store.put(NS, "one", "x", embedding=[0.9, 0.3, 0.0])
    await store.put(NS, "last", "x", embedding={"title": [-1.0, 0.0, 0.0]})

    results = await store.search_by_embedding(NS, NEAR)
    assert found_by(results) == ["many", "one", "last"]
    assert results[0].score == pytest.approx(1.0, abs=1e-6)
    assert await nearest(store, NEAR, 2) == ["many", "one"]
    assert await nearest(store, FAR, 1) == ["many"]
    paged = await store.search(NS, mode="vector", embedding=NEAR, limit=1, offset=1)
    assert keys_of(paged) == ["one"]

    assert await store.get_embedding(NS, "many", field="title") == FAR
    assert await store.get_embedding(NS, "many", field="body", part=1) == NEAR
    assert await store.get_embedding(NS, "many", field="body", part=3) is None
    assert await store.get_embedding(NS, "many") is None

    await store.put(NS, "many", "x", embedding={"body": [FAR]})
    assert await store.get_embedding(NS, "many", field="title") is None
    assert await store.get_embedding(NS, "many", field="body", part=1) is None
    assert await nearest(store, NEAR) == ["one", "many", "last"]


async def test_without_vectors_and_embedder_there_is_no_search_by_vector(store: Store) -> None:
    await store.put(NS, "k", "needle")

    with pytest.raises((ValueError, NotImplementedError)):
        await store.search(NS, "needle", mode="vector")
    assert await nearest(store, NEAR) == []


# --- Words and vectors ---------------------------------------------------------------------------


async def test_hybrid_finds_what_either_finds_and_first_what_both_find(store: Store) -> None:
    await store.put(NS, "words", "crimson kettle")
    await store.put(NS, "near", "something else", embedding=[1.0, 0.1, 0.0])
    await store.put(NS, "both", "a kettle, of crimson", embedding=[1.0, 0.05, 0.0])
    for n in range(20):
        await store.put(NS, f"far {n}", "nothing of it", embedding=[0.0, 1.0, n / 10])

    hits = await store.search(NS, "crimson kettle", mode="hybrid", embedding=NEAR, limit=5)
    assert hits[0].key == "both"
    assert set(keys_of(hits[1:3])) == {"words", "near"}
    assert len(hits) == 5
    scores = [hit.score for hit in hits]
    assert all(score is not None and 0 <= score <= 1 for score in scores)
    assert scores == sorted(scores, reverse=True)
    assert len(set(keys_of(hits))) == 5
    plans = (await store.search(NS, "kettle", mode="hybrid", embedding=NEAR, explain=True)).plans
    assert plans
    assert all(plan.strategy and plan.reason for plan in plans)


@pytest.mark.parametrize("below", [False, True])
async def test_an_explained_search_says_where_there_are_no_vectors(
    store: Store, below: bool
) -> None:
    await store.put(NS, "words alone", "kettle")
    await store.put_embedding(NS, "words alone", FAR, model="other")

    async def reasons(**how: Any) -> list[str]:
        found = await store.search(NS, prefix=below, embedding=NEAR, explain=True, **how)
        return [plan.reason for plan in found.plans]

    reason, passed_over = await reasons(mode="vector")
    assert reason == "there are no vectors of the model 'default' here"
    assert "not found by meaning" in passed_over
    assert passed_over not in await reasons(mode="vector", model="other")
    assert reason in await reasons(query="kettle", mode="hybrid")
    assert reason not in await reasons(mode="vector", model="other")
    assert reason not in await reasons(mode="vector", model="other", filter={"n": 1})


async def test_hybrid_with_an_embedder_needs_the_query_only(db: Database) -> None:
    store = Store(db, embedder=Embedder())
    await store.put_batch([(NS, "a", "crimson kettle"), (NS, "b", "green hammer")])
    await store.put(NS, "c", "crimson", index=False)

    hits = await store.search(NS, "crimson kettle", mode="hybrid")
    assert hits[0].key == "a"
    assert sorted(keys_of(hits)) == ["a", "b", "c"]
    assert keys_of(await store.search(NS, "crimson kettle", mode="hybrid", limit=1)) == ["a"]


# --- Truth ---------------------------------------------------------------------------------------


async def test_what_is_rolled_back_is_never_found(db: Database, store: Store) -> None:
    for key, vector in (("changed", FAR), ("deleted", [1.0, 0.5, 0.0]), ("dropped", FAR)):
        await store.put_with_embedding(NS, key, "old", vector)
    assert await nearest(store, NEAR, 1) == ["deleted"]

    async with undone(db) as tx:
        await store.put_with_embedding(NS, "ghost", "lost", NEAR, connection=tx)
        await store.put_with_embedding(NS, "changed", "lost", NEAR, connection=tx)
        await store.put(NS, "dropped", "lost", connection=tx)
        await store.delete(NS, "deleted", connection=tx)
        inside = await store.search_by_embedding(NS, NEAR, connection=tx)
        assert sorted(found_by(inside)) == ["changed", "ghost"]

    for _ in range(2):
        found = await store.search_by_embedding(NS, NEAR)
        assert found_by(found)[0] == "deleted"
        assert sorted(found_by(found)) == ["changed", "deleted", "dropped"]
        assert await store.get_embedding(NS, "changed") == FAR
        # A write afterwards takes whatever number the one that was undone had.
        await store.put_with_embedding(NS, "changed", "new", FAR)


async def test_recall_against_brute_force_is_whole(db: Database) -> None:
    dice = np.random.default_rng(4)
    vectors = dice.normal(size=(500, 48)).astype(np.float32)
    vectors *= dice.uniform(0.1, 9.0, size=(500, 1)).astype(np.float32)
    store = Store(db, embedder=lambda texts: [vectors[int(text)] for text in texts])
    await store.put_batch([(NS, str(n), str(n)) for n in range(500)])
    await store.put_batch([(("crowd",), str(n), str(n)) for n in range(200)])

    unit = vectors / np.linalg.norm(vectors, axis=1, keepdims=True)
    for number, query in enumerate(dice.normal(size=(10, 48))):
        if number == 5:  # a write in between, then the cold path again
            await store.put(NS, "7", "8")
            unit[7] = unit[8]
        cosines = unit @ (query / np.linalg.norm(query))
        best = np.sort(cosines)[::-1][:10]
        results = await store.search_by_embedding(NS, query.tolist(), 10)
        assert [cosines[int(key)] for key in found_by(results)] == pytest.approx(best, abs=1e-5)
        assert len({result.item.key for result in results}) == 10


@pytest.mark.parametrize("size", [100, 100_000], ids=["short", "long"])
async def test_what_is_near_comes_whole_however_long_and_along_with_the_search_if_short(
    db: Database, store: Store, size: int
) -> None:
    value = {"text": "".join(map(chr, np.random.default_rng(7).integers(97, 123, size)))}
    for n in range(3):
        await store.put_with_embedding(NS, f"k{n}", value | {"n": n}, [1.0, n / 10, 0.0])
    for _ in range(2):  # by then the database's ways and the namespace's size are known
        await nearest(store, NEAR)
    trips: list[int] = []
    stop = subscribe(lambda event: trips.append(event.round_trips))
    try:
        found = await store.search_by_embedding(NS, NEAR)
    finally:
        stop()
    assert [one.item.value for one in found] == [value | {"n": n} for n in range(3)]
    # Where vectors are compared here, the first trip finds out whether they have changed.
    least = 1 if db.dialect.vectors.computes_distances else 2
    assert trips == [least if size == 100 else least + 1]


async def test_an_item_has_vectors_of_several_models(db: Database, store: Store) -> None:
    await store.put_with_embedding(NS, "k", {"said": "hello"}, [1.0, 0.0])
    assert await store.put_embedding(NS, "k", [0.0, 1.0, 0.0], model="large")

    assert await store.get_embedding(NS, "k") == [1.0, 0.0]
    assert await store.get_embedding(NS, "k", model="large") == [0.0, 1.0, 0.0]
    large = await store.search_by_embedding(NS, [0.0, 1.0, 0.0], model="large")
    assert [(found.item.key, found.item.version) for found in large] == [("k", 1)]

    assert await store.put_embedding(NS, "k", {"title": [0.0, 1.0]})
    assert await store.get_embedding(NS, "k") is None, "those of the same model go"
    assert await store.get_embedding(NS, "k", field="title") == [0.0, 1.0]
    assert await store.get_embedding(NS, "k", model="large") is not None
    assert [found.item.key for found in await store.search_by_embedding(NS, [0.0, 1.0])] == ["k"]

    await store.put(NS, "k", {"said": "bye"})
    assert await store.get_embedding(NS, "k", model="large") is None, "it was of the value before"
    assert await store.search_by_embedding(NS, [0.0, 1.0, 0.0], model="large") == []


async def test_vectors_are_given_to_the_version_they_were_made_of(store: Store) -> None:
    assert not await store.put_embedding(NS, "nowhere", [1.0])
    await store.put(NS, "k", 1)
    await store.put(NS, "k", 2)

    with pytest.raises(Conflict) as conflict:
        await store.put_embedding(NS, "k", [1.0], expected_version=1)
    assert conflict.value.current.version == 2
    assert await store.get_embedding(NS, "k") is None
    assert await store.put_embedding(NS, "k", [1.0], expected_version=2)
    with pytest.raises(Conflict):
        await store.put_embedding(NS, "nowhere", [1.0], expected_version=1)
    with pytest.raises(ValueError, match="zero"):
        await store.put_embedding(NS, "k", [0.0])
    assert await store.get_embedding(NS, "k") == [1.0]


# --- What each ranking weighs, and hits that differ ----------------------------------------------


@pytest.fixture
async def kettles(store: Store) -> Store:
    await store.put(NS, "words", "crimson kettle")
    await store.put(NS, "near", "something else", embedding=NEAR)
    await store.put(NS, "both", "a kettle", embedding=[1.0, 0.5, 0.0])
    return store


@pytest.mark.parametrize(
    ("alpha", "keys"),
    [
        (0, ["words", "both"]),
        (0.05, ["words", "both", "near"]),
        (0.5, ["both", "near", "words"]),
        (None, ["both", "near", "words"]),
        (0.95, ["near", "both", "words"]),
        (1, ["near", "both"]),
    ],
)
async def test_alpha_is_what_meaning_weighs_against_words(
    kettles: Store, alpha: float | None, keys: list[str]
) -> None:
    hits = await kettles.search(NS, "crimson kettle", mode="hybrid", embedding=NEAR, alpha=alpha)

    assert keys_of(hits) == keys
    assert all(hit.score is not None and 0 < hit.score <= 1 for hit in hits)
    if alpha in (0, 1):
        assert hits[0].score == 1.0


async def test_weights_are_shares_and_of_the_modes_that_have_them(kettles: Store) -> None:
    for wrong, error, why in [
        ({"mode": "vector", "embedding": NEAR, "alpha": 0.5}, ValueError, "mode hybrid"),
        ({"query": "kettle", "alpha": 0.5}, ValueError, "mode hybrid"),
        ({"query": "kettle", "mmr": 0.5}, ValueError, "modes vector and hybrid"),
        ({"embedding": NEAR, "mmr": 1.1}, ValueError, "from 0 to 1"),
        ({"embedding": NEAR, "mode": "hybrid", "alpha": -0.1}, ValueError, "from 0 to 1"),
        ({"embedding": NEAR, "mmr": True}, TypeError, "not bool"),
    ]:
        with pytest.raises(error, match=why):
            await kettles.search(NS, **wrong)  # type: ignore[arg-type]


async def test_hits_that_differ_come_before_more_of_the_same(store: Store) -> None:
    for n in range(12):
        await store.put(NS, f"same {n:02}", "x", embedding=[1.0, n / 1000, 0.0])
    await store.put(NS, "other", "x", embedding=[1.0, 0.0, 0.6])
    await store.put(NS, "third", "x", embedding=[1.0, 0.9, 0.0])

    plain = await store.search(NS, mode="vector", embedding=NEAR, limit=3)
    found = await store.search(NS, mode="vector", embedding=NEAR, limit=3, mmr=0.3)
    alike = await store.search(NS, mode="vector", embedding=NEAR, limit=3, mmr=1)

    assert keys_of(plain) == keys_of(alike) == ["same 00", "same 01", "same 02"]
    assert keys_of(found) == ["same 00", "third", "other"]
    scores = {hit.key: hit.score for hit in await store.search(NS, embedding=NEAR, limit=20)}
    assert {hit.key: hit.score for hit in found} == {key: scores[key] for key in keys_of(found)}
    second = await store.search(NS, embedding=NEAR, limit=2, offset=1, mmr=0.3)
    assert keys_of(second) == keys_of(found)[1:]
    assert len(await store.search(NS, embedding=NEAR, limit=20, mmr=0.5)) == 14


async def test_what_has_several_vectors_or_none_is_among_hits_that_differ(store: Store) -> None:
    await store.put(NS, "parts", "kettle", embedding=[[1.0, 0.0, 0.1], [1.0, 0.1, 0.0]])
    await store.put(NS, "same", "kettle kettle", embedding=NEAR)
    await store.put(NS, "bare", "kettle, crimson")
    await store.put_embedding(NS, "same", FAR, model="other")

    hits = await store.search(NS, "kettle", mode="hybrid", embedding=NEAR, mmr=0.3, limit=3)

    assert sorted(keys_of(hits)) == ["bare", "parts", "same"]
    assert keys_of(hits)[1] == "bare"
