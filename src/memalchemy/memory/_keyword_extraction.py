"""Extraction of memories and facts by English keywords, for trials and where there is no model.

It would rather miss something than keep noise. Only messages that the user wrote count.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import Any

from memalchemy.codec.encryption import NO_KEYS
from memalchemy.memory._encryption import NameFunction
from memalchemy.memory.memories import Memory, MemoryType
from memalchemy.messages import is_prompt, text_of

MAX_CHARACTERS = 300
"""Characters of a message that are kept."""

_SIGNALS: tuple[tuple[MemoryType, str, str | None, re.Pattern[str]], ...] = tuple(
    (type_, key, signal, re.compile(pattern))
    for type_, key, signal, pattern in (
        (
            MemoryType.USER,
            "user_context",
            None,
            r"\b(i'm an?|i am an?|i work on|i've been|i have been)\b",
        ),
        (
            MemoryType.PROJECT,
            "project_context",
            None,
            r"\b(we're working on|we are working on|we need to|the goal is|deadline"
            r"|by (mon|tues|wednes|thurs|fri|satur|sun)day)\b",
        ),
        (
            MemoryType.REFERENCE,
            "reference",
            None,
            r"https?://|\b(jira|confluence|slack|grafana|dashboard at)\b",
        ),
        (
            MemoryType.FEEDBACK,
            "feedback",
            "correction",
            r"\b(don't|do not|avoid|stop doing|never)\b",
        ),
        (
            MemoryType.FEEDBACK,
            "feedback_confirmed",
            "confirmation",
            r"\b(exactly|perfect|that's right|keep doing)\b",
        ),
    )
)

_ABOUT_ME = re.compile(
    r"\b(i'm|i am|i (?:also |really |still )?(?:live|work|like|love|prefer|hate|dislike|enjoy|need"
    r"|have|use|speak|study|play|own|drive|eat|drink|read|always|never|don't|do not|can't|cannot)"
    r"|my [\w -]{1,40} (?:is|are)|call me|remember that)\b"
)
_SENTENCE = re.compile(r"[^.!?\n]+[.!?]*")


def keyword_memories(
    messages: Iterable[Any], name_of: NameFunction = NO_KEYS.pseudonym
) -> list[Memory]:
    """Extract memories from messages, in their order; the same ones each time.

    The key of a memory is made from the text of its message, so that it is not kept twice.

    Args:
        name_of: function that makes names for keys. Keys are readable in an encrypted database,
            which needs one that hides the text.
    """
    found: list[Memory] = []
    for message in filter(is_prompt, messages):
        text = text_of(message).strip()
        normalised = _normalise(text)
        for type_, key, signal, pattern in _SIGNALS:
            if pattern.search(normalised):
                metadata = {"source": "heuristic"} | ({} if signal is None else {"signal": signal})
                name = f"{key}_{name_of(text, 12)}"
                found.append(Memory(type_, name, text[:MAX_CHARACTERS], metadata))
    return found


def keyword_facts(text: str) -> list[str]:
    """Extract the sentences in which the user speaks about themselves, without questions."""
    sentences = (one.strip() for one in _SENTENCE.findall(text))
    return [
        one[:MAX_CHARACTERS]
        for one in sentences
        if not one.endswith("?") and _ABOUT_ME.search(_normalise(one))
    ]


def _normalise(text: str) -> str:
    return text.lower().replace("’", "'")
