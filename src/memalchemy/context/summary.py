"""Summary of the first part of a conversation: the record, its message, and the digest."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from memalchemy.messages import (
    SYSTEM_ROLES,
    called_tools,
    create_message,
    is_user_turn,
    metadata_of,
    role_of,
    text_of,
)

_HEADER = re.compile(
    r"\[Summary of previous conversation \((\d+) messages(?:; the summariser failed: (\w+))?\)\]:\n"
)

DIGEST_LINES = 24
"""Maximum number of lines in a digest."""

DIGEST_CHARACTERS = 200
"""Maximum number of characters of one message in a digest."""

_GAP = "- […]"


@dataclass(frozen=True, slots=True)
class Summary:
    """Summary of the first messages of a conversation.

    Attributes:
        text: the summary, or a digest if asking for a summary failed.
        messages: how many messages it stands for, those of earlier summaries included.
        failure: class name of the error because of which *text* is a digest.
    """

    text: str
    messages: int
    failure: str | None = None

    def to_message(self, like: Sequence[Any]) -> Any:
        """Create the system message that tells the summary, of the same kind as those in *like*."""
        failed = f"; the summariser failed: {self.failure}" if self.failure else ""
        header = f"[Summary of previous conversation ({self.messages} messages{failed})]:\n"
        metadata = {"summary": {"messages": self.messages, "fallback": self.failure}}
        return create_message(like, "system", header + self.text, metadata)

    @classmethod
    def from_message(cls, message: Any) -> Summary | None:
        """Read the summary that a message tells; ``None`` if it tells none."""
        if role_of(message) not in SYSTEM_ROLES:
            return None
        text = text_of(message)
        found = _HEADER.match(text)
        if found is None:
            return None
        metadata = metadata_of(message).get("summary")
        failure = metadata.get("fallback") if isinstance(metadata, Mapping) else found[2]
        return cls(text[found.end() :], int(found[1]), failure)


def join_summaries(summaries: Sequence[Summary]) -> Summary | None:
    """Join several summaries, oldest first, into one; ``None`` without any."""
    if not summaries:
        return None
    failure = next((one.failure for one in summaries if one.failure), None)
    text = "\n".join(one.text for one in summaries)
    return Summary(text, sum(one.messages for one in summaries), failure)


def digest(messages: Sequence[Any], earlier: Summary | None, failure: str | None) -> Summary:
    """Summarise without a model: one line for each of the first and of the newest messages.

    The lines of the earlier summary are kept as they are, so that a digest of digests does not
    grow and does not mention itself.
    """
    lines = [] if earlier is None else earlier.text.splitlines()
    lines += [line for line in map(_digest_line, messages) if line]
    lines = [line for line in lines if line != _GAP]
    if len(lines) > DIGEST_LINES:
        first = DIGEST_LINES // 4
        lines = [*lines[:first], _GAP, *lines[first + 1 - DIGEST_LINES :]]
    failure = failure or (earlier.failure if earlier else None)
    count = len(messages) + (earlier.messages if earlier else 0)
    return Summary("\n".join(lines), count, failure)


def transcript_line(message: Any) -> str:
    """Format a message for a transcript: ``User: …``; empty if it says and calls nothing."""
    line = _with_speaker(message, text_of(message))
    return line[:1].upper() + line[1:]


def _digest_line(message: Any) -> str:
    words = " ".join(text_of(message).split())
    if len(words) > DIGEST_CHARACTERS:
        words = words[: DIGEST_CHARACTERS - 1] + "…"
    line = _with_speaker(message, words)
    return f"- {line}" if line else ""


def _with_speaker(message: Any, words: str) -> str:
    speaker = role_of(message)
    if speaker == "user" and not is_user_turn(message):
        speaker = "tool"
    calls = _called_tools(message)
    if not words and not calls:
        return ""
    return f"{speaker}: {words}{' ' if words and calls else ''}{calls}"


def _called_tools(message: Any) -> str:
    names = called_tools(message)
    return f"[calls {', '.join(names)}]" if names else ""
