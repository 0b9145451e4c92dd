"""Defects of lazybridge's `Memory` that a `Conversation` does not have."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from datetime import timedelta
from typing import Any

import pytest

import memalchemy
from memalchemy import Database, NotSerialisable
from memalchemy.context import SummarizingManager
from memalchemy.events import Event, subscribe
from memalchemy.state import Message


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
    other = memalchemy.Conversation(db, "t", namespace=("other",))
    await short.add("q", "a")
    await other.add("Q", "A")

    assert await short.messages() == []
    assert await other.count() == 2


async def test_b10_a_summary_that_failed_says_so_and_is_made_again(db: Database) -> None:
    async def fails(messages: list[Any]) -> str:
        raise TimeoutError

    talk = memalchemy.Conversation(db, "t", manager=SummarizingManager(4, 2, fails))
    for n in range(4):
        await talk.add(f"q{n}", f"a{n}")

    told = (await talk.messages())[0]

    assert "the summariser failed: TimeoutError" in told.text
    assert (await talk.snapshot())["summary"] is None, "it is not kept"
