"""lauren-ai's short-term memory and conversation stores."""

from __future__ import annotations

from datetime import UTC, datetime
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

import memalchemy
from memalchemy import Conversation, ConversationStore, Database, NotSerialisable
from memalchemy.context import TokenBudgetManager, estimate_tokens, trim_to_fit
from memalchemy.errors import DatabaseUnreachable
from memalchemy.events import Event, subscribe
from memalchemy.state import Message
from parity.messages import TALK, user

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
    store = memalchemy.ConversationStore(db)
    await talk.add(Message.user("asked"))

    assert await store.load("c") == [Message.user("asked")]
    await talk.add(Message.assistant("answered"))
    assert [message.text for message in await talk.messages()] == ["asked", "answered"]


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


@given(st.integers(1, 60), st.integers(1, 5))
def test_c12_a_budget_holds_however_small_it_is(budget: int, turns: int) -> None:
    talk = [Message.user("x" * 100 * turn) for turn in range(1, turns + 1)]

    window = TokenBudgetManager(budget).apply(talk)

    assert sum(map(estimate_tokens, window)) <= budget
    assert window, "the newest is shortened, not lost"


async def test_the_model_sees_what_fits_and_the_log_stays_whole(db: Database) -> None:
    talk = Conversation(db, "t", manager=TokenBudgetManager(max_tokens=30))
    await talk.add(TALK)
    shown = await talk.messages()

    assert 0 < sum(map(estimate_tokens, shown)) <= 30
    assert await talk.count() == 40
    for most in (5, 40, 100):
        assert sum(map(estimate_tokens, trim_to_fit([user("x" * 400)], most))) <= most
    assert estimate_tokens(user("x" * 400)) >= 100
