"""Sample graphs of every kind that LangGraph offers, each a function of its saver.

The behaviour of a node depends on its state alone, so two runs differ in ids and times only; a node
fails when its `FailurePlan` says so.
"""

from __future__ import annotations

import copy
import operator
import threading
from collections.abc import Callable, Sequence
from typing import Annotated, Any, Literal

from langchain_core.messages import AIMessage, BaseMessage, RemoveMessage, ToolMessage
from langchain_core.tools import tool
from langgraph.channels import DeltaChannel, UntrackedValue
from langgraph.checkpoint.base import BaseCheckpointSaver
from langgraph.func import entrypoint, task
from langgraph.graph import END, START, MessagesState, StateGraph
from langgraph.prebuilt import ToolNode, tools_condition
from langgraph.pregel import Pregel
from langgraph.types import Command, Send, interrupt
from typing_extensions import TypedDict

from waiting import A_WHILE

Saver = BaseCheckpointSaver[Any]


class FailurePlan:
    """Failures of nodes: the number of the next runs in which each fails.

    A node fails only after *after* tasks have stored a write to one of *channels*: otherwise tasks
    that run beside it might or might not finish.
    """

    def __init__(self, failures: dict[str, int], after: int = 0, channels: Sequence[str] = ()):
        self.failures = failures
        self.after = after
        self.channels = {*channels}
        self.ran: list[str] = []
        self._stored: set[str] = set()
        self._changed = threading.Condition()

    def watched(self, saver: Saver) -> Saver:
        """Return a copy of the saver whose stored writes this object counts."""
        copied = copy.copy(saver)
        put, aput = saver.put_writes, saver.aput_writes

        def put_writes(config, writes, task_id, task_path=""):  # type: ignore[no-untyped-def]
            put(config, writes, task_id, task_path)
            self._note(writes, task_id)

        async def aput_writes(config, writes, task_id, task_path=""):  # type: ignore[no-untyped-def]
            await aput(config, writes, task_id, task_path)
            self._note(writes, task_id)

        copied.put_writes, copied.aput_writes = put_writes, aput_writes  # type: ignore[method-assign]
        return copied

    def _note(self, writes: Sequence[tuple[str, Any]], task_id: str) -> None:
        if any(channel in self.channels for channel, _ in writes):
            with self._changed:
                self._stored.add(task_id)
                self._changed.notify_all()

    def fail_if_planned(self, node: str) -> None:
        self.ran.append(node)
        if self.failures.get(node, 0) > 0:
            self.failures[node] -= 1
            with self._changed:
                assert self._changed.wait_for(
                    lambda: len(self._stored) >= self.after, timeout=A_WHILE
                )
            raise RuntimeError(f"{node} fails as planned")


NO_FAILURES = FailurePlan({})


def chat(saver: Saver) -> Pregel:
    """Answers what was said last; `edit` and `forget` change what was said."""

    def answer(state: MessagesState) -> dict:
        said: Sequence[BaseMessage] = state["messages"]
        if not said:  # a run may go on from a checkpoint that is older than the first message
            raise ValueError("no message to answer")
        last = said[-1]
        text = str(last.content)
        if text == "edit":
            return {"messages": [said[0].model_copy(update={"content": "edited"})]}
        if text == "forget":
            return {"messages": [RemoveMessage(id=str(said[0].id))]}
        if text == "forget all":
            return {"messages": [RemoveMessage(id="__remove_all__"), AIMessage("Who?", id="who")]}
        return {"messages": [AIMessage(f"re: {text}", id=f"to-{last.id}")]}

    return (
        StateGraph(MessagesState)
        .add_node("answer", answer)
        .add_edge(START, "answer")
        .add_edge("answer", END)
        .compile(checkpointer=saver)
    )


@tool
def weigh(thing: str) -> str:
    """Return the weight of a thing."""
    return f"{thing} weighs {len(thing)} kg"


@tool
def buy(thing: str) -> str:
    """Buy it, if a human agrees."""
    agreed = interrupt({"buy": thing})
    return f"bought {thing}" if agreed == "yes" else f"did not buy {thing}: {agreed}"


def agent(saver: Saver) -> Pregel:
    """A model, which a script plays, and its tools, in a loop; one tool asks a human."""

    def model(state: MessagesState) -> dict:
        said = state["messages"]
        results = [message for message in said if isinstance(message, ToolMessage)]
        wishes = str(said[0].content).split()
        verb, things = ("weigh", wishes) if not results else ("buy", wishes[:1])
        if len(results) > len(wishes):
            return {"messages": [AIMessage("Done.", id=f"ai-{len(said)}")]}
        calls = [{"name": verb, "args": {"thing": it}, "id": f"{verb}-{it}"} for it in things]
        return {"messages": [AIMessage("", tool_calls=calls, id=f"ai-{len(said)}")]}

    tools = ToolNode([weigh, buy])

    def use(state: MessagesState) -> dict:
        # LangGraph gives a message without an id one of its own, while it may be being saved.
        results = tools.invoke(state)["messages"]
        return {
            "messages": [it.model_copy(update={"id": f"of-{it.tool_call_id}"}) for it in results]
        }

    return (
        StateGraph(MessagesState)
        .add_node("model", model)
        .add_node("tools", use)
        .add_edge(START, "model")
        .add_conditional_edges("model", tools_condition)
        .add_edge("tools", "model")
        .compile(checkpointer=saver)
    )


def merged(left: dict, right: dict) -> dict:
    return {**left, **right}


class Plan(TypedDict, total=False):
    """A channel of every kind."""

    goal: str
    done: Annotated[list[str], operator.add]
    count: Annotated[int, operator.add]
    facts: Annotated[dict, merged]
    scratch: Annotated[Any, UntrackedValue]
    shared: Any


def plan(
    saver: Saver, *, failures: FailurePlan = NO_FAILURES, before: Any = None, after: Any = None
) -> Pregel:
    """Two nodes beside each other, a third that waits for both, and a way back."""

    def node(name: str) -> Callable[[Plan], dict]:
        def run(state: Plan) -> dict:
            failures.fail_if_planned(name)
            count = state.get("count", 0)
            return {"done": [f"{name}-{count}"], "count": 1, "facts": {name: count}}

        return run

    def after_join(state: Plan) -> Literal["split", "__end__"]:
        return "split" if state.get("count", 0) < len(state.get("goal", "")) else END

    return (
        StateGraph(Plan)
        .add_node("split", lambda state: {"scratch": len, "shared": [state.get("goal"), 1.5]})
        .add_node("left", node("left"))
        .add_node("right", node("right"))
        .add_node("join", node("join"))
        .add_edge(START, "split")
        .add_edge("split", "left")
        .add_edge("split", "right")
        .add_edge(["left", "right"], "join")
        .add_conditional_edges("join", after_join)
        .compile(
            checkpointer=failures.watched(saver), interrupt_before=before, interrupt_after=after
        )
    )


class Harvest(TypedDict, total=False):
    fields: list[str]
    one: str
    crop: Annotated[list[str], operator.add]
    weighed: int


def harvest(saver: Saver, *, failures: FailurePlan = NO_FAILURES) -> Pregel:
    """A task for every field, at once; one of a field that begins with ? asks first."""

    def reap(state: Harvest) -> dict:
        name = state["one"]
        failures.fail_if_planned(f"reap {name}")
        answer = interrupt(f"what grows on {name}") if name.startswith("?") else "wheat"
        return {"crop": [f"{answer} of {name}"]}

    def to_fields(state: Harvest) -> list[Send]:
        return [Send("reap", {"one": name}) for name in state["fields"]]

    return (
        StateGraph(Harvest)
        .add_node("survey", lambda state: {})
        .add_node("reap", reap)
        .add_node("weigh", lambda state: {"weighed": len(state["crop"])})
        .add_edge(START, "survey")
        .add_conditional_edges("survey", to_fields, ["reap"])
        .add_edge("reap", "weigh")
        .compile(checkpointer=failures.watched(saver))
    )


def appended(state: list | None, writes: Sequence[list]) -> list:
    return [*(state or []), *(item for write in writes for item in write)]


class Ledger(TypedDict, total=False):
    lines: Annotated[list, DeltaChannel(appended, list, snapshot_frequency=3)]
    width: int
    one: int
    last: str


def ledger(saver: Saver, *, asks: bool = False) -> Pregel:
    """Keeps its lines as LangGraph's deltas, written by many tasks at once, in their order."""

    def write(state: Ledger) -> dict:
        number = state["one"]
        if asks and number == 1:
            return {"lines": [f"{number}: {interrupt('which line?')}"]}
        return {"lines": [f"line {number}"]}

    def to_lines(state: Ledger) -> list[Send]:
        return [Send("write", {"one": number}) for number in range(state.get("width", 3))]

    return (
        StateGraph(Ledger)
        .add_node("open", lambda state: {"last": f"after {len(state.get('lines') or [])}"})
        .add_node("write", write)
        .add_node("close", lambda state: {"lines": [f"sum {len(state['lines'])}"]})
        .add_edge(START, "open")
        .add_conditional_edges("open", to_lines, ["write"])
        .add_edge("write", "close")
        .compile(checkpointer=saver)
    )


class Talk(TypedDict, total=False):
    said: Annotated[list[str], operator.add]


class Inner(TypedDict, total=False):
    said: Annotated[list[str], operator.add]
    secret: Annotated[int, operator.add]


def nested(saver: Saver, *, own: bool | None = None, asks: bool = True) -> Pregel:
    """A graph in a graph in a graph; the innermost asks. `own` is the inner ones' checkpointer."""

    def ask(state: Inner) -> dict:
        answer = interrupt({"heard": len(state["said"])}) if asks else "nothing asked"
        return {"said": [f"innermost: {answer}"], "secret": 1}

    innermost = (
        StateGraph(Inner)
        .add_node("prepare", lambda state: {"said": ["innermost prepares"], "secret": 10})
        .add_node("ask", ask)
        .add_edge(START, "prepare")
        .add_edge("prepare", "ask")
        .compile(checkpointer=own)
    )
    inner = (
        StateGraph(Inner)
        .add_node("begin", lambda state: {"said": [f"inner, secret {state.get('secret', 0)}"]})
        .add_node("innermost", innermost)
        .add_edge(START, "begin")
        .add_edge("begin", "innermost")
        .compile(checkpointer=own)
    )
    return (
        StateGraph(Talk)
        .add_node("open", lambda state: {"said": ["outer opens"]})
        .add_node("inner", inner)
        .add_node("close", lambda state: {"said": ["outer closes"]})
        .add_edge(START, "open")
        .add_edge("open", "inner")
        .add_edge("inner", "close")
        .compile(checkpointer=saver)
    )


def jury(saver: Saver) -> Pregel:
    """Three who are asked at once, one of them three times; a fourth, a graph within, says
    where to go on.
    """

    def juror(name: str, times: int) -> Callable[[Talk], dict]:
        def ask(state: Talk) -> dict:
            answers = [interrupt(f"{name}, question {n + 1}") for n in range(times)]
            return {"said": [f"{name}: {' and '.join(map(str, answers))}"]}

        return ask

    def leave(state: Talk) -> Command:
        return Command(goto="verdict", update={"said": ["left"]}, graph=Command.PARENT)

    leaving = StateGraph(Talk).add_node("leave", leave).add_edge(START, "leave").compile()
    return (
        StateGraph(Talk)
        .add_node("ann", juror("ann", 1))
        .add_node("bob", juror("bob", 3))
        .add_node("cyd", juror("cyd", 1))
        .add_node("leaving", leaving, destinations=("verdict",))
        .add_node("verdict", lambda state: {"said": [f"verdict of {len(state['said'])}"]})
        .add_edge(START, "ann")
        .add_edge(START, "bob")
        .add_edge(START, "cyd")
        .add_edge(["ann", "bob", "cyd"], "leaving")
        .compile(checkpointer=saver)
    )


def function(saver: Saver) -> Pregel:
    """The functional interface: tasks, what it saw the last time, and a question."""

    @task
    def double(number: int) -> int:
        return number * 2

    @entrypoint(checkpointer=saver)
    def run(number: int, *, previous: Any = None) -> Any:
        doubled = double(number).result()
        answer = interrupt(f"is {doubled} enough?")
        value = [previous, doubled, answer, double(doubled).result()]
        return entrypoint.final(value=value, save=value[1:])

    return run
