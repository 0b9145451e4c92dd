"""Writes that hold only if the item is as the caller knows it: one of many racers wins."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from memalchemy import UNSET, Conflict, Database, Store
from memalchemy.contracts import StoreItem

NS = ("counters",)


async def refused(writing: Any) -> Conflict:
    with pytest.raises(Conflict) as caught:
        await writing
    return caught.value


async def test_a_put_that_expects_the_version_that_is_there_is_done(store: Store) -> None:
    first = await store.put(NS, "k", "a")

    assert await store.put(NS, "k", "b", expected_version=first) == 2
    assert await store.put(NS, "k", "c", expected_version=2) == 3
    assert await store.get(NS, "k") == "c"


async def test_a_put_that_expects_another_version_changes_nothing(store: Store) -> None:
    await store.put(NS, "k", "a", {"m": 1}, embedding=[1.0, 0.0])
    await store.put(NS, "k", "needle", {"m": 2}, embedding=[0.0, 1.0])
    there = await store.get_item(NS, "k")

    for version in (1, 3, 99):
        error = await refused(
            store.put(NS, "k", "lost", embedding=[1.0, 1.0], expected_version=version)
        )
        assert error.expected == version
        assert isinstance(error.current, StoreItem)
        assert error.current == there
        assert (error.current.value, error.current.version) == ("needle", 2)

    assert await store.get_item(NS, "k") == there
    assert await store.get_embedding(NS, "k") == [0.0, 1.0]
    assert [hit.key for hit in await store.search(NS, "needle")] == ["k"]
    assert await store.search(NS, "lost") == []


async def test_a_put_that_expects_a_version_where_nothing_is_creates_nothing(store: Store) -> None:
    error = await refused(store.put(NS, "k", 1, expected_version=1))

    assert error.current is None
    assert not await store.exists(NS, "k")


async def test_an_item_is_created_only_once(store: Store) -> None:
    assert await store.put(NS, "k", "first", expected_version=None) == 1

    error = await refused(store.put(NS, "k", "second", expected_version=None))
    assert isinstance(error.current, StoreItem)
    assert (error.current.value, error.current.version) == ("first", 1)
    assert error.expected is None
    assert await store.get(NS, "k") == "first"

    await store.delete(NS, "k")
    assert await store.put(NS, "k", "third", expected_version=None) == 1


async def test_a_stored_none_is_not_created_a_second_time(store: Store) -> None:
    await store.put(NS, "k", None)

    error = await refused(store.put(NS, "k", 1, expected_version=None))
    assert isinstance(error.current, StoreItem)
    assert error.current.value is None
    assert await store.put(NS, "k", 1, expected_version=1) == 2


async def test_a_delete_holds_only_for_the_version_it_expects(store: Store) -> None:
    await store.put(NS, "k", "a")
    await store.put(NS, "k", "b")

    error = await refused(store.delete(NS, "k", expected_version=1))
    assert error.expected == 1
    assert isinstance(error.current, StoreItem)
    assert (error.current.value, error.current.version) == ("b", 2)
    assert await store.get(NS, "k") == "b"

    assert await store.delete(NS, "k", expected_version=2) is True
    assert not await store.exists(NS, "k")
    error = await refused(store.delete(NS, "k", expected_version=2))
    assert error.current is None


async def test_expecting_nothing_in_particular_is_the_default(store: Store) -> None:
    assert await store.put(NS, "k", 1, expected_version=UNSET) == 1
    assert await store.put(NS, "k", 2, expected_version=UNSET) == 2
    assert await store.delete(NS, "k", expected_version=UNSET) is True
    assert await store.delete(NS, "k", expected_version=UNSET) is False


async def test_a_version_of_a_former_life_is_not_that_of_the_new_one(
    store: Store,
) -> None:
    await store.put(NS, "k", "old")
    await store.put(NS, "k", "older")
    await store.delete(NS, "k")
    await store.put(NS, "k", "new")

    error = await refused(store.put(NS, "k", "late", expected_version=2))
    assert isinstance(error.current, StoreItem)
    assert (error.current.value, error.current.version) == ("new", 1)


async def test_what_a_conflict_carries_is_a_copy(store: Store) -> None:
    await store.put(NS, "k", {"list": [1]})

    error = await refused(store.put(NS, "k", 0, expected_version=None))
    assert isinstance(error.current, StoreItem)
    error.current.value["list"].append(2)
    assert await store.get(NS, "k") == {"list": [1]}


async def test_a_conflict_leaves_the_hosts_transaction_usable(db: Database, store: Store) -> None:
    await store.put(NS, "k", "old")
    async with db.transaction() as tx:
        await store.put(NS, "before", 1, connection=tx)
        await refused(store.put(NS, "k", "lost", expected_version=None, connection=tx))
        await refused(store.put(NS, "k", "lost", expected_version=7, connection=tx))
        await refused(store.delete(NS, "k", expected_version=7, connection=tx))
        assert await store.put(NS, "k", "new", expected_version=1, connection=tx) == 2
        error = await refused(store.put(NS, "k", "x", expected_version=1, connection=tx))
        assert isinstance(error.current, StoreItem)
        assert error.current.value == "new"

    assert await store.get(NS, "before") == 1
    assert await store.get(NS, "k") == "new"


async def test_sixteen_tasks_that_count_together_lose_nothing(store: Store) -> None:
    async def count_to(times: int) -> list[int]:
        reached = []
        while len(reached) < times:
            there: Any = await store.get_item(NS, "k")
            while True:
                value, version = (0, None) if there is None else (there.value, there.version)
                try:
                    await store.put(NS, "k", value + 1, expected_version=version)
                except Conflict as lost:
                    there = lost.current
                else:
                    reached.append(value + 1)
                    break
        return reached

    reached = await asyncio.gather(*(count_to(4) for _ in range(16)))

    assert sorted(n for some in reached for n in some) == list(range(1, 65))
    item = await store.get_item(NS, "k")
    assert item is not None
    assert (item.value, item.version) == (64, 64)


async def test_of_sixteen_who_create_or_delete_the_same_item_one_succeeds(store: Store) -> None:
    async def create(number: int) -> int | None:
        try:
            await store.put(NS, "k", number, expected_version=None)
        except Conflict:
            return None
        return number

    created = [n for n in await asyncio.gather(*map(create, range(16))) if n is not None]
    assert len(created) == 1
    assert await store.get(NS, "k") == created[0]

    async def delete() -> bool:
        try:
            return await store.delete(NS, "k", expected_version=1)
        except Conflict:
            return False

    assert sum(await asyncio.gather(*(delete() for _ in range(16)))) == 1
    assert not await store.exists(NS, "k")


async def test_plain_puts_side_by_side_each_take_a_version(store: Store) -> None:
    versions = await asyncio.gather(*(store.put(NS, "k", n) for n in range(32)))

    assert sorted(versions) == list(range(1, 33))
    item = await store.get_item(NS, "k")
    assert item is not None
    assert item.version == 32
    assert item.value == versions.index(32)
