"""The usage that messages and metadata state: read from each form, and summed up."""

from __future__ import annotations

from decimal import Decimal
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from memalchemy.usage import (
    MOST_TOKENS,
    USAGE_KEYS,
    Usage,
    dimensions_of,
    response_id,
    usage_of,
    usage_of_metadata,
)

COUNTS = st.integers(1, 10**9)
NUMBERS = st.none() | COUNTS
USAGES = st.builds(
    Usage,
    model=st.none() | st.sampled_from(["small", "large"]),
    input_tokens=COUNTS,
    output_tokens=NUMBERS,
    cached_tokens=NUMBERS,
    cost_usd=st.none() | st.integers(0, 1000).map(lambda cents: cents / 4),
    latency_ms=st.none() | st.integers(0, 1000).map(float),
)
ANYTHING: st.SearchStrategy[Any] = st.recursive(
    st.none()
    | st.booleans()
    | st.integers()
    | st.floats()
    | st.text(max_size=4)
    | st.binary(max_size=4)
    | st.decimals()
    | st.dates(),
    lambda inner: (
        st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from([*USAGE_KEYS, "a"]), inner)
    ),
    max_leaves=8,
)
NAMES = [
    *USAGE_KEYS,
    *("usage", "usage_metadata", "metadata", "meta", "message", "response_metadata", "content"),
    *("input_token_details", "prompt_tokens", "cache_read_input_tokens", "type", "metrics"),
]


# Forms that are stored without their framework, or for which none is installed here.
FORMS: dict[str, Any] = {
    "openai's chat completions": {
        "role": "assistant",
        "content": "Yes.",
        "model": "m",
        "usage": {
            "prompt_tokens": 100,
            "completion_tokens": 7,
            "total_tokens": 107,
            "prompt_tokens_details": {"cached_tokens": 40},
        },
    },
    "openai's responses": {
        "type": "message",
        "role": "assistant",
        "model": "m",
        "usage": {
            "input_tokens": 100,
            "input_tokens_details": {"cached_tokens": 40},
            "output_tokens": 7,
            "total_tokens": 107,
        },
    },
    "a list of details": {
        "model": "m",
        "input_tokens": 100,
        "input_tokens_details": [{"cached_tokens": 40}],
        "output_tokens": 7,
    },
    "anthropic": {
        "role": "assistant",
        "model": "m",
        "content": [{"type": "text", "text": "Yes."}],
        "usage": {
            "input_tokens": 50,
            "cache_creation_input_tokens": 10,
            "cache_read_input_tokens": 40,
            "output_tokens": 7,
        },
    },
    "a line of claude's transcript": {
        "type": "assistant",
        "message": {
            "id": "msg_1",
            "role": "assistant",
            "model": "m",
            "content": [{"type": "text", "text": "Yes."}],
            "usage": {
                "input_tokens": 50,
                "cache_creation_input_tokens": 10,
                "cache_read_input_tokens": 40,
                "output_tokens": 7,
            },
        },
    },
    "litellm": {
        "role": "assistant",
        "model": "m",
        "usage": {
            "prompt_tokens": 100,
            "completion_tokens": 7,
            "total_tokens": 107,
            "cache_read_input_tokens": 40,
        },
    },
    "bedrock": {
        "role": "assistant",
        "metadata": {
            "model": "m",
            "usage": {
                "inputTokens": 60,
                "outputTokens": 7,
                "totalTokens": 107,
                "cacheReadInputTokens": 40,
            },
        },
    },
    "gemini": {
        "role": "model",
        "model": "m",
        "usageMetadata": {
            "promptTokenCount": 90,
            "toolUsePromptTokenCount": 10,
            "candidatesTokenCount": 5,
            "thoughtsTokenCount": 2,
            "cachedContentTokenCount": 40,
        },
    },
    "the answers of langchain's openai": {
        "type": "ai",
        "content": "Yes.",
        "response_metadata": {
            "model_name": "m",
            "token_usage": {
                "prompt_tokens": 100,
                "completion_tokens": 7,
                "prompt_tokens_details": {"cached_tokens": 40},
            },
        },
    },
    "llamaindex": {
        "role": "assistant",
        "model": "m",
        "additional_kwargs": {"prompt_tokens": 100, "completion_tokens": 7, "cached_tokens": 40},
    },
    "metadata of a message": {
        "role": "assistant",
        "content": "Yes.",
        "metadata": {"model": "m", "input_tokens": 100, "output_tokens": 7, "cached_tokens": 40},
    },
    "the message itself": {
        "role": "assistant",
        "model": "m",
        "input_tokens": 100,
        "output_tokens": 7,
        "cached_tokens": 40,
    },
}


@pytest.mark.parametrize("form", FORMS)
def test_the_usage_of_each_form_is_read(form: str) -> None:
    assert usage_of(FORMS[form]) == Usage("m", 100, 7, 40)


@pytest.mark.parametrize("form", FORMS)
def test_cost_and_latency_are_read_beside_the_tokens(form: str) -> None:
    found = usage_of(FORMS[form] | {"cost_usd": Decimal("0.5"), "latency_ms": 1200})

    assert found == Usage("m", 100, 7, 40, 0.5, 1200.0)


@pytest.mark.parametrize(
    "message",
    [
        {},
        {"role": "user", "content": "How many tokens?"},
        {"role": "assistant", "content": "Yes.", "model": "m"},
        {"role": "assistant", "usage": {"input_tokens": 0, "output_tokens": 0}},
        {"role": "assistant", "usage": None, "usage_metadata": "none", "metadata": []},
        {"role": "assistant", "usage": {"input_tokens": -1, "output_tokens": True}},
        {"role": "assistant", "usage": {"input_tokens": MOST_TOKENS + 1}},
    ],
    ids=["empty", "user", "model alone", "zeros", "no mappings", "no counts", "beyond counts"],
)
def test_a_message_that_states_nothing_has_no_usage(message: Any) -> None:
    assert usage_of(message) is None


@given(st.dictionaries(st.sampled_from(NAMES), ANYTHING))
def test_no_value_under_the_known_names_raises(message: Any) -> None:
    for found in (usage_of(message), usage_of_metadata(message)):
        if found is not None:
            numbers = [found.input_tokens, found.output_tokens, found.cost_usd, found.latency_ms]
            assert all(one is None or one >= 0 for one in numbers)
            assert found.model is None or isinstance(found.model, str)
    assert all(one is None or isinstance(one, str) for one in dimensions_of(message).values())
    assert response_id(message) is None or isinstance(response_id(message), str)


@given(USAGES)
def test_metadata_of_a_usage_reads_back_equal(usage: Usage) -> None:
    assert usage_of_metadata(usage.as_metadata() | {"agent": "planner", "other": [1]}) == usage


def test_metadata_of_other_types_is_not_stated() -> None:
    metadata = {"model": 5, "input_tokens": [1], "output_tokens": "many", "cost_usd": "0.25"}

    assert usage_of_metadata(metadata) == Usage(cost_usd=0.25)
    assert usage_of_metadata({"model": "m", "cached_tokens": "lots"}) is None
    assert dimensions_of({"agent": "planner", "user_id": 7}) == {
        "agent": "planner",
        "user_id": None,
    }


@given(USAGES, USAGES, USAGES)
def test_addition_does_not_depend_on_the_order(one: Usage, two: Usage, three: Usage) -> None:
    assert one + two == two + one
    assert (one + two) + three == one + (two + three)
    assert Usage() + one == one + Usage() == one == sum([one])


def test_a_sum_names_a_model_if_all_its_parts_name_the_same() -> None:
    small, large = Usage("small", 10, 2, cost_usd=0.5), Usage("large", 1, None, 1)

    assert small + small == Usage("small", 20, 4, cost_usd=1.0)
    assert small + large == Usage(None, 11, 2, 1, 0.5)
    assert small + large + small == Usage(None, 21, 4, 1, 1.0)


def test_lines_of_one_answer_of_claude_have_its_id() -> None:
    assert response_id(FORMS["a line of claude's transcript"]) == "msg_1"
    assert response_id(FORMS["anthropic"]) is None
