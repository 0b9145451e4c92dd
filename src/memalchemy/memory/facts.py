"""What is known of a user: a fact, and how sure it is. Pure records, no I/O."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime, timedelta
from typing import Any

from memalchemy.codec.search_text import tokens
from memalchemy.contracts import Seconds, check_query, to_timedelta
from memalchemy.keys import check_list
from memalchemy.memory.fence import escaped
from memalchemy.memory.finding import Naming

HALF_LIFE = timedelta(days=90)
"""After this time without being heard again, a fact is half as sure."""

REINFORCEMENT = 0.1
"""What a fact gains when it is heard again."""

LEARNT_ID = "fact_"
"""What the id of a fact begins with that was extracted."""

LEARNT = 0.8
"""How sure a fact is that was extracted, if nothing says otherwise."""


@dataclass(frozen=True, slots=True)
class MemoryFact:
    """Something about a user.

    ``confidence``, 0 to 1, is how sure it is at ``as_of``: of a fact that was read, the moment of
    the read; otherwise when it was last heard. Times are aware UTC.
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
                kind = type(getattr(self, name)).__name__
                raise TypeError(f"the {name} of a fact is a str, not {kind}")
        if not self.memory_id:
            raise ValueError("the memory_id of a fact must not be empty")
        check_user(self.user_id)
        object.__setattr__(self, "topics", topics_of(self.topics))
        object.__setattr__(self, "confidence", check_confidence(self.confidence))
        for name in ("created_at", "last_seen_at", "as_of"):
            moment = getattr(self, name)
            if name == "as_of" and moment is None:
                moment = self.last_seen_at
            if not isinstance(moment, datetime) or moment.utcoffset() is None:
                raise ValueError(f"{name} is a datetime with a time zone")
            object.__setattr__(self, name, moment.astimezone(UTC))

    def decay(
        self, until: datetime | None = None, *, half_life: Seconds | None = HALF_LIFE
    ) -> MemoryFact:
        """The fact as sure as it is at *until*, or now: half as sure after each half-life.

        Decayed in two steps it is as sure as in one.
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
        """The fact, heard again now: surer by *by*, at most 1."""
        now = datetime.now(UTC)
        faded = self.decay(now, half_life=half_life)
        surer = min(1.0, faded.confidence + check_confidence(by))
        return replace(faded, confidence=surer, last_seen_at=max(now, self.last_seen_at))


def build_memory_context(facts: Iterable[MemoryFact]) -> str:
    """Facts as lines of a prompt, each with how sure it is; empty without any.

    High from 0.8 on, medium from 0.5 on, low below. Their text is escaped: see `recall`.
    """
    lines = []
    for fact in facts:
        label = "high" if fact.confidence >= 0.8 else "medium" if fact.confidence >= 0.5 else "low"
        lines.append(f"- {escaped(fact.content)} (confidence: {label})")
    return "\n".join(["## What I remember about you:", *lines]) if lines else ""


def check_user(user_id: object) -> str:
    """Whose facts: a text that is not empty. An empty one is an id somebody forgot to give."""
    if not isinstance(user_id, str):
        raise TypeError(f"user_id is a str, not {type(user_id).__name__}")
    if not user_id.strip():
        raise ValueError("user_id must not be empty")
    return user_id


def check_confidence(number: float) -> float:
    """A number from 0 to 1."""
    if isinstance(number, bool) or not isinstance(number, (int, float)):
        raise TypeError(f"a confidence is a number, not {type(number).__name__}")
    if not 0 <= number <= 1:
        raise ValueError(f"a confidence is from 0 to 1: not {number}")
    return float(number)


def check_half_life(half_life: Seconds | None) -> timedelta | None:
    """A duration longer than zero; ``None``, or infinity, for none."""
    if half_life is None or half_life == math.inf:
        return None
    life = to_timedelta(half_life)
    if life <= timedelta(0):
        raise ValueError("half_life must be longer than zero; None is for ever")
    return life


def fact_of(one: Any, user_id: str, conversation_id: str | None, name_of: Naming) -> MemoryFact:
    """A fact of what was extracted. Its id is made of its words, so that the same has the same.

    *name_of* makes it; in an encrypted database, where ids are readable, one that hides the words.
    """
    if isinstance(one, MemoryFact):
        if one.user_id != user_id:
            raise ValueError("a fact was extracted that is another user's")
        return one
    given: Any = {"content": one} if isinstance(one, str) else one
    if not isinstance(given, Mapping) or not isinstance(given.get("content"), str):
        raise TypeError("a fact that was extracted is a text, or a mapping with its content")
    content = given["content"].strip()
    if not content:
        raise ValueError("a fact that was extracted has no words")
    about: dict[str, Any] = {"confidence": LEARNT, **given}
    return MemoryFact(
        memory_id=f"{LEARNT_ID}{name_of(words_of(content), 24)}",
        user_id=user_id,
        content=content,
        topics=topics_of(about.get("topics") or ()),
        confidence=about["confidence"],
        source_conversation_id=conversation_id,
    )


def words_of(content: str) -> str:
    """What two facts have alike that say the same, whatever their case and punctuation."""
    return " ".join(tokens(content)).casefold() or content


def topics_of(topics: Any) -> tuple[str, ...]:
    found = tuple(check_list(topics, "topics"))
    if not all(isinstance(topic, str) for topic in found):
        raise TypeError("topics are texts")
    return found


def folded(topic: str) -> str:
    return check_query(topic, "topic").strip().casefold()
