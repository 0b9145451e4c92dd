"""locus' stores, and the documents of its retrieval."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import pytest

from memalchemy import CapabilityMissing, Database, NewItem, NotSerialisable, Store, StoreContext
from memalchemy.filters import Filter
from memalchemy.search.indexes import build_index, list_indexes

NS = ("users", "ada")


@pytest.fixture
def store(db: Database) -> Store:
    return Store(db)


async def test_l15_a_value_comes_back_as_it_was_put_and_a_filter_and_a_limit_hold(
    store: Store,
) -> None:
    for n in range(10):
        await store.put(NS, f"{n}", {"n": n}, {"even": n % 2 == 0}, embedding=[1.0, n])

    assert await store.get(NS, "3") == {"n": 3}
    item = await store.get_item(NS, "3")
    assert item is not None
    assert (item.metadata, item.version) == ({"even": False}, 1)
    assert item.created_at == item.updated_at
    found = await store.search_by_embedding(
        NS, [1.0, 0.0], limit=5, threshold=0.5, metadata_filter={"even": True}
    )
    assert [hit.item.key for hit in found] == ["0", "2", "4", "6", "8"]


async def test_l15_new_text_never_keeps_the_vector_of_the_old(store: Store) -> None:
    await store.put(NS, "k", "old", embedding=[1.0, 0.0])
    await store.put(NS, "k", "new")

    assert await store.get_embedding(NS, "k") is None
    assert await store.search_by_embedding(NS, [1.0, 0.0]) == []
    await store.put((), "in the empty namespace", 1)
    assert await store.list_keys(()) == ["in the empty namespace"]


async def test_l16_the_best_by_dot_product_scores_highest(db: Database) -> None:
    store = Store(db, metric="dot")
    for key, vector in (("same", [1.0, 0.0]), ("across", [0.0, 1.0]), ("against", [-1.0, 0.0])):
        await store.put(NS, key, key, embedding=vector)

    found = await store.search_by_embedding(NS, [1.0, 0.0])

    assert [hit.item.key for hit in found] == ["same", "across", "against"]
    assert 1 >= found[0].score > found[1].score > found[2].score >= 0
    best = await store.search_by_embedding(NS, [1.0, 0.0], threshold=found[1].score + 0.01)
    assert [hit.item.key for hit in best] == ["same"]


async def test_l17_every_capability_that_is_claimed_is_there(store: Store) -> None:
    claimed = store.capabilities
    await store.put(NS, "k", "green tea", {"kind": "note"}, embedding=[1.0, 0.0], ttl=60)

    assert claimed.search
    assert [hit.key for hit in await store.search(NS, "tea")] == ["k"]
    assert claimed.semantic_search
    assert await store.get_embedding(NS, "k") == [1.0, 0.0]
    assert len(await store.search_by_embedding(NS, [1.0, 0.0])) == 1
    assert claimed.list_namespaces
    assert await store.list_namespaces() == [NS]
    assert claimed.batch_operations
    assert await store.put_batch([(NS, "a", 1), (NS, "b", 2)]) == [1, 1]
    assert claimed.ttl
    item = await store.get_item(NS, "k")
    assert item is not None
    assert item.expires_at is not None
    assert item.metadata == {"kind": "note"}
    assert claimed.transactions


async def test_l18_a_filter_finds_what_is_there_beside_a_namespace_that_dominates(
    store: Store,
) -> None:
    crowd = [((("crowd",), f"{n}", n, None)) for n in range(300)]
    await store.put_batch(crowd)
    for n in range(40):
        await store.put(("few",), f"{n}", n, {"wanted": n % 2 == 0}, embedding=[1.0, 0.01 * n, 0.0])

    found = await store.search_by_embedding(
        ("few",), [1.0, 0.0, 0.0], limit=20, metadata_filter={"wanted": True}
    )
    assert [hit.item.key for hit in found] == [f"{n}" for n in range(0, 40, 2)]
    assert await store.search_by_embedding(("few",), [-1.0, 0.0, 0.0], threshold=0.9) == []


@pytest.mark.parametrize(
    ("wanted", "keys"),
    [
        ({"active": True}, ["yes"]),
        ({"n": 1.0}, ["no", "yes"]),
        ({"size": {"$gt": 9}}, ["yes"]),
        ({"with-dash": 1}, ["yes"]),
        ({"with.dot and 'quote'": 1}, ["no"]),
    ],
)
async def test_l19_numbers_are_numbers_booleans_are_booleans_and_any_key_will_do(
    store: Store, wanted: dict[str, Any], keys: list[str]
) -> None:
    await store.put(NS, "yes", 0, {"active": True, "n": 1, "size": 10, "with-dash": 1})
    await store.put(NS, "no", 0, {"active": "True", "n": 1, "size": 9, "with.dot and 'quote'": 1})

    items = await store.list_items(NS, filter=wanted, order="key")
    assert [item.key for item in items] == keys


async def test_l19_across_scores_the_same_on_every_database(store: Store) -> None:
    await store.put(NS, "across", 0, embedding=[0.0, 1.0])

    (hit,) = await store.search_by_embedding(NS, [2.0, 0.0])
    assert hit.score == pytest.approx(0.5, abs=1e-6)


async def test_l20_namespaces_and_keys_never_meet(store: Store) -> None:
    places = [(("a", "b"), "k"), (("a/b",), "k"), (("u",), "k:x"), (("u:k",), "x"), (("a",), "b/k")]
    for n, (namespace, key) in enumerate(places):
        await store.put(namespace, key, n)

    assert [await store.get(*place) for place in places] == list(range(len(places)))


async def test_l20_a_value_is_nobody_elses_object_and_none_is_a_value(store: Store) -> None:
    value: dict[str, Any] = {"list": [1]}
    await store.put(NS, "k", value)
    value["list"].append(2)
    (await store.get(NS, "k"))["list"].append(3)
    await store.put(NS, "none", None)

    assert await store.get(NS, "k") == {"list": [1]}
    assert await store.exists(NS, "none") is True
    assert await store.exists(NS, "absent") is False
    assert await store.get_batch([(NS, "none"), (NS, "absent")]) == {(NS, "none"): None}


async def test_l20_words_beyond_ascii_are_found_and_a_limit_of_none_gives_none(
    store: Store,
) -> None:
    await store.put(NS, "k", {"drink": "café", "n": 0, "no": False})

    assert [hit.key for hit in await store.search(NS, "café")] == ["k"]
    assert [hit.key for hit in await store.search(NS, "cafe")] == ["k"]
    assert await store.search(NS, None, limit=0) == []
    assert await store.search(NS, "cafe", limit=0) == []


async def test_l20_a_namespace_without_items_is_not_listed_and_a_batch_is_whole(
    store: Store,
) -> None:
    await store.put(NS, "k", 1)
    await store.delete(NS, "k")
    with pytest.raises(NotSerialisable):
        await store.put_batch([(NS, "good", 1), (NS, "bad", object())])

    assert await store.list_namespaces() == []
    assert await store.exists(NS, "good") is False


@pytest.mark.parametrize("query", ['"', "it's", "NEAR(", "a AND", "col:x", "*", "^", "-", "(", "}"])
async def test_l22_no_query_is_an_operator_or_an_error(store: Store, query: str) -> None:
    await store.put(NS, "k", "it is")

    await store.search(NS, query)


async def test_l22_the_loop_turns_while_many_vectors_are_compared(db: Database) -> None:
    store, turns = Store(db), 0
    items = [NewItem(NS, f"{n}", n, embedding=[float(n + 1)] * 200 + [1.0]) for n in range(2000)]
    await store.put_batch(items)

    async def turn() -> None:
        nonlocal turns
        while True:
            turns += 1
            await asyncio.sleep(0)

    turning = asyncio.ensure_future(turn())
    found = await store.search_by_embedding(NS, [1.0] * 201)
    turning.cancel()

    assert len(found) == 10
    assert turns > 2


async def test_the_operators_of_filters_compare_the_fields_of_values(store: Store) -> None:
    for n in (2, 10):
        await store.put(NS, f"k{n}", {"n": n, "a-b": n > 5, "tags": ["x"]})

    for wanted, keys in [
        ({"n": {"$gt": 9}}, ["k10"]),
        ({"n": 2.0}, ["k2"]),
        ({"a-b": True}, ["k10"]),
        ({"$or": [{"n": {"$lte": 2}}, {"n": {"$in": [10]}}]}, ["k10", "k2"]),
        ({"n": {"$in": []}}, []),
        ({"$not": {"n": 2}}, ["k10"]),
        ({"n": {"$ne": 2, "$nin": [3]}}, ["k10"]),
        ({"missing": {"$exists": False}, "n": {"$gte": 2, "$lt": 3}}, ["k2"]),
    ]:
        assert [hit.key for hit in await store.search(NS, filter=wanted)] == keys, wanted
    with pytest.raises(ValueError, match=r"\$near"):
        Filter.parse({"n": {"$near": 1}})


async def test_no_search_by_vectors_depends_on_an_index(tmp_path: Path) -> None:
    async with Database(f"sqlite:///{tmp_path}/vectors.db") as db:
        await Store(db).put_with_embedding(NS, "k", 1, [1.0, 0.0])
        # An index is PostgreSQL's or Oracle's; SQLite searches exactly, and says so.
        for asked in (list_indexes(db), build_index(db, dimensions=2)):
            with pytest.raises(CapabilityMissing, match="exactly"):
                await asked
        assert len(await Store(db).search_by_embedding(NS, [1.0, 0.0])) == 1


def test_a_context_gives_back_the_store_that_it_was_given(store: Store) -> None:
    assert StoreContext(store=store, user_id="ada").store is store
