"""The cache of conversations: shared by all objects of a process, and checked at each read."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import contextmanager
from typing import Any
from uuid import uuid4

import pytest
from benchmarks.calls import counting
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import memalchemy
from drawn_examples import examples
from memalchemy import Conversation, Database
from memalchemy.contracts import LogReading
from memalchemy.conversations._cache import CachedConversation, ConversationCache
from memalchemy.events import Event, subscribe
from memalchemy.state import Message

MESSAGES = st.fixed_dictionaries(
    {"role": st.sampled_from(["user", "assistant", "no such role"])},
    optional={
        "content": st.sampled_from(["", "a", "b", ["c"], None, 1, True]),
        "name": st.sampled_from(["ada", 1]),
    },
)
CALL = {"id": "c1", "type": "function", "function": {"name": "look", "arguments": '{"q": 1}'}}


def texts(messages: list[Message]) -> list[str]:
    return [message.text for message in messages]


def conversation(db: Database, thread_id: str = "t", **settings: Any) -> Conversation:
    return memalchemy.Conversation(db, thread_id, **settings)


@contextmanager
def reads() -> Any:
    """Record for each read of a log whether it used the cache."""
    found: list[bool | None] = []

    def note(event: Event) -> None:
        if event.name == "thread.read":
            found.append(event.cache_hit)

    unsubscribe = subscribe(note)
    try:
        yield found
    finally:
        unsubscribe()


async def test_a_new_object_reads_only_what_is_new(db: Database) -> None:
    await conversation(db).add("q", "a")
    await conversation(db).add({"role": "assistant", "tool_calls": [CALL]})
    with reads() as first:
        before = await conversation(db).messages()
    await conversation(db).add("more", "yes")
    with reads() as then:
        after = await conversation(db).messages()
        again = await memalchemy.ConversationStore(db).load("t")

    assert (first, then) == ([False], [True, True])
    assert after == again == [*before, Message.user("more"), Message.assistant("yes")]


async def test_a_history_that_was_loaded_is_saved_without_reading_it_again(db: Database) -> None:
    conversations = memalchemy.ConversationStore(db)
    await conversations.save("t", [Message.user(f"m{n}") for n in range(30)])
    history = await conversations.load("t")
    events: list[Event] = []
    unsubscribe = subscribe(events.append)
    with reads() as found:
        await conversations.save("t", [*history, Message.assistant("new")])
    unsubscribe()

    assert found == [True]
    written = [event.details["entries"] for event in events if event.name == "thread.replace"]
    assert written == [1]
    assert texts(await conversations.load("t")) == [*(f"m{n}" for n in range(30)), "new"]


async def test_a_snapshot_that_was_saved_is_not_read_again_for_the_next(db: Database) -> None:
    conversations = memalchemy.ConversationStore(db)
    said: list[Any] = []
    for n in range(3):
        said.append(Message.user(f"m{n}"))
        with reads() as found:
            await conversations.save("t", {"messages": said, "summary": "so far"})

    assert found[0] is True, "the first of its readings is that of the messages"
    assert texts(await conversations.load("t")) == [one.text for one in said]


@pytest.mark.usefixtures("lasting")
@pytest.mark.parametrize("summary", [None, "so far"], ids=["plain", "summarised"])
async def test_a_snapshot_is_read_at_once_with_its_summary(
    db: Database, reopen: Callable[[], Database], summary: str | None
) -> None:
    said = [Message.user("q"), Message.assistant("a")]
    await memalchemy.ConversationStore(db).save("t", {"messages": said, "summary": summary})
    async with reopen() as other:
        conversations = memalchemy.ConversationStore(other)
        found = []
        with reads() as seen:
            for _ in range(2):
                found.append(await conversations.load_snapshot("t"))

    assert seen == [False, summary is None], "each is one reading, and a plain one is cached"
    for snapshot in found:
        assert snapshot is not None
        assert texts([Message.of(one) for one in snapshot["messages"]]) == ["q", "a"]
        assert snapshot["summary"] == summary


async def test_messages_of_a_transaction_that_was_rolled_back_are_not_cached(db: Database) -> None:
    conversations = memalchemy.ConversationStore(db)
    await conversations.save("t", {"messages": [Message.user("kept")], "summary": None})
    with pytest.raises(LookupError):  # noqa: PT012 - the block is what raises
        async with db.transaction() as tx:
            other = {"messages": [Message.user("undone")], "summary": None}
            await conversations.save("t", other, connection=tx)
            await conversations.save("t", other, connection=tx)
            raise LookupError

    await conversations.save("t", {"messages": [Message.user("kept")] * 2, "summary": None})
    assert texts(await conversations.load("t")) == ["kept", "kept"]


@pytest.mark.usefixtures("lasting")
async def test_changes_of_another_process_are_seen_in_spite_of_the_cache(
    db: Database, reopen: Callable[[], Database]
) -> None:
    for n in range(4):
        await conversation(db).add(f"q{n}", f"a{n}")
    assert len(await conversation(db).messages()) == 8

    async with reopen() as theirs:
        other = conversation(theirs)
        await other.log.edit("t", 2, {"role": "assistant", "content": "edited"})
        assert texts(await conversation(db).messages())[:3] == ["q0", "edited", "q1"]
        await other.log.remove("t", [1, 2])
        assert texts(await conversation(db).messages())[0] == "q1"
        await other.delete()
        assert await conversation(db).messages() == []
        await other.add("anew", "yes")
        assert texts(await conversation(db).messages()) == ["anew", "yes"]


async def test_conversations_of_other_tenants_namespaces_and_threads_are_cached_apart(
    db: Database,
) -> None:
    others = [
        conversation(db.for_tenant("other")),
        conversation(db, namespace=("elsewhere",)),
        conversation(db, "t2"),
    ]
    await conversation(db).add("q", "a")
    assert len(await conversation(db).messages()) == 2

    for at, other in enumerate(others):
        assert await other.messages() == []
        await other.add(f"q{at}", f"a{at}")
    for at, other in enumerate(others):
        assert texts(await other.messages()) == [f"q{at}", f"a{at}"]
    assert texts(await conversation(db).messages()) == ["q", "a"]


@pytest.mark.parametrize("end", ["clear", "delete"])
async def test_a_deleted_conversation_is_dropped_from_the_cache(db: Database, end: str) -> None:
    talk = conversation(db)
    await talk.add("a secret", "kept")
    assert len(await talk.messages()) == 2
    await getattr(talk, end)()

    with reads() as found:
        assert await conversation(db).messages() == []
    assert found == [False]


@pytest.fixture
def cache() -> ConversationCache:
    return ConversationCache(max_bytes=100)


def conversation_of(text: str, size: int) -> CachedConversation:
    reading = LogReading([], 1, 1, 1, True)
    return CachedConversation(reading, [1], [{"role": "user", "content": text}], size)


def key(thread_id: str) -> tuple[str, tuple[str, ...], str]:
    return "default", ("conversation",), thread_id


def test_the_least_recently_used_conversation_is_dropped_first(cache: ConversationCache) -> None:
    for n in range(4):
        cache.put(key(f"t{n}"), conversation_of(f"m{n}", 25))
    assert cache.get(key("t0"))
    cache.put(key("t4"), conversation_of("m4", 25))

    there = [n for n in range(5) if key(f"t{n}") in cache]
    assert (there, cache.size) == ([0, 2, 3, 4], 100)


def test_a_conversation_larger_than_a_quarter_of_the_cache_is_not_cached(
    cache: ConversationCache,
) -> None:
    cache.put(key("t"), conversation_of("short", 25))
    cache.put(key("t"), conversation_of("long", 26))

    assert cache.get(key("t")) is None
    assert (len(cache), cache.size) == (0, 0)


def test_a_dropped_conversation_is_not_cached(cache: ConversationCache) -> None:
    cache.put(key("t"), conversation_of("m", 25))
    cache.drop(key("t"))
    cache.drop(key("t"))

    assert cache.get(key("t")) is None
    assert cache.size == 0


@pytest.mark.unsigned_only("each row that a save rests on is proven")
async def test_a_save_runs_few_calls_for_each_message_that_is_known(db: Database) -> None:
    conversations = memalchemy.ConversationStore(db)
    calls: list[int] = []
    for number in (100, 300):
        said = [{"role": "user", "content": f"message {n}"} for n in range(number)]
        await conversations.save("t", said)
        await conversations.load("t")
        with counting() as found:
            await conversations.save("t", [*map(dict, said), {"role": "user", "content": "last"}])
        calls.append(sum(found.values()))

    few, many = calls
    assert many - few <= 2 * 200 + 20


@settings(max_examples=examples(25), suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(saves=st.lists(st.lists(MESSAGES, max_size=6), max_size=4))
async def test_what_is_saved_over_known_messages_is_what_is_loaded(
    db: Database, saves: list[list[dict[str, Any]]]
) -> None:
    thread_id = uuid4().hex
    for said in saves:
        known, new = (conversation(db, one) for one in (thread_id, uuid4().hex))
        await known.messages()
        outcomes = []
        for each in (known, new):
            try:
                await each.restore([dict(message) for message in said])
                outcomes.append([message.to_record() for message in await each.history()])
            except (TypeError, ValueError) as error:
                outcomes.append(type(error))
        assert outcomes[0] == outcomes[1]


async def test_a_role_that_only_another_object_allows_is_refused_though_it_is_known(
    db: Database,
) -> None:
    said = [{"role": "critic", "content": "weak"}]
    await conversation(db, roles=["critic"]).restore(said)
    await conversation(db, roles=["critic"]).messages()

    with pytest.raises(ValueError, match="critic"):
        await conversation(db).restore(said)
