"""The inspector on graphs of LangGraph: transcripts, interrupts, branches, channels of writes."""

from __future__ import annotations

from typing import Annotated, Any, TypedDict

from langchain_core.messages import AIMessage, HumanMessage, ToolMessage
from langchain_core.runnables import RunnableConfig
from langgraph.channels import DeltaChannel
from langgraph.graph import END, START, StateGraph
from langgraph.graph.message import add_messages
from langgraph.types import Command, interrupt

from memalchemy import Database
from memalchemy.inspection import Inspector
from memalchemy.integrations.langgraph import MemalchemySaver

NAMESPACE = ("langgraph",)
CONFIG: RunnableConfig = {"configurable": {"thread_id": "t"}}


class Chat(TypedDict):
    messages: Annotated[list[Any], add_messages]
    topic: str


def ask(state: Chat) -> Any:
    call = {"id": "c1", "name": "refund", "args": {"order": 7}}
    return {"messages": [AIMessage("", tool_calls=[call])], "topic": "refund"}


def approve(state: Chat) -> Any:
    answer = interrupt({"question": "refund?"})
    return {"messages": [ToolMessage("yes" if answer else "no", tool_call_id="c1")]}


def graph_of(db: Database) -> Any:
    builder = StateGraph(Chat)
    builder.add_node("ask", ask)
    builder.add_node("approve", approve)
    builder.add_edge(START, "ask")
    builder.add_edge("ask", "approve")
    builder.add_edge("approve", END)
    return builder.compile(checkpointer=MemalchemySaver(db))


async def test_each_step_is_called_by_the_nodes_that_ran(db: Database) -> None:
    graph = graph_of(db)
    await graph.ainvoke({"messages": [HumanMessage("Refund order 7")]}, CONFIG)
    await graph.ainvoke(Command(resume=True), CONFIG)
    inspector = Inspector(db)

    steps = [step["digest"] for step in (await inspector.timeline("t", NAMESPACE))["steps"]]
    assert [step["node"] for step in steps] == ["approve", "ask", None, None]
    assert [step["tools"] for step in steps] == [[], ["refund"], [], []]

    origins = (await inspector.origins("t", NAMESPACE))["messages"]
    assert [one["node"] for one in origins] == [None, "ask", "approve"]


async def test_nodes_of_one_step_are_all_named(db: Database) -> None:
    builder = StateGraph(Chat)
    for name in ("left", "right"):
        builder.add_node(name, lambda state: {"messages": []})
        builder.add_edge(START, name)
        builder.add_edge(name, END)
    graph = builder.compile(checkpointer=MemalchemySaver(db))
    await graph.ainvoke({"messages": [HumanMessage("Hello")]}, CONFIG)
    await graph.ainvoke({"messages": [HumanMessage("Again")]}, CONFIG)

    timeline = await Inspector(db).timeline("t", NAMESPACE)

    nodes = [step["digest"]["node"] for step in timeline["steps"]]
    assert nodes == ["left, right", None, None] * 2


async def test_a_waiting_graph_is_found_in_the_list(db: Database) -> None:
    graph = graph_of(db)
    await graph.ainvoke({"messages": [HumanMessage("Refund order 7")]}, CONFIG)
    (row,) = (await Inspector(db).threads(waiting=True))["threads"]
    assert (row["title"], row["asked"]) == ("Refund order 7", "refund?")
    (asked,) = (await Inspector(db).thread("t", NAMESPACE))["interrupts"]
    assert asked["text"] == "refund?"

    await graph.ainvoke(Command(resume=True), CONFIG)
    assert (await Inspector(db).threads(waiting=True))["threads"] == []
    assert (await Inspector(db).thread("t", NAMESPACE))["interrupts"] == []


async def test_a_graph_that_waits_is_shown_with_its_question(db: Database) -> None:
    graph = graph_of(db)
    await graph.ainvoke({"messages": [HumanMessage("Refund order 7")]}, CONFIG)
    inspector = Inspector(db)
    transcript = await inspector.transcript("t", NAMESPACE)
    question, call = transcript["messages"]
    assert (question["role"], question["text"]) == ("user", "Refund order 7")
    assert (call["role"], call["calls"][0]["name"]) == ("assistant", "refund")
    assert [child["key"] for child in transcript["rest"]["children"]] == ["topic"]
    writes = await inspector.writes("t", NAMESPACE)
    (waiting,) = writes["interrupts"]
    assert waiting["value"]["children"][0]["node"]["text"] == "refund?"
    steps = (await inspector.timeline("t", NAMESPACE))["steps"]
    assert [step["interrupt"] for step in steps] == [True, False, False]
    state = await inspector.state("t", NAMESPACE, path="/messages/0")
    assert state["node"]["class"] == "langchain_core.messages.human.HumanMessage"


async def test_a_change_of_an_earlier_step_is_a_branch(db: Database) -> None:
    graph = graph_of(db)
    await graph.ainvoke({"messages": [HumanMessage("Refund order 7")]}, CONFIG)
    waiting = (await graph.aget_state(CONFIG)).config
    await graph.ainvoke(Command(resume=True), CONFIG)
    await graph.aupdate_state(waiting, {"topic": "exchange"}, as_node="ask")
    inspector = Inspector(db)
    newest, other, *before = (await inspector.timeline("t", NAMESPACE))["steps"]
    assert (newest["lane"], newest["is_branch"]) == (0, False)
    assert (other["lane"], other["is_branch"]) == (1, True)
    assert {step["lane"] for step in before} == {0}
    assert [step["is_branch"] for step in before] == [True] + [False] * (len(before) - 1)
    assert not any(step["interrupt"] for step in (newest, other, *before)), "it was answered"
    answered = await inspector.transcript("t", NAMESPACE, at=other["checkpoint_id"])
    (result,) = answered["messages"][-1]["results"]
    assert (result["id"], result["text"]) == ("c1", "yes")
    found = await inspector.diff(
        "t", NAMESPACE, a=other["checkpoint_id"], b=newest["checkpoint_id"]
    )
    changed = {change["path"]: change["op"] for change in found["changes"]}
    assert (changed["/topic"], changed["/messages/2"]) == ("changed", "removed")


def appended(before: list[Any], writes: list[list[Any]]) -> list[Any]:
    return [*before, *(one for write in writes for one in write)]


class Notes(TypedDict):
    messages: Annotated[list[Any], DeltaChannel(appended, list, snapshot_frequency=4)]


def note(state: Notes) -> Any:
    return {"messages": [AIMessage(f"note {len(state['messages'])}")]}


async def test_messages_that_only_writes_hold_are_in_the_transcript(db: Database) -> None:
    builder = StateGraph(Notes)
    builder.add_node("note", note)
    builder.add_edge(START, "note")
    builder.add_edge("note", END)
    graph: Any = builder.compile(checkpointer=MemalchemySaver(db))
    expected: list[str] = []
    for turn in range(7):
        said = HumanMessage(f"turn {turn}")
        values = await graph.ainvoke({"messages": [said]}, CONFIG)
        expected = [one.content for one in values["messages"]]
        transcript = await Inspector(db).transcript("t", NAMESPACE)
        assert [one["text"] for one in transcript["messages"]] == expected
    assert len(expected) == 14
