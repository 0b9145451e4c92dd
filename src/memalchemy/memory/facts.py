"""`MemoryFact`: a fact about a user, with a confidence that fades."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime, timedelta
from typing import Any

from memalchemy.codec.tokens import tokens
from memalchemy.contracts import Seconds, check_query, to_timedelta
from memalchemy.errors import InvalidArgument
from memalchemy.keys import check_list
from memalchemy.memory._encryption import NameFunction
from memalchemy.memory.prompt_block import escape_text

HALF_LIFE = timedelta(days=90)
"""Time after which the confidence of a fact is halved, unless the fact is seen again."""

REINFORCEMENT = 0.1
"""Confidence that a fact gains when it is seen again."""

EXTRACTED_ID = "fact_"
"""Prefix of the ids of facts that were extracted, or added as texts."""

EXTRACTED_CONFIDENCE = 0.8
"""Confidence of a fact that was extracted, unless the extraction gives another."""


@dataclass(frozen=True, slots=True)
class MemoryFact:
    """Fact about a user.

    ``confidence``, 0 to 1, is as of the moment ``as_of``: of a fact that was read, the moment of
    the read; otherwise ``last_seen_at``. Times are aware UTC.
    """

    memory_id: str
    user_id: str
    content: str
    topics: tuple[str, ...] = ()
    confidence: float = 1.0
    created_at: datetime = field(default_factory=lambda: datetime.now(UTC))
    last_seen_at: datetime = field(default_factory=lambda: datetime.now(UTC))
    source_conversation_id: str | None = None
    as_of: datetime | None = field(default=None, compare=False)

    def __post_init__(self) -> None:
        for name in ("memory_id", "user_id", "content"):
            if not isinstance(getattr(self, name), str):
                given = type(getattr(self, name)).__name__
                raise TypeError(f"the {name} of a fact is a str, not {given}")
        if not self.memory_id:
            raise ValueError("the memory_id of a fact must not be empty")
        check_user(self.user_id)
        object.__setattr__(self, "topics", check_topics(self.topics))
        object.__setattr__(self, "confidence", check_confidence(self.confidence))
        for name in ("created_at", "last_seen_at", "as_of"):
            moment = getattr(self, name)
            if name == "as_of" and moment is None:
                moment = self.last_seen_at
            if not isinstance(moment, datetime) or moment.utcoffset() is None:
                raise ValueError(f"{name} must be a datetime with a time zone")
            object.__setattr__(self, name, moment.astimezone(UTC))

    def decay(
        self, until: datetime | None = None, *, half_life: Seconds | None = HALF_LIFE
    ) -> MemoryFact:
        """Return the fact with its confidence at *until*, or now: halved after each half-life.

        Decay in two steps gives the same as decay in one.
        """
        moment = datetime.now(UTC) if until is None else until
        life = check_half_life(half_life)
        assert self.as_of is not None
        age = max(moment - self.as_of, timedelta(0))
        share = 1.0 if life is None else 0.5 ** (age / life)
        return replace(self, confidence=self.confidence * share, as_of=max(moment, self.as_of))

    def reinforce(
        self, by: float = REINFORCEMENT, *, half_life: Seconds | None = HALF_LIFE
    ) -> MemoryFact:
        """Return the fact as seen again now: its confidence grows by *by*, to at most 1."""
        now = datetime.now(UTC)
        faded = self.decay(now, half_life=half_life)
        confidence = min(1.0, faded.confidence + check_confidence(by))
        return replace(faded, confidence=confidence, last_seen_at=max(now, self.last_seen_at))


def build_memory_context(facts: Iterable[MemoryFact]) -> str:
    """Format facts as lines of a prompt, each with its confidence; empty without any.

    The confidence is high from 0.8 on, medium from 0.5 on, and low below. The contents are escaped
    as in a block of memories.
    """
    lines = []
    for fact in facts:
        label = "high" if fact.confidence >= 0.8 else "medium" if fact.confidence >= 0.5 else "low"
        lines.append(f"- {escape_text(fact.content)} (confidence: {label})")
    return "\n".join(["## What I remember about you:", *lines]) if lines else ""


def fact_from(
    extracted: Any, user_id: str, conversation_id: str | None, name_of: NameFunction
) -> MemoryFact:
    """Create a fact from a text, a mapping with ``content``, or a fact that was extracted.

    The id is a name made from the words, so that the same words have the same id.

    Raises:
        TypeError, ValueError: it is no fact, or another user's.
    """
    if isinstance(extracted, MemoryFact):
        if extracted.user_id != user_id:
            raise ValueError("a fact that was extracted belongs to another user")
        return extracted
    given: Any = {"content": extracted} if isinstance(extracted, str) else extracted
    if not isinstance(given, Mapping) or not isinstance(given.get("content"), str):
        raise TypeError("a fact that was extracted must be a text, or a mapping with its content")
    content = given["content"].strip()
    if not content:
        raise InvalidArgument("a fact is empty; its content must hold a text")
    return MemoryFact(
        memory_id=f"{EXTRACTED_ID}{name_of(normalised_words(content), 24)}",
        user_id=user_id,
        content=content,
        topics=check_topics(given.get("topics") or ()),
        confidence=given.get("confidence", EXTRACTED_CONFIDENCE),
        source_conversation_id=conversation_id,
    )


def normalised_words(content: str) -> str:
    """Return the words of a fact, without their case and punctuation, to compare facts."""
    return " ".join(tokens(content)).casefold() or content


def normalised_topic(topic: str) -> str:
    """Return a topic without its case and surrounding blanks, to compare topics."""
    return check_query(topic, "topic").strip().casefold()


def check_user(user_id: object) -> str:
    """Return a user id that is not empty; an empty one is an id that somebody forgot to give."""
    if not isinstance(user_id, str):
        raise TypeError(f"user_id is a str, not {type(user_id).__name__}")
    if not user_id.strip():
        raise ValueError("user_id must not be empty")
    return user_id


def check_confidence(number: float) -> float:
    """Return a number from 0 to 1 as a float."""
    if isinstance(number, bool) or not isinstance(number, (int, float)):
        raise TypeError(f"a confidence is a number, not {type(number).__name__}")
    if not 0 <= number <= 1:
        raise ValueError(f"a confidence is from 0 to 1, not {number}")
    return float(number)


def check_half_life(half_life: Seconds | None) -> timedelta | None:
    """Return a duration longer than zero; ``None``, also for infinity, if nothing fades."""
    if half_life is None or half_life == math.inf:
        return None
    life = to_timedelta(half_life)
    if life <= timedelta(0):
        raise ValueError("half_life must be longer than zero; None is for ever")
    return life


def check_topics(topics: Any) -> tuple[str, ...]:
    """Return topics as a tuple of texts."""
    found = tuple(check_list(topics, "topics"))
    if not all(isinstance(topic, str) for topic in found):
        raise TypeError("topics must be texts")
    return found
