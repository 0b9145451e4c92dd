"""The store inside a host's transaction, and what an observer is told."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace
from datetime import timedelta
from typing import Any

import pytest
from sqlalchemy.ext.asyncio import AsyncSession, create_async_engine
from store_helpers import Embedder, found_by, keys_of, undone

from host_urls import async_url
from memalchemy import Conflict, Database, NotSerialisable, Store, events
from memalchemy.events import Event

NS = ("host",)
VECTOR = [1.0, 0.5]


async def contents(store: Store, **where: Any) -> dict[str, Any]:
    """All that the store has to say."""
    return {
        "items": await store.list_items((), prefix=True, order="key", **where),
        "keys": await store.list_keys(NS, **where),
        "namespaces": await store.list_namespaces(**where),
        "count": await store.count((), prefix=True, **where),
        "batch": await store.get_batch([(NS, "a"), (NS, "b"), (NS, "c")], **where),
        "vector": await store.get_embedding(NS, "a", **where),
        "listed": await store.search(NS, **where),
        "words": sorted(keys_of(await store.search(NS, "needle", **where))),
        "near": found_by(await store.search_by_embedding(NS, VECTOR, **where)),
    }


async def test_a_transaction_sees_its_own_writes_on_every_path(db: Database, store: Store) -> None:
    await store.put(NS, "a", {"text": "old"}, {"kind": "x"})

    async with db.transaction() as tx:
        c: dict[str, Any] = {"connection": tx}
        assert await store.put(NS, "a", {"text": "needle"}, {"kind": "y"}, **c) == 2
        assert await store.put(NS, "n", None, expected_version=None, **c) == 1
        assert await store.put_with_embedding(NS, "b", {"text": "needle"}, VECTOR, **c) == 1
        versions = await store.put_batch([(NS, "c", 3), (("other",), "d", 4)], **c)
        assert versions == [1, 1]
        assert await store.delete(NS, "c", **c) is True

        assert await store.get(NS, "a", **c) == {"text": "needle"}
        item = await store.get_item(NS, "a", **c)
        assert item is not None
        assert (item.version, item.metadata) == (2, {"kind": "y"})
        assert await store.exists(NS, "n", **c)
        assert not await store.exists(NS, "c", **c)
        assert await store.list_keys(NS, **c) == ["a", "b", "n"]
        assert keys_of(await store.list_items(NS, order="key", **c)) == ["a", "b", "n"]
        assert keys_of(await store.list_items(NS, filter={"kind": "y"}, **c)) == ["a"]
        assert await store.count(NS, **c) == 3
        assert await store.list_namespaces(**c) == [NS, ("other",)]
        assert await store.get_batch([(NS, "b"), (NS, "c")], **c) == {(NS, "b"): {"text": "needle"}}
        assert await store.get_embedding(NS, "b", **c) == VECTOR
        assert found_by(await store.search_by_embedding(NS, VECTOR, **c)) == ["b"]
        assert sorted(keys_of(await store.search(NS, **c))) == ["a", "b", "n"]
        if db.dialect.text.sees_uncommitted:
            assert sorted(keys_of(await store.search(NS, "needle", **c))) == ["a", "b"]
            assert sorted(keys_of(await store.search_many([NS], "needle", **c))) == ["a", "b"]
            assert await store.search(NS, "old", **c) == []
        assert await store.clear_namespace(("other",), **c) == 1
        assert await store.sweep(**c) == 0

    assert await store.list_keys(NS) == ["a", "b", "n"]
    assert await store.list_namespaces() == [NS]
    assert sorted(keys_of(await store.search(NS, "needle"))) == ["a", "b"]
    assert await store.get_embedding(NS, "b") == VECTOR


async def test_what_is_rolled_back_leaves_nothing(db: Database, store: Store) -> None:
    await store.put(NS, "a", "needle", {"m": 1}, embedding=VECTOR)
    await store.put(NS, "b", "needle", embedding=[0.0, 1.0])
    before = await contents(store)

    async with undone(db) as tx:
        await store.put(NS, "a", "lost", connection=tx)
        await store.delete(NS, "b", connection=tx)
        await store.put_with_embedding(NS, "c", "lost needle", VECTOR, connection=tx)
        await store.put_batch([(NS, "d", "lost"), (("other",), "e", "lost")], connection=tx)
        await store.clear_namespace(("other",), connection=tx)
        await contents(store, connection=tx)

    assert await contents(store) == before
    assert await store.search((), "lost", prefix=True) == []
    assert await store.put(NS, "a", "next") == 2
    assert await store.put(NS, "c", "first") == 1


async def test_a_clearing_that_is_rolled_back_clears_nothing(db: Database, store: Store) -> None:
    await store.put(NS, "a", "needle", embedding=VECTOR)
    before = await contents(store)

    async with undone(db) as tx:
        assert await store.clear_namespace((), prefix=True, connection=tx) == 1
        assert await store.count((), prefix=True, connection=tx) == 0
        assert await store.search_by_embedding(NS, VECTOR, connection=tx) == []

    assert await contents(store) == before


async def test_a_read_that_prolongs_does_so_in_the_transaction(db: Database, store: Store) -> None:
    await store.put(NS, "a", 1, ttl=timedelta(hours=1))
    before = await store.get_item(NS, "a", refresh=False)
    async with undone(db) as tx:
        assert await store.get(NS, "a", refresh=True, connection=tx) == 1

    assert await store.get_item(NS, "a", refresh=False) == before


async def test_nobody_else_sees_a_write_before_its_commit(
    db: Database, store: Store, reopen: Callable[[], Database]
) -> None:
    async with reopen() as elsewhere:
        other = Store(elsewhere)
        async with db.transaction() as tx:
            await store.put_with_embedding(NS, "a", "needle", VECTOR, connection=tx)
            assert await other.get(NS, "a") is None
            assert await other.search(NS, "needle") == []
            assert await other.search_by_embedding(NS, VECTOR) == []
        assert await other.get(NS, "a") == "needle"
        assert keys_of(await other.search(NS, "needle")) == ["a"]
        assert found_by(await other.search_by_embedding(NS, VECTOR)) == ["a"]


async def test_a_session_of_the_hosts_own_engine_serves_as_well(
    db: Database, store: Store, owner_url: str, reopen: Callable[[], Database]
) -> None:
    engine = create_async_engine(async_url(owner_url))
    async with AsyncSession(engine) as session:
        await store.put_with_embedding(NS, "lost", "needle", VECTOR, connection=session)
        assert await store.get(NS, "lost", connection=session) == "needle"
        await session.rollback()
        await store.put_with_embedding(NS, "kept", "needle", VECTOR, connection=session)
        found = await store.search_by_embedding(NS, VECTOR, connection=session)
        assert found_by(found) == ["kept"]
        await session.commit()
    await engine.dispose()

    assert await store.list_keys(NS) == ["kept"]
    assert keys_of(await store.search(NS, "needle")) == ["kept"]
    assert found_by(await store.search_by_embedding(NS, VECTOR)) == ["kept"]


# --- Events --------------------------------------------------------------------------------------


@pytest.fixture
def told(db: Database) -> Iterator[list[Event]]:
    seen: list[Event] = []
    end = events.subscribe(lambda event: seen.append(event) if event.tenant == db.tenant else None)
    yield seen
    end()


def names(told: list[Event]) -> list[str]:
    """The names of the store's events, once each; what has been told is forgotten."""
    seen = [event.name for event in told if event.name.startswith("store.")]
    told.clear()
    return list(dict.fromkeys(seen))


async def test_each_operation_is_told_by_its_name(store: Store, told: list[Event]) -> None:
    await store.put(NS, "a", "needle")
    assert names(told) == ["store.put"]
    await store.put_batch([(NS, "b", 1), (NS, "c", 2)])
    assert names(told) == ["store.put"]
    await store.put_with_embedding(NS, "d", 1, VECTOR)
    assert names(told) == ["store.put"]
    await store.get(NS, "a")
    assert names(told) == ["store.get"]
    await store.get_item(NS, "absent")
    assert names(told) == ["store.get"]
    await store.delete(NS, "a")
    assert names(told) == ["store.delete"]
    await store.search(NS, "needle")
    assert names(told) == ["store.search"]
    await store.search_by_embedding(NS, VECTOR)
    assert names(told) == ["store.search"]
    await store.list_items(NS)
    assert names(told) == ["store.list"]
    await store.list_keys(NS)
    assert names(told) == ["store.list"]
    await store.sweep()
    assert names(told) == ["store.sweep"]
    await store.clear_namespace(NS)
    assert names(told) == ["store.clear"]


async def test_a_puts_event_counts_the_vectors_that_were_written(
    db: Database, told: list[Event]
) -> None:
    store = Store(db, embedder=Embedder())
    await store.put(NS, "a", {"title": "one", "parts": ["two", "three"]}, index=["title", "parts"])
    await store.put(NS, "b", {"title": "one"}, index=["titel"])
    await store.put(NS, "c", 1, embedding=VECTOR)
    await store.put_embedding(NS, "a", VECTOR, model="other")
    await store.put_batch([(NS, "d", {"title": "one"}), (NS, "e", {})], index=["title"])

    counts = [event.details["vectors"] for event in told if event.name == "store.put"]
    assert counts == [3, 0, 1, 1, 1]


async def test_an_event_tells_no_contents(store: Store, told: list[Event]) -> None:
    value, metadata = {"text": "secret-one"}, {"m": "secret-two"}
    vector = [98765.4375, 1.0]
    await store.put(NS, "a", value, metadata, embedding=vector)
    await store.put_batch([(NS, "b", value, metadata)])
    await store.get_item(NS, "a")
    await store.search(NS, "secret-one", filter={"m": "secret-two"}, explain=True)
    await store.search_by_embedding(NS, vector, metadata_filter={"m": "secret-two"})
    await store.list_items(NS, filter={"text": "secret-one"})
    with pytest.raises(Conflict):
        await store.put(NS, "a", "secret-three", expected_version=9)
    await store.delete(NS, "a")

    assert len([event for event in told if event.name.startswith("store.")]) >= 8
    assert all(event.seconds >= 0 for event in told)
    assert "secret" not in repr(told)
    timeless = [replace(event, seconds=0.0) for event in told]  # a clock may say any digits
    assert "98765" not in repr(timeless)


async def test_an_event_names_the_error_that_ended_its_operation(
    store: Store, told: list[Event]
) -> None:
    await store.put(NS, "a", 1)
    with pytest.raises(Conflict):
        await store.put(NS, "a", 2, expected_version=None)
    with pytest.raises(Conflict):
        await store.delete(NS, "a", expected_version=9)

    errors = [(event.name, event.error) for event in told if event.name.startswith("store.")]
    assert errors[0] == ("store.put", None)
    assert ("store.put", "Conflict") in errors
    assert ("store.delete", "Conflict") in errors


async def test_no_error_carries_the_contents(store: Store) -> None:
    await store.put(NS, "a", "secret", {"m": "secret"})

    with pytest.raises(Conflict) as conflict:
        await store.put(NS, "a", "secret", expected_version=None)
    with pytest.raises(NotSerialisable) as refused:
        await store.put(NS, "a", {"text": "secret", "x": object()})
    assert "secret" not in str(conflict.value)
    assert "secret" not in str(refused.value)
