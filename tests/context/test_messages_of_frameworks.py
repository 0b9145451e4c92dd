"""Messages of models and frameworks have a role, words, calls and results, whatever their form."""

from __future__ import annotations

from typing import Any, NamedTuple

import pytest

from memalchemy.context import repair_tool_history
from memalchemy.messages import (
    called_tools,
    calls_of,
    is_user_turn,
    results_of,
    role_of,
    shorten_message,
    text_of,
    with_results,
    without_results,
)
from memalchemy.stored_messages import parts_of_message


class Form(NamedTuple):
    """A call of the tool ``look``, and its result, as one framework stores them."""

    call: dict[str, Any]
    result: dict[str, Any]
    roles: tuple[str, str] = ("assistant", "tool")


OF_RUN = {"invocation_id": "e-1", "author": "guide"}
ORIGIN = {"tool_name": "look", "arguments": {}, "id": "c1"}
GEMINI = Form(
    {
        "role": "model",
        "parts": [
            {"text": "secret", "thought": True},
            {"text": "I look."},
            {"function_call": {"id": "c1", "name": "look", "args": {}}},
        ],
    },
    {
        "role": "user",
        "parts": [
            {"function_response": {"id": "c1", "name": "look", "response": {"result": "a cat"}}}
        ],
    },
    ("assistant", "user"),
)
ANTHROPIC = Form(
    {
        "role": "assistant",
        "content": [
            {"type": "thinking", "thinking": "secret", "signature": "s"},
            {"type": "text", "text": "I look."},
            {"type": "tool_use", "id": "c1", "name": "look", "input": {}},
        ],
    },
    {
        "role": "user",
        "content": [
            {
                "type": "tool_result",
                "tool_use_id": "c1",
                "content": [{"type": "text", "text": "a cat"}],
            }
        ],
    },
    ("assistant", "user"),
)


def langchain(*blocks: dict[str, Any], **fields: Any) -> Form:
    """Return the form of LangChain, whose answers list each call beside their blocks, too."""
    listed = [{"type": "tool_call", "id": "c1", "name": "look", "args": {}}]
    return Form(
        {"type": "ai", "content": list(blocks), "tool_calls": listed, **fields},
        {"type": "tool", "content": "a cat", "tool_call_id": "c1"},
    )


FORMS = {
    "OpenAI's chats": Form(
        {
            "role": "assistant",
            "content": "I look.",
            "tool_calls": [{"id": "c1", "type": "function", "function": {"name": "look"}}],
        },
        {"role": "tool", "content": "a cat", "tool_call_id": "c1"},
    ),
    "Anthropic": ANTHROPIC,
    "Claude's transcripts": Form(
        *({"type": "line", "uuid": "u", "message": message} for message in ANTHROPIC[:2]),
        roles=("assistant", "user"),
    ),
    "LangChain": Form(
        {
            "type": "ai",
            "content": [{"type": "text", "text": "I look."}, *ANTHROPIC.call["content"][2:]],
            "tool_calls": [{"id": "c1", "name": "look", "args": {}}],
        },
        {"type": "tool", "content": "a cat", "tool_call_id": "c1"},
    ),
    "LangChain's standard blocks": langchain(
        {"type": "reasoning", "reasoning": "secret"},
        {"type": "text", "text": "I look."},
        {"type": "tool_call", "id": "c1", "name": "look", "args": {}},
    ),
    "LangChain with OpenAI's Responses": langchain(
        {"type": "reasoning", "id": "r", "summary": [{"type": "summary_text", "text": "secret"}]},
        {"type": "text", "text": "I look."},
        {"type": "function_call", "id": "f", "call_id": "c1", "name": "look", "arguments": "{}"},
    ),
    "LangChain with Bedrock": langchain(
        {"type": "reasoning_content", "reasoning_content": {"text": "secret", "signature": "s"}},
        {"type": "text", "text": "I look."},
        {"type": "tool_use", "id": "c1", "name": "look", "input": {}},
    ),
    "LangChain with a thought beside the content": langchain(
        {"type": "text", "text": "I look."}, additional_kwargs={"reasoning_content": "secret"}
    ),
    "LangChain with a summary beside the content": langchain(
        {"type": "text", "text": "I look."},
        additional_kwargs={"reasoning": {"summary": [{"type": "summary_text", "text": "secret"}]}},
    ),
    "Strands": Form(
        {
            "role": "assistant",
            "content": [
                {"reasoningContent": {"reasoningText": {"text": "secret"}}},
                {"text": "I look."},
                {"toolUse": {"toolUseId": "c1", "name": "look", "input": {}}},
            ],
        },
        {
            "role": "user",
            "content": [{"toolResult": {"toolUseId": "c1", "content": [{"text": "a cat"}]}}],
        },
        ("assistant", "user"),
    ),
    "Gemini": GEMINI,
    "ADK": Form(OF_RUN | {"content": GEMINI.call}, OF_RUN | {"content": GEMINI.result}),
    "Haystack": Form(
        {
            "role": "assistant",
            "content": [
                {"reasoning": {"reasoning_text": "secret", "extra": {}}},
                {"text": "I look."},
                {"tool_call": ORIGIN},
            ],
        },
        {
            "role": "tool",
            "content": [
                {"tool_call_result": {"result": "a cat", "origin": ORIGIN, "error": False}}
            ],
        },
    ),
    "LlamaIndex": Form(
        {
            "role": "assistant",
            "blocks": [
                {"block_type": "thinking", "content": "secret"},
                {"block_type": "text", "text": "I look."},
                {"block_type": "tool_call", "tool_call_id": "c1", "tool_name": "look"},
            ],
        },
        {
            "role": "tool",
            "additional_kwargs": {"tool_call_id": "c1"},
            "blocks": [{"block_type": "text", "text": "a cat"}],
        },
    ),
    "Agent Framework": Form(
        {
            "type": "message",
            "role": "assistant",
            "contents": [
                {"type": "text_reasoning", "text": "secret"},
                {"type": "text", "text": "I look."},
                {"type": "function_call", "call_id": "c1", "name": "look", "arguments": {}},
            ],
        },
        {
            "type": "message",
            "role": "tool",
            "contents": [
                {
                    "type": "function_result",
                    "call_id": "c1",
                    "result": "a cat",
                    "items": [{"type": "text", "text": "a cat"}],
                }
            ],
        },
    ),
    "Pydantic AI": Form(
        {
            "kind": "response",
            "parts": [
                {"part_kind": "thinking", "content": "secret"},
                {"part_kind": "text", "content": "I look."},
                {"part_kind": "tool-call", "tool_call_id": "c1", "tool_name": "look"},
            ],
        },
        {
            "kind": "request",
            "parts": [
                {
                    "part_kind": "tool-return",
                    "tool_call_id": "c1",
                    "tool_name": "look",
                    "content": "a cat",
                }
            ],
        },
    ),
}
each_form = pytest.mark.parametrize("form", FORMS.values(), ids=FORMS)
# A line of a transcript is not sent to a model.
PROMPTS = {name: form for name, form in FORMS.items() if name != "Claude's transcripts"}
each_form_of_a_prompt = pytest.mark.parametrize("form", PROMPTS.values(), ids=PROMPTS)


@each_form
def test_a_call_and_its_result_are_read(form: Form) -> None:
    call, result, roles = form

    assert (role_of(call), role_of(result)) == roles
    assert (text_of(call), text_of(result)) == ("I look.", "a cat")
    assert (calls_of(call), results_of(call)) == (["c1"], [])
    assert (calls_of(result), results_of(result)) == ([], ["c1"])
    assert (called_tools(call), called_tools(result)) == (["look"], [])
    assert not is_user_turn(result)


@each_form
def test_a_record_has_each_call_and_thought_once(form: Form) -> None:
    inner = form.call.get("message", form.call)

    record = parts_of_message(inner)

    assert [(call["id"], call["name"]) for call in record["calls"]] == [("c1", "look")]
    assert record["thought"] == ("secret" if "secret" in str(inner) else "")
    assert record["text"] == "I look."


def test_calls_without_ids_in_two_places_are_listed_once() -> None:
    calls = [{"type": "tool_call", "id": None, "name": name, "args": {}} for name in ("a", "b")]
    message = {"type": "ai", "content": calls, "tool_calls": calls}

    for given in (message, {"type": "ai", "content": "", "tool_calls": calls}):
        assert [call["name"] for call in parts_of_message(given)["calls"]] == ["a", "b"]


@each_form
def test_a_call_with_its_result_is_no_fault_of_a_history(form: Form) -> None:
    history = [form.call, form.result]

    assert repair_tool_history(history) == history


@each_form_of_a_prompt
def test_a_result_is_replaced_in_a_copy(form: Form) -> None:
    short = with_results(form.result, "gone")

    assert text_of(short) == "gone"
    assert "a cat" not in str(short)
    assert (role_of(short), results_of(short)) == (form.roles[1], ["c1"])
    assert text_of(form.result) == "a cat"


@each_form_of_a_prompt
def test_a_long_text_is_shortened_in_a_copy(form: Form) -> None:
    if "message" in form.result:
        pytest.skip("a line of a transcript is not sent to a model")
    long = with_results(form.result, "word " * 500)

    short = shorten_message(long, 200)

    assert 0 < len(text_of(short)) <= 200
    assert results_of(short) == ["c1"]
    assert len(text_of(long)) == 2_500


def test_results_are_removed_from_blocks_and_others_stay() -> None:
    for name in ("Anthropic", "Strands", "Gemini", "ADK", "Haystack", "Agent Framework"):
        message = FORMS[name].result
        assert results_of(without_results(message, ["c1"])) in ([], [None])
        assert without_results(message, ["another"]) == message


@pytest.mark.parametrize(
    ("call", "result"),
    [
        ({"type": "function_call", "call_id": "c1", "name": "look", "arguments": "{}"},
         {"type": "function_call_output", "call_id": "c1", "output": "a cat"}),
    ],
)  # fmt: skip
def test_items_of_openai_s_responses_are_calls_and_results_themselves(
    call: dict[str, Any], result: dict[str, Any]
) -> None:
    assert (role_of(call), role_of(result)) == ("assistant", "tool")
    assert (calls_of(call), results_of(result)) == (["c1"], ["c1"])
    assert (results_of(call), calls_of(result)) == ([], [])
    assert text_of(result) == "a cat"


@pytest.mark.parametrize(
    ("message", "role"),
    [
        ({"role": "ROLE_AGENT", "parts": [{"text": "Hello."}]}, "assistant"),
        ({"role": "ROLE_USER", "parts": [{"text": "Hello."}]}, "user"),
        ({"role": "agent", "parts": [{"kind": "text", "text": "Hello."}]}, "assistant"),
        (
            {"author": "user", "invocation_id": "e", "content": {"parts": [{"text": "Hello."}]}},
            "user",
        ),
        ({"type": "system", "content": "Hello."}, "system"),
        ({"author": "Ada", "content": "Hello."}, ""),
        ({"type": "summary", "message": {"content": "Hello."}}, ""),
        ({"message": "Hello.", "content": "Hello."}, ""),
    ],
)
def test_a_role_has_its_usual_name(message: dict[str, Any], role: str) -> None:
    assert (role_of(message), text_of(message)) == (role, "Hello.")


def test_a_call_or_result_without_an_id_counts() -> None:
    call = {"role": "model", "parts": [{"function_call": {"name": "look", "args": {}}}]}
    result = {"role": "user", "parts": [{"function_response": {"name": "look", "response": {}}}]}

    assert (calls_of(call), results_of(result)) == ([None], [None])
    assert results_of({"role": "tool", "content": "a cat"}) == [None]
