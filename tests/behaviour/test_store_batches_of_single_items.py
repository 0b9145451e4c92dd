"""Batches in which each item says for itself; and reading, prolonging and removing many."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import pytest
from store_helpers import Embedder, undone

from lifetimes import ITEMS, rewrite_rows
from memalchemy import CapabilityMissing, Database, NewItem, NotSerialisable, Store

NS = ("batch",)
HOUR = timedelta(hours=1)


async def test_items_of_a_batch_have_lifetimes_and_vectors_of_their_own(store: Store) -> None:
    await store.put_batch(
        [
            NewItem(NS, "hour", 1, {"m": 1}, ttl=HOUR),
            NewItem(NS, "day", 2, ttl=HOUR * 24, embedding={"a": [[1.0, 0.0], [0.0, 1.0]]}),
            (NS, "plain", 3),
            NewItem(NS, "east", 4, embedding=[1.0, 0.1]),
        ],
        ttl=HOUR * 2,
    )

    found = await store.get_items([(NS, k) for k in ("hour", "day", "plain", "east", "none")])
    lives = {
        key: item.expires_at - item.updated_at
        for (_, key), item in found.items()
        if item.expires_at
    }
    assert lives == {"hour": HOUR, "day": HOUR * 24, "plain": HOUR * 2, "east": HOUR * 2}
    assert found[NS, "hour"].metadata == {"m": 1}
    near = await store.search_by_embedding(NS, [0.0, 1.0])
    assert [one.item.key for one in near] == ["day", "east"]
    assert await store.get_embedding(NS, "day", field="a", part=1) == [0.0, 1.0]


async def test_vectors_that_an_item_had_go_with_a_batch_that_brings_none(store: Store) -> None:
    await store.put_batch([NewItem(NS, "a", 1, embedding=[1.0, 0.0])])
    await store.put_batch([NewItem(NS, "a", 2)])

    assert await store.search_by_embedding(NS, [1.0, 0.0]) == []


async def test_the_embedder_is_called_once_for_all_of_one_index(db: Database) -> None:
    embedder = Embedder()
    store = Store(db, embedder=embedder)

    await store.put_batch(
        [
            NewItem(NS, "a", {"t": "one", "u": "not this"}, index=["t"]),
            NewItem(NS, "b", {"t": "two"}, index=["t"]),
            NewItem(NS, "c", {"t": "three"}, index=False),
            NewItem(NS, "d", {"t": "four"}, embedding=[1.0] * 8),
            (NS, "e", {"t": "five"}),
        ]
    )

    assert sorted(embedder.calls) == [["five"], ["one", "two"]]


async def test_a_wrong_vector_names_its_item_and_nothing_is_written(store: Store) -> None:
    with pytest.raises(ValueError, match="zero") as caught:
        await store.put_batch([(NS, "fine", 1), NewItem(NS, "wrong", 2, embedding=[0.0, 0.0])])
    assert "'wrong'" in caught.value.__notes__[0]
    with pytest.raises(NotSerialisable):
        await store.put_batch([NewItem(NS, "fine", 1), NewItem(NS, "odd", object())])
    with pytest.raises(CapabilityMissing):
        await store.put_batch([NewItem(NS, "fine", {"t": "x"}, index=["t"])])
    assert await store.count(NS) == 0


async def test_an_item_from_elsewhere_keeps_its_times(store: Store) -> None:
    made = datetime(2024, 2, 29, 12, 30, 15, 123456, tzinfo=UTC)
    ends = datetime.now(UTC) + timedelta(days=3)
    await store.put_batch(
        [
            NewItem(NS, "old", 1, created_at=made, updated_at=made + HOUR),
            NewItem(NS, "ends", 2, ttl=HOUR, expires_at=ends),
            (NS, "now", 3),
        ]
    )

    found = await store.get_items([(NS, "old"), (NS, "ends"), (NS, "now")])
    assert (found[NS, "old"].created_at, found[NS, "old"].updated_at) == (made, made + HOUR)
    assert found[NS, "old"].expires_at is None
    assert found[NS, "ends"].expires_at == ends
    assert found[NS, "ends"].created_at == found[NS, "now"].created_at > made
    assert [item.key for item in await store.list_items(NS)][-1] == "old"


async def test_many_items_are_read_in_the_order_asked_for_with_all_they_hold(store: Store) -> None:
    await store.put(NS, "a", [1], {"m": 1})
    await store.put(("other",), "\x00", None)

    found = await store.get_items([(("other",), "\x00"), (NS, "missing"), (NS, "a"), (NS, "a")])

    assert list(found) == [(("other",), "\x00"), (NS, "a")]
    assert found[NS, "a"] == await store.get_item(NS, "a")
    assert await store.get_items([]) == {}


async def test_many_items_are_prolonged_at_once(store: Store) -> None:
    await store.put_batch([(NS, key, key) for key in "abc"], ttl=HOUR)
    await store.put(NS, "for ever", 1)
    names = [(NS, key) for key in ("a", "b", "for ever", "missing")]
    soon = datetime.now(UTC) + timedelta(minutes=5)

    await rewrite_rows(store.db, expires_at=soon, where=[ITEMS.c.lifetime.is_not(None)])
    assert await store.refresh(names) == 2
    found = await store.get_items([(NS, key) for key in ("a", "b", "c", "for ever")])
    ends = {key: item.expires_at for (_, key), item in found.items()}
    assert ends["c"] == soon
    assert ends["for ever"] is None
    assert all(ends[key] and ends[key] > soon + HOUR / 2 for key in "ab")  # type: ignore[operator]

    await rewrite_rows(store.db, expires_at=soon, where=[ITEMS.c.lifetime.is_not(None)])
    read = await store.get_items([(NS, "a"), (NS, "for ever")], refresh=True)
    stored = await store.get_item(NS, "a", refresh=False)
    assert stored == read[NS, "a"]
    assert stored is not None
    assert stored.expires_at is not None
    assert stored.expires_at > soon + HOUR / 2


async def test_an_item_that_has_expired_is_not_prolonged(store: Store) -> None:
    await store.put(NS, "gone", 1, ttl=HOUR)
    await rewrite_rows(store.db, expires_at=datetime.now(UTC) - HOUR)

    assert await store.refresh([(NS, "gone")]) == 0
    assert await store.get_items([(NS, "gone")], refresh=True) == {}


async def test_many_items_are_removed_at_once_with_their_vectors(store: Store) -> None:
    await store.put_batch([NewItem(NS, key, key, embedding=[1.0, 0.0]) for key in "abc"])
    await store.put(NS, "gone", 1, ttl=HOUR)
    await rewrite_rows(store.db, expires_at=datetime.now(UTC) - HOUR, where=[ITEMS.c.key == "gone"])

    assert await store.delete_batch([(NS, "a"), (NS, "c"), (NS, "missing"), (NS, "gone")]) == 2
    assert await store.list_keys(NS) == ["b"]
    assert [one.item.key for one in await store.search_by_embedding(NS, [1.0, 0.0])] == ["b"]
    assert await store.delete_batch([]) == 0


async def test_batches_are_part_of_the_hosts_transaction(store: Store) -> None:
    await store.put(NS, "kept", 1, ttl=HOUR)
    await rewrite_rows(store.db, expires_at=datetime.now(UTC) + timedelta(minutes=1))
    before = await store.get_item(NS, "kept", refresh=False)

    async with undone(store.db) as tx:
        await store.put_batch([NewItem(NS, "new", 1, ttl=HOUR)], connection=tx)
        assert (NS, "new") in await store.get_items([(NS, "new")], connection=tx)
        assert await store.refresh([(NS, "kept")], connection=tx) == 1
        assert await store.delete_batch([(NS, "new"), (NS, "kept")], connection=tx) == 2

    assert before is not None
    assert await store.get_item(NS, "kept", refresh=False) == before
    assert not await store.exists(NS, "new")


async def test_a_search_by_vector_takes_a_filter_of_values_and_an_offset(store: Store) -> None:
    await store.put_batch(
        [
            NewItem(NS, f"n{n:02}", {"even": n % 2 == 0}, {"m": n}, embedding=[1.0, n / 10])
            for n in range(20)
        ]
    )

    found = await store.search_by_embedding(
        NS, [1.0, 0.0], 3, filter={"even": True}, offset=2, metadata_filter={"m": {"$gt": 2}}
    )

    assert [one.item.key for one in found] == ["n08", "n10", "n12"]
    assert [one.distance for one in found] == sorted(one.distance or 0 for one in found)
