"""What is worth remembering, guessed by the words: for trying out, and where no model is at hand.

Better to miss something than to keep noise. It knows English only; give an extract function for
more. Only what the user has said counts.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import Any

from memalchemy.codec.encryption import NO_KEYS
from memalchemy.memory.finding import Naming
from memalchemy.memory.memories import Memory, MemoryType
from memalchemy.memory.states import is_prompt
from memalchemy.messages import text_of

LONGEST = 300
"""Characters of what is kept of a message."""

_SIGNALS: tuple[tuple[MemoryType, str, str | None, re.Pattern[str]], ...] = tuple(
    (of, kind, signal, re.compile(pattern))
    for of, kind, signal, pattern in (
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


def memories_in(messages: Iterable[Any], name_of: Naming = NO_KEYS.pseudonym) -> list[Memory]:
    """The memories of a conversation, in its order; the same ones each time it is read.

    A memory's key is made of the message's text, so that reading it again makes no second one.
    Keys are readable in an encrypted database: *name_of* is then one that hides the text.
    """
    found: list[Memory] = []
    for message in filter(is_prompt, messages):
        said = text_of(message).strip()
        plain = _plain(said)
        for of, kind, signal, pattern in _SIGNALS:
            if pattern.search(plain):
                about = {"source": "heuristic"} | ({} if signal is None else {"signal": signal})
                found.append(Memory(of, f"{kind}_{name_of(said, 12)}", said[:LONGEST], about))
    return found


def facts_in(said: str) -> list[str]:
    """The sentences of *said* in which the user speaks of themselves; no questions."""
    sentences = (one.strip() for one in _SENTENCE.findall(said))
    return [
        one[:LONGEST]
        for one in sentences
        if not one.endswith("?") and _ABOUT_ME.search(_plain(one))
    ]


def _plain(text: str) -> str:
    return text.lower().replace("’", "'")
