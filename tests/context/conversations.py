"""Conversations of three kinds of messages for tests of managers, and a check of every result."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from hypothesis import strategies as st

from memalchemy.context._message_groups import pair_calls_with_results
from memalchemy.messages import is_system
from memalchemy.state import Message


@dataclass
class Foreign:
    """A message of some framework: no dict, no pydantic, no metadata."""

    role: str
    content: Any = None
    tool_calls: list[Any] = field(default_factory=list)
    tool_call_id: str | None = None
    name: str | None = None


MAKES = {
    "dict": dict,
    "Message": Message,
    "foreign": Foreign,
}

_texts = st.text("ab \n€", max_size=60)
_ids = st.sampled_from(["c1", "c2", "c3", "c4"])


def _call(id_: str) -> dict[str, Any]:
    return {"id": id_, "type": "function", "function": {"name": "look", "arguments": '{"q": "x"}'}}


_spoken = st.one_of(
    st.fixed_dictionaries({"role": st.sampled_from(["user", "assistant"]), "content": _texts}),
    st.fixed_dictionaries({"role": st.just("system"), "content": _texts}),
    st.builds(
        lambda text, ids: {"role": "assistant", "content": text, "tool_calls": [*map(_call, ids)]},
        st.none() | _texts,
        st.lists(_ids, min_size=1, max_size=3, unique=True),
    ),
    st.builds(
        lambda text, id_: {"role": "tool", "content": text, "tool_call_id": id_}, _texts, _ids
    ),
)


@st.composite
def conversations(draw: st.DrawFn, make: str | None = None, max_size: int = 30) -> list[Any]:
    """Draw messages in any order, with results without calls and calls without results."""
    kind = MAKES[make or draw(st.sampled_from(sorted(MAKES)))]
    return [kind(**message) for message in draw(st.lists(_spoken, max_size=max_size))]


def user(text: str) -> dict[str, Any]:
    return {"role": "user", "content": text}


def assistant(text: str | None, *calls: str) -> dict[str, Any]:
    message: dict[str, Any] = {"role": "assistant", "content": text}
    return message | {"tool_calls": [*map(_call, calls)]} if calls else message


def result(call: str, text: str = "found") -> dict[str, Any]:
    return {"role": "tool", "tool_call_id": call, "content": text}


def system(text: str) -> dict[str, Any]:
    return {"role": "system", "content": text}


def chat(turns: int) -> list[dict[str, Any]]:
    """A system message, and *turns* of a question and an answer."""
    spoken = [(user(f"question {n}"), assistant(f"answer {n}")) for n in range(1, turns + 1)]
    return [system("be kind"), *(message for turn in spoken for message in turn)]


def texts(messages: Sequence[Any]) -> list[Any]:
    return [message["content"] for message in messages]


def places(messages: Sequence[Any], result: Sequence[Any]) -> list[int | None]:
    """Return where each message of *result* was; ``None`` for one that is another object."""
    at = {id(message): index for index, message in enumerate(messages)}
    return [at.get(id(message)) for message in result]


def check(messages: Sequence[Any], result: Sequence[Any], *, systems: bool = True) -> None:
    """Check the rules that every manager follows."""
    found = [place for place in places(messages, result) if place is not None]
    assert found == sorted(set(found)), "out of order, or twice"
    pairs = pair_calls_with_results(result)
    assert not pairs.orphans
    assert not pairs.stray
    kept = set(found)
    for at, callers in pair_calls_with_results(messages).callers.items():
        for asked in callers:
            assert (at in kept) == (asked in kept), "a pair was split"
    if systems:
        assert all(at in kept for at, message in enumerate(messages) if is_system(message))
