"""Items that are there for a time: gone on every path at once, swept later, prolonged if asked."""

from __future__ import annotations

import math
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from store_helpers import found_by, keys_of

from clocks import Clock
from lifetimes import ITEMS, MOMENT, rewrite_rows
from memalchemy import Conflict, Database, Store
from memalchemy.contracts import StoreItem

NS = ("cache", "answers")
HOUR = timedelta(hours=1)


async def item_of(store: Store, key: str, namespace: tuple[str, ...] = NS) -> StoreItem:
    """The item as it is, without prolonging its life."""
    item = await store.get_item(namespace, key, refresh=False)
    assert item is not None
    return item


async def life_of(store: Store, key: str, namespace: tuple[str, ...] = NS) -> timedelta | None:
    """How long after its last write an item ends, to the second."""
    item = await item_of(store, key, namespace)
    if item.expires_at is None:
        return None
    assert item.expires_at.utcoffset() == timedelta()
    return timedelta(seconds=round((item.expires_at - item.updated_at).total_seconds()))


async def test_an_item_lives_as_long_as_its_put_says(store: Store) -> None:
    await store.put(NS, "seconds", 1, ttl=3600)
    await store.put(NS, "timedelta", 1, ttl=HOUR)
    await store.put(NS, "for ever", 1)
    await store.put(NS, "for ever, asked for", 1, ttl=math.inf)
    await store.put_batch([(NS, "batch 1", 1), (NS, "batch 2", 2, {"a": 1})], ttl=HOUR)
    await store.put_with_embedding(NS, "vector", 1, [1.0, 0.0], ttl=HOUR)

    for key in ("seconds", "timedelta", "batch 1", "batch 2", "vector"):
        assert await life_of(store, key) == HOUR, key
        assert await store.get(NS, key) is not None
    assert await life_of(store, "for ever") is None
    assert await life_of(store, "for ever, asked for") is None


async def test_each_put_decides_anew(store: Store) -> None:
    await store.put(NS, "k", 1, ttl=HOUR)
    await store.put(NS, "k", 2, ttl=HOUR * 2)
    assert await life_of(store, "k") == HOUR * 2

    await store.put(NS, "k", 3)
    assert await life_of(store, "k") is None
    await store.put(NS, "k", 4, ttl=HOUR)
    assert await life_of(store, "k") == HOUR
    assert (await item_of(store, "k")).version == 4


async def test_a_store_has_a_lifetime_for_what_says_nothing(db: Database) -> None:
    store = Store(db, ttl=HOUR)
    await store.put(NS, "default", 1)
    await store.put(NS, "own", 1, ttl=60)
    await store.put(NS, "for ever", 1, ttl=math.inf)
    await store.put_batch([(NS, "batch", 1)])
    await store.put_with_embedding(NS, "vector", 1, [1.0])

    assert await life_of(store, "default") == HOUR
    assert await life_of(store, "own") == timedelta(minutes=1)
    assert await life_of(store, "for ever") is None
    assert await life_of(store, "batch") == HOUR
    assert await life_of(store, "vector") == HOUR


async def test_of_lifetimes_for_namespaces_the_longest_prefix_counts(db: Database) -> None:
    store = Store(
        db,
        ttl={
            ("cache",): 3600,
            ("cache", "short"): timedelta(minutes=1),
            ("cache", "kept"): math.inf,
        },
    )
    expected: dict[tuple[str, ...], timedelta | None] = {
        ("cache",): HOUR,
        ("cache", "other", "deep"): HOUR,
        ("cache", "short"): timedelta(minutes=1),
        ("cache", "short", "deep"): timedelta(minutes=1),
        ("cache", "shorter"): HOUR,
        ("cache", "kept", "deep"): None,
        ("cachet",): None,
        ("other", "cache"): None,
        (): None,
    }
    for namespace in expected:
        await store.put(namespace, "one", 1)
    await store.put_batch([(namespace, "many", 1) for namespace in expected])

    for namespace, life in expected.items():
        assert await life_of(store, "one", namespace) == life, namespace
        assert await life_of(store, "many", namespace) == life, namespace


async def test_the_root_may_have_a_lifetime_too(db: Database) -> None:
    store = Store(db, ttl={(): 3600, ("kept",): math.inf})
    for namespace in ((), ("any", "where"), ("kept",)):
        await store.put(namespace, "k", 1)

    assert await life_of(store, "k", ()) == HOUR
    assert await life_of(store, "k", ("any", "where")) == HOUR
    assert await life_of(store, "k", ("kept",)) is None


@pytest.mark.parametrize("ttl", ["soon", True, math.nan, [1]], ids=repr)
async def test_what_is_no_duration_is_refused(store: Store, ttl: Any) -> None:
    with pytest.raises((TypeError, ValueError)):
        await store.put(NS, "k", 1, ttl=ttl)
    assert not await store.exists(NS, "k")


async def test_an_expired_item_is_gone_on_every_path_at_once(store: Store, clock: Clock) -> None:
    only = ("only", "expired")
    for namespace, key, ttl in ((NS, "gone", 60), (NS, "here", HOUR), (only, "gone", 60)):
        value = {"text": "needle", "n": 1}
        await store.put(namespace, key, value, {"kind": "x"}, embedding=[1.0, 0.5], ttl=ttl)
        # Whatever is cached of vectors is cached now.
        assert await store.search_by_embedding(namespace, [1.0, 0.5])
    clock.go_on(timedelta(minutes=2))

    assert await store.get(NS, "gone") is None
    assert await store.get_item(NS, "gone") is None
    assert not await store.exists(NS, "gone")
    assert await store.get_batch([(NS, "gone"), (NS, "here"), (only, "gone")]) == {
        (NS, "here"): {"text": "needle", "n": 1}
    }
    assert await store.get_embedding(NS, "gone") is None
    assert await store.get_embedding(NS, "here") == [1.0, 0.5]

    assert await store.list_keys(NS) == ["here"]
    assert await store.list_keys(NS, prefix="g") == []
    assert keys_of(await store.list_items(NS)) == ["here"]
    assert keys_of(await store.list_items(NS, order="key")) == ["here"]
    assert keys_of(await store.list_items((), prefix=True, filter={"n": 1})) == ["here"]
    assert await store.list_namespaces() == [NS]
    assert await store.list_namespaces(("only",)) == []
    assert await store.count(NS) == 1
    assert await store.count((), prefix=True) == 1

    assert keys_of(await store.search(NS)) == ["here"]
    for mode in ("text", "vector", "hybrid"):
        for namespace, prefix in ((NS, False), ((), True)):
            hits = await store.search(
                namespace,
                None if mode == "vector" else "needle",
                mode=mode,
                prefix=prefix,
                embedding=None if mode == "text" else [1.0, 0.5],
            )
            assert keys_of(hits) == ["here"], (mode, namespace)
    filtered = await store.search(NS, "needle", filter={"kind": "x"})
    assert keys_of(filtered) == ["here"]
    assert found_by(await store.search_by_embedding(NS, [1.0, 0.5])) == ["here"]
    assert found_by(await store.search_by_embedding((), [1.0, 0.5], prefix=True)) == ["here"]
    assert keys_of(await store.search_many([NS, only], "needle")) == ["here"]
    assert await store.delete(NS, "gone") is False


async def test_a_put_over_an_expired_item_starts_anew(store: Store) -> None:
    for key in ("put", "batch"):
        await store.put(NS, key, "old")
    before = (await item_of(store, "batch")).created_at
    for key in ("put", "batch"):
        await store.put(NS, key, "older", {"m": 1}, embedding=[1.0, 0.5], ttl=MOMENT)

    assert await store.put(NS, "put", "new") == 1
    assert await store.put_batch([(NS, "batch", "new")]) == [1]
    for key in ("put", "batch"):
        item = await item_of(store, key)
        assert (item.value, item.metadata, item.version) == ("new", {}, 1)
        assert item.created_at > before
        assert item.expires_at is None
        assert await store.get_embedding(NS, key) is None
    assert await store.search(NS, "older") == []
    assert await store.put(NS, "put", "newer") == 2


async def test_an_expired_item_meets_the_conditions_of_a_missing_one(store: Store) -> None:
    for key in ("create", "expect", "delete"):
        await store.put(NS, key, "old", ttl=MOMENT)

    assert await store.put(NS, "create", "new", expected_version=None) == 1
    assert await store.get(NS, "create") == "new"
    with pytest.raises(Conflict) as caught:
        await store.put(NS, "expect", "new", expected_version=1)
    assert caught.value.current is None
    with pytest.raises(Conflict) as caught:
        await store.delete(NS, "delete", expected_version=1)
    assert caught.value.current is None
    assert not await store.exists(NS, "expect")


async def test_a_sweep_removes_what_has_expired_and_counts_it(db: Database, store: Store) -> None:
    expired = [f"gone {n}" for n in range(5)]
    await store.put_batch([(NS, key, "needle") for key in expired], ttl=MOMENT)
    await store.put(("other",), "gone", "needle", embedding=[1.0], ttl=MOMENT)
    await store.put(NS, "later", "needle", embedding=[1.0], ttl=HOUR)
    await store.put(NS, "here", "needle")
    neighbour = Store(db.for_tenant(f"{db.tenant}-2"))
    await neighbour.put(NS, "gone", 1, ttl=MOMENT)

    assert await store.sweep() == 6
    assert await store.sweep() == 0
    assert await store.list_keys(NS) == ["here", "later"]
    assert sorted(keys_of(await store.search((), "needle", prefix=True))) == ["here", "later"]
    assert await store.get_embedding(NS, "later") == [1.0]
    assert await neighbour.sweep() == 1


async def test_a_sweep_in_a_transaction_is_part_of_it(db: Database, store: Store) -> None:
    await store.put(NS, "gone", 1, ttl=MOMENT)

    async with db.transaction() as tx:
        assert await store.sweep(connection=tx) == 1
        await tx.rollback()
    assert await store.sweep() == 1


async def close_to_its_end(db: Database, store: Store, key: str, ttl: Any = HOUR) -> StoreItem:
    """Put an item that has most of its life behind it."""
    await store.put(NS, key, {"n": 1}, ttl=ttl)
    soon = datetime.now(UTC) + timedelta(minutes=5)
    await rewrite_rows(db, [ITEMS.c.key == key], expires_at=soon)
    return await item_of(store, key)


async def test_a_read_prolongs_a_life_if_it_is_asked_to(db: Database, store: Store) -> None:
    for read in (store.get, store.get_item):
        before = await close_to_its_end(db, store, "k")
        await read(NS, "k")
        await read(NS, "k", refresh=False)
        assert (await item_of(store, "k")).expires_at == before.expires_at

        assert await read(NS, "k", refresh=True) is not None
        after = await item_of(store, "k")
        left = after.expires_at - datetime.now(UTC)  # type: ignore[operator]
        assert timedelta(minutes=55) < left < timedelta(minutes=65)
        assert (after.value, after.version) == (before.value, before.version)
        assert (after.created_at, after.updated_at) == (before.created_at, before.updated_at)


async def test_a_store_may_prolong_with_every_read(db: Database) -> None:
    store = Store(db, ttl=HOUR, refresh_ttl=True)
    before = await close_to_its_end(db, store, "k", ttl=None)
    await store.get(NS, "k", refresh=False)
    assert (await item_of(store, "k")).expires_at == before.expires_at

    await store.get(NS, "k")
    after = await item_of(store, "k")
    assert after.expires_at - datetime.now(UTC) > timedelta(minutes=55)  # type: ignore[operator]


async def test_a_read_prolongs_by_the_items_own_lifetime(db: Database) -> None:
    store = Store(db, ttl=HOUR, refresh_ttl=True)
    await close_to_its_end(db, store, "own", ttl=HOUR * 3)
    await store.get(NS, "own")
    left = (await item_of(store, "own")).expires_at - datetime.now(UTC)  # type: ignore[operator]
    assert timedelta(hours=2.9) < left < timedelta(hours=3.1)

    await store.put(NS, "for ever", 1, ttl=math.inf)
    await store.get(NS, "for ever")
    assert (await item_of(store, "for ever")).expires_at is None


async def test_a_read_does_not_bring_back_what_has_expired(store: Store) -> None:
    await store.put(NS, "k", 1, ttl=MOMENT)

    assert await store.get(NS, "k", refresh=True) is None
    assert await store.get_item(NS, "k", refresh=True) is None
    assert not await store.exists(NS, "k")
    assert await store.sweep() == 1
