"""`Store.change`: a new value of the one that is there, with nothing lost of what others write."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from contextvars import Context
from typing import Any

import pytest

import memalchemy
from memalchemy import Conflict, Database, MemalchemyError, Store, StoreItem
from memalchemy.store import DELETE, LEAVE
from memalchemy.store.context import NamespacedStore
from waiting import A_WHILE, give_time_to_go_wrong

SPACE = ("counters",)
HOUR = 3600


@pytest.fixture
def store(db: Database) -> Store:
    return memalchemy.Store(db)


def one_more(item: StoreItem | None) -> int:
    return 1 if item is None else item.value + 1


async def test_it_makes_an_item_of_none_and_a_new_value_of_one(store: Store) -> None:
    assert await store.change(SPACE, "n", one_more) == 1
    assert await store.change(SPACE, "n", one_more) == 2

    item = await store.get_item(SPACE, "n")
    assert item is not None
    assert (item.value, item.version) == (2, 2)


async def test_a_stored_none_is_told_from_nothing(store: Store) -> None:
    seen: list[bool] = []
    await store.put(SPACE, "none", None)
    for key in ("none", "nothing"):
        await store.change(SPACE, key, lambda item: seen.append(item is None) or LEAVE)

    assert seen == [False, True]
    assert await store.change(SPACE, "n", lambda _: None) is None
    assert await store.exists(SPACE, "n")


async def test_what_it_leaves_is_as_it_was(store: Store) -> None:
    assert await store.change(SPACE, "n", lambda _: LEAVE) is None
    assert not await store.exists(SPACE, "n")
    await store.put(SPACE, "n", 7)

    assert await store.change(SPACE, "n", lambda _: LEAVE) == 7

    item = await store.get_item(SPACE, "n")
    assert item is not None
    assert item.version == 1


async def test_what_it_deletes_is_gone_and_may_have_been_so(store: Store) -> None:
    await store.put(SPACE, "n", 7)

    for _ in range(2):
        assert await store.change(SPACE, "n", lambda _: DELETE) is None
        assert not await store.exists(SPACE, "n")


async def test_the_function_may_be_a_coroutine(store: Store) -> None:
    async def slowly(item: StoreItem | None) -> int:
        await asyncio.sleep(0)
        return one_more(item)

    assert await store.change(SPACE, "n", slowly) == 1


async def test_metadata_stays_unless_it_is_given(store: Store) -> None:
    await store.put(SPACE, "n", 1, {"unit": "kg"})

    for given, kept in (({}, {"unit": "kg"}), ({"metadata": {"unit": "g"}}, {"unit": "g"}),
                        ({"metadata": None}, {})):  # fmt: skip
        await store.change(SPACE, "n", one_more, **given)
        item = await store.get_item(SPACE, "n")
        assert item is not None
        assert item.metadata == kept


async def test_lifetimes_are_as_of_a_put(store: Store) -> None:
    await store.change(SPACE, "n", one_more, ttl=HOUR)
    item = await store.get_item(SPACE, "n")
    assert item is not None
    assert item.expires_at is not None

    await store.change(SPACE, "n", one_more)
    item = await store.get_item(SPACE, "n")
    assert item is not None
    assert item.expires_at is None


async def test_of_many_at_once_none_is_lost(
    store: Store, reopen: Callable[[], Database], lasting: None
) -> None:
    async with reopen() as other:
        stores = (store, memalchemy.Store(other))
        await asyncio.gather(*(stores[n % 2].change(SPACE, "n", one_more) for n in range(20)))

    assert await store.get(SPACE, "n") == 20


async def test_of_a_hundred_at_once_none_gives_up(
    store: Store, reopen: Callable[[], Database], lasting: None
) -> None:
    async with reopen() as other:
        stores = (store, memalchemy.Store(other))
        await asyncio.gather(*(stores[n % 2].change(SPACE, "n", one_more) for n in range(100)))

    assert await store.get(SPACE, "n") == 100


class Overtaken(Store):
    """Somebody else writes after each of its reads, if the item is not locked."""

    others: Store
    reads = 0

    async def get_item(
        self, namespace: Any, key: str, *, connection: Any = None, **more: Any
    ) -> StoreItem | None:
        found = await super().get_item(namespace, key, connection=connection, **more)
        self.reads += 1
        write = self.others.put(SPACE, key, self.reads)
        # Without this task's context, it is somebody else who waits.
        writing = asyncio.create_task(write, context=Context())
        self.writing = [*getattr(self, "writing", ()), writing]
        if connection is None:
            await writing
        else:  # in the transaction that has locked the item
            await give_time_to_go_wrong()
            assert not writing.done()
        return found


@pytest.mark.asyncio_only(reason="its store is an asynchronous one, made by the test")
async def test_a_writer_without_a_pause_starves_no_change(store: Store, db: Database) -> None:
    await store.put(SPACE, "n", 0)
    overtaken = Overtaken(db)
    overtaken.others = store

    changed = await overtaken.change(SPACE, "n", lambda item: f"after {item and item.value}")
    await asyncio.gather(*overtaken.writing)

    assert changed == f"after {overtaken.reads - 1}", "what the last of the others wrote is seen"
    assert overtaken.reads == 5, "three tries, and what the first two lost to"
    assert await store.get(SPACE, "n") == overtaken.reads


@pytest.mark.asyncio_only(reason="its store is an asynchronous one, made by the test")
async def test_a_coroutine_that_is_always_overtaken_is_given_up(store: Store, db: Database) -> None:
    """It may take long, so nothing is locked while it runs."""
    overtaken = Overtaken(db)
    overtaken.others = store

    async def slowly(item: StoreItem | None) -> str:
        return "changed"

    with pytest.raises(Conflict, match="others wrote to the item 'n' 20 times"):
        await overtaken.change(SPACE, "n", slowly)

    assert await store.get(SPACE, "n") == overtaken.reads


async def test_a_conflict_of_the_function_is_its_own(store: Store) -> None:
    calls = 0

    def refuse(_: StoreItem | None) -> None:
        nonlocal calls
        calls += 1
        raise Conflict("of the function")

    with pytest.raises(Conflict, match="of the function"):
        await store.change(SPACE, "n", refuse)

    assert calls == 1


@pytest.mark.parametrize("before", [None, 5])
@pytest.mark.parametrize("meanwhile", ["written", "removed"])
async def test_it_decides_anew_about_what_others_write(
    store: Store, before: int | None, meanwhile: str
) -> None:
    if before is not None:
        await store.put(SPACE, "n", before)
    seen: list[Any] = []

    async def change(item: StoreItem | None) -> Any:
        seen.append(None if item is None else item.value)
        if len(seen) == 1 and meanwhile == "written":
            await store.put(SPACE, "n", 10)
        elif len(seen) == 1:
            await store.delete(SPACE, "n")
        return one_more(item)

    expected = 11 if meanwhile == "written" else 1
    assert await store.change(SPACE, "n", change) == expected
    assert await store.get(SPACE, "n") == expected
    others = 10 if meanwhile == "written" else None
    assert seen == ([before] if before is others else [before, others])


@pytest.mark.parametrize("given", [11, DELETE])
async def test_another_of_its_key_and_version_is_not_taken_for_it(store: Store, given: Any) -> None:
    await store.put(SPACE, "n", 1)
    seen: list[int] = []

    async def change(item: StoreItem | None) -> Any:
        assert item is not None
        seen.append(item.value)
        if len(seen) == 1:
            await store.delete(SPACE, "n")
            assert await store.put(SPACE, "n", 10) == item.version
        return given

    await store.change(SPACE, "n", change)

    assert seen == [1, 10]
    assert await store.get(SPACE, "n") == (None if given is DELETE else given)


async def test_an_item_that_was_read_can_be_what_a_write_expects(store: Store) -> None:
    await store.put(SPACE, "n", 1)
    item = await store.get_item(SPACE, "n")
    assert item is not None

    assert await store.put(SPACE, "n", 2, expected_version=item) == 2
    for write in (store.put(SPACE, "n", 3, expected_version=item),
                  store.delete(SPACE, "n", expected_version=item)):  # fmt: skip
        with pytest.raises(Conflict, match="version 1 was expected") as refused:
            await write
        assert refused.value.expected == 1
    newer = await store.get_item(SPACE, "n")
    assert newer is not None
    assert newer.value == 2
    assert await store.delete(SPACE, "n", expected_version=newer)
    with pytest.raises(TypeError):
        await store.put_embedding(SPACE, "n", [1.0], expected_version=item)  # type: ignore[arg-type]


async def test_it_is_part_of_a_transaction(store: Store, db: Database) -> None:
    async with db.transaction() as tx:
        assert await store.change(SPACE, "n", one_more, connection=tx) == 1
        assert await store.change(SPACE, "n", one_more, connection=tx) == 2
        await tx.rollback()

    assert not await store.exists(SPACE, "n")


class Frozen(Store):
    """Reads as in a transaction that sees one moment only."""

    async def get_item(self, namespace: Any, key: str, **more: Any) -> StoreItem | None:
        if not hasattr(self, "moment"):
            self.moment = await super().get_item(namespace, key, **more)
        return self.moment


@pytest.mark.asyncio_only(reason="its store is an asynchronous one, made by the test")
@pytest.mark.parametrize("before", [None, 5])
async def test_a_transaction_that_sees_nothing_new_is_given_up(
    store: Store, db: Database, before: int | None
) -> None:
    if before is not None:
        await store.put(SPACE, "n", before)
    frozen = Frozen(db)
    await frozen.get_item(SPACE, "n")
    await store.put(SPACE, "n", 10)

    async with asyncio.timeout(A_WHILE), db.transaction() as tx:
        with pytest.raises(Conflict, match="20 times"):
            await frozen.change(SPACE, "n", one_more, connection=tx)

    assert await store.get(SPACE, "n") == 10


@pytest.mark.asyncio_only("a snapshot is lent to no synchronous caller")
async def test_a_transaction_that_sees_one_moment_ends_with_an_error(
    store: Store, db: Database, reopen: Callable[[], Database], lasting: None
) -> None:
    if db.dialect.single_writer:
        pytest.skip("a transaction that may write sees all that was committed")
    await store.put(SPACE, "n", 5)
    async with reopen() as other:
        elsewhere = memalchemy.Store(other)

        async def change(item: StoreItem | None) -> int:
            await elsewhere.put(SPACE, "n", 10)
            return one_more(item)

        async with asyncio.timeout(A_WHILE), db.snapshot() as then:
            with pytest.raises(MemalchemyError):
                await store.change(SPACE, "n", change, connection=then)
            await then.rollback()

    assert await store.get(SPACE, "n") == 10


async def test_a_narrower_view_changes_in_its_namespace(store: Store) -> None:
    assert await NamespacedStore(store, SPACE).change("n", one_more, ttl=HOUR) == 1

    assert await store.get(SPACE, "n") == 1
