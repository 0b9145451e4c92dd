"""Stored and read back turn by turn: each answer follows the question that it answered."""

from __future__ import annotations

import uuid
from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from drawn_examples import examples
from exchanges import check_exchanges, check_nothing_is_privileged, exchanges
from memalchemy import Conversation, Database, RetainedCheckpointer
from memalchemy.context import (
    ContextCompactor,
    ConversationManager,
    SlidingWindowManager,
    SummarizingManager,
    TokenBudgetManager,
)

MANAGERS: dict[str, Callable[[int], ConversationManager]] = {
    "sliding": SlidingWindowManager,
    "pinned": lambda size: SlidingWindowManager(size, preserve_first_user=True),
    "budget": lambda size: TokenBudgetManager(100 + size * 10),
    "summarizing": lambda size: SummarizingManager(size + 2, size),
    "compactor": lambda size: ContextCompactor(100 + size * 10, tool_output_ttl_turns=2),
}

few = settings(
    max_examples=examples(15),
    deadline=None,
    suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow],
)


@pytest.mark.parametrize("name", MANAGERS)
@few
@given(
    messages=exchanges(make="dict", max_size=5), size=st.integers(1, 12), often=st.integers(1, 4)
)
async def test_a_model_sees_no_false_exchange_at_any_turn(
    db: Database, name: str, messages: list[Any], size: int, often: int
) -> None:
    thread_id = uuid.uuid4().hex

    for count, message in enumerate(messages, 1):
        # A manager that remembers nothing, as in another process.
        talk = Conversation(db, thread_id, manager=MANAGERS[name](size))
        await talk.add(message)
        if count % often == 0 or count == len(messages):
            check_exchanges(messages[:count], await talk.messages())


@few
@given(messages=exchanges(make="dict", max_size=5), size=st.integers(1, 12))
async def test_a_state_keeps_no_false_exchange(
    db: Database, messages: list[Any], size: int
) -> None:
    thread_id = uuid.uuid4().hex
    saves = RetainedCheckpointer(db, keep_messages=size)

    for count, message in enumerate(messages, 1):
        stored = await saves.load(thread_id) or {"messages": []}
        await saves.save({"messages": [*stored["messages"], message]}, thread_id)
        kept = (await saves.load(thread_id) or {})["messages"]
        check_exchanges(messages[:count], kept)
        check_nothing_is_privileged(messages[:count], kept)
