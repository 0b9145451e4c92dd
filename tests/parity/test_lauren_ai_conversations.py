"""Defects of lauren-ai's conversation stores that `ConversationStore` does not have."""

from __future__ import annotations

from datetime import UTC, datetime
from pathlib import Path

import pytest

import memalchemy
from memalchemy import Conversation, ConversationStore, Database, NotSerialisable
from memalchemy.errors import DatabaseUnreachable
from memalchemy.events import Event, subscribe
from memalchemy.state import Message

HISTORY = [Message.user(f"word {n} " * 40) for n in range(30)]


async def test_c9_a_snapshot_keeps_its_tool_exchange_and_its_blocks(db: Database) -> None:
    store = memalchemy.ConversationStore(db)
    block = {"type": "image", "data": b"\x89PNG", "at": datetime(2026, 1, 1, tzinfo=UTC)}
    exchange = {"assistant_index": 1, "pending": ["call-1"]}
    snapshot = {"messages": [{"role": "user", "content": [block]}], "summary": None}

    await store.save("c", snapshot | {"tool_exchange": exchange})

    found = await store.load_snapshot("c")
    assert found is not None
    assert found["tool_exchange"] == exchange
    assert found["messages"][0]["content"] == [block]


async def test_c9_a_block_that_cannot_be_stored_is_refused_and_not_spelt_out(
    db: Database,
) -> None:
    store = memalchemy.ConversationStore(db)

    with pytest.raises(NotSerialisable):
        await store.save("c", [{"role": "user", "content": [{"type": "x", "it": object()}]}])

    assert await store.load("c") == []


async def test_c9_saving_again_writes_what_is_new(db: Database) -> None:
    store = memalchemy.ConversationStore(db)
    await store.save("c", HISTORY)
    events: list[Event] = []
    unsubscribe = subscribe(events.append)
    await store.save("c", [*HISTORY, Message.assistant("new")])
    unsubscribe()

    [write] = [event for event in events if event.name == "thread.replace"]
    assert write.payload_bytes < 100


async def test_c9_a_message_is_there_before_the_run_has_ended(db: Database) -> None:
    talk = memalchemy.Conversation(db, "c")
    await talk.add(Message.user("asked"))

    assert await memalchemy.ConversationStore(db).load("c") == [Message.user("asked")]


async def test_c14_a_conversation_that_cannot_be_read_is_an_error_and_not_empty(
    tmp_path: Path,
) -> None:
    away = Database(f"sqlite:///{tmp_path}/nowhere/agent.db")
    missing = Database("postgresql://nobody@127.0.0.1:1/none", connect_timeout=0.5, migrate="off")
    for db in (away, missing):
        with pytest.raises(DatabaseUnreachable):
            await ConversationStore(db).load("c")
        with pytest.raises(DatabaseUnreachable):
            await Conversation(db, "c").messages()
        with pytest.raises(DatabaseUnreachable):
            await ConversationStore(db).save("c", HISTORY)
        await db.close()
