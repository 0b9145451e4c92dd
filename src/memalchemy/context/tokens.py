"""Estimate of the tokens of a message, for applications without a tokenizer."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import Any

from memalchemy.messages import read

TokenCounter = Callable[[Any], int]
"""Function that gives the tokens of one message."""

_SENT_FIELDS = (
    "content",
    "tool_calls",
    "tool_call_id",
    "name",
    "reasoning_content",
    "refusal",
    "arguments",
    "output",
)
_MEDIA = ("image", "audio", "video", "file", "document", "media")
MEDIA_TOKENS = 1_000
"""Estimate for a picture or a file in a message; the length of its base64 does not say the cost."""


def estimate_tokens(message: Any) -> int:
    """Estimate the tokens of a message: one for four bytes of text, at least 1.

    Bytes rather than characters, because a Chinese character is most of a token and three bytes.
    Content, tool calls and their arguments count; metadata, which is not sent, does not.
    """
    media, size = 0, 0
    for value in _sent_values(message):
        for text in _texts_in(value):
            if text is None:
                media += MEDIA_TOKENS
            else:
                size += len(text) if text.isascii() else len(text.encode("utf-8", "surrogatepass"))
    return max(1, media + -(-size // 4))


def _sent_values(message: Any) -> Iterator[Any]:
    fields = message
    if not isinstance(message, (dict, Mapping)):
        # Asking a pydantic model for a field that it does not have takes longer than all the rest.
        extra = getattr(message, "model_extra", None) or {}
        fields = {**getattr(message, "__dict__", {}), **extra}
    if "content" in fields:
        yield from (fields[name] for name in _SENT_FIELDS if name in fields)
    else:
        yield from (read(message, name) for name in _SENT_FIELDS)


def _texts_in(value: Any) -> Iterator[str | None]:
    """Yield the texts in a value; ``None`` for each picture or file."""
    if value is None or isinstance(value, (bool, bytes)):
        return
    if isinstance(value, str):
        yield value
    elif isinstance(value, (int, float)):
        yield str(value)
    elif isinstance(value, (list, tuple)):
        for part in value:
            yield from _texts_in(part)
    else:
        kind = read(value, "type")
        if isinstance(kind, str) and any(word in kind for word in _MEDIA):
            yield None
            return
        parts = value if isinstance(value, Mapping) else getattr(value, "__dict__", {})
        for part in parts.values():
            yield from _texts_in(part)
