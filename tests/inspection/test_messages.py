"""Transcripts of the forms in which frameworks store their messages.

The values are those that the adapters store; the frameworks themselves are not needed.
"""

from __future__ import annotations

import json
from typing import Any

import ormsgpack
import pytest

from memalchemy.contracts import Packed
from memalchemy.inspection.messages import message, rest_of, stored_message
from memalchemy.messages import calls_of, results_of
from memalchemy.stored_messages import merge_writes, messages_of


def packed(value: Any) -> Packed:
    """Pack *value* as LangGraph's serialiser does; an object is ``(module, class, fields)``."""

    def extension(one: Any) -> Any:
        if isinstance(one, Obj):
            inner = ormsgpack.packb(one.parts, default=extension)
            return ormsgpack.Ext(5, inner)
        raise TypeError

    return Packed("msgpack", ormsgpack.packb(value, default=extension))


class Obj:
    def __init__(self, module: str, name: str, fields: dict[str, Any]) -> None:
        self.parts = [module, name, fields, "model_validate_json"]


def agent_framework(module: str, name: str, **state: Any) -> dict[str, Any]:
    return {"~object": f"{module}:{name}", "new": [], "state": state}


CALL = {"city": "Rome"}

# For each framework: a user's question, a call of a tool, its result and the answer, as stored.
DIALOGUES: dict[str, list[Any]] = {
    "own states": [
        {"role": "user", "content": "Weather?"},
        {
            "role": "assistant",
            "content": None,
            "tool_calls": [
                {"id": "c1", "function": {"name": "weather", "arguments": json.dumps(CALL)}}
            ],
        },
        {"role": "tool", "tool_call_id": "c1", "content": "sunny"},
        {"role": "assistant", "content": "It is sunny."},
    ],
    "langgraph": [
        Obj(
            "langchain_core.messages.human",
            "HumanMessage",
            {"type": "human", "content": "Weather?"},
        ),
        Obj(
            "langchain_core.messages.ai",
            "AIMessage",
            {
                "type": "ai",
                "content": "",
                "tool_calls": [{"id": "c1", "name": "weather", "args": CALL, "type": "tool_call"}],
            },
        ),
        Obj(
            "langchain_core.messages.tool",
            "ToolMessage",
            {"type": "tool", "content": "sunny", "tool_call_id": "c1", "status": "success"},
        ),
        Obj("langchain_core.messages.ai", "AIMessage", {"type": "ai", "content": "It is sunny."}),
    ],
    "langchain": [
        {"type": "human", "content": "Weather?"},
        {
            "type": "ai",
            "content": "",
            "tool_calls": [{"id": "c1", "name": "weather", "args": CALL}],
        },
        {"type": "tool", "content": "sunny", "tool_call_id": "c1"},
        {"type": "ai", "content": "It is sunny."},
    ],
    "openai agents": [
        {"role": "user", "content": "Weather?"},
        {
            "type": "function_call",
            "call_id": "c1",
            "name": "weather",
            "arguments": json.dumps(CALL),
        },
        {"type": "function_call_output", "call_id": "c1", "output": "sunny"},
        {
            "type": "message",
            "role": "assistant",
            "content": [{"type": "output_text", "text": "It is sunny.", "annotations": []}],
        },
    ],
    "claude agent sdk": [
        {"type": "user", "uuid": "1", "message": {"role": "user", "content": "Weather?"}},
        {
            "type": "assistant",
            "message": {
                "role": "assistant",
                "content": [{"type": "tool_use", "id": "c1", "name": "weather", "input": CALL}],
            },
        },
        {
            "type": "user",
            "message": {
                "role": "user",
                "content": [{"type": "tool_result", "tool_use_id": "c1", "content": "sunny"}],
            },
        },
        {
            "type": "assistant",
            "message": {
                "role": "assistant",
                "content": [{"type": "text", "text": "It is sunny."}],
            },
        },
    ],
    "google adk": [
        {
            "author": "user",
            "invocation_id": "i",
            "content": {"role": "user", "parts": [{"text": "Weather?"}]},
        },
        {
            "author": "weather_agent",
            "invocation_id": "i",
            "content": {
                "role": "model",
                "parts": [{"function_call": {"id": "c1", "name": "weather", "args": CALL}}],
            },
        },
        {
            "author": "weather_agent",
            "invocation_id": "i",
            "content": {
                "role": "user",
                "parts": [
                    {
                        "function_response": {
                            "id": "c1",
                            "name": "weather",
                            "response": {"result": "sunny"},
                        }
                    }
                ],
            },
        },
        {
            "author": "weather_agent",
            "invocation_id": "i",
            "content": {"role": "model", "parts": [{"text": "It is sunny."}]},
        },
    ],
    "strands": [
        {
            "role": "user",
            "content": [{"text": "Weather?"}],
            "session_message": {"message_id": 0},
        },
        {
            "role": "assistant",
            "content": [{"toolUse": {"toolUseId": "c1", "name": "weather", "input": CALL}}],
        },
        {
            "role": "user",
            "content": [
                {
                    "toolResult": {
                        "toolUseId": "c1",
                        "status": "success",
                        "content": [{"text": "sunny"}],
                    }
                }
            ],
        },
        {"role": "assistant", "content": [{"text": "It is sunny."}]},
    ],
    "pydantic ai": [
        {
            "parent_id": None,
            "kind": "request",
            "parts": [{"part_kind": "user-prompt", "content": "Weather?"}],
        },
        {
            "kind": "response",
            "parts": [
                {
                    "part_kind": "tool-call",
                    "tool_call_id": "c1",
                    "tool_name": "weather",
                    "args": json.dumps(CALL),
                }
            ],
        },
        {
            "kind": "request",
            "parts": [
                {
                    "part_kind": "tool-return",
                    "tool_call_id": "c1",
                    "tool_name": "weather",
                    "content": "sunny",
                }
            ],
        },
        {"kind": "response", "parts": [{"part_kind": "text", "content": "It is sunny."}]},
    ],
    "agent framework": [
        {"type": "message", "role": "user", "contents": [{"type": "text", "text": "Weather?"}]},
        {
            "type": "message",
            "role": {"type": "role", "value": "assistant"},
            "contents": [
                {
                    "type": "function_call",
                    "call_id": "c1",
                    "name": "weather",
                    "arguments": json.dumps(CALL),
                }
            ],
        },
        {
            "type": "message",
            "role": "tool",
            "contents": [{"type": "function_result", "call_id": "c1", "result": "sunny"}],
        },
        agent_framework(
            "agent_framework._types",
            "Message",
            role="assistant",
            contents=[
                agent_framework(
                    "agent_framework._types", "Content", type="text", text="It is sunny."
                )
            ],
        ),
    ],
    "llama index": [
        {"role": "user", "blocks": [{"block_type": "text", "text": "Weather?"}]},
        {
            "role": "assistant",
            "additional_kwargs": {},
            "blocks": [
                {
                    "block_type": "tool_call",
                    "tool_call_id": "c1",
                    "tool_name": "weather",
                    "tool_kwargs": CALL,
                }
            ],
        },
        {
            "role": "tool",
            "additional_kwargs": {"tool_call_id": "c1"},
            "blocks": [{"block_type": "text", "text": "sunny"}],
        },
        {"role": "assistant", "blocks": [{"block_type": "text", "text": "It is sunny."}]},
    ],
    "haystack": [
        {"role": "user", "meta": {}, "name": None, "content": [{"text": "Weather?"}]},
        {
            "role": "assistant",
            "meta": {},
            "content": [
                {
                    "tool_call": {
                        "tool_name": "weather",
                        "arguments": CALL,
                        "id": "c1",
                        "extra": None,
                    }
                }
            ],
        },
        {
            "role": "tool",
            "meta": {},
            "content": [
                {
                    "tool_call_result": {
                        "result": "sunny",
                        "origin": {"tool_name": "weather", "arguments": CALL, "id": "c1"},
                        "error": False,
                    }
                }
            ],
        },
        {"role": "assistant", "meta": {}, "content": [{"text": "It is sunny."}]},
    ],
    "locus": [
        {"role": "user", "content": "Weather?"},
        {
            "role": "assistant",
            "content": None,
            "tool_calls": [{"id": "c1", "name": "weather", "arguments": CALL}],
        },
        {"role": "tool", "content": "sunny", "tool_call_id": "c1", "name": "weather"},
        {"role": "assistant", "content": "It is sunny.", "tool_calls": []},
    ],
    "lauren ai": [
        {"role": "user", "content": "Weather?"},
        {
            "role": "assistant",
            "content": [{"type": "tool_use", "id": "c1", "name": "weather", "input": CALL}],
            "lauren_ai": {"types": [["Message", []]]},
        },
        {
            "role": "user",
            "content": [{"type": "tool_result", "tool_use_id": "c1", "content": "sunny"}],
        },
        {"role": "assistant", "content": "It is sunny."},
    ],
}


@pytest.mark.parametrize("framework", DIALOGUES)
def test_a_tool_that_is_called_is_not_the_one_who_speaks(framework: str) -> None:
    dialogue = [packed(one) if isinstance(one, Obj) else one for one in DIALOGUES[framework]]
    records = [message(at, one) for at, one in enumerate(dialogue)]
    calling = [record for record in records if record["calls"]]

    assert [call["name"] for record in calling for call in record["calls"]] == ["weather"]
    assert all(record["name"] != "weather" for record in calling)


@pytest.mark.parametrize("framework", DIALOGUES)
def test_a_dialogue_of_any_framework_is_the_same_transcript(framework: str) -> None:
    stored = DIALOGUES[framework]
    if framework == "langgraph":
        state: Any = {"~checkpoint": packed({"ts": "now"}), "messages": packed(stored)}
    else:
        state = {"messages": stored}
    found = messages_of(state)
    assert found is not None
    path, messages = found
    assert path == ("messages",)
    question, call, result, answer = [message(at, one) for at, one in enumerate(messages)]
    assert (question["role"], question["text"]) == ("user", "Weather?")
    assert call["role"] == "assistant"
    ((id_, name, arguments),) = [(c["id"], c["name"], c["arguments"]) for c in call["calls"]]
    assert (id_, name) == ("c1", "weather")
    assert arguments["children"][0]["key"] == "city"
    assert arguments["children"][0]["node"]["text"] == "Rome"
    assert [(r["id"], r["text"], r["error"]) for r in result["results"]] == [("c1", "sunny", False)]
    assert result["text"] == ""
    assert (answer["role"], answer["text"], answer["calls"]) == ("assistant", "It is sunny.", [])
    assert rest_of(state, path) is None


STATES: dict[str, tuple[Any, list[tuple[str, str]]]] = {
    "a run that waits, of OpenAI's Agents SDK": (
        {
            "$schemaVersion": "1.0",
            "current_turn": 1,
            "original_input": "Refund?",
            "generated_items": [
                {
                    "type": "message_output_item",
                    "raw_item": {"role": "assistant", "content": "One moment."},
                }
            ],
        },
        [("user", "Refund?"), ("assistant", "One moment.")],
    ),
    "a snapshot of Strands": (
        {
            "data": json.dumps(
                {"data": {"messages": [{"role": "user", "content": [{"text": "Hi"}]}]}}
            )
        },
        [("user", "Hi")],
    ),
    "a session of Agent Framework": (
        {
            "type": "session",
            "state": {
                "memory": {
                    "messages": [{"role": "user", "contents": [{"type": "text", "text": "Hi"}]}]
                }
            },
        },
        [("user", "Hi")],
    ),
    "a workflow of Agent Framework": (
        {
            "workflow_name": "w",
            "state": {
                "_executor_state": {
                    "writer": {
                        "cache": [
                            agent_framework(
                                "agent_framework._types",
                                "Message",
                                role="user",
                                contents=[
                                    agent_framework("x", "Content", type="text", text="Hi"),
                                ],
                            )
                        ]
                    }
                }
            },
        },
        [("user", "Hi")],
    ),
    "a crew": (
        {
            "entities": [
                {
                    "executor": {
                        "messages": [
                            {"role": "system", "content": "You are"},
                            {"role": "user", "content": "Go"},
                        ]
                    }
                }
            ]
        },
        [("system", "You are"), ("user", "Go")],
    ),
    "a run of the Pydantic AI harness": (
        {
            "run_id": "r",
            "messages": [
                {"kind": "request", "parts": [{"part_kind": "user-prompt", "content": "Hi"}]}
            ],
        },
        [("user", "Hi")],
    ),
    "a memory of LazyBridge": (
        {"turns": [{"role": "user", "content": "Hi"}], "summary": ""},
        [("user", "Hi")],
    ),
    "a channel of LangGraph with another name": (
        {
            "~checkpoint": packed({}),
            "talk": packed([Obj("m", "HumanMessage", {"type": "human", "content": "Hi"})]),
        },
        [("user", "Hi")],
    ),
}


@pytest.mark.parametrize("name", STATES)
def test_messages_are_found_wherever_a_state_has_them(name: str) -> None:
    state, expected = STATES[name]
    found = messages_of(state)
    assert found is not None
    records = [message(at, one) for at, one in enumerate(found[1])]
    assert [(one["role"], one["text"]) for one in records] == expected


@pytest.mark.parametrize(
    "state",
    [
        {},
        {"numbers": [1, 2, 3]},
        {"users": [{"role": "admin", "name": "Ada"}]},
        {"messages": "none"},
        {"text": "{not JSON"},
        [],
        "text",
    ],
    ids=range(7),
)
def test_a_state_without_messages_has_none(state: Any) -> None:
    assert messages_of(state) is None


@pytest.mark.parametrize(
    ("value", "thought"),
    [
        ({"type": "reasoning", "summary": [{"type": "summary_text", "text": "Hmm"}]}, "Hmm"),
        ({"role": "assistant", "content": [{"type": "thinking", "thinking": "Hmm"}]}, "Hmm"),
        (
            {
                "role": "assistant",
                "content": [{"reasoningContent": {"reasoningText": {"text": "Hmm"}}}],
            },
            "Hmm",
        ),
        ({"role": "model", "parts": [{"text": "Hmm", "thought": True}]}, "Hmm"),
        ({"role": "assistant", "content": [{"reasoning": {"reasoning_text": "Hmm"}}]}, "Hmm"),
        ({"kind": "response", "parts": [{"part_kind": "thinking", "content": "Hmm"}]}, "Hmm"),
        ({"role": "assistant", "contents": [{"type": "text_reasoning", "text": "Hmm"}]}, "Hmm"),
        ({"role": "assistant", "content": "", "reasoning_content": "Hmm"}, "Hmm"),
    ],
    ids=range(8),
)
def test_a_models_thought_is_no_part_of_what_it_says(value: Any, thought: str) -> None:
    record = message(0, value)
    assert (record["role"], record["thought"], record["text"]) == ("assistant", thought, "")


def gemini_result(response: dict[str, Any]) -> dict[str, Any]:
    part = {"function_response": {"id": "c", "name": "look", "response": response}}
    return {"role": "user", "parts": [part]}


def pydantic_ai_result(outcome: str) -> dict[str, Any]:
    part = {"part_kind": "tool-return", "tool_call_id": "c", "content": "no", "outcome": outcome}
    return {"kind": "request", "parts": [part]}


@pytest.mark.parametrize(
    "value",
    [
        {
            "role": "user",
            "content": [
                {"type": "tool_result", "tool_use_id": "c", "content": "no", "is_error": True}
            ],
        },
        {
            "role": "user",
            "content": [
                {"toolResult": {"toolUseId": "c", "status": "error", "content": [{"text": "no"}]}}
            ],
        },
        {"type": "tool", "content": "no", "tool_call_id": "c", "status": "error"},
        {
            "role": "tool",
            "content": [
                {"tool_call_result": {"result": "no", "origin": {"id": "c"}, "error": True}}
            ],
        },
        gemini_result({"error": "no"}),
        gemini_result({"output": None, "error": {"code": 1}}),
        gemini_result({"content": [{"type": "text", "text": "no"}], "isError": True}),
        pydantic_ai_result("failed"),
        pydantic_ai_result("retried"),
    ],
    ids=[
        *("anthropic", "bedrock", "langchain", "haystack", "gemini", "gemini with both", "mcp"),
        *("pydantic-ai-failed", "pydantic-ai-retried"),
    ],
)
def test_a_failed_call_is_marked(value: Any) -> None:
    (result,) = message(0, value)["results"]
    assert (result["id"], result["error"]) == ("c", True)
    assert "no" in result["text"] or "code" in result["text"]


@pytest.mark.parametrize(
    "value",
    [
        gemini_result({"result": "no"}),
        gemini_result({"output": "no", "error": None}),
        gemini_result({"output": "no", "error": ""}),
        *map(pydantic_ai_result, ("success", "denied", "interrupted")),
    ],
    ids=range(6),
)
def test_a_call_that_did_not_fail_is_not_marked(value: Any) -> None:
    (result,) = message(0, value)["results"]
    assert (result["id"], result["text"], result["error"]) == ("c", "no", False)


def test_a_tool_of_the_models_provider_is_a_call() -> None:
    record = message(
        0,
        {"type": "web_search_call", "id": "ws", "status": "completed", "action": {"query": "Rome"}},
    )
    (call,) = record["calls"]
    assert (record["role"], call["id"], call["name"]) == ("assistant", "ws", "web_search_call")
    assert call["arguments"]["children"][0]["key"] == "action"


SAID = {"type": "text", "text": "down"}
HOSTED: dict[str, tuple[dict[str, Any], tuple[str, bool] | None]] = {
    "an answer of MCP": (
        {"type": "mcp_call", "output": "page", "error": None, "status": "completed"},
        ("page", False),
    ),
    "an answer without a status": ({"type": "mcp_call", "output": "page"}, ("page", False)),
    "a failure of MCP": (
        {"type": "mcp_call", "output": None, "error": "down", "status": "failed"},
        ("down", True),
    ),
    "a failure of a tool": (
        {"type": "mcp_call", "error": {"type": "mcp_tool_execution_error", "content": [SAID]}},
        ("down", True),
    ),
    "a search on the web": ({"type": "web_search_call", "status": "completed"}, ("", False)),
    "a failed search": ({"type": "web_search_call", "status": "failed"}, ("", True)),
    "a search in files": (
        {"type": "file_search_call", "results": [{"file_id": "f", "text": "line"}]},
        ("line", False),
    ),
    "an image": (
        {"type": "image_generation_call", "status": "completed", "result": "iVBO"},
        ("", False),
    ),
    "a running call": ({"type": "mcp_call", "output": None, "status": "calling"}, None),
    "a call that waits for an item": (
        {"type": "computer_call", "call_id": "h", "status": "completed"},
        None,
    ),
}


@pytest.mark.parametrize(("item", "expected"), HOSTED.values(), ids=HOSTED)
def test_a_hosted_tool_holds_its_result_itself(
    item: dict[str, Any], expected: tuple[str, bool] | None
) -> None:
    record = stored_message(0, {"id": "h", **item})

    (call,) = record["calls"]
    found = [(one["id"], one["text"], one["error"]) for one in record["results"]]
    assert found == ([] if expected is None else [("h", *expected)])
    assert (call["id"], call["arguments"]) == ("h", {})


HOSTED_BLOCKS: dict[str, tuple[dict[str, Any], dict[str, Any]]] = {
    "Anthropic": (
        {"type": "server_tool_use", "id": "h", "name": "web_search", "input": {"query": "Rome"}},
        {"type": "web_search_tool_result", "tool_use_id": "h", "content": [SAID]},
    ),
    "Anthropic's MCP": (
        {
            **{"type": "mcp_tool_use", "id": "h", "name": "look", "server_name": "city"},
            "input": {"query": "Rome"},
        },
        {"type": "mcp_tool_result", "tool_use_id": "h", "is_error": False, "content": [SAID]},
    ),
    "LangChain": (
        {"type": "server_tool_call", "id": "h", "name": "look", "args": {"query": "Rome"}},
        {
            **{"type": "server_tool_result", "id": "r", "tool_call_id": "h"},
            **{"status": "success", "output": "down"},
        },
    ),
    "Pydantic AI": (
        {
            **{"part_kind": "builtin-tool-call", "id": None, "tool_call_id": "h"},
            **{"tool_name": "web_search", "args": {"query": "Rome"}, "provider_name": "openai"},
        },
        {
            **{"part_kind": "builtin-tool-return", "tool_call_id": "h", "outcome": "success"},
            **{"tool_name": "web_search", "content": "down"},
        },
    ),
    "Agent Framework": (
        {"type": "search_tool_call", "call_id": "h", "tool_name": "web", "query": "Rome"},
        {"type": "search_tool_result", "call_id": "h", "tool_name": "web", "result": "down"},
    ),
    "Gemini": (
        {"executable_code": {"id": "h", "language": "PYTHON", "code": "print('Rome')"}},
        {"code_execution_result": {"id": "h", "outcome": "OUTCOME_OK", "output": "down"}},
    ),
}


@pytest.mark.parametrize(("call", "result"), HOSTED_BLOCKS.values(), ids=HOSTED_BLOCKS)
def test_a_block_of_a_hosted_tool_is_a_call_or_its_result(
    call: dict[str, Any], result: dict[str, Any]
) -> None:
    said = {"role": "assistant", "content": [call, result, {"type": "text", "text": "It is down."}]}

    record = message(0, said)
    (shown,) = record["calls"]
    assert (shown["id"], record["text"]) == ("h", "It is down.")
    assert "Rome" in str(shown["arguments"])
    assert [(one["id"], one["text"], one["error"]) for one in record["results"]] == [
        ("h", "down", False)
    ]
    assert calls_of(said) == results_of(said) == [], "nobody has to answer it"


FAILED_BLOCKS: list[dict[str, Any]] = [
    {
        **{"type": "web_search_tool_result", "tool_use_id": "h"},
        "content": {"type": "web_search_tool_result_error", "error_code": "max_uses_exceeded"},
    },
    {"type": "server_tool_result", "tool_call_id": "h", "status": "error"},
    {"part_kind": "builtin-tool-return", "tool_call_id": "h", "outcome": "failed"},
    {"code_execution_result": {"id": "h", "outcome": "OUTCOME_FAILED", "output": "1/0"}},
]


@pytest.mark.parametrize("block", FAILED_BLOCKS, ids=range(len(FAILED_BLOCKS)))
def test_a_hosted_tool_that_failed_is_marked(block: dict[str, Any]) -> None:
    (result,) = message(0, {"role": "assistant", "content": [block]})["results"]
    assert (result["id"], result["error"]) == ("h", True)


@pytest.mark.parametrize(
    "said",
    [
        {"role": "user", "content": [{"type": "phone_call", "text": "Hi"}]},
        {"role": "assistant", "content": [{"type": "invalid_tool_call", "id": "h", "args": "{"}]},
    ],
    ids=["a block of a user", "a call that no tool got"],
)
def test_other_blocks_are_no_calls(said: dict[str, Any]) -> None:
    assert message(0, said)["calls"] == []


def test_an_entry_that_is_no_message_is_shown_as_its_value() -> None:
    record = message(7, {"event": "ADD", "new_memory": "likes tea"})
    assert (record["role"], record["index"]) == ("", 7)
    assert record["text"] == "{event: ADD, new_memory: likes tea}"
    assert record["value"]["length"] == 2


def test_what_a_framework_keeps_for_itself_is_not_in_the_rest() -> None:
    state = {
        "~checkpoint": packed({}),
        "branch:to:agent": packed(None),
        "__start__": packed(1),
        "empty": Packed("memalchemy:empty", b""),
        "messages": [{"role": "user", "content": "Hi"}],
        "topic": "tea",
    }
    assert rest_of(state, ("messages",)) == {"topic": "tea"}


def test_the_time_that_a_message_states_is_shown_in_utc() -> None:
    for stated, shown in (
        ("2026-11-01T12:00:00+02:00", "2026-11-01T10:00:00+00:00"),
        ("2026-11-01T12:00:00", "2026-11-01T12:00:00+00:00"),
        (1_793_534_400, "2026-11-01T12:00:00+00:00"),
        (1_793_534_400_000, "2026-11-01T12:00:00+00:00"),
        ("0001-01-01T00:00:00+14:00", None),
        (10**400, None),
        (True, None),
        ("yesterday", None),
    ):
        said = {"role": "user", "content": "Hello", "timestamp": stated}
        assert message(0, said)["occurred_at"] == shown, stated


@pytest.mark.parametrize("role", ["user", "human", "assistant", "ai", "system"])
def test_a_role_with_a_text_among_the_writes_of_a_step_is_a_message(role: str) -> None:
    spelt = {"human": "user", "ai": "assistant"}.get(role, role)
    said = {"role": spelt, "content": "Hi"}
    answer = {"role": "assistant", "content": "Hello"}

    for written in ([(role, "Hi")], (role, "Hi"), [[role, "Hi"]], [role, "Hi"]):
        assert merge_writes([written, [answer]]) == [said, answer]


@pytest.mark.parametrize("written", [["user"], ["user", 1], ["tea", "cake"], ("user", "a", "b")])
def test_other_values_among_the_writes_stay_as_they_are(written: Any) -> None:
    pieces = written if isinstance(written, list) else [written]
    assert merge_writes([written]) == pieces
