"""Random graphs whose nodes are subgraphs, with and without a memory of their own, in each other.

A node's answer depends on all that its graph has seen, so a log that is missing, or too long, shows
in the answer. A node may ask, and the answer to that is always the same.
"""

from __future__ import annotations

import operator
from dataclasses import dataclass, field
from hashlib import sha256
from random import Random
from typing import Annotated, Any

from langgraph.graph import START, StateGraph
from langgraph.types import Command, interrupt
from typing_extensions import TypedDict

MAX_DEPTH = 3


@dataclass
class Part:
    """A node: a ``plain`` one, one that ``asks``, or a subgraph: ``remembers``, or ``forgets``."""

    kind: str
    name: str
    parts: list[Part] = field(default_factory=list)

    def kinds(self) -> set[str]:
        """The kinds of this part and of those in it."""
        return {self.kind}.union(*(one.kinds() for one in self.parts))


def random_graph(seed: int) -> Part:
    """A graph that has a subgraph with a memory of its own, one of a call, and a question."""
    random = Random(seed)

    def part(at: str, depth: int) -> Part:
        kinds = (
            ["plain", "asks"] if depth == MAX_DEPTH else ["plain", "asks", "remembers", "forgets"]
        )
        kind = random.choice(kinds)
        if kind in ("plain", "asks"):
            return Part(kind, f"{kind}_{at}")
        below = [part(f"{at}{n}", depth + 1) for n in range(random.randint(1, 2))]
        return Part(kind, f"{kind}_{at}", [Part("plain", f"first_{at}"), *below])

    while True:
        found = Part("root", "root", [part(str(n), 1) for n in range(random.randint(2, 3))])
        if {"remembers", "forgets", "asks"} <= found.kinds():
            return found


class Runs:
    """A graph over a saver, and the names of the nodes that it ran."""

    def __init__(self, graph: Part, saver: Any) -> None:
        self.ran: list[str] = []
        self.graph = self._built(graph).compile(checkpointer=saver)

    def _built(self, graph: Part) -> Any:
        key = f"seen_{graph.name}"
        state: Any = TypedDict(  # type: ignore[operator]
            f"State_{graph.name}",
            {"q": str, "a": str, key: Annotated[list[str], operator.add]},
            total=False,
        )
        builder, last = StateGraph(state), START

        def add(name: str, node: Any) -> None:
            nonlocal last
            builder.add_node(name, node)
            builder.add_edge(last, name)
            last = name

        for part in graph.parts:
            if part.parts:
                memory = True if part.kind == "remembers" else None
                add(part.name, self._built(part).compile(checkpointer=memory))
                add(f"note_{part.name}", self._noting(key, f"note_{part.name}"))
            else:
                add(part.name, self._node(part, key))

        def tell(state: Any) -> Any:
            told = f"{graph.name} {len(state[key])} " + "|".join(state[key])
            return {"a": f"{graph.name}-{sha256(told.encode()).hexdigest()[:8]}"}

        add(f"tell_{graph.name}", tell)
        return builder

    def _noting(self, key: str, name: str) -> Any:
        def note(state: Any) -> Any:
            self.ran.append(name)
            return {key: [state["a"]]}

        return note

    def _node(self, part: Part, key: str) -> Any:
        def plain(state: Any) -> Any:
            self.ran.append(part.name)
            return {key: [f"{part.name} {state['q']}"]}

        def ask(state: Any) -> Any:
            answer = interrupt(part.name)
            self.ran.append(part.name)
            return {key: [f"{part.name} {state['q']} {answer}"]}

        return ask if part.kind == "asks" else plain

    def begin(self, question: str, thread_id: str) -> Any:
        """Run until a node asks, or to the end."""
        return self.graph.invoke({"q": question}, at(thread_id))

    def finish(self, thread_id: str, done: Any = None) -> Any:
        """Go on, and answer every question, to the end; return the answer."""
        if done is None:
            done = self.graph.invoke(None, at(thread_id))
        while "__interrupt__" in done:
            done = self.graph.invoke(Command(resume="yes"), at(thread_id))
        return done["a"]

    def turn(self, question: str, thread_id: str) -> Any:
        """Run a whole turn; return the answer."""
        return self.finish(thread_id, self.begin(question, thread_id))


def at(thread_id: str, **more: Any) -> Any:
    return {"configurable": {"thread_id": thread_id, **more}}
