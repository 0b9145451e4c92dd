"""Messages of Pydantic AI, which consist of parts, are read as messages of any other kind."""

from __future__ import annotations

from dataclasses import dataclass, field
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
