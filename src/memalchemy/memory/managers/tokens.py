"""How large a message is, where nobody gives a tokenizer."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import Any

from memalchemy.messages import read

TokenCounter = Callable[[Any], int]
"""The tokens of one message."""

_SAID = (
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
"""What a picture or a file in a message is taken for; its base64 says nothing of what it costs."""


def estimate_tokens(message: Any) -> int:
    """About how many tokens a message takes: a token for four bytes of all that it says.

    Bytes, not characters: a Chinese character is most of a token, and three bytes. Words, calls and
    their arguments count; metadata is not sent. At least 1.
    """
    media, size = 0, 0
    for piece in (read(message, name) for name in _SAID):
        for text in _texts(piece):
            if text is None:
                media += MEDIA_TOKENS
            else:
                size += len(text) if text.isascii() else len(text.encode("utf-8", "surrogatepass"))
    return max(1, media + -(-size // 4))


def _texts(value: Any) -> Iterator[str | None]:
    if value is None or isinstance(value, (bool, bytes)):
        return
    if isinstance(value, str):
        yield value
    elif isinstance(value, (int, float)):
        yield str(value)
    elif isinstance(value, (list, tuple)):
        for part in value:
            yield from _texts(part)
    else:
        kind = read(value, "type")
        if isinstance(kind, str) and any(word in kind for word in _MEDIA):
            yield None
            return
        parts = value if isinstance(value, Mapping) else getattr(value, "__dict__", {})
        for part in parts.values():
            yield from _texts(part)
