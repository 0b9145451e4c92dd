"""Messages that were met before: what is remembered of them never shows."""

from __future__ import annotations

from typing import Any

import ormsgpack
import pytest

pytest.importorskip("langgraph")

from hypothesis import given, settings
from hypothesis import strategies as st
from langchain_core.messages import (
    AIMessage,
    BaseMessage,
    HumanMessage,
    RemoveMessage,
    SystemMessage,
    ToolMessage,
)
from langgraph.checkpoint.serde.jsonplus import JsonPlusSerializer

from memalchemy.integrations.langgraph import messages
from memalchemy.integrations.langgraph.messages import Recent, dumps, loads


class Mine(HumanMessage):
    """A class of the user's."""


SERDE = JsonPlusSerializer(allowed_msgpack_modules=[Mine])


PLAIN = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-(2**63), 2**64 - 1)
    | st.floats(allow_nan=False)
    | st.text()
    | st.binary(),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(st.text() | st.integers(0, 9), inner, max_size=3)
        | st.tuples(inner, inner)
        | st.sets(st.integers(), max_size=2)
    ),
    max_leaves=8,
)
CONTENT = st.text() | st.lists(
    st.text() | st.dictionaries(st.text(), PLAIN, max_size=3), max_size=3
)


@st.composite
def said(draw: Any) -> BaseMessage:
    kind = draw(st.sampled_from([AIMessage, HumanMessage, SystemMessage, ToolMessage, Mine]))
    more: dict[str, Any] = {"tool_call_id": "1"} if kind is ToolMessage else {}
    if kind is AIMessage and draw(st.booleans()):
        call = {"name": "f", "args": {"x": draw(PLAIN)}, "id": draw(st.none() | st.text())}
        more["tool_calls"] = [call]
    if draw(st.booleans()):
        more["example_of_an_extra_field"] = draw(PLAIN)
    metadata = st.dictionaries(st.text(), PLAIN, max_size=3)
    return kind(
        draw(CONTENT), id=draw(st.none() | st.text()), response_metadata=draw(metadata), **more
    )


@given(st.lists(said(), max_size=4))
@settings(max_examples=100, deadline=None)
def test_bytes_and_messages_are_those_of_langgraphs_serialiser(given: list[BaseMessage]) -> None:
    try:
        expected = SERDE.dumps_typed(given)
    except ormsgpack.MsgpackEncodeError:
        with pytest.raises(ormsgpack.MsgpackEncodeError):
            dumps(SERDE, given)
        return
    for _ in range(2):
        assert dumps(SERDE, given) == expected
    theirs = SERDE.loads_typed(expected)
    for _ in range(2):
        ours = loads(SERDE, *expected)
        assert [m.__dict__ for m in ours] == [m.__dict__ for m in theirs]
        assert list(map(type, ours)) == list(map(type, theirs))
        assert [m.model_fields_set for m in ours] == [m.model_fields_set for m in theirs]
        assert [m.__pydantic_extra__ for m in ours] == [m.__pydantic_extra__ for m in theirs]
        assert SERDE.dumps_typed(ours) == SERDE.dumps_typed(theirs)


def test_a_message_that_is_changed_in_place_is_written_as_it_is_now() -> None:
    message = AIMessage("a", response_metadata={"deep": {"list": [1]}})
    changes: list[Any] = [
        lambda: setattr(message, "content", "b"),
        lambda: message.response_metadata["deep"]["list"].append(True),
        lambda: message.response_metadata["deep"]["list"].__setitem__(1, 1),
        lambda: message.response_metadata["deep"]["list"].__setitem__(1, 1.0),
        lambda: message.tool_calls.append(
            {"name": "f", "args": {}, "id": "1", "type": "tool_call"}
        ),
        lambda: message.additional_kwargs.update(x=(1, 2)),
        lambda: setattr(message, "id", "c"),
    ]
    seen = {dumps(SERDE, [message])}
    for change in changes:
        change()
        assert dumps(SERDE, [message]) == SERDE.dumps_typed([message])
        seen.add(dumps(SERDE, [message]))
    assert len(seen) == 1 + len(changes)


def test_a_message_that_was_read_may_be_changed_and_the_next_one_is_as_it_was_stored() -> None:
    form, data = dumps(SERDE, [AIMessage("a", response_metadata={"deep": {"list": [1]}})])
    for _ in range(3):
        (found,) = loads(SERDE, form, data)
        assert (found.content, found.response_metadata) == ("a", {"deep": {"list": [1]}})
        assert found.tool_calls == []
        found.content = "b"
        found.response_metadata["deep"]["list"].append(2)
        found.tool_calls.append({})


def test_a_message_is_made_by_its_class_but_once(monkeypatch: pytest.MonkeyPatch) -> None:
    form, data = SERDE.dumps_typed([HumanMessage("only here, once", id="1")])
    loads(SERDE, form, data)
    made: list[Any] = []
    monkeypatch.setattr(HumanMessage, "__init__", lambda self, **kw: made.append(kw))
    monkeypatch.setattr(HumanMessage, "model_dump", lambda self: made.append(self))

    found = loads(SERDE, form, data)
    assert (made, found[0].content) == ([], "only here, once")


def test_a_serialiser_with_rules_of_its_own_keeps_them() -> None:
    class Own(JsonPlusSerializer):
        def dumps_typed(self, obj: Any) -> tuple[str, bytes]:
            return "mine", b""

    given = [HumanMessage("a"), RemoveMessage(id="1"), Mine("b")]
    assert dumps(Own(), given) == ("mine", b"")
    hooked = JsonPlusSerializer(__unpack_ext_hook__=lambda code, data: code)
    assert loads(hooked, *dumps(SERDE, given)) == [5, 5, 5]
    assert loads(SERDE, *dumps(SERDE, given))[2] == SERDE.loads_typed(SERDE.dumps_typed(given))[2]


def test_what_cannot_be_packed_fails_or_is_pickled_as_without_it() -> None:
    given = [HumanMessage("a"), 2**70]
    with pytest.raises(ormsgpack.MsgpackEncodeError):
        dumps(SERDE, given)
    pickling = JsonPlusSerializer(pickle_fallback=True)
    assert loads(pickling, *dumps(pickling, given)) == given


def test_what_is_remembered_is_bounded_and_what_is_used_stays() -> None:
    kept: Recent[int, int] = Recent(100)
    for n in range(1000):
        kept.put(n, n, 10)
        assert kept.get(0) == 0
    assert sum(kept.get(n) is not None for n in range(1000)) <= 10
    kept.put(-1, -1, 51)
    assert kept.get(-1) is None
    assert messages.MAX_BYTES <= 32 * 1024 * 1024
