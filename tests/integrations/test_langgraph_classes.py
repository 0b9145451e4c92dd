"""Objects in a graph's state come back as from LangGraph's own savers: any class, at any depth."""

from __future__ import annotations

import enum
import logging
import operator
from collections import deque
from dataclasses import dataclass, field
from datetime import UTC
from typing import Annotated, Any, NamedTuple
from uuid import uuid4

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from langchain_core.agents import AgentAction, AgentFinish
from langchain_core.documents import Document
from langchain_core.messages import AIMessage, HumanMessage
from langgraph.checkpoint.memory import InMemorySaver
from langgraph.checkpoint.serde import jsonplus
from langgraph.graph import START, StateGraph
from langgraph.types import Command, interrupt
from pydantic import BaseModel, Field
from typing_extensions import TypedDict

from drawn_examples import examples
from memalchemy.errors import InvalidArgument
from memalchemy.integrations.langgraph import MemalchemySaver

pytestmark = pytest.mark.usefixtures("lasting")


class Colour(enum.Enum):
    RED = "red"
    BLUE = 2


class Place(NamedTuple):
    town: str
    number: int


class Item(BaseModel):
    label: str
    tags: list[str] = Field(default_factory=list)
    inner: Any = None


@dataclass
class Order:
    thing: str
    parts: list[Any] = field(default_factory=list)


@dataclass(frozen=True)
class Key:
    name: str
    at: Any = None


class Noted(HumanMessage):
    note: str = ""


TEXTS = st.text(st.characters(codec="utf-8"), max_size=8)
PLAIN = st.one_of(
    st.none(),
    st.booleans(),
    st.integers(-(2**63), 2**63),
    st.floats(allow_nan=False),
    TEXTS,
    st.binary(max_size=8),
    st.sampled_from([*Colour]),
    st.decimals(allow_nan=False, places=3, min_value=-9, max_value=9),
    st.uuids(),
    st.datetimes(timezones=st.just(UTC)),
    st.timedeltas(),
    st.builds(Place, TEXTS, st.integers(0, 9)),
    st.builds(AgentAction, TEXTS, TEXTS, TEXTS),
    st.builds(AgentFinish, st.dictionaries(TEXTS, TEXTS, max_size=2), TEXTS),
    st.builds(Document, TEXTS),
    st.builds(AIMessage, TEXTS),
    st.builds(Noted, TEXTS, note=TEXTS),
)


def grown(inner: st.SearchStrategy[Any]) -> st.SearchStrategy[Any]:
    lists = st.lists(inner, max_size=3)
    return st.one_of(
        lists,
        lists.map(tuple),
        lists.map(deque),
        st.dictionaries(TEXTS, inner, max_size=3),
        st.builds(Item, label=TEXTS, tags=st.lists(TEXTS, max_size=2), inner=inner),
        st.builds(Order, TEXTS, lists),
        st.builds(Key, TEXTS, inner),
    )


VALUES = st.recursive(PLAIN, grown, max_leaves=8)


class State(TypedDict, total=False):
    value: Any
    seen: Annotated[list[str], operator.add]


def kinds(value: Any) -> Any:
    """A value with the classes of all that is in it."""
    name = type(value).__qualname__
    if isinstance(value, dict):
        return name, [(kinds(k), kinds(v)) for k, v in value.items()]
    if isinstance(value, (list, tuple, deque)):
        return name, [kinds(one) for one in value]
    if isinstance(value, BaseModel) or hasattr(value, "__dataclass_fields__"):
        return name, {k: kinds(v) for k, v in vars(value).items()}
    return name, repr(value)


def compiled(saver: Any) -> Any:
    def look(state: State) -> State:
        return {"seen": [repr(kinds(state["value"]))]}

    def ask(state: State) -> State:
        answer = interrupt("go on?")
        return {"seen": [repr(kinds(state["value"])), repr(kinds(answer))], "value": answer}

    builder = StateGraph(State).add_node("look", look).add_node("ask", ask)
    return builder.add_edge(START, "look").add_edge("look", "ask").compile(checkpointer=saver)


@pytest.fixture
def url(database_url: str) -> str:
    with MemalchemySaver(database_url) as saver:
        saver.setup()
    return database_url


@settings(
    max_examples=examples(40),
    deadline=None,
    suppress_health_check=[HealthCheck.function_scoped_fixture],
)
@given(value=VALUES, answer=VALUES)
def test_nodes_get_the_objects_that_they_get_from_the_saver_in_memory(
    url: str, value: Any, answer: Any
) -> None:
    config: Any = {"configurable": {"thread_id": str(uuid4())}}
    theirs = compiled(memory := InMemorySaver())
    theirs.invoke({"value": value}, config)
    expected = kinds(compiled(memory).invoke(Command(resume=[answer]), config))

    with MemalchemySaver(url) as saver:
        compiled(saver).invoke({"value": value}, config)
    with MemalchemySaver(url) as saver:  # as another process
        found = compiled(saver).invoke(Command(resume=[answer]), config)
        assert kinds(found) == expected
    with MemalchemySaver(url) as saver:
        ours = compiled(saver).get_state_history(config)
        assert [kinds(one.values) for one in ours] == [
            kinds(one.values) for one in theirs.get_state_history(config)
        ]


def test_a_class_that_langgraph_does_not_know_is_warned_of_as_by_its_own_savers(
    url: str, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    def warnings_of(saver: Any) -> list[str]:
        monkeypatch.setattr(jsonplus, "_warned_unregistered_types", set())
        caplog.clear()
        config: Any = {"configurable": {"thread_id": "t"}}
        with caplog.at_level(logging.WARNING):
            graph = compiled(saver)
            graph.invoke({"value": [Order("a"), Item(label="b")]}, config)
            graph.get_state(config)
        return sorted(record.getMessage() for record in caplog.records)

    theirs = warnings_of(InMemorySaver())
    with MemalchemySaver(url) as saver:
        ours = warnings_of(saver)
    assert ours == theirs
    assert len(theirs) == 2


def test_the_strict_form_is_an_argument(url: str) -> None:
    config: Any = {"configurable": {"thread_id": "t"}}
    with MemalchemySaver(url, strict=True) as saver:
        compiled(saver).invoke({"value": Order("a boat")}, config)
        assert compiled(saver).get_state(config).values["value"] == {"thing": "a boat", "parts": []}
    with MemalchemySaver(url) as saver:
        assert compiled(saver).get_state(config).values["value"] == Order("a boat")
    with pytest.raises(InvalidArgument, match="not both"):
        MemalchemySaver(url, strict=True, serde=jsonplus.JsonPlusSerializer())
