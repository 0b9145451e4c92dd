"""The usage that frameworks state, read from what their own classes store."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import asdict
from typing import Any

import pytest
from agent_framework import Content
from agent_framework import Message as FrameworkMessage
from agents import RunContextWrapper
from agents.usage import Usage as AgentsUsage
from agents.usage import serialize_usage
from google.adk.events import Event
from google.genai.types import Content as GeminiContent
from google.genai.types import GenerateContentResponseUsageMetadata, Part
from haystack.dataclasses import ChatMessage as HaystackMessage
from hypothesis import given
from hypothesis import strategies as st
from langchain_core.messages import AIMessage
from langgraph.checkpoint.serde.jsonplus import JsonPlusSerializer
from llama_index.core.llms import ChatMessage as LlamaMessage
from openai.types.responses.response_usage import InputTokensDetails
from pydantic_ai.messages import ModelResponse, TextPart
from pydantic_ai.usage import RequestUsage
from strands.types.content import Message as StrandsMessage
from strands.types.session import SessionMessage

from memalchemy.contracts import Packed
from memalchemy.integrations._pydantic_ai_messages import dump_messages
from memalchemy.integrations._values import dumped
from memalchemy.integrations.langchain._records import message_to_record
from memalchemy.stored_messages import unwrapped
from memalchemy.usage import Usage, usage_of

Make = Callable[[Usage], Any]


def langchain_message(usage: Usage) -> AIMessage:
    assert usage.input_tokens is not None
    assert usage.output_tokens is not None
    return AIMessage(
        "Yes.",
        usage_metadata={
            "input_tokens": usage.input_tokens,
            "output_tokens": usage.output_tokens,
            "total_tokens": usage.input_tokens + usage.output_tokens,
            "input_token_details": {"cache_read": usage.cached_tokens or 0},
        },
        response_metadata={"model_name": usage.model},
    )


def langgraph(usage: Usage) -> Any:
    return Packed(*JsonPlusSerializer().dumps_typed(langchain_message(usage)))


def langchain(usage: Usage) -> Any:
    return message_to_record(langchain_message(usage))


def agents_usage(usage: Usage) -> AgentsUsage:
    details = InputTokensDetails.model_construct(cached_tokens=usage.cached_tokens)
    return AgentsUsage(
        requests=1,
        input_tokens=usage.input_tokens or 0,
        input_tokens_details=details,
        output_tokens=usage.output_tokens or 0,
    )


def openai_agents(usage: Usage) -> Any:
    wrapper = RunContextWrapper(None, usage=agents_usage(usage))
    return {"model": usage.model, "usage": serialize_usage(wrapper.usage)}


def pydantic_ai(usage: Usage) -> Any:
    stated = RequestUsage(
        input_tokens=usage.input_tokens or 0,
        output_tokens=usage.output_tokens or 0,
        cache_read_tokens=usage.cached_tokens or 0,
    )
    answer = ModelResponse([TextPart("Yes.")], usage=stated, model_name=usage.model)
    (found,) = dump_messages([answer])
    return found


def google_adk(usage: Usage) -> Any:
    return dumped(
        Event(
            author="planner",
            invocation_id="i",
            content=GeminiContent(role="model", parts=[Part(text="Yes.")]),
            model_version=usage.model,
            usage_metadata=GenerateContentResponseUsageMetadata(
                prompt_token_count=usage.input_tokens,
                candidates_token_count=usage.output_tokens,
                cached_content_token_count=usage.cached_tokens,
            ),
        )
    )


def strands(usage: Usage) -> Any:
    assert usage.input_tokens is not None
    assert usage.output_tokens is not None
    message: StrandsMessage = {
        "role": "assistant",
        "content": [{"text": "Yes."}],
        "metadata": {
            "usage": {
                "inputTokens": usage.input_tokens,
                "outputTokens": usage.output_tokens,
                "totalTokens": usage.input_tokens + usage.output_tokens,
                "cacheReadInputTokens": usage.cached_tokens or 0,
            },
            "metrics": {"latencyMs": 0},
            "custom": {"model": "no name of a model"},
        },
    }
    found = asdict(SessionMessage.from_message(message, 0))
    return found["message"] | {"model": usage.model}


def haystack(usage: Usage) -> Any:
    meta = {
        "model": usage.model,
        "usage": {
            "prompt_tokens": usage.input_tokens,
            "completion_tokens": usage.output_tokens,
            "prompt_tokens_details": {"cached_tokens": usage.cached_tokens},
        },
    }
    return HaystackMessage.from_assistant("Yes.", meta=meta).to_dict()


def llama_index(usage: Usage) -> Any:
    message = LlamaMessage(
        role="assistant",
        content="Yes.",
        additional_kwargs={
            "prompt_tokens": usage.input_tokens,
            "completion_tokens": usage.output_tokens,
            "cached_tokens": usage.cached_tokens,
        },
    )
    return message.model_dump() | {"model": usage.model}


def agent_framework(usage: Usage) -> Any:
    contents = [
        Content.from_text("Yes."),
        Content.from_usage(
            {
                "input_token_count": usage.input_tokens,
                "output_token_count": usage.output_tokens,
                "cache_read_input_token_count": usage.cached_tokens,
            }
        ),
    ]
    return FrameworkMessage("assistant", contents).to_dict() | {"model": usage.model}


MAKES: list[Make] = [
    langgraph,
    langchain,
    openai_agents,
    pydantic_ai,
    google_adk,
    strands,
    haystack,
    llama_index,
    agent_framework,
]
USAGES = st.builds(
    Usage,
    model=st.sampled_from(["small", "large-2026-11-01"]),
    input_tokens=st.integers(1, 10**7),
    output_tokens=st.integers(1, 10**7),
    cached_tokens=st.integers(0, 10**6),
)


@pytest.mark.parametrize("make", MAKES, ids=lambda make: make.__name__)
@given(usage=USAGES)
def test_what_a_framework_states_is_read_from_what_is_stored(make: Make, usage: Usage) -> None:
    assert usage_of(unwrapped(make(usage))) == usage


def test_a_live_message_states_its_usage_too() -> None:
    usage = Usage("small", 12, 3, 4)

    assert usage_of(langchain_message(usage)) == usage  # type: ignore[arg-type]


def test_an_answer_without_usage_states_none() -> None:
    (found,) = dump_messages([ModelResponse([TextPart("Yes.")], model_name="small")])

    assert usage_of(found) is None
    assert usage_of(unwrapped(Packed(*JsonPlusSerializer().dumps_typed(AIMessage("Yes."))))) is None
