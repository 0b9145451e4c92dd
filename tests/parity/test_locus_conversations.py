"""Defects of other systems' states and conversation managers that this library does not have."""

from __future__ import annotations

import os
import subprocess
import sys
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from memalchemy.codec.values import encode_state
from memalchemy.context import (
    SummarizingManager,
    TokenBudgetManager,
    estimate_tokens,
    repair_tool_history,
    summarizers,
)
from memalchemy.state import AgentState, Message

_WRITE = """
from memalchemy.codec.values import encode_state
from memalchemy.state import AgentState
names = [f"tool {n}" for n in range(20)]
state = AgentState(run_id="r", terminal_tools=names, tool_loop_read_only_tools=names[::-1],
                   started_at="2026-01-01T00:00:00Z", updated_at="2026-01-01T00:00:00Z")
record = state.to_checkpoint()
print(record["terminal_tools"], record["tool_loop_read_only_tools"], encode_state(record))
"""


def test_l13_a_state_is_stored_alike_by_every_process() -> None:
    written = {
        subprocess.run(
            [sys.executable, "-c", _WRITE],
            env={**os.environ, "PYTHONHASHSEED": seed},
            check=True,
            capture_output=True,
            text=True,
        ).stdout
        for seed in ("1", "2", "3")
    }

    assert len(written) == 1
    again = AgentState.from_checkpoint(AgentState(terminal_tools={"z", "a"}).to_checkpoint())
    assert encode_state(again.to_checkpoint()) == encode_state(again.to_checkpoint())
    assert again.to_checkpoint()["terminal_tools"] == ["a", "z"]


def _talk(turns: int, **fields: Any) -> list[Message]:
    said = [(Message.user(f"q{n}", **fields), Message.assistant(f"a{n}")) for n in range(turns)]
    return [message for turn in said for message in turn]


def test_l24_every_system_message_stays() -> None:
    first, second, note = map(Message.system, ("one", "two", "note"))
    talk = [first, second, *_talk(2), note, *_talk(3)]

    managed = SummarizingManager(4, 2).apply(talk)

    assert managed[:3] == [first, second, note]
    assert managed[0] is first


def test_l24_a_call_and_its_result_are_not_parted_by_a_summary() -> None:
    call = Message.assistant(None, [{"id": "a", "name": "f"}])
    talk = [*_talk(3), call, Message.tool("found", "a")]

    assert SummarizingManager(4, 1).apply(talk)[1:] == talk[-2:]


def test_l24_summaries_are_remembered_within_bounds(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(summarizers, "REMEMBERED_SUMMARIES", 4)
    manager = SummarizingManager(4, 2)
    for n in range(30):
        manager.apply([Message.user(f"conversation {n}"), *_talk(4)])

    assert len(manager._summaries) == 4


def test_l24_conversations_that_look_alike_have_summaries_of_their_own() -> None:
    def told(messages: list[Any]) -> str:
        return " ".join(str(m.tool_calls[0].arguments) for m in messages if m.tool_calls)

    manager = SummarizingManager(4, 2, told)

    def summary(query: str) -> str:
        call = Message.assistant(None, [{"id": "a", "name": "f", "arguments": {"q": query}}])
        return str(manager.apply([call, Message.tool("", "a"), *_talk(2)])[0].text)

    assert "tea" in summary("tea")
    assert "milk" in summary("milk")


def test_l24_synchronous_code_gets_a_summary_and_no_placeholder() -> None:
    async def ask(messages: list[Any]) -> str:
        return f"it began with {messages[0].text}"

    for summarise in (ask, lambda messages: f"it began with {messages[0].text}"):
        managed = SummarizingManager(4, 2, summarise).apply(_talk(3))
        assert managed[0].text.endswith("\nit began with q0")


@given(st.integers(1, 60), st.integers(1, 5))
def test_c12_a_budget_holds_however_small_it_is(budget: int, turns: int) -> None:
    talk = [Message.user("x" * 100 * turn) for turn in range(1, turns + 1)]

    window = TokenBudgetManager(budget).apply(talk)

    assert sum(map(estimate_tokens, window)) <= budget
    assert window, "the newest is shortened, not lost"


def test_b10_a_digest_tells_nothing_of_itself_and_keeps_the_order() -> None:
    manager = SummarizingManager(4, 2)
    talk = manager.apply(_talk(3))
    for turn in range(3, 9):
        talk = manager.apply([*talk, Message.user(f"q{turn}"), Message.assistant(f"a{turn}")])

    lines = talk[0].text.splitlines()[1:]
    assert lines[:4] == ["- user: q0", "- assistant: a0", "- user: q1", "- assistant: a1"]
    assert not any("ummary" in line or "earlier" in line for line in lines)


def test_b10_a_fallback_is_not_silent() -> None:
    def fails(messages: list[Any]) -> str:
        raise ConnectionError

    summary = SummarizingManager(4, 2, fails).apply(_talk(3))[0]

    assert summary.metadata["summary"]["fallback"] == "ConnectionError"
    assert "the summariser failed: ConnectionError" in summary.text


def test_b10_messages_of_tools_and_blocks_are_messages() -> None:
    asked: list[Any] = []
    call = Message.assistant(None, [{"id": "a", "name": "f"}])
    blocks = Message.user([{"type": "text", "text": "look"}])

    def ask(messages: list[Any]) -> str:
        asked.extend(messages)
        return "told"

    SummarizingManager(4, 2, ask).apply([blocks, call, Message.tool("found", "a"), *_talk(2)])

    assert asked[:3] == [blocks, call, Message.tool("found", "a")]
    assert repair_tool_history(asked) == asked
