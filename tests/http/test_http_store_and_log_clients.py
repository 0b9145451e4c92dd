"""`HTTPStore`, `HTTPThreadLog` and `HTTPConversation`: a store and logs on a server."""

from __future__ import annotations

import asyncio
import itertools
from datetime import UTC, datetime, timedelta
from typing import Any

import httpx
import pytest
from test_http_idempotency import losing

from httpserver import running
from memalchemy import (
    AnsweredByWordsWarning,
    Checkpointer,
    Conflict,
    Conversation,
    Database,
    DatabaseUnreachable,
    HTTPCheckpointer,
    NewItem,
    NotFound,
    NotSerialisable,
    Store,
    ThreadLog,
)
from memalchemy.errors import InvalidArgument
from memalchemy.http import HTTPConversation, HTTPStore, HTTPThreadLog, blocking
from memalchemy.state import Message
from memalchemy.store import DELETE, LEAVE
from servers import free_port
from waiting import A_WHILE

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


async def test_an_item_that_was_read_is_expected_as_it_was(db: Database, base_url: str) -> None:
    native = Store(db)
    async with HTTPStore(base_url) as client:
        for store in (native, client):
            await store.put(USERS, "k", 1)
            read = await store.get_item(USERS, "k")
            assert await store.put(USERS, "k", 2, expected_version=read) == 2
            with pytest.raises(Conflict, match="version 1 was expected") as conflict:
                await store.put(USERS, "k", 3, expected_version=read)
            assert conflict.value.current == await native.get_item(USERS, "k")
            assert await store.delete(USERS, "k")
            await store.put(USERS, "k", 1)  # at version 1 again, and another item
            with pytest.raises(Conflict):
                await store.put(USERS, "k", 3, expected_version=read)
            with pytest.raises(Conflict):
                await store.delete(USERS, "k", expected_version=read)
            again = await store.get_item(USERS, "k")
            assert await store.delete(USERS, "k", expected_version=again) is True


async def test_the_time_of_an_expected_item_comes_with_its_version(base_url: str) -> None:
    time = {"expected_created_at": "2026-01-01T00:00:00Z"}
    async with httpx.AsyncClient(base_url=f"{base_url}/v1/store/notes/items") as client:
        for refused in (
            await client.put("/k", json={"value": 1, **time}),
            await client.put("/k", json={"value": 1, "expected_version": None, **time}),
            await client.delete("/k", params=time),
            await client.delete(
                "/k",
                params={"expected_version": 1, "expected_created_at": "0001-01-01T00:00:00+14:00"},
            ),
        ):
            assert refused.status_code == 422, refused.text
            assert "expected_created_at" in refused.json()["detail"]


@pytest.mark.parametrize(
    "embedding",
    [{"title": [1.0, 2.0]}, {"title": [[1.0, 2.0], [2.0, 1.0]]}, [[1, 2], [2, 1]], {}],
    ids=["of a field", "of a field in parts", "in parts", "none"],
)
async def test_vectors_are_given_by_field_and_in_parts(
    embedding: Any, db: Database, base_url: str
) -> None:
    async with HTTPStore(base_url) as client:
        for namespace, store in ((("native",), Store(db)), (("http",), client)):
            await store.put(namespace, "one", 1, embedding=embedding)
            await store.put_batch([NewItem(namespace, "batch", 1, embedding=embedding)])
            if embedding:
                await store.put(namespace, "later", 1)
                await store.put_embedding(namespace, "later", embedding)
        for key, field, part in itertools.product(("one", "batch", "later"), ("", "title"), (0, 1)):
            expected = await Store(db).get_embedding(("native",), key, field=field, part=part)
            found = await client.get_embedding(("http",), key, field=field, part=part)
            assert found == expected


async def test_what_is_no_vector_is_refused(base_url: str) -> None:
    async with httpx.AsyncClient(base_url=f"{base_url}/v1/store/notes/items") as client:
        for wrong in ("text", {"title": {"a": 1}}, [], [[]], [0, 0], [True], [1e99]):
            refused = await client.put("/k", json={"value": 1, "embedding": wrong})
            assert refused.status_code == 422, wrong


async def test_two_texts_are_a_question_and_an_answer(db: Database, base_url: str) -> None:
    async with HTTPConversation(base_url, "t") as conversation:
        assert await conversation.add("Where is it?", "On its way.") == [1, 2]
        assert await conversation.add("", "") == []
        with pytest.raises(TypeError, match="two texts"):
            await conversation.add("Where is it?")
        roles = [message.role for message in await conversation.history()]
    assert roles == ["user", "assistant"]


async def test_records_of_checkpoints_are_those_of_a_checkpointer(
    db: Database, base_url: str
) -> None:
    native = Checkpointer(db)
    async with HTTPCheckpointer(base_url) as client:
        await client.save({"a": "needle"}, "t", metadata={"m": 1})
        assert await client.get_metadata("t") == await native.get_metadata("t")
        assert await client.list_with_metadata() == await native.list_with_metadata()
        assert await client.search_data("a", "needle") == await native.search_data("a", "needle")
        assert await client.query_by_metadata("m", 1) == await native.query_by_metadata("m", 1)
        assert [one async for one in client.history("t")] == [
            one async for one in native.history("t")
        ]


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
            await log.remove("a/b", [2], expected_version=version)
        assert await log.edit("a/b", 99, "new") is False
        assert await log.remove("a/b", [1, 99]) == 1
        assert await log.remove("a/b", [1]) == 0
        assert [entry.value for entry in await native.range("a/b")] == ["new", "three needles"]
        assert await log.clear("a/b") == 2
        assert await log.delete("a/b") is True
        assert await log.delete("a/b") is False


async def test_a_hybrid_search_over_http_says_that_it_went_by_words(
    db: Database, base_url: str
) -> None:
    await Store(db).put(USERS, "k", "red apple", embedding=[1.0, 0.0])
    async with HTTPStore(base_url) as store:
        with pytest.warns(AnsweredByWordsWarning, match="3 dimensions.*words alone"):
            (hit,) = await store.search(USERS, "apple", mode="hybrid", embedding=[1, 2, 3])
        assert (hit.key, hit.score) == ("k", 1.0)
        (hit,) = await store.search(USERS, "apple", mode="hybrid", embedding=[1, 0], alpha=0)
        assert hit.score == 1.0
        assert await store.search(USERS, "apple", mode="hybrid", alpha=0) == [hit]
        with pytest.raises(InvalidArgument, match="a server makes no vectors"):
            await store.search(USERS, "apple", mode="hybrid", alpha=1)


async def test_searches_over_http_find_any_of_the_words_or_all(db: Database, base_url: str) -> None:
    texts = {"both": "red apple", "one": "red pear"}
    for name, text in texts.items():
        await Store(db).put(USERS, name, text)
        await ThreadLog(db).append(name, text)
        await Checkpointer(db).save({"text": text}, name)
    async with (
        HTTPStore(base_url) as store,
        HTTPThreadLog(base_url) as log,
        HTTPCheckpointer(base_url) as checkpointer,
    ):
        for match, expected in (("any", {"both", "one"}), ("all", {"both"})):
            items = await store.search(USERS, "red apple", match=match)
            assert {hit.key for hit in items} == expected
            entries = await log.search("red apple", match=match)
            assert {hit.thread_id for hit in entries} == expected
            steps = await checkpointer.search("red apple", match=match)
            assert {hit["thread_id"] for hit in steps} == expected
        for refused in (
            lambda: store.search(USERS, "red", match="some"),
            lambda: log.search("red", match="some"),
            lambda: checkpointer.search("red", match="some"),
        ):
            with pytest.raises(ValueError, match="match is any or all, not 'some'"):
                await refused()


async def test_messages_are_searched_over_http(db: Database, base_url: str) -> None:
    await Conversation(db, "other").add("Is the parcel here?", "Not yet.")
    async with HTTPConversation(base_url, "talk") as talk:
        await talk.add({"role": "user", "content": "Where is my parcel, please?"}, keys=["k"])

        (hit,) = await talk.search("parcel")
        assert [hit] == await Conversation(db, "talk").search("parcel")
        assert (hit.message, hit.key) == (Message.user("Where is my parcel, please?"), "k")
        everywhere = await talk.search("parcel", all_conversations=True)
        assert {one.thread_id for one in everywhere} == {"talk", "other"}
        assert everywhere == await Conversation(db, "talk").search("parcel", all_conversations=True)
        both = await talk.search("parcel here", match="all", all_conversations=True)
        assert [one.thread_id for one in both] == ["other"]
        assert await talk.search("parcel", 0) == []
        with pytest.raises(ValueError, match="match is any or all"):
            await talk.search("parcel", match="some")


async def test_what_is_no_message_is_said_so_and_no_search_fails(
    db: Database, base_url: str
) -> None:
    local = Conversation(db, "t")
    await local.add("Where is my parcel?", "In Lyon.")
    await local.log.append("t", [5, "a parcel"])
    async with HTTPConversation(base_url, "t") as conversation:
        for asked in (conversation.history(), conversation.snapshot()):
            with pytest.raises(Conflict, match="is no message: something else has written it"):
                await asked
        (hit,) = await conversation.search("parcel")

    assert hit.message.text == "Where is my parcel?"


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


async def test_items_are_written_read_and_deleted_in_batches(db: Database, base_url: str) -> None:
    native = Store(db)
    one, two, none = (USERS, "one"), (("users",), "two"), (USERS, "none")
    async with HTTPStore(base_url) as store:
        new = NewItem(USERS, "one", {"n": 1}, embedding=[1.0, 2.0], ttl=3600)
        assert await store.put_batch([new, (("users",), "two", b"x", {"m": 1})]) == [1, 1]
        assert await store.put_batch([(*one, 2), (*none, 3)], if_exists="skip") == [0, 1]
        with pytest.raises(Conflict):
            await store.put_batch([(USERS, "new", 2), (*one, 3)], if_exists="fail")
        with pytest.raises(NotSerialisable):
            await store.put_batch([(USERS, "new", 2), (*one, object())])
        with pytest.raises(ValueError, match="no times"):
            await store.put_batch([NewItem(USERS, "new", 2, updated_at=datetime.now(UTC))])
        assert await native.get(USERS, "new") is None
        assert await store.delete_batch([none, none]) == 1

        items = await store.get_items([two, one, none])
        assert items == await native.get_items([two, one, none])
        assert list(items) == [two, one]
        assert await store.get_batch([one, two]) == {one: {"n": 1}, two: b"x"}
        assert await store.exists(*one) is True
        assert await store.exists(*none) is False
        assert await store.refresh([one, two, none]) == 1
        assert [key async for key in store.iter_keys(USERS)] == ["one"]

        assert await store.get_embedding(*one) == [1.0, 2.0]
        assert await store.get_embedding(*two) is None
        assert await store.put_embedding(*two, [2.0, 1.0]) is True
        assert await store.put_embedding(*none, [2.0, 1.0]) is False
        assert await store.get_embeddings([one, two, none]) == {one: [1.0, 2.0], two: [2.0, 1.0]}
        (nearest,) = await store.search_by_embedding(("users",), [1.0, 2.0], 1, prefix=True)
        assert nearest.key == "one"
        assert await store.delete_matching(("users",), {"m": 1}) == 1
        with pytest.raises(ValueError, match="filter"):
            await store.delete_matching(USERS, {})
        assert await store.forget_namespace(USERS) == 1
        assert await store.sweep() == 0


async def test_a_state_is_changed_by_a_function_and_loses_no_change(base_url: str) -> None:
    async with HTTPCheckpointer(base_url) as checkpointer:
        first = await checkpointer.change("t/1", lambda state: {"n": 1}, {"m": 1}, ttl=3600)

        async def slowly(state: dict[str, int]) -> dict[str, int]:
            await asyncio.sleep(0)
            return {"n": state["n"] + 1}

        changes = (slowly, lambda state: {"n": state["n"] + 1})
        ids = await asyncio.gather(*(checkpointer.change("t/1", changes[n % 2]) for n in range(6)))

        assert await checkpointer.load("t/1") == {"n": 7}
        found = await checkpointer.list_checkpoints("t/1")
        assert set(found) == {first, *ids}
        assert await checkpointer.change("t/1", lambda state: LEAVE) == found[0]
        assert await checkpointer.change("nobody", lambda state: LEAVE) is None
        with pytest.raises(InvalidArgument):
            await checkpointer.change("t/1", lambda state: None)
        with pytest.raises(ZeroDivisionError):
            await checkpointer.change("t/1", lambda state: {"n": state["n"] / 0})
        assert await checkpointer.list_checkpoints("t/1", 1) == found[:1]


async def test_an_item_is_changed_by_a_function_and_loses_no_change(base_url: str) -> None:
    async with HTTPStore(base_url) as store:
        assert await store.change(USERS, "n", lambda item: 1, metadata={"kept": True}) == 1

        async def increase() -> None:
            await store.change(USERS, "n", lambda item: item.value + 1)

        await asyncio.gather(*(increase() for _ in range(6)))
        with pytest.raises(Conflict) as conflict:
            await store.put(USERS, "n", 0, expected_version=1)
        item = await store.get_item(USERS, "n")

        assert (item.value, item.metadata) == (7, {"kept": True})
        assert conflict.value.current == item
        assert await store.change(USERS, "n", lambda item: LEAVE) == 7
        assert await store.change(USERS, "n", lambda item: DELETE) is None
        assert await store.exists(USERS, "n") is False


async def test_a_log_is_replaced_popped_forked_and_read_with_others(
    db: Database, base_url: str
) -> None:
    native, said = ThreadLog(db), datetime(2026, 1, 2, tzinfo=UTC)
    async with HTTPThreadLog(base_url) as log:
        await log.append("t", ["a", "b", "c"], keys=["ka", None, None], occurred_at=said)
        assert await log.replace_suffix("t", 1, ["B", b"C"], keys=["kb", None]) == [4, 5]
        with pytest.raises(Conflict):
            await log.replace_suffix("t", 0, [], expected_version=1)
        popped = await log.pop("t")
        assert (popped.position, popped.value) == (5, b"C")
        with pytest.raises(Conflict):
            await log.pop("t", expected_version=1)
        assert await log.pop("nobody") is None

        entries = await native.range("t")
        assert [entry.value for entry in entries] == ["a", "B"]
        assert await log.range("t", before=4) == entries[:1]
        assert await log.range("t", since=said + timedelta(days=1)) == entries[1:]
        assert await log.range("t", until=said + timedelta(days=1)) == entries[:1]
        assert await log.tail("t", before=4) == entries[:1]
        backward = [entry async for entry in log.iter_entries("t", newest_first=True)]
        assert backward == entries[::-1]
        newest = [entry async for entry in log.iter_entries("t", after=1, newest_first=True)]
        assert newest == entries[1:]

        assert await log.fork("t", 1, new_thread_id="f") == "f"
        assert await log.fork("t", namespace=("copies",)) != "t"
        with pytest.raises(Conflict):
            await log.fork("t", new_thread_id="f")
        with pytest.raises(NotFound):
            await log.fork("nobody")
        assert await log.find("ka") == await native.find("ka")
        assert set(await log.find("ka", thread_id="f")) == {"f"}
        assert await log.read_threads(["t", "nobody"]) == {"t": entries}
        assert await log.read_threads(["t"], newest=True) == {"t": entries[1:]}
        assert await log.last_written(["t", "f"]) == await native.last_written(["t", "f"])
        assert await log.count_threads() == 2
        assert await log.count_threads("f*") == 1


async def test_a_conversation_is_amended_summarised_and_restored(
    db: Database, base_url: str
) -> None:
    native = Conversation(db, "t")
    async with HTTPConversation(base_url, "t") as conversation:
        assert await conversation.amend_last("nobody said anything") is False
        await conversation.add(Message.user("Hello"), Message.assistant("Hi"))
        assert await conversation.amend_last("Hi there") is True
        await conversation.set_summary("They met.", summarized=1)
        with pytest.raises(TypeError):
            await conversation.set_summary(7)
        snapshot = await conversation.snapshot()

        assert await conversation.count() == 2
        assert snapshot == await native.snapshot()
        assert (snapshot["summary"], snapshot["summarized"]) == ("They met.", 1)
        await conversation.restore(snapshot["messages"][:1])
        assert (await native.snapshot())["summary"] == "They met."
        await conversation.restore(snapshot)
        assert await native.snapshot() == snapshot
        with pytest.raises(ValueError, match="messages="):
            await conversation.restore({"messages": "none"})
        assert await native.snapshot() == snapshot


async def test_a_tool_exchange_is_begun_and_committed(db: Database, base_url: str) -> None:
    native = Conversation(db, "t")
    call = {
        "role": "assistant",
        "content": None,
        "tool_calls": [
            {"id": "c1", "type": "function", "function": {"name": "look", "arguments": "{}"}}
        ],
    }
    result = {"role": "tool", "tool_call_id": "c1", "content": "seen"}
    async with HTTPConversation(base_url, "t") as conversation:
        assert await conversation.active_tool_exchange() is None
        with pytest.raises(ValueError, match="calls tools"):
            await conversation.begin_tool_exchange(Message.assistant("Hi"))
        begun = await conversation.begin_tool_exchange(call)
        with pytest.raises(Conflict):
            await conversation.begin_tool_exchange(call)
        assert begun == await native.active_tool_exchange()
        assert begun.missing == ["c1"]
        with pytest.raises(ValueError, match="no call"):
            await conversation.add_tool_results(result | {"tool_call_id": "c2"})
        assert (await conversation.add_tool_results(result)).missing == []
        assert await conversation.active_tool_exchange() == await native.active_tool_exchange()
        assert await conversation.commit_tool_exchange() == [1, 2]
        assert [message.role for message in await native.history()] == ["assistant", "tool"]
        with pytest.raises(NotFound):
            await conversation.commit_tool_exchange()
        await conversation.begin_tool_exchange(call)
        assert (await conversation.abort_tool_exchange()).missing == ["c1"]
        assert await conversation.abort_tool_exchange() is None


async def test_threads_are_counted_described_and_thinned_out(db: Database, base_url: str) -> None:
    native, said = Checkpointer(db), datetime(2026, 1, 2, tzinfo=UTC)
    async with HTTPCheckpointer(base_url) as client:
        made = [await client.save({"n": n}, "t", occurred_at=said) for n in range(3)]
        await ThreadLog(db).append("t", 1)
        assert await client.count_threads() == 1
        assert await client.count_threads("x*") == 0
        assert (await client.get_metadata("t"))["occurred_at"] == said
        await client.set_thread_metadata("t", {"title": "A flight"})
        with pytest.raises(NotFound):
            await client.set_thread_metadata("nobody", {})
        assert await client.list_logs() == await native.list_logs()
        assert (await client.list_logs("t"))[0].metadata == {"title": "A flight"}
        assert await client.list_logs("t", below=True) == await native.list_logs("t", below=True)
        assert await client.namespaces("t") == await native.namespaces("t") == [()]
        assert await client.delete_checkpoints("t", [*made[:2], "none"]) == 2
        assert await native.list_checkpoints("t") == made[2:]


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
    with losing(base_url, 2) as url:
        async with HTTPConversation(url, "other") as conversation:
            await conversation.add(Message.user("Hello"))
    with losing(base_url, 2) as url:
        async with HTTPConversation(url, "other") as conversation:
            assert await conversation.clear() == 1
    with losing(base_url, 1) as url:
        async with HTTPThreadLog(url) as log:
            assert (await log.pop("t")).value == "two"
    with losing(base_url, 1) as url:
        async with HTTPStore(url) as store:
            assert await store.put_batch([(USERS, "k", 1)], if_exists="fail") == [1]

    assert await ThreadLog(db).count("t") == 1
    assert len(await Conversation(db, "t").history()) == 1
    assert await Conversation(db, "other").history() == []


async def test_an_outage_is_an_exception() -> None:
    url = f"http://127.0.0.1:{free_port()}"
    async with HTTPStore(url, timeout=A_WHILE) as store:
        with pytest.raises(DatabaseUnreachable):
            await store.get(USERS, "k")
    async with HTTPThreadLog(url, timeout=A_WHILE) as log:
        with pytest.raises(DatabaseUnreachable):
            await log.append("t", 1)
    async with HTTPConversation(url, "t", timeout=A_WHILE) as conversation:
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
