"""What reads a message reads any value: a host's state may hold what only looks like a message."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from memalchemy import messages

NAMES = (
    *("role", "content", "contents", "parts", "blocks", "type", "block_type", "part_kind", "kind"),
    *("tool_calls", "tool_call_id", "call_id", "id", "name", "function", "arguments", "input"),
    *("text", "thought", "thinking", "metadata", "message", "author", "invocation_id", "origin"),
    *("toolUse", "toolResult", "reasoningContent", "function_call", "function_response", "output"),
    *("additional_kwargs", "status", "is_error", "response", "result", "items", "tool_name"),
)
WORDS = (
    "",
    "user",
    "tool",
    "assistant",
    "request",
    "tool_use",
    "tool_result",
    "function_call",
    "x",
)

values = st.recursive(
    st.none() | st.booleans() | st.integers(-2, 2) | st.sampled_from(WORDS) | st.just(b"\xff"),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(st.sampled_from(NAMES), inner, max_size=6)
        | st.lists(inner, max_size=2).map(tuple)
    ),
    max_leaves=20,
)


def readers() -> dict[str, Callable[[Any], object]]:
    """Return the public functions of the module that read a message, a block or a content."""
    found: dict[str, Callable[[Any], object]] = {}
    for name, function in inspect.getmembers(messages, inspect.isfunction):
        parameters = list(inspect.signature(function).parameters.values())
        is_own = function.__module__ == messages.__name__ and not name.startswith("_")
        if is_own and len(parameters) == 1 and parameters[0].annotation == "Any":
            found[name] = function
    return found


READERS = {
    name: function
    for name, function in readers().items()
    # These are given what a user says is a list of messages, and say what is wrong with it.
    if name not in ("check_messages", "state_messages")
}


def test_there_are_readers() -> None:
    assert {"role_of", "parts_of", "calls_of", "results_of", "words_of"} <= READERS.keys()


@pytest.mark.parametrize("name", READERS)
@given(value=values)
def test_any_value_is_read_without_an_error(name: str, value: Any) -> None:
    found = READERS[name](value)
    if inspect.isgenerator(found):
        list(found)
