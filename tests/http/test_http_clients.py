"""`HTTPStore`, `HTTPThreadLog` and `HTTPConversation`: a store and logs on a server."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import pytest
from test_http_repeats import losing

from httpserver import running
from memalchemy import (
    Conflict,
    Conversation,
    Database,
    DatabaseUnreachable,
    NotSerialisable,
    Store,
    ThreadLog,
)
from memalchemy.http import HTTPConversation, HTTPStore, HTTPThreadLog, blocking
from memalchemy.state import Message
from servers import free_port

pytestmark = pytest.mark.usefixtures("lasting")

USERS = ("users", "a/b~c")


async def test_items_are_written_read_and_deleted(db: Database, base_url: str) -> None:
    when = datetime(2026, 1, 2, tzinfo=UTC)
    async with HTTPStore(base_url) as store:
        assert await store.put(USERS, "k/1", {"when": when, "raw": b"x"}, {"m": 1}) == 1
        assert await store.put(USERS, "k/1", {"when": when, "raw": b"y"}, ttl=3600) == 2
        with pytest.raises(Conflict) as conflict:
            await store.put(USERS, "k/1", 3, expected_version=1)
        with pytest.raises(Conflict):
            await store.put(USERS, "k/1", 3, expected_version=None)
        with pytest.raises(NotSerialisable):
            await store.put(USERS, "k/2", object())
        item = await store.get_item(USERS, "k/1")

        assert conflict.value.current is not None
        assert item == await Store(db).get_item(USERS, "k/1")
        assert item.value == {"when": when, "raw": b"y"}
        assert item.expires_at - datetime.now(UTC) < timedelta(hours=1, seconds=5)
        assert await store.get(USERS, "none", "default") == "default"
        assert await store.get_item(USERS, "none") is None
        with pytest.raises(Conflict):
            await store.delete(USERS, "k/1", expected_version=1)
        assert await store.delete(USERS, "k/1", expected_version=2) is True
        assert await store.delete(USERS, "k/1") is False


async def test_items_are_listed_counted_and_searched(
    db: Database, base_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("memalchemy.http.client._remote.PAGE", 2)
    native = Store(db)
    for n in range(5):
        await native.put(USERS, f"k{n}", f"needle {n}", {"n": n}, embedding=[1.0, n])
    await native.put(("users",), "top", "hay")
    async with HTTPStore(base_url) as store:
        assert await store.list_keys(USERS) == await native.list_keys(USERS)
        assert await store.list_keys(USERS, 3, prefix="k") == ["k0", "k1", "k2"]
        assert await store.list_items(USERS) == await native.list_items(USERS)
        below = await native.list_items(("users",), prefix=True, order="key")
        assert await store.list_items(("users",), prefix=True, order="key") == below
        assert [item async for item in store.iter_items(USERS)] == await native.list_items(USERS)
        assert await store.list_namespaces() == [("users",), USERS]
        assert await store.list_namespaces(USERS) == [USERS]
        assert await store.count(USERS) == 5
        assert await store.count(("users",), prefix=True) == 6
        found = await store.search(USERS, "needle", filter={"n": {"$gt": 2}})
        assert found == await native.search(USERS, "needle", filter={"n": {"$gt": 2}})
        nearest = await store.search(USERS, mode="vector", embedding=[1, 9])
        assert nearest[0].key == "k4"
        assert await store.clear_namespace(USERS) == 5
        assert await store.clear_namespace(("users",), prefix=True) == 1


async def test_a_log_is_written_and_read(
    db: Database, base_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("memalchemy.http.client._remote.PAGE", 2)
    native, said = ThreadLog(db, namespace=("app", "log")), datetime(2026, 1, 2, tzinfo=UTC)
    async with HTTPThreadLog(base_url, namespace=("app", "log")) as log:
        assert await log.version("a/b") == 0
        values = [{"n": 1}, b"two", "three needles"]
        keys = ["k1", None, "k3"]
        assert await log.append("a/b", values, keys=keys, occurred_at=said) == [1, 2, 3]
        assert await log.append("a/b", {"n": 1}, keys="k1") == [1]
        with pytest.raises(Conflict):
            await log.append("a/b", 1, keys="k1", new_keys=True)
        with pytest.raises(Conflict):
            await log.append("a/b", 1, expected_version=0)
        with pytest.raises(ValueError, match="one for each"):
            await log.append("a/b", [1, 2], keys=["k9"])

        entries = await native.range("a/b")
        assert await log.range("a/b") == entries
        assert entries[0].occurred_at == said
        assert await log.range("a/b", after=1, limit=1) == entries[1:2]
        assert await log.tail("a/b", 2) == entries[1:]
        assert [entry async for entry in log.iter_entries("a/b")] == entries
        assert await log.count("a/b") == 3
        (hit,) = await log.search("needles", thread_id="a/b")
        assert (hit.thread_id, hit.position, hit.value) == ("a/b", 3, "three needles")
        assert await log.list_threads() == ["a/b"]
        version = await log.version("a/b")
        assert await log.edit("a/b", 2, "new", expected_version=version) is True
        with pytest.raises(Conflict):
            await log.remove("a/b", 2, expected_version=version)
        assert await log.edit("a/b", 99, "new") is False
        assert await log.remove("a/b", 1) is True
        assert await log.remove("a/b", 1) is False
        assert [entry.value for entry in await native.range("a/b")] == ["new", "three needles"]
        assert await log.clear("a/b") == 2
        assert await log.delete("a/b") is True
        assert await log.delete("a/b") is False


async def test_a_conversation_is_added_to_and_read(db: Database, base_url: str) -> None:
    native = Conversation(db, "t")
    async with HTTPConversation(base_url, "t") as conversation:
        hello = Message.user("Hello")
        assert await conversation.add(hello, {"role": "assistant", "content": "Hi"}) == [1, 2]
        assert await conversation.add([hello], keys=["m"]) == [3]
        assert await conversation.add(hello, keys="m") == [3]
        with pytest.raises((TypeError, ValueError)):
            await conversation.add("a text without a role")

        assert await conversation.history() == await native.history()
        assert await conversation.history(after=1) == await native.history(after=1)
        assert await conversation.history(limit=2) == await native.history(limit=2)
        assert await conversation.clear() == 3
        assert await conversation.delete() is True
        assert await conversation.delete() is False
    assert await native.history() == []


async def test_writes_whose_answers_are_lost_are_done_once(db: Database, base_url: str) -> None:
    with losing(base_url, 1) as url:
        async with HTTPStore(url) as store:
            assert await store.put(USERS, "k", 1, expected_version=None) == 1
    with losing(base_url, 2) as url:
        async with HTTPStore(url) as store:
            assert await store.delete(USERS, "k") is True
    with losing(base_url, 2) as url:
        async with HTTPThreadLog(url) as log:
            assert await log.append("t", ["one", "two"]) == [1, 2]
    with losing(base_url, 1) as url:
        async with HTTPConversation(url, "t") as conversation:
            assert await conversation.add(Message.user("Hello")) == [1]

    assert await ThreadLog(db).count("t") == 2
    assert len(await Conversation(db, "t").history()) == 1


async def test_an_outage_is_an_exception() -> None:
    url = f"http://127.0.0.1:{free_port()}"
    async with HTTPStore(url, timeout=2) as store:
        with pytest.raises(DatabaseUnreachable):
            await store.get(USERS, "k")
    async with HTTPThreadLog(url, timeout=2) as log:
        with pytest.raises(DatabaseUnreachable):
            await log.append("t", 1)
    async with HTTPConversation(url, "t", timeout=2) as conversation:
        with pytest.raises(DatabaseUnreachable):
            await conversation.history()


def test_the_synchronous_clients_do_the_same(db: Database) -> None:
    with running(db) as url:
        with blocking.HTTPStore(url) as store:
            assert store.put(USERS, "k", 1) == 1
            assert [item.value for item in store.iter_items(USERS)] == [1]
        with blocking.HTTPThreadLog(url) as log:
            assert log.append("t", 1) == [1]
            assert [entry.value for entry in log.iter_entries("t")] == [1]
        with blocking.HTTPConversation(url, "t") as conversation:
            assert conversation.add(Message.user("Hello")) == [1]
            assert [message.content for message in conversation.history()] == ["Hello"]
