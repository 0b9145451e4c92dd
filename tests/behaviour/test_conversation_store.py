"""Whole conversations, saved and loaded at once."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

import memalchemy
from memalchemy import Conversation, ConversationStore, Database, NotSerialisable
from memalchemy.events import Event, subscribe
from memalchemy.state import Message

HISTORY = [Message.user("hello"), Message.assistant("hi"), Message.user("bye")]


@pytest.fixture
def conversations(db: Database) -> ConversationStore:
    return memalchemy.ConversationStore(db)


async def test_a_history_loads_as_it_was_saved(conversations: ConversationStore) -> None:
    assert await conversations.load("c") == []
    assert await conversations.load_snapshot("c") is None

    await conversations.save("c", HISTORY)

    assert await conversations.load("c") == HISTORY
    records = [message.to_record() for message in HISTORY]
    assert await conversations.load_snapshot("c") == {
        "messages": records,
        "summary": None,
        "summarized": 0,
    }
    await conversations.save("d", records)
    assert await conversations.load("d") == HISTORY


async def test_a_snapshot_is_stored_with_all_its_keys(conversations: ConversationStore) -> None:
    snapshot = {"messages": [HISTORY[0]], "summary": "before", "tool_exchange": {"ids": ["a"]}}
    await conversations.save("c", snapshot)

    found = await conversations.load_snapshot("c")

    assert found is not None
    assert found["summary"] == "before"
    assert found["tool_exchange"] == {"ids": ["a"]}
    await conversations.save("c", {"messages": HISTORY, "summary": None})
    assert (await conversations.load_snapshot("c") or {})["summary"] is None


@pytest.mark.parametrize(
    ("then", "written"),
    [
        (HISTORY, None),
        ([*HISTORY, Message.assistant("ciao")], 1),
        ([*HISTORY[:1], Message.assistant("HI"), *HISTORY[2:]], 2),
        (HISTORY[:1], 0),
        ([], 0),
        ([Message.user("hello", metadata={"n": True}), *HISTORY[1:]], 3),
    ],
)
async def test_saving_a_history_writes_the_difference(
    conversations: ConversationStore, then: list[Message], written: int | None
) -> None:
    await conversations.save("c", HISTORY)
    events: list[Event] = []
    unsubscribe = subscribe(events.append)
    await conversations.save("c", then)
    unsubscribe()

    replaced = [event.details["entries"] for event in events if event.name == "thread.replace"]
    assert replaced == ([] if written is None else [written])
    assert await conversations.load("c") == then


async def test_equal_values_of_other_types_are_a_difference(
    conversations: ConversationStore,
) -> None:
    await conversations.save("c", [Message.user("x", metadata={"n": 1})])
    await conversations.save("c", [Message.user("x", metadata={"n": True})])

    assert (await conversations.load("c"))[0].metadata["n"] is True


async def test_of_two_concurrent_saves_one_is_stored_whole(
    conversations: ConversationStore,
) -> None:
    ours = [Message.user(f"ours {n}") for n in range(20)]
    theirs = [Message.user(f"theirs {n}") for n in range(20)]

    await asyncio.gather(*(conversations.save("c", h) for h in (ours, theirs) for _ in range(3)))

    assert await conversations.load("c") in (ours, theirs)


async def test_bad_messages_change_nothing(conversations: ConversationStore) -> None:
    await conversations.save("c", HISTORY)
    bad: list[Any] = ["text", 7, {"no": "messages"}, [7], {"messages": "text"}]

    for given in bad:
        with pytest.raises((TypeError, ValueError)):
            await conversations.save("c", given)

    assert await conversations.load("c") == HISTORY


async def test_conversations_are_listed_deleted_and_cleared(
    db: Database, conversations: ConversationStore
) -> None:
    for name in ("a-1", "a-2", "b"):
        await conversations.save(name, HISTORY)
    other = memalchemy.ConversationStore(db, namespace=("other",))
    await other.save("a-1", HISTORY)

    assert await conversations.list() == ["b", "a-2", "a-1"]
    assert await conversations.list(pattern="a-*") == ["a-2", "a-1"]
    assert await conversations.list(1) == ["b"]
    assert await conversations.list(0) == []
    assert (await conversations.count(), await conversations.count("a-*")) == (3, 2)
    assert await conversations.delete("b") is True
    assert await conversations.delete("b") is False
    assert await conversations.load("b") == []
    assert await conversations.clear() == 2
    assert await conversations.count() == 0
    assert await conversations.list() == []
    assert await other.load("a-1") == HISTORY


async def test_a_conversation_and_a_store_share_their_messages(
    db: Database, conversations: ConversationStore
) -> None:
    await conversations.save("c", HISTORY)
    talk: Conversation = conversations.conversation("c")

    await talk.add(Message.assistant("ciao"))

    assert await conversations.load("c") == [*HISTORY, Message.assistant("ciao")]
    assert [hit.thread_id for hit in await talk.log.search("ciao")] == ["c"]


async def test_a_snapshot_that_cannot_be_saved_whole_changes_nothing(
    conversations: ConversationStore,
) -> None:
    await conversations.save("c", {"messages": HISTORY, "summary": "before"})
    other = [Message.user("other")]
    bad: list[Any] = [
        ({"messages": other, "summary": 7}, TypeError),
        ({"messages": other, "summary": "other", "more": object()}, NotSerialisable),
    ]

    for given, error in bad:
        with pytest.raises(error):
            await conversations.save("c", given)

    assert await conversations.load("c") == HISTORY
    assert (await conversations.load_snapshot("c") or {})["summary"] == "before"


async def test_of_two_concurrent_snapshots_one_is_stored_with_its_own_summary(
    conversations: ConversationStore,
) -> None:
    ours: dict[str, Any] = {"messages": [Message.user("ours")] * 5, "summary": "ours"}
    theirs: dict[str, Any] = {"messages": [Message.user("theirs")] * 5, "summary": "theirs"}

    for name in (f"c{number}" for number in range(12)):
        given = [(ours, 1), (theirs, 2)] * 3
        await asyncio.gather(
            *(conversations.save(name, whole | {"summarized": n}) for whole, n in given)
        )
        found = await conversations.load_snapshot(name) or {}
        of = ours if found["summarized"] == 1 else theirs
        assert (await conversations.load(name), found["summary"]) == (of["messages"], of["summary"])


async def test_an_unchanged_summary_stands_for_the_messages_saved_with_it(
    conversations: ConversationStore,
) -> None:
    def snapshot(first: str, summarized: int) -> dict[str, Any]:
        messages = [Message.user(first), *HISTORY]
        return {"messages": messages, "summary": "the same", "summarized": summarized}

    given: dict[str, Any]
    for n, given in enumerate([snapshot("a", 2), snapshot("a", 3), snapshot("A", 3)]):
        await conversations.save("c", given | {"n": n if n < 2 else True})

        found = await conversations.load_snapshot("c") or {}
        assert (found["summary"], found["summarized"]) == ("the same", given["summarized"])
        assert found["n"] is (n if n < 2 else True)


@pytest.mark.parametrize("ttl", [None, 3600])
async def test_a_snapshot_without_messages_is_kept(db: Database, ttl: int | None) -> None:
    conversations = memalchemy.ConversationStore(db, ttl=ttl)
    await conversations.save("c", {"messages": [], "summary": "long ago", "todo": ["x"]})

    assert await conversations.load_snapshot("c") == {
        "messages": [],
        "summary": "long ago",
        "summarized": 0,
        "todo": ["x"],
    }
    assert await conversations.load("c") == []
    assert await conversations.delete("c") is True
    assert await conversations.load_snapshot("c") is None


@pytest.mark.asyncio_only("a call without await has ended when it returns")
async def test_a_save_stores_the_messages_as_they_were_when_it_was_called(
    conversations: ConversationStore,
) -> None:
    await conversations.save("c", HISTORY[:1])
    given = [message.to_record() for message in HISTORY]

    saving = asyncio.ensure_future(conversations.save("c", {"messages": given, "summary": None}))
    await asyncio.sleep(0)
    given[2]["content"] = "changed"
    given[1].clear()
    await saving

    assert await conversations.load("c") == HISTORY


async def test_an_invalid_message_is_refused_before_anything_is_written(
    conversations: ConversationStore,
) -> None:
    with pytest.raises((TypeError, ValueError)):
        await conversations.save("c", {"messages": [*HISTORY, 7], "summary": None})

    assert await conversations.load_snapshot("c") is None


async def test_all_conversations_are_listed_however_many(
    db: Database, conversations: ConversationStore
) -> None:
    names = [f"c-{n:03}" for n in range(105)]
    for name in reversed(names):
        await conversations.save(name, HISTORY[:1])
    await conversations.save("a summary", {"messages": [], "summary": "long ago"})
    await conversations.save("nothing", [])
    await memalchemy.ConversationStore(db, namespace=("other",)).save("elsewhere", HISTORY)

    assert await conversations.list_conversations() == ["a summary", *names]


async def test_a_conversation_with_only_a_summary_is_deleted_and_cleared(
    conversations: ConversationStore,
) -> None:
    for name in ("a", "b"):
        await conversations.save(name, {"messages": [], "summary": "long ago"})

    assert await conversations.delete("a") is True
    assert await conversations.delete("a") is False
    assert await conversations.clear() == 1
    assert await conversations.load_snapshot("b") is None
    assert await conversations.list_conversations() == []


async def test_a_snapshot_may_be_passed_by_keyword(conversations: ConversationStore) -> None:
    await conversations.save("c", snapshot={"messages": HISTORY, "summary": "before"})
    await conversations.save("d", snapshot=HISTORY)
    await conversations.save("e", messages=HISTORY)

    assert (await conversations.load_snapshot("c") or {})["summary"] == "before"
    for name in ("c", "d", "e"):
        assert await conversations.load(name) == HISTORY
    for wrong in ({}, {"messages": HISTORY, "snapshot": HISTORY}):
        with pytest.raises(TypeError, match="one of them"):
            await conversations.save("c", **wrong)
