"""locus' states and conversation managers."""

from __future__ import annotations

import os
import subprocess
import sys
from typing import Any

import pytest

from memalchemy.codec.values import encode_state
from memalchemy.context import (
    ConversationManager,
    SlidingWindowManager,
    SummarizingManager,
    summarizers,
)
from memalchemy.state import AgentState, Message
from parity.messages import TALK, system

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
    assert AgentState.from_checkpoint({}).messages == ()


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

    assert SummarizingManager(4, 1).apply(talk)[1:] == [Message.user("q2"), *talk[-2:]]


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


async def test_a_manager_works_with_and_without_await_and_leaves_what_it_is_given_alone() -> None:
    manager: ConversationManager = SlidingWindowManager(2)
    talk = [system("be kind"), *TALK]

    assert manager.apply([]) == []
    assert await manager.async_apply(talk) == manager.apply(talk) != talk
    assert talk == [system("be kind"), *TALK]
