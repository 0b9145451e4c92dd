"""Messages and states: read from anything, stored as plain values, and equal when read back."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from dataclasses import dataclass, field
from datetime import UTC, datetime
from enum import Enum
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import BaseModel, ValidationError

from memalchemy import Checkpointer, Database
from memalchemy.codec.values import decode_state, encode_state
from memalchemy.messages import shorten_message, text_of
from memalchemy.state import AgentState, Message, Role, ToolCall

# What locus 3.0.1 writes for a state with one of everything.
LOCUS = {
    "run_id": "0b5c0d3c9b8f4a4f8f6d9b3a6c1d2e3f",
    "agent_id": "planner",
    "messages": [
        {
            "role": "system",
            "content": "be kind",
            "tool_calls": [],
            "tool_call_id": None,
            "name": None,
            "metadata": {"cache_control": {"type": "ephemeral"}},
        },
        {
            "role": "assistant",
            "content": None,
            "tool_calls": [
                {
                    "id": "call_0a1b2c3d4e5f",
                    "name": "search",
                    "arguments": {"q": "tea", "n": 3},
                    "malformed_arguments": None,
                }
            ],
            "tool_call_id": None,
            "name": None,
            "metadata": {},
        },
        {
            "role": "tool",
            "content": "found",
            "tool_calls": [],
            "tool_call_id": "call_0a1b2c3d4e5f",
            "name": "search",
            "metadata": {},
        },
    ],
    "iteration": 1,
    "max_iterations": 20,
    "tool_executions": [
        {
            "tool_name": "search",
            "tool_call_id": "call_0a1b2c3d4e5f",
            "arguments": {"q": "tea", "n": 3},
            "result": "found",
            "error": None,
            "duration_ms": 1.5,
            "timestamp": "2026-01-02T03:04:05.678901Z",
            "idempotent_cache_hit": False,
        }
    ],
    "reasoning_steps": [
        {
            "iteration": 0,
            "thought": "look it up",
            "tool_calls": [
                {"id": "call_1", "name": "search", "arguments": {}, "malformed_arguments": "{q"}
            ],
            "tool_results": [],
            "reflection": None,
            "confidence_delta": 0.25,
            "timestamp": "2026-01-02T03:04:05Z",
        }
    ],
    "confidence": 0.25,
    "confidence_threshold": 0.85,
    "confidence_history": [0.25],
    "tool_history": ["search"],
    "tool_loop_threshold": 3,
    "tool_loop_read_only_threshold": None,
    "tool_loop_read_only_tools": ["cat", "grep", "ls"],
    "tool_loop_warnings": [["search:1", 2]],
    "terminal_tools": ["complete", "done", "finish", "submit"],
    "total_tokens_used": 30,
    "prompt_tokens_used": 20,
    "completion_tokens_used": 10,
    "cache_creation_tokens_used": 0,
    "cache_read_tokens_used": 0,
    "cached_tokens_used": 0,
    "cache_write_tokens_used": 0,
    "reported_cost_usd": 0.0,
    "reported_cost_calls": 0,
    "token_budget": None,
    "input_price_per_mtok": 3.0,
    "output_price_per_mtok": None,
    "cost_usd_used": 0.0,
    "cost_budget_usd": None,
    "completion_mode": "auto",
    "errors": ["once"],
    "provider_state": {"previous_response_id": "resp_1"},
    "metadata": {"graph_state": {"deep": [1, {"a": None}]}},
    "started_at": "2026-01-02T03:04:05.678901Z",
    "updated_at": "2026-01-02T03:04:06Z",
}

OPENAI = {
    "role": "assistant",
    "content": None,
    "tool_calls": [
        {"id": "a", "type": "function", "function": {"name": "f", "arguments": '{"x": 1}'}},
        {"id": "b", "type": "function", "function": {"name": "g", "arguments": "{x"}},
    ],
    "refusal": "no",
}


def test_a_message_in_openai_s_format_comes_back_as_it_was() -> None:
    message = Message.of(OPENAI)

    assert message.role is Role.ASSISTANT
    assert message.tool_calls[0] == ToolCall(id="a", name="f", arguments={"x": 1})
    assert message.tool_calls[1].malformed_arguments == "{x"
    assert message.to_openai() == OPENAI


def test_what_is_stored_of_a_message_says_nothing_that_is_not_there() -> None:
    assert Message.user("hi").to_record() == {"role": "user", "content": "hi"}
    assert Message.of(OPENAI).to_record() == {
        "role": "assistant",
        "tool_calls": [
            {"id": "a", "name": "f", "arguments": {"x": 1}},
            {"id": "b", "name": "g", "arguments": {}, "malformed_arguments": "{x"},
        ],
        "refusal": "no",
    }


_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text() | st.binary() | st.datetimes(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(), inner, max_size=3),
    max_leaves=6,
)
_mappings = st.dictionaries(st.text(), _values, max_size=3)


@given(
    st.builds(
        lambda extra, **fields: Message(**{**extra, **fields}),
        st.dictionaries(st.text("abc", min_size=4), _values, max_size=2),
        role=st.sampled_from([*Role, "developer", ""]),
        content=st.none() | st.text() | st.lists(_mappings, max_size=2),
        tool_calls=st.lists(
            st.builds(ToolCall, id=st.text(), name=st.text(), arguments=_mappings), max_size=2
        ),
        tool_call_id=st.none() | st.text(),
        name=st.none() | st.text(),
        metadata=_mappings,
    )
)
def test_any_message_is_equal_after_it_was_stored(message: Message) -> None:
    record = message.to_record()

    assert Message.of(record) == message
    assert decode_state(encode_state({"message": record})) == {"message": record}
    assert Message.of(message) is message


@dataclass
class Spoken:
    role: str
    content: Any
    tool_calls: list[Any] = field(default_factory=list)
    mood: str = "kind"


class Block(BaseModel):
    type: str = "text"
    text: str
    hidden: None = None


class Speaker(Enum):
    USER = "user"


def test_objects_of_other_makes_are_messages() -> None:
    call = ToolCall(id="a", name="f", arguments={"x": 1})

    assert Message.of(Spoken("user", "hi")) == Message.user("hi", mood="kind")
    assert Message.of(Spoken("assistant", None, [call])).tool_calls == (call,)
    assert Message.of(type("Plain", (), {"role": Speaker.USER, "content": "hi"})()).role == "user"
    langchain = type("HumanMessage", (), {"type": "human", "content": "hi"})()
    assert Message.of(langchain) == Message.user("hi")
    assert Message.of(Spoken("user", [Block(text="hi")])).content == [
        {"type": "text", "text": "hi"}
    ]


def test_the_words_of_a_message_are_those_of_its_blocks() -> None:
    result = {"type": "tool_result", "content": [{"type": "text", "text": "found"}]}

    assert Message.user([{"type": "text", "text": "look"}, "here", result]).text == (
        "look\nhere\nfound"
    )
    assert Message.assistant().text == ""


def test_the_words_of_frameworks_messages_are_found_where_they_keep_them() -> None:
    blocks = [{"block_type": "text", "text": "hello"}, {"block_type": "image", "image": "aGk="}]
    llama_index = {"role": "user", "additional_kwargs": {}, "blocks": blocks}
    result = {"result": "found", "origin": {"tool_name": "look"}, "error": False}
    haystack = {"role": "tool", "meta": {}, "content": [{"tool_call_result": result}]}

    assert (text_of(llama_index), text_of(haystack)) == ("hello", "found")
    assert shorten_message({**llama_index, "blocks": [{"text": "x" * 99}]}, 50)["blocks"] != blocks
    assert text_of(shorten_message({"role": "user", "blocks": [{"text": "x" * 99}]}, 9)) == "x" * 9


@pytest.mark.parametrize("what", [3, "user: hi", None, object()])
def test_what_is_no_message_is_an_error_that_says_what_one_is(what: Any) -> None:
    with pytest.raises(TypeError, match="a message is a Message, a mapping"):
        Message.of(what)


@pytest.mark.parametrize(
    "wrong", [{"role": "user", "content": {"s3cret": 1}}, {"content": "s3cret"}]
)
def test_an_error_in_a_message_does_not_quote_it(wrong: Any) -> None:
    with pytest.raises(ValueError, match="Message") as raised:
        Message.of(wrong)

    assert "s3cret" not in str(raised.value)


def test_a_message_cannot_be_changed() -> None:
    with pytest.raises(ValidationError):
        Message.user("hi").content = "ho"  # type: ignore[misc]


def test_arguments_are_read_in_every_form() -> None:
    for given_ in ({"arguments": {"x": 1}}, {"args": {"x": 1}}, {"arguments": '{"x": 1}'}):
        assert ToolCall.model_validate({"name": "f", **given_}).arguments == {"x": 1}
    assert ToolCall(name="f").id.startswith("call_")
    deep = "[" * 100_000
    assert ToolCall.model_validate({"name": "f", "arguments": deep}).malformed_arguments == deep


def test_a_checkpoint_of_locus_comes_back_equal() -> None:
    state = AgentState.from_checkpoint(LOCUS)

    assert state.to_checkpoint() == LOCUS
    assert json.loads(json.dumps(state.to_checkpoint())) == LOCUS
    assert AgentState.from_checkpoint(state.to_checkpoint()) == state
    assert state.messages[1].tool_calls[0].arguments == {"q": "tea", "n": 3}
    assert state.started_at == datetime(2026, 1, 2, 3, 4, 5, 678901, tzinfo=UTC)


def test_what_is_missing_has_its_default_and_what_is_unknown_stays() -> None:
    state = AgentState.from_checkpoint({"future": {"a": 1}})

    assert state.max_iterations == 20
    assert state.messages == ()
    assert state.started_at.tzinfo is not None
    assert state.to_checkpoint()["future"] == {"a": 1}
    assert "tool_loop_read_only_tools" not in state.to_checkpoint()
    with pytest.raises(ValidationError):
        AgentState.from_checkpoint({"iteration": "many"})


def test_a_state_takes_messages_of_every_make() -> None:
    state = AgentState(messages=[OPENAI, Spoken("user", "hi"), Message.system("be kind")])

    assert [message.role for message in state.messages] == ["assistant", "user", "system"]


async def test_a_checkpointer_gives_a_state_back_as_it_was(db: Database) -> None:
    checkpointer = Checkpointer(db, state_type=AgentState)
    state = AgentState(
        messages=[Message.user("hi"), OPENAI],
        terminal_tools=frozenset({"b", "a"}),
        tool_loop_warnings=(("f", 1),),
        metadata={"at": datetime(2026, 1, 2, tzinfo=UTC), "pair": (1, b"\0"), "odd": "\ud800"},
    )

    await checkpointer.save(state, "thread")

    loaded = await checkpointer.load("thread")
    assert loaded == state
    assert type(loaded) is AgentState
    assert loaded.metadata["pair"] == (1, b"\0")
    await checkpointer.save(LOCUS, "theirs")
    assert (await checkpointer.load("theirs")).to_checkpoint() == LOCUS


def test_the_package_and_its_managers_come_without_pydantic() -> None:
    code = (
        "import sys, memalchemy; memalchemy.Checkpointer, memalchemy.Store;"
        "import memalchemy.context; sys.exit('pydantic' in sys.modules)"
    )
    run = subprocess.run([sys.executable, "-c", code], env=dict(os.environ), check=False)

    assert run.returncode == 0
