"""Model with scripted answers, for the OpenAI Agents SDK, and runs with it."""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import Any

from agents import Agent, ModelResponse, Runner, Usage
from agents.models.interface import Model
from openai.types.responses import (
    Response,
    ResponseCompletedEvent,
    ResponseFunctionToolCall,
    ResponseOutputMessage,
    ResponseOutputText,
    ResponseUsage,
)
from openai.types.responses.response_usage import InputTokensDetails, OutputTokensDetails


class Scripted(Model):
    """Answers with the next of *steps*, a text or ``(tool, arguments)``; keeps what it heard."""

    def __init__(self, *steps: str | tuple[str, str]) -> None:
        self.steps = list(steps)
        self.heard: list[list[Any]] = []

    async def get_response(self, *args: Any, **options: Any) -> ModelResponse:
        return ModelResponse(
            output=[self._next(_input(args, options))],
            usage=Usage(requests=1, input_tokens=10, output_tokens=2, total_tokens=12),
            response_id=None,
        )

    async def stream_response(self, *args: Any, **options: Any) -> AsyncIterator[Any]:
        output = self._next(_input(args, options))
        usage = ResponseUsage(
            input_tokens=10,
            output_tokens=2,
            total_tokens=12,
            input_tokens_details=InputTokensDetails(cached_tokens=0, cache_write_tokens=0),
            output_tokens_details=OutputTokensDetails(reasoning_tokens=0),
        )
        response = Response(
            id="r",
            created_at=0,
            model="scripted",
            object="response",
            output=[output],
            parallel_tool_calls=False,
            tool_choice="none",
            tools=[],
            usage=usage,
        )
        yield ResponseCompletedEvent(
            type="response.completed", response=response, sequence_number=0
        )

    def _next(self, given: Any) -> Any:
        self.heard.append(list(given) if not isinstance(given, str) else [given])
        step = self.steps.pop(0)
        number = len(self.heard)
        if isinstance(step, tuple):
            return ResponseFunctionToolCall(
                id=f"f{number}",
                call_id=f"call{number}",
                type="function_call",
                name=step[0],
                arguments=step[1],
            )
        text = ResponseOutputText(text=step, type="output_text", annotations=[], logprobs=[])
        return ResponseOutputMessage(
            id=f"m{number}", type="message", role="assistant", status="completed", content=[text]
        )


def _input(args: tuple[Any, ...], options: dict[str, Any]) -> Any:
    return options["input"] if "input" in options else args[1]


async def run(agent: Agent[Any], said: str, session: Any, *, streamed: bool = False) -> Any:
    """One run to its end."""
    if not streamed:
        return await Runner.run(agent, said, session=session)
    result = Runner.run_streamed(agent, said, session=session)
    async for _ in result.stream_events():
        pass
    return result


def said(role: str, text: str) -> Any:
    """An item as the SDK writes the simplest."""
    return {"role": role, "content": text}


def texts(items: list[Any]) -> list[str]:
    """Return the texts of items in order; of a tool its name or its output."""
    return [_text(item) for item in items]


def _text(item: Any) -> str:
    content = item.get("content", item.get("output", item.get("name")))
    return content if isinstance(content, str) else content[0]["text"]
