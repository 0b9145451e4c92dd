"""Serialisation of messages through the caches: the same bytes and values as LangGraph's own.

The last tests guard the assumptions about LangGraph's serialiser. If one fails after an upgrade,
compare the new release's `langgraph.checkpoint.serde.jsonplus` with `_message_cache`, and add the
release to `TESTED_RELEASES` when the other tests here pass on it.
"""

from __future__ import annotations

import re
import uuid
from collections import deque
from dataclasses import dataclass
from datetime import UTC, date, datetime, timedelta
from decimal import Decimal
from enum import Enum
from importlib.metadata import version
from pathlib import Path
from typing import Any, NamedTuple

import ormsgpack
import pytest

from drawn_examples import examples

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
from langgraph.checkpoint.serde import jsonplus
from langgraph.checkpoint.serde._msgpack import SAFE_MSGPACK_TYPES
from langgraph.checkpoint.serde.jsonplus import JsonPlusSerializer
from langgraph.checkpoint.serde.types import _DeltaSnapshot
from langgraph.types import Send
from pydantic import BaseModel

from memalchemy.integrations.langgraph import _message_cache
from memalchemy.integrations.langgraph._message_cache import Cache, Template, dump_typed, load_typed


class CustomMessage(HumanMessage):
    """A class of the user's."""


SERDE = JsonPlusSerializer(allowed_msgpack_modules=[CustomMessage])


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
def messages(draw: Any) -> BaseMessage:
    kind = draw(
        st.sampled_from([AIMessage, HumanMessage, SystemMessage, ToolMessage, CustomMessage])
    )
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


@given(st.lists(messages(), max_size=4))
@settings(max_examples=examples(100), deadline=None)
def test_bytes_and_messages_are_those_of_langgraphs_serialiser(given: list[BaseMessage]) -> None:
    try:
        expected = SERDE.dumps_typed(given)
    except ormsgpack.MsgpackEncodeError:
        with pytest.raises(ormsgpack.MsgpackEncodeError):
            dump_typed(SERDE, given)
        return
    for _ in range(2):
        assert dump_typed(SERDE, given) == expected
    theirs = SERDE.loads_typed(expected)
    for _ in range(2):
        ours = load_typed(SERDE, *expected)
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
    seen = {dump_typed(SERDE, [message])}
    for change in changes:
        change()
        assert dump_typed(SERDE, [message]) == SERDE.dumps_typed([message])
        seen.add(dump_typed(SERDE, [message]))
    assert len(seen) == 1 + len(changes)


def test_a_message_that_was_read_may_be_changed_and_the_next_one_is_as_it_was_stored() -> None:
    form, data = dump_typed(SERDE, [AIMessage("a", response_metadata={"deep": {"list": [1]}})])
    for _ in range(3):
        (found,) = load_typed(SERDE, form, data)
        assert (found.content, found.response_metadata) == ("a", {"deep": {"list": [1]}})
        assert found.tool_calls == []
        found.content = "b"
        found.response_metadata["deep"]["list"].append(2)
        found.tool_calls.append({})


def test_a_message_that_was_read_before_is_not_validated_again(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    form, data = SERDE.dumps_typed([HumanMessage("only here, once", id="1")])
    load_typed(SERDE, form, data)
    made: list[Any] = []
    monkeypatch.setattr(HumanMessage, "__init__", lambda self, **kw: made.append(kw))
    monkeypatch.setattr(HumanMessage, "model_dump", lambda self: made.append(self))

    found = load_typed(SERDE, form, data)
    assert (made, found[0].content) == ([], "only here, once")


def test_a_serialiser_with_rules_of_its_own_keeps_them() -> None:
    class Own(JsonPlusSerializer):
        def dumps_typed(self, obj: Any) -> tuple[str, bytes]:
            return "mine", b""

    given = [HumanMessage("a"), RemoveMessage(id="1"), CustomMessage("b")]
    assert dump_typed(Own(), given) == ("mine", b"")
    hooked = JsonPlusSerializer(__unpack_ext_hook__=lambda code, data: code)
    assert load_typed(hooked, *dump_typed(SERDE, given)) == [5, 5, 5]
    assert (
        load_typed(SERDE, *dump_typed(SERDE, given))[2]
        == SERDE.loads_typed(SERDE.dumps_typed(given))[2]
    )


def test_what_cannot_be_packed_fails_or_is_pickled_as_without_the_caches() -> None:
    given = [HumanMessage("a"), 2**70]
    with pytest.raises(ormsgpack.MsgpackEncodeError):
        dump_typed(SERDE, given)
    pickling = JsonPlusSerializer(pickle_fallback=True)
    assert load_typed(pickling, *dump_typed(pickling, given)) == given


def test_a_cache_is_bounded_in_bytes_and_keeps_what_is_used() -> None:
    cache: Cache[int, int] = Cache(100)
    for n in range(1000):
        cache.put(n, n, 10)
        assert cache.get(0) == 0
    assert sum(cache.get(n) is not None for n in range(1000)) <= 10
    cache.put(-1, -1, 51)
    assert cache.get(-1) is None
    assert 2 * _message_cache.MAX_BYTES <= 32 * 1024 * 1024


# --- Values of every type, and LangGraph's serialiser itself -------------------------------------


@dataclass
class Point:
    x: int
    y: list[int]


class Colour(Enum):
    RED = "red"


class Pair(NamedTuple):
    one: int
    two: str


VALUES: list[Any] = [
    (1, "two", (3,)),
    {1: "a", "b": 2.5, None: True},
    {"a", "b"} - {"b"},
    frozenset({1}),
    deque([1, 2]),
    datetime(2026, 3, 1, 12, tzinfo=UTC),
    date(2026, 3, 1),
    timedelta(seconds=1.5),
    uuid.UUID(int=7),
    Decimal("1.50"),
    Path("a/b"),
    re.compile("a+", re.IGNORECASE),
    Point(1, [2]),
    Colour.RED,
    Pair(1, "two"),
    "a lone surrogate: \ud800",
    b"bytes",
    None,
    2**63,
    float("inf"),
    ValueError("is stored as its repr"),
    Send("node", {"messages": [HumanMessage("a")]}),
    _DeltaSnapshot([HumanMessage("a")]),
]


@pytest.mark.parametrize("value", VALUES, ids=lambda value: type(value).__name__)
def test_values_of_every_type_are_written_and_read_as_by_langgraphs_serialiser(value: Any) -> None:
    permissive = JsonPlusSerializer(
        allowed_msgpack_modules=[(__name__, name) for name in ("Point", "Colour", "Pair")]
    )
    for state in (value, [value, HumanMessage("a")], {"key": value, "message": AIMessage("b")}):
        expected = permissive.dumps_typed(state)
        assert dump_typed(permissive, state) == expected
        theirs, ours = permissive.loads_typed(expected), load_typed(permissive, *expected)
        assert permissive.dumps_typed(ours) == permissive.dumps_typed(theirs)
        assert type(ours) is type(theirs)


@pytest.mark.parametrize("release", ["4.2.9", "4.4.0", "5.0.0rc1", "4.30.1"])
def test_another_release_of_the_serialiser_does_all_the_work_itself(
    release: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert _message_cache._is_tested("4.3.2")
    assert not _message_cache._is_tested(release)
    monkeypatch.setattr(_message_cache, "_caching", _message_cache._is_tested(release))
    unused: Any = None
    monkeypatch.setattr(_message_cache, "_written", unused)
    monkeypatch.setattr(_message_cache, "_read", unused)
    given = [HumanMessage("a", id="1"), CustomMessage("b")]

    assert dump_typed(SERDE, given) == SERDE.dumps_typed(given)
    assert load_typed(SERDE, *dump_typed(SERDE, given)) == given


def test_the_installed_serialiser_is_the_one_that_the_caches_were_written_for() -> None:
    assert _message_cache._is_tested(version("langgraph-checkpoint"))
    # The private names that `_message_cache` reads or repeats.
    assert jsonplus._option == _message_cache.WRITE_OPTIONS
    assert SERDE._custom_unpack_ext_hook is False
    assert JsonPlusSerializer(__unpack_ext_hook__=ormsgpack.Ext)._custom_unpack_ext_hook is True
    assert set(vars(SERDE)) == {
        "pickle_fallback",
        "_allowed_json_modules",
        "_allowed_msgpack_modules",
        "_custom_unpack_ext_hook",
        "_unpack_ext_hook",
    }
    for kind in _message_cache.MESSAGE_TYPES:
        assert not kind.__private_attributes__
        assert (kind.__module__, kind.__name__) in SAFE_MSGPACK_TYPES


@pytest.mark.parametrize(
    "kind", sorted(_message_cache.MESSAGE_TYPES, key=str), ids=lambda k: k.__name__
)
def test_a_copy_has_every_part_of_a_pydantic_model(kind: type[BaseMessage]) -> None:
    more: dict[str, Any] = {"tool_call_id": "1"} if kind is ToolMessage else {}
    message = kind(content=["a", {"type": "text"}], response_metadata={"deep": [1]}, **more)
    template = Template.of(message)
    assert template is not None
    copy, theirs = template.copy(), message.model_copy(deep=True)

    assert copy == theirs == message
    assert copy.__getstate__() == theirs.__getstate__()
    assert set(BaseModel.__slots__) == {
        "__dict__",
        "__pydantic_fields_set__",
        "__pydantic_extra__",
        "__pydantic_private__",
    }
