"""Messages of Pydantic AI, which consist of parts, are read as messages of any other kind."""

from __future__ import annotations

from dataclasses import dataclass, field
from itertools import chain, combinations
from types import SimpleNamespace
from typing import Any

import pytest

from memalchemy.messages import (
    calls_of,
    is_prompt,
    is_system,
    results_of,
    role_of,
    shorten_message,
    text_of,
)
from memalchemy.stored_messages import parts_of_message


def part(kind: str, **fields: Any) -> dict[str, Any]:
    return {"part_kind": kind, **fields}


ASKED = {"kind": "request", "parts": [part("user-prompt", content=["Look:", {"url": "u"}, "now"])]}
ANSWERED = {
    "kind": "response",
    "parts": [
        part("thinking", content="secret"),
        part("text", content="I look."),
        part("tool-call", tool_name="look", args={"at": "x"}, tool_call_id="c1"),
        part("tool-call", tool_name="look", args="{}", tool_call_id="c2"),
    ],
}
RETURNED = {
    "kind": "request",
    "parts": [
        part("tool-return", tool_name="look", content="a cat", tool_call_id="c1"),
        part("retry-prompt", tool_name="look", content="again", tool_call_id="c2"),
        part("retry-prompt", tool_name=None, content="no", tool_call_id="none"),
    ],
}
INSTRUCTED = {"kind": "request", "parts": [part("system-prompt", content="Be brief.")]}


@dataclass
class Part:
    content: str
    part_kind: str = "text"


@dataclass
class Response:
    parts: list[Part]
    kind: str = "response"
    metadata: dict[str, Any] = field(default_factory=dict)


@pytest.mark.parametrize(
    ("message", "role", "text"),
    [
        pytest.param(ASKED, "user", "Look:\nnow", id="prompt"),
        pytest.param(ANSWERED, "assistant", "I look.", id="response"),
        pytest.param(RETURNED, "tool", "a cat\nagain\nno", id="results"),
        pytest.param(INSTRUCTED, "system", "Be brief.", id="instructions"),
        pytest.param(Response([Part("Hello.")]), "assistant", "Hello.", id="object"),
        pytest.param({"kind": "request", "parts": []}, "user", "", id="empty"),
        pytest.param({"kind": "request"}, "", "", id="no parts"),
        pytest.param({"kind": "other", "parts": []}, "", "", id="another kind"),
        pytest.param(SimpleNamespace(kind="response", parts="x"), "", "x", id="no list"),
    ],
)
def test_role_and_text(message: Any, role: str, text: str) -> None:
    assert (role_of(message), text_of(message)) == (role, text)


def test_calls_and_results() -> None:
    assert calls_of(ANSWERED) == ["c1", "c2"]
    assert results_of(RETURNED) == ["c1", "c2"]
    assert calls_of(ASKED) == results_of(ASKED) == results_of(ANSWERED) == []
    assert (is_prompt(ASKED), is_prompt(RETURNED), is_prompt(ANSWERED)) == (True, False, False)
    assert (is_system(INSTRUCTED), is_system(ASKED)) == (True, False)


def test_a_long_part_is_shortened_in_a_copy() -> None:
    long = {"kind": "request", "parts": [part("user-prompt", content="word " * 500)]}

    short = shorten_message(long, 200)

    assert len(text_of(short)) <= 200
    assert short["parts"][0]["part_kind"] == "user-prompt"
    assert len(text_of(long)) == 2_500


OF_A_RESPONSE = {
    "text": part("text", content="of text"),
    "speech": part("speech", speaker="assistant", transcript="of speech"),
    "summary": part("compaction", content="of summary"),
    "thought": part("thinking", content="of thought"),
    "call": part("tool-call", tool_name="look", args="{}", tool_call_id="c1"),
}
OF_A_REQUEST = {
    "instructions": part("system-prompt", content="of instructions"),
    "prompt": part("user-prompt", content="of prompt"),
    "blocks": part("user-prompt", content=["of", {"kind": "text-content", "content": "blocks"}]),
    "feedback": part("retry-feedback", content="of feedback"),
    "retry": part("retry-prompt", content="of retry", tool_name=None),
    "result": part("tool-return", tool_name="look", content="of result", tool_call_id="c1"),
}


def some_of(kinds: dict[str, Any]) -> list[tuple[str, ...]]:
    """Return the combinations of one to three of these kinds."""
    return list(chain.from_iterable(combinations(kinds, size) for size in (1, 2, 3)))


@pytest.mark.parametrize("kinds", some_of(OF_A_RESPONSE), ids=" and ".join)
def test_each_part_of_a_response_keeps_its_words_beside_others(kinds: tuple[str, ...]) -> None:
    message = {"kind": "response", "parts": [OF_A_RESPONSE[kind] for kind in kinds]}
    said = "\n".join(f"of {kind}" for kind in kinds if kind not in ("thought", "call"))

    record = parts_of_message(message)

    assert (record["text"], text_of(message)) == (said, said)
    assert record["thought"] == ("of thought" if "thought" in kinds else "")
    assert [call["id"] for call in record["calls"]] == ["c1"] * ("call" in kinds)


@pytest.mark.parametrize("kinds", some_of(OF_A_REQUEST), ids=" and ".join)
def test_each_part_of_a_request_keeps_its_words_beside_others(kinds: tuple[str, ...]) -> None:
    message = {"kind": "request", "parts": [OF_A_REQUEST[kind] for kind in kinds]}

    record = parts_of_message(message)

    words = [record["text"], *(result["text"] for result in record["results"])]
    for kind in kinds:
        assert f"of {kind}" in " ".join(words).replace("\n", " ")
    assert sorted(text_of(message).split()) == sorted(" ".join(words).split())
    if "result" in kinds:
        assert [result["text"] for result in record["results"]] == ["of result"]


def test_feedback_about_an_answer_is_no_prompt() -> None:
    message = {"kind": "request", "parts": [OF_A_REQUEST["feedback"]]}

    assert (role_of(message), results_of(message), is_prompt(message)) == ("tool", [], False)
