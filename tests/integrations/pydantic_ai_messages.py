"""Messages of Pydantic AI of many kinds, for the tests of its adapters."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta, timezone

from pydantic_ai.messages import (
    BinaryContent,
    BinaryImage,
    ImageUrl,
    ModelMessage,
    ModelRequest,
    ModelResponse,
    SystemPromptPart,
    TextPart,
    ThinkingPart,
    ToolCallPart,
    ToolReturnPart,
    UserPromptPart,
)
from pydantic_ai.usage import RequestUsage

NOON = datetime(2026, 3, 1, 12, 0, 0, 5, tzinfo=UTC)
ELSEWHERE = datetime(2026, 3, 1, 12, tzinfo=timezone(timedelta(hours=5, minutes=30)))


def user(text: str) -> ModelRequest:
    return ModelRequest(parts=[UserPromptPart(text, timestamp=NOON)])


def answer(text: str) -> ModelResponse:
    return ModelResponse(parts=[TextPart(text)], timestamp=NOON)


MESSAGES: list[ModelMessage] = [
    ModelRequest(
        parts=[
            SystemPromptPart("Be brief.", timestamp=NOON),
            UserPromptPart(
                [
                    "Look: café \x00 中文",
                    BinaryImage(b"\x00\xff\x89PNG", media_type="image/png"),
                    BinaryContent(b"%PDF\xff", media_type="application/pdf"),
                    ImageUrl("https://example.org/one.png"),
                ],
                timestamp=ELSEWHERE,
            ),
        ],
        instructions="Answer in English.",
        metadata={"from": "web"},
    ),
    ModelResponse(
        parts=[
            ThinkingPart("A dog or a cat?", signature="c2lnbg=="),
            TextPart("I ask."),
            ToolCallPart("look", {"at": [1, 2.5, None, {"deep": True}]}, tool_call_id="call-1"),
            ToolCallPart("look", '{"at": "text"}', tool_call_id="call-2"),
        ],
        usage=RequestUsage(input_tokens=12, output_tokens=3, details={"cached": 1}),
        model_name="script",
        timestamp=ELSEWHERE,
        provider_details={"finish": "tool"},
    ),
    ModelRequest(
        parts=[
            ToolReturnPart(
                "look", {"when": NOON, "raw": "a cat"}, tool_call_id="call-1", timestamp=NOON
            ),
            ToolReturnPart("look", ("a", ["dog"]), tool_call_id="call-2", timestamp=NOON),
        ]
    ),
    answer("A cat. 🧵"),
    user("And \ud800 now?"),
    answer(""),
]
