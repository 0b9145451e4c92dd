"""Validation and repair of the tool calls in a history."""

from __future__ import annotations

import copy
from typing import Any

import pytest
from conversations import MAKES, assistant, chat, conversations, result, user
from hypothesis import given

from memalchemy.context import (
    ToolHistoryIssue,
    ToolHistoryReport,
    repair_tool_history,
    validate_tool_history,
)
from memalchemy.messages import calls_of, results_of, text_of
from memalchemy.state import Message


def codes(messages: list[Any]) -> list[tuple[str, int]]:
    return [(issue.code, issue.index) for issue in validate_tool_history(messages).issues]


def test_a_valid_history_is_left_alone() -> None:
    messages = [*chat(2), assistant(None, "a", "b"), result("b"), result("a")]

    report = validate_tool_history(messages)

    assert report.ok
    assert report
    assert report.first_issue is None
    repaired = repair_tool_history(messages)
    assert all(a is b for a, b in zip(repaired, messages, strict=True))


@pytest.mark.parametrize(
    ("messages", "code", "index"),
    [
        ([assistant(None, "a"), user("hello?")], "missing_result", 0),
        ([result("a")], "orphan_result", 0),
        ([assistant(None, "a"), result("a"), result("a")], "orphan_result", 2),
        ([assistant(None, "a"), user("hello?"), result("a")], "misplaced_result", 2),
    ],
)
def test_repairable_issues_are_repaired(messages: list[Any], code: str, index: int) -> None:
    assert codes(messages) == [(code, index)]
    report = validate_tool_history(messages)
    assert report.repairable
    assert isinstance(report, ToolHistoryReport)
    assert not report.ok
    assert isinstance(report.first_issue, ToolHistoryIssue)
    assert report.first_issue.tool_call_id == "a"

    assert validate_tool_history(repair_tool_history(messages)).ok


@pytest.mark.parametrize("make", sorted(MAKES))
def test_an_interrupted_call_gets_a_result_that_says_so(make: str) -> None:
    messages = [MAKES[make](**m) for m in (assistant(None, "a", "b"), result("b"), user("?"))]

    mended = repair_tool_history(messages)

    assert [results_of(message) for message in mended] == [[], ["b"], ["a"], []]
    assert type(mended[2]) is type(messages[0])
    assert "interrupted" in text_of(mended[2])


def test_anthropic_results_are_repaired_within_their_message() -> None:
    uses = [{"type": "tool_use", "id": id_, "name": "look"} for id_ in ("a", "b")]
    found = [{"type": "tool_result", "tool_use_id": id_} for id_ in ("b", "lost")]
    messages = [{"role": "assistant", "content": uses}, {"role": "user", "content": found}]

    mended = repair_tool_history(messages)

    assert codes(messages) == [("missing_result", 0), ("orphan_result", 1)]
    assert results_of(mended[1]) == ["b", "a"]
    assert validate_tool_history(mended).ok
    assert results_of(repair_tool_history(messages[:1])[1]) == ["a", "b"]


def test_items_without_a_role_are_calls_and_results_too() -> None:
    call = {"type": "function_call", "call_id": "a", "name": "look", "arguments": "{}"}

    mended = repair_tool_history([user("go"), call])

    assert mended[2]["type"] == "function_call_output"
    assert validate_tool_history(mended).ok


def test_calls_without_ids_are_answered_in_their_order() -> None:
    call = {"role": "assistant", "tool_calls": [{"function": {"name": "look"}}] * 2}
    found = {"role": "tool", "content": "found"}

    assert validate_tool_history([user("go"), call, found, found]).ok
    assert codes([user("go"), call, found]) == [("missing_result", 1)]
    assert codes([call, found, found, user("go"), found]) == [("orphan_result", 4)]


def test_empty_and_duplicate_ids_are_not_repairable() -> None:
    for messages in ([assistant(None, ""), result("")], [assistant(None, "a", "a"), result("a")]):
        assert not validate_tool_history(messages).repairable
    assert codes([assistant(None, ""), result("")]) == [("empty_call_id", 0)]


@given(conversations())
def test_any_repaired_history_is_valid(messages: list[Any]) -> None:
    before = copy.deepcopy(messages)

    mended = repair_tool_history(messages)

    assert messages == before
    assert validate_tool_history(mended).ok
    assert repair_tool_history(mended) == mended
    there = {id(message) for message in messages}
    said = [message for message in mended if not results_of(message)]
    assert said == [message for message in messages if not results_of(message)]
    assert all(id(message) in there for message in said)


def test_a_message_without_calls_has_none() -> None:
    assert calls_of(Message.user("hi")) == results_of(Message.user("hi")) == []


@pytest.mark.parametrize("field", ["content", "contents", "output"])
def test_the_text_of_a_message_is_found_in_any_field_that_frameworks_use(field: str) -> None:
    message = {"role": "user", field: [{"type": "text", "text": "Hello"}, {"text": "Ada"}]}
    assert text_of(message) == "Hello\nAda"
    assert text_of({"role": "user"}) == ""
