"""Random conversations whose messages can be told apart, and what a selection of them must hold.

The rules are stated here in terms of roles and ids alone, not of the code that they check.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from hypothesis import strategies as st

from context.conversations import MAKES
from memalchemy.messages import calls_of, read, results_of, role_of

_padding = st.integers(0, 12).map(lambda words: " word" * words)


def _call(number: int) -> dict[str, Any]:
    return {"id": f"c{number}", "type": "function", "function": {"name": "look", "arguments": "{}"}}


@st.composite
def exchanges(draw: st.DrawFn, make: str | None = None, max_size: int = 8) -> list[Any]:
    """Draw what users asked, in order, and what an agent did and answered.

    The agent may greet, call tools, several at once, answer in several messages or not at all; the
    user may speak while a tool works; the last exchange may have just begun.
    """
    kind = MAKES[make or draw(st.sampled_from(sorted(MAKES)))]
    found: list[dict[str, Any]] = []

    def say(role: str, **fields: Any) -> None:
        text = f"{role} {len(found)}{draw(_padding)}"
        found.append({"role": role, "content": text, "name": f"m{len(found)}", **fields})

    if draw(st.booleans()):
        say("system")
    if draw(st.integers(0, 3)) == 0:
        say("assistant")
    for _ in range(draw(st.integers(0, max_size))):
        say("user")
        for _ in range(draw(st.integers(0, 3))):
            ids = [len(found) * 10 + n for n in range(draw(st.integers(1, 2)))]
            say("assistant", tool_calls=[_call(id_) for id_ in ids])
            for place, id_ in enumerate(ids):
                if place and draw(st.integers(0, 7)) == 0:
                    say("user")
                say("tool", tool_call_id=f"c{id_}")
        for _ in range(draw(st.sampled_from([0, 1, 1, 1, 2]))):
            say("assistant")
        if draw(st.integers(0, 7)) == 0:
            say("system")
    if found and draw(st.booleans()):
        del found[draw(st.integers(0, len(found) - 1)) + 1 :]
    return [kind(**message) for message in found]


def check_exchanges(messages: Sequence[Any], kept: Sequence[Any]) -> None:
    """Check that each answer follows the question that it answered, each result its call."""
    asked = _questions(messages, range(len(messages)))
    places = _places(messages, kept)
    assert places == sorted(set(places)), "out of order, or twice"
    for at, question in _questions(messages, places).items():
        assert question == asked[at], f"message {at} answers {asked[at]} and follows {question}"
    calls = {id_ for at in places for id_ in calls_of(messages[at])}
    results = {id_ for at in places for id_ in results_of(messages[at])}
    assert results <= calls, "a result without its call"
    answered = {id_ for message in messages for id_ in results_of(message)}
    assert calls & answered <= results, "a call without the result that it had"


def check_nothing_is_privileged(messages: Sequence[Any], kept: Sequence[Any]) -> None:
    """Check that the newest stay, from one place on, and besides only the question they answer."""
    places = [at for at in _places(messages, kept) if role_of(messages[at]) != "system"]
    spoken = [at for at, message in enumerate(messages) if role_of(message) != "system"]
    if places and spoken:
        newest = spoken[-len(places) :]
        asked = _questions(messages, spoken)
        assert places == newest or places == [asked.get(newest[1]), *newest[1:]]


def check_first_exchange(messages: Sequence[Any], kept: Sequence[Any]) -> None:
    """Check that a first question that stays has the end of its answer with it."""
    users = [at for at, message in enumerate(messages) if role_of(message) == "user"]
    places = set(_places(messages, kept))
    if len(users) > 1 and users[0] in places:
        answer = [at for at in range(*users[:2]) if role_of(messages[at]) != "system"]
        assert answer[-1] in places, "the first question has lost its answer"


def _questions(messages: Sequence[Any], places: Sequence[int]) -> dict[int, int | None]:
    """Return, for each message of the assistant and of tools, what the user had said last."""
    question: int | None = None
    found: dict[int, int | None] = {}
    for at in places:
        if role_of(messages[at]) == "user":
            question = at
        elif role_of(messages[at]) != "system":
            found[at] = question
    return found


def _places(messages: Sequence[Any], kept: Sequence[Any]) -> list[int]:
    """Return where the messages were, however they were shortened; summaries are left out."""
    names = {read(message, "name"): at for at, message in enumerate(messages)}
    return [names[name] for message in kept if (name := read(message, "name")) is not None]
