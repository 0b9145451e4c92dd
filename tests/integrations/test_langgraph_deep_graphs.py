"""Graphs nested as deep, and with nodes named as long, as LangGraph's own savers take them."""

from __future__ import annotations

import json
import operator
import re
from collections.abc import Iterator
from random import Random
from typing import Annotated, Any

import pytest
from langgraph.checkpoint.memory import InMemorySaver
from langgraph.graph import START, StateGraph
from langgraph.types import Command, interrupt
from typer.testing import CliRunner
from typing_extensions import TypedDict

import memalchemy.sync
from memalchemy.cli.app import app
from memalchemy.integrations.langgraph import MemalchemySaver

pytestmark = pytest.mark.usefixtures("lasting")

ALPHABETS = ["abcdefgh", "研究计划搜索", "é/~ _-.", "🙂🚀", "ABC 123\x00"]


class State(TypedDict, total=False):
    q: str
    seen: Annotated[list[str], operator.add]


def nested(seed: int) -> tuple[list[str], list[bool]]:
    """The names of the nodes from the outside in, and which of the graphs have a memory."""
    random = Random(seed)
    depth = random.choice([1, 4, 8, 12, 16])
    names = [
        "".join(random.choices(random.choice(ALPHABETS), k=random.choice([1, 5, 25, 60, 300])))
        + "x"
        for _ in range(depth)
    ]
    return names, [random.random() < 0.4 for _ in names]


def compiled(names: list[str], remember: list[bool], saver: Any) -> Any:
    def ask(state: State) -> State:
        return {"seen": [f"{len(state.get('seen', []))} {state['q']} {interrupt('?')}"]}

    graph: Any = StateGraph(State).add_node("ask", ask).add_edge(START, "ask")
    for name, memory in zip(reversed(names), reversed(remember), strict=True):
        inner = graph.compile(checkpointer=True if memory else None)
        graph = StateGraph(State).add_node(name, inner).add_edge(START, name)
    return graph.compile(checkpointer=saver)


def turn(graph: Any, question: str, thread_id: str = "t") -> Any:
    config = at(thread_id)
    graph.invoke({"q": question}, config)
    return graph.invoke(Command(resume="yes"), config)


def at(thread_id: str = "t") -> Any:
    return {"configurable": {"thread_id": thread_id}, "recursion_limit": 200}


def listed(saver: Any, thread_id: str = "t") -> list[tuple[str, Any, Any]]:
    """The names, steps and values of a thread's checkpoints, without the ids of tasks."""
    found = []
    for one in saver.list(at(thread_id)):
        name = re.sub(":[0-9a-f-]{36}", ":", one.config["configurable"]["checkpoint_ns"])
        values = {k: v for k, v in one.checkpoint["channel_values"].items() if k in ("q", "seen")}
        found.append((name, one.metadata["step"], repr(values)))
        assert saver.get_tuple(one.config) == one
    return sorted(found)


class Nested:
    def __init__(self, url: str, seed: int) -> None:
        self.url, self.shape = url, nested(seed)
        self.saver = MemalchemySaver(url)
        self.saver.setup()
        self.memory = InMemorySaver()
        self.ours = compiled(*self.shape, self.saver)
        self.theirs = compiled(*self.shape, self.memory)
        for question in ("a", "b"):
            assert turn(self.ours, question) == turn(self.theirs, question)
        self.native = memalchemy.sync.Checkpointer(
            memalchemy.sync.Database(url), namespace=("langgraph",)
        )

    def reread(self) -> None:
        """As another process."""
        self.saver.close()
        self.saver = MemalchemySaver(self.url)
        self.ours = compiled(*self.shape, self.saver)


@pytest.fixture(params=range(10), ids=lambda seed: f"graph-{seed}")
def deep(database_url: str, request: pytest.FixtureRequest) -> Iterator[Nested]:
    found = Nested(database_url, request.param)
    yield found
    found.saver.close()
    found.native.db.close()


def test_a_nested_graph_is_stored_and_listed_as_in_memory(deep: Nested) -> None:
    assert listed(deep.saver) == listed(deep.memory)
    deep.reread()
    assert listed(deep.saver) == listed(deep.memory)
    for graph in (deep.ours, deep.theirs):
        graph.invoke({"q": "c"}, at())
    deep.reread()
    waiting = [graph.get_state(at(), subgraphs=True) for graph in (deep.ours, deep.theirs)]
    for _ in deep.shape[0]:
        assert waiting[0].values == waiting[1].values
        waiting = [one.tasks[0].state for one in waiting]
    results = [graph.invoke(Command(resume="yes"), at()) for graph in (deep.ours, deep.theirs)]
    assert results[0] == results[1]
    assert turn(deep.ours, "d") == turn(deep.theirs, "d")
    assert listed(deep.saver) == listed(deep.memory)


def test_all_logs_of_a_nested_graph_are_its_thread(deep: Nested) -> None:
    deep.native.fork("t", new_thread_id="fork")
    assert listed(deep.saver, "fork") == listed(deep.saver)
    before = listed(deep.saver)
    assert turn(deep.ours, "new", "fork") == turn(deep.theirs, "new")

    deep.saver.prune(["fork"])
    calls = [name for name, *_ in listed(deep.saver, "fork") if ":" in name]
    assert len(calls) <= len(deep.shape[0]) + 1
    deep.native.prune("fork", keep_last=1)
    assert turn(deep.ours, "more", "fork") == turn(deep.theirs, "more")

    deep.native.delete("fork", all_namespaces=False)
    assert listed(deep.saver, "fork") == []
    assert listed(deep.saver) == before
    deep.saver.delete_thread("t")
    assert listed(deep.saver) == []


def test_the_command_line_lists_the_name_that_a_digest_stands_for(deep: Nested) -> None:
    listed = (one.config["configurable"]["checkpoint_ns"] for one in deep.saver.list(at()))
    names = {name.replace("\x00", "\x1a0") for name in listed}
    called = ["export", "--thread", "t", "--namespace", "langgraph", "--db", deep.url]
    lines = CliRunner().invoke(app, called, catch_exceptions=False).stdout.splitlines()
    exported = [json.loads(one) for one in lines]
    told = {
        one["metadata"].get("~namespace", "|".join(one["namespace"][1:]).replace("\x00", "\x1a0"))
        for one in exported
    }
    assert told == names
