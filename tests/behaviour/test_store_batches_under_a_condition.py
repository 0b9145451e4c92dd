"""Batches that replace nothing, and what changes or deletes the items that a filter accepts."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest
from store_helpers import undone

from lifetimes import MOMENT
from memalchemy import Conflict, Database, Store
from memalchemy.contracts import NewItem, StoreItem
from waiting import give_time_to_go_wrong

NS = ("matching",)


async def values(store: Store) -> dict[str, Any]:
    return {item.key: item.value async for item in store.iter_items(NS, order="key")}


async def test_a_batch_that_skips_leaves_existing_items_as_they_are(store: Store) -> None:
    await store.put(NS, "b", "old", {"m": 1}, embedding=[1.0, 0.0])

    versions = await store.put_batch(
        [
            NewItem(NS, "a", 1, embedding=[0.5, 0.5]),
            NewItem(NS, "b", 2, embedding=[0.0, 1.0]),
            NewItem(NS, "a", 3),
        ],
        if_exists="skip",
    )

    assert versions == [1, 0, 0]
    assert await values(store) == {"a": 1, "b": "old"}
    vectors = await store.get_embeddings([(NS, "a"), (NS, "b"), (NS, "c")])
    assert vectors == {(NS, "a"): [0.5, 0.5], (NS, "b"): [1.0, 0.0]}


async def test_a_batch_that_may_replace_nothing_writes_all_or_none(store: Store) -> None:
    await store.put(NS, "b", "old")

    for batch in ([(NS, "a", 1), (NS, "b", 2), (NS, "c", 3)], [(NS, "d", 1), (NS, "d", 2)]):
        with pytest.raises(Conflict, match="nothing was written"):
            await store.put_batch(batch, if_exists="fail")
    assert await values(store) == {"b": "old"}
    assert await store.put_batch([(NS, "a", 1), (NS, "c", 3)], if_exists="fail") == [1, 1]
    assert await values(store) == {"a": 1, "b": "old", "c": 3}


async def test_a_refused_batch_takes_no_neighbour_with_it(store: Store) -> None:
    await store.put(NS, "there", 0)

    async def refused(at: int) -> bool:
        batch = [(NS, f"lost-{at}", at), (NS, "there", at)]
        with pytest.raises(Conflict):
            await store.put_batch(batch, if_exists="fail")
        return True

    async def written(at: int) -> bool:
        return await store.put_batch([(NS, f"kept-{at}", at)], if_exists="fail") == [1]

    done = await asyncio.gather(*(work(at) for at in range(20) for work in (refused, written)))

    assert all(done)
    assert await values(store) == {"there": 0} | {f"kept-{at}": at for at in range(20)}


async def test_of_several_that_create_an_item_at_once_one_does(store: Store) -> None:
    async def create(at: int) -> int:
        return (await store.put_batch([(NS, "one", at), (NS, f"own-{at}", at)], if_exists="skip"))[
            0
        ]

    assert sum(await asyncio.gather(*map(create, range(10)))) == 1
    assert len(await values(store)) == 11


async def test_an_expired_item_does_not_exist_for_a_batch(store: Store) -> None:
    await store.put(NS, "a", "old", ttl=MOMENT)

    assert await store.put_batch([(NS, "a", "new")], if_exists="fail") == [1]
    assert await values(store) == {"a": "new"}


async def test_what_a_batch_does_with_existing_items_is_one_of_three(store: Store) -> None:
    with pytest.raises(ValueError, match="replace, skip, fail"):
        await store.put_batch([(NS, "a", 1)], if_exists="ignore")
    assert await values(store) == {}


async def test_what_matches_is_deleted_and_the_rest_stays(store: Store) -> None:
    await store.put_batch([(NS, str(at), {"n": at, "even": at % 2 == 0}) for at in range(1_100)])
    await store.put((*NS, "below"), "0", {"even": True})

    assert await store.delete_matching(NS, {"even": True}) == 550
    assert await store.delete_matching(NS, {"even": True}) == 0
    assert [value["n"] for value in (await values(store)).values()].count(0) == 0
    assert len(await values(store)) == 550
    assert await store.delete_matching(NS, {"even": True}, prefix=True) == 1


async def test_an_empty_filter_deletes_nothing(store: Store) -> None:
    await store.put(NS, "a", 1)
    with pytest.raises(ValueError, match="empty"):
        await store.delete_matching(NS, {})
    assert await values(store) == {"a": 1}


async def test_a_deletion_is_undone_with_its_transaction(db: Database, store: Store) -> None:
    await store.put(NS, "a", {"n": 1})
    async with undone(db) as tx:
        assert await store.delete_matching(NS, {"n": 1}, connection=tx) == 1
        assert await store.get(NS, "a", connection=tx) is None
    assert await values(store) == {"a": {"n": 1}}


@pytest.mark.asyncio_only(
    "what works on the items is a coroutine function, with an AsyncConnection"
)
async def test_changes_of_what_matches_lose_no_change_of_others(db: Database, store: Store) -> None:
    keys = [str(at) for at in range(10)]
    await store.put_batch([(NS, key, {"mine": 0, "theirs": 0}) for key in keys])

    async def add_mine(items: list[StoreItem], tx: Any) -> None:
        await store.put_batch(
            [(NS, one.key, one.value | {"mine": one.value["mine"] + 1}) for one in items],
            connection=tx,
        )

    def one_more(item: StoreItem | None) -> Any:
        assert item is not None
        return item.value | {"theirs": item.value["theirs"] + 1}

    async def add_theirs(key: str) -> None:
        await store.change(NS, key, one_more)

    async def all_mine() -> None:
        for _ in range(5):
            assert await store.change_matching(NS, {"mine": {"$gte": 0}}, add_mine) == 10

    await asyncio.gather(all_mine(), *(add_theirs(key) for _ in range(5) for key in keys))

    assert await values(store) == {key: {"mine": 5, "theirs": 5} for key in keys}


@pytest.mark.asyncio_only(
    "what works on the items is a coroutine function, with an AsyncConnection"
)
async def test_a_change_that_fails_changes_nothing(store: Store) -> None:
    await store.put_batch([(NS, f"{at:04}", {"n": 1}) for at in range(600)])
    pages = []

    async def fail_later(items: list[StoreItem], tx: Any) -> None:
        pages.append(len(items))
        await store.delete_batch([(NS, one.key) for one in items], connection=tx)
        if len(pages) == 2:
            raise RuntimeError("no more")

    with pytest.raises(RuntimeError, match="no more"):
        await store.change_matching(NS, {"n": 1}, fail_later)
    assert pages == [500, 100]
    assert len(await values(store)) == 600


@pytest.mark.asyncio_only("the transaction is open in the loop, beside a task")
async def test_items_that_are_held_wait_for_the_holder(db: Database, store: Store) -> None:
    await store.put(NS, "a", 1)
    held = asyncio.Event()

    async def race() -> Any:
        await held.wait()
        return await store.change(NS, "a", lambda item: item.value + 1 if item else None)

    racing = asyncio.create_task(race())
    async with db.transaction() as tx:
        assert await store.hold([(NS, "a"), (NS, "missing")], tx) == 1
        held.set()
        await give_time_to_go_wrong()
        assert not racing.done()
        await store.put(NS, "a", 10, connection=tx)
    assert await racing == 11


async def test_a_batch_that_keeps_vectors_changes_values_alone(store: Store) -> None:
    await store.put(NS, "a", {"text": "red", "seen": 0}, embedding=[1.0, 0.0])
    other = Store(store.db, model="other")
    await other.put_embedding(NS, "a", [1.0, 2.0, 3.0])
    assert (await store.search(NS, embedding=[1.0, 0.0]))[0].value["seen"] == 0

    new = [(NS, "a", {"text": "red", "seen": 1}), (NS, "b", "new")]
    assert await store.put_batch(new, keep_vectors=True) == [2, 1]

    (hit,) = await store.search(NS, embedding=[1.0, 0.0])
    assert (hit.key, hit.value["seen"]) == ("a", 1)
    assert await store.get_embedding(NS, "a") == [1.0, 0.0]
    assert await other.get_embedding(NS, "a") == [1.0, 2.0, 3.0]
    with pytest.raises(TypeError, match="keep_vectors"):
        await store.put_batch([NewItem(NS, "a", 2, embedding=[0.0, 1.0])], keep_vectors=True)
    with pytest.raises(TypeError, match="keep_vectors"):
        await store.put_batch([(NS, "a", 2)], keep_vectors=True, index=True)
    assert await store.get(NS, "a") == {"text": "red", "seen": 1}
