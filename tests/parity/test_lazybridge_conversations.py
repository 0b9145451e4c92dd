"""LazyBridge's `Memory`: conversations, and what of them the model sees."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest

import memalchemy
from memalchemy import Conversation, Database, NotSerialisable
from memalchemy.context import (
    ContextCompactor,
    NullManager,
    SlidingWindowManager,
    SummarizingManager,
    TokenBudgetManager,
    estimate_tokens,
    repair_tool_history,
)
from memalchemy.events import Event, subscribe
from memalchemy.state import Message
from parity.messages import TALK


def written(events: list[Event]) -> list[int]:
    return [event.payload_bytes for event in events if event.name == "thread.append"]


async def test_b2_a_turn_writes_itself_and_not_the_history(db: Database) -> None:
    talk = memalchemy.Conversation(db, "t")
    events: list[Event] = []
    unsubscribe = subscribe(events.append)
    for _ in range(200):
        await talk.add("What is it? " * 20, "It is this. " * 20)
    unsubscribe()

    sizes = written(events)
    assert len(sizes) == 200
    assert len(set(sizes)) == 1, "the last turn costs what the first did"
    assert not [event for event in events if event.name == "thread.read"]


async def test_b3_two_memories_on_one_key_lose_no_turn(
    db: Database, reopen: Callable[[], Database]
) -> None:
    async with reopen() as elsewhere:
        one, two = (memalchemy.Conversation(place, "key") for place in (db, elsewhere))
        await one.add("u1", "a1")
        await two.add("u2", "a2")
        await one.add("u3", "a3")
        await asyncio.gather(*((one if n % 2 else two).add(f"u{n}", f"a{n}") for n in range(4, 20)))

        assert await one.messages() == await two.messages()
        texts = [message.text for message in await two.messages()]

    assert texts[:6] == ["u1", "a1", "u2", "a2", "u3", "a3"]
    assert sorted(texts[6::2]) == sorted(f"u{n}" for n in range(4, 20))


async def test_b5_a_turn_that_was_not_stored_is_nowhere(db: Database) -> None:
    talk = memalchemy.Conversation(db, "t")
    view = talk.view()
    await talk.add("kept", "kept")
    await view.refresh()

    with pytest.raises(NotSerialisable):
        await talk.add(Message.user("lost"), Message.assistant("lost", metadata={"x": object()}))

    assert [message.text for message in await talk.messages()] == ["kept", "kept"]
    assert await view.refresh() == []
    assert len(view.messages) == 2


async def test_b10_text_is_of_all_turns_and_of_structured_messages(db: Database) -> None:
    talk = memalchemy.Conversation(db, "t")
    for n in range(9):
        await talk.add(f"q{n}", f"a{n}")
    call = {"id": "c", "name": "look", "arguments": {"at": [1, None]}}
    await talk.add(
        Message.assistant(None, [call]), Message.tool([{"type": "text", "text": "x"}], "c")
    )

    text = await talk.text()

    assert all(f"q{n}" in text and f"a{n}" in text for n in range(9))
    assert (await talk.messages())[-2].tool_calls[0].arguments == {"at": [1, None]}


async def test_b10_a_conversation_has_a_lifetime_and_a_namespace(db: Database) -> None:
    short = memalchemy.Conversation(db, "t", ttl=timedelta(microseconds=1))
    mine = memalchemy.Conversation(db, thread_id="t", namespace=("session", "1"))
    await short.add("q", "a")
    await mine.add("Q", "A")

    assert await short.messages() == []
    assert await memalchemy.Conversation(db, "t", namespace=("session", "2")).messages() == []
    assert await memalchemy.Conversation(db, "t", namespace=("session", "1")).count() == 2


async def test_b10_a_summary_that_failed_says_so_and_is_made_again(db: Database) -> None:
    async def fails(messages: list[Any]) -> str:
        raise TimeoutError

    talk = memalchemy.Conversation(db, "t", manager=SummarizingManager(4, 2, fails))
    for n in range(4):
        await talk.add(f"q{n}", f"a{n}")

    told = (await talk.messages())[0]

    assert "the summariser failed: TimeoutError" in told.text
    assert (await talk.snapshot())["summary"] is None, "it is not kept"


def said(turns: int) -> list[Message]:
    pairs = [(Message.user(f"q{n}"), Message.assistant(f"a{n}")) for n in range(turns)]
    return [message for pair in pairs for message in pair]


def test_b10_a_digest_tells_nothing_of_itself_and_keeps_the_order() -> None:
    manager = SummarizingManager(4, 2)
    talk = manager.apply(said(3))
    for turn in range(3, 9):
        talk = manager.apply([*talk, Message.user(f"q{turn}"), Message.assistant(f"a{turn}")])

    lines = talk[0].text.splitlines()[1:]
    assert lines[:4] == ["- user: q0", "- assistant: a0", "- user: q1", "- assistant: a1"]
    assert not any("ummary" in line or "earlier" in line for line in lines)


def test_b10_a_fallback_is_not_silent() -> None:
    def fails(messages: list[Any]) -> str:
        raise ConnectionError

    summary = SummarizingManager(4, 2, fails).apply(said(3))[0]

    assert summary.metadata["summary"]["fallback"] == "ConnectionError"
    assert "the summariser failed: ConnectionError" in summary.text


def test_b10_messages_of_tools_and_blocks_are_messages() -> None:
    asked: list[Any] = []
    call = Message.assistant(None, [{"id": "a", "name": "f"}])
    blocks = Message.user([{"type": "text", "text": "look"}])

    def ask(messages: list[Any]) -> str:
        asked.extend(messages)
        return "told"

    SummarizingManager(4, 2, ask).apply([blocks, call, Message.tool("found", "a"), *said(2)])

    assert asked[:3] == [blocks, call, Message.tool("found", "a")]
    assert repair_tool_history(asked) == asked


def test_the_model_sees_no_more_than_its_context_or_a_budget() -> None:
    short = ContextCompactor(context_length=100).apply(TALK)
    budget = TokenBudgetManager(max_tokens=20).apply(TALK)

    assert sum(map(estimate_tokens, short)) <= 100
    assert ContextCompactor(context_length=10_000).apply(TALK) == TALK
    assert 0 < sum(map(estimate_tokens, budget)) <= 20


async def test_the_model_sees_the_last_turns_and_the_log_stays_whole(db: Database) -> None:
    last_two = SlidingWindowManager(None, max_turns=2)
    talk = Conversation(db, "t", manager=last_two)
    await talk.add(TALK)

    shown = [message.text for message in await talk.messages()]
    assert shown == ["question 18", "answer 18", "question 19", "answer 19"]
    assert await talk.count() == 40
    assert SlidingWindowManager(window_size=2).apply(TALK) == TALK[-2:]
    assert NullManager().apply(TALK) == TALK


async def test_each_summary_begins_with_the_one_before_and_a_slow_one_is_not_waited_for(
    db: Database,
) -> None:
    asked: list[str | None] = []

    async def summarise(messages: list[Any], previous: str | None) -> str:
        asked.append(previous)
        return f"summary {len(asked)}"

    async def slow(messages: list[Any], previous: str | None) -> str:
        await asyncio.Event().wait()
        return "never"

    manager = SummarizingManager(6, 2, summarize_fn=summarise, timeout=5)
    talk = Conversation(db, "t", manager=manager)
    await talk.add(TALK[:10])
    assert "summary 1" in await talk.text()
    await talk.add(TALK[10:])
    assert "summary 2" in await talk.text()
    assert asked == [None, "summary 1"]

    shown = await SummarizingManager(6, 2, summarize_fn=slow, timeout=0.01).async_apply(TALK)
    assert "never" not in str(shown)
    assert shown[-2:] == TALK[-2:]


def test_a_conversation_needs_no_await(tmp_path: Path) -> None:
    with memalchemy.sync.Database(f"sqlite:///{tmp_path}/talk.db") as db:
        talk = memalchemy.sync.Conversation(db, "t")
        talk.add("hello", "hi")
        assert [message.text for message in talk.messages()] == ["hello", "hi"]
