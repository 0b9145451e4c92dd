"""A compiled graph under LangGraph's savers and under `MemalchemySaver`: its turns, and its bytes.

The graph is a `MessagesState` and one node that answers at once, so that what is left of a turn is
LangGraph's own work, the same on both sides, and the saver's.
"""

from __future__ import annotations

import time
from collections.abc import AsyncIterator, Callable
from contextlib import AsyncExitStack
from functools import partial
from itertools import count
from pathlib import Path
from typing import Any

from langchain_core.messages import AIMessage, BaseMessage, HumanMessage
from langgraph.graph import END, START, MessagesState, StateGraph

from benchmarks.langgraph_savers import OURS, SILENT, THEIRS, as_theirs, name_of
from benchmarks.measure import (
    Finding,
    at_least,
    at_most,
    megabytes,
    milliseconds,
    ratio,
    take_turns,
    under,
)
from benchmarks.side_by_side import LENGTHS, PROMISED, Place, repeated, size_of
from benchmarks.workload import Message, prose

GROUP = "langgraph_graphs"
TURNS = 4
"""Turns that are measured in a round, after the first of a thread."""
LONG = 200
"""Turns whose bytes are counted, of *SAID* characters by each."""
SAID = 1_024
MOST = {"ours": 2.5, "silent": 1.5}
"""Megabytes that those may take, with words to find and without."""


async def measure(
    messages: list[Message], directory: Path, new_database: Callable[[], str], rounds: int
) -> AsyncIterator[Finding]:
    for engine in ("SQLite", "PostgreSQL"):

        def place(name: str, engine: str = engine) -> Place:
            return directory / f"graphs-{name}.db" if engine == "SQLite" else new_database()

        async with AsyncExitStack() as stack:
            places = {name: place(name) for name in ("ours", "silent", "theirs")}
            graphs = {}
            for name, opening in zip(places, (OURS, SILENT, THEIRS), strict=True):
                saver = await stack.enter_async_context(opening(places[name]))
                graphs[name] = _compiled(saver)
            async for finding in _bytes(engine, places, graphs, messages):
                yield finding
            async for finding in _turns(engine, places, graphs, messages, rounds):
                yield finding


def _compiled(saver: Any) -> Any:
    async def model(state: MessagesState) -> dict[str, Any]:
        return {"messages": [AIMessage(str(state["messages"][-1].content))]}

    builder = StateGraph(MessagesState)
    builder.add_node("model", model)
    builder.add_edge(START, "model")
    builder.add_edge("model", END)
    return builder.compile(checkpointer=saver)


async def _bytes(
    engine: str, places: dict[str, Place], graphs: dict[str, Any], messages: list[Message]
) -> AsyncIterator[Finding]:
    grown = {}
    for name, graph in graphs.items():
        empty = size_of(places[name])
        for turn in range(LONG):
            await _turn(graph, "long", [HumanMessage(prose(messages, SAID, turn))])
        grown[name] = size_of(places[name]) - empty
    for name, what in (("ours", ""), ("silent", ", without words to find")):
        yield Finding(
            GROUP,
            f"{engine}: bytes of {LONG} turns of 1 KB + 1 KB{what}",
            grown[name] / 1e6,
            "MB",
            at_most(MOST[name], timed=False),
            megabytes(grown[name]),
            f"{name_of(places['theirs'])} {megabytes(grown['theirs'])}",
        )


async def _turns(
    engine: str,
    places: dict[str, Place],
    graphs: dict[str, Any],
    messages: list[Message],
    rounds: int,
) -> AsyncIterator[Finding]:
    said, numbers = as_theirs(repeated(messages, LENGTHS[-1])), count()
    for length in LENGTHS:
        runs = {
            name: partial(_timed, graphs[name], said[:length], numbers)
            for name in ("ours", "theirs")
        }
        found = await take_turns(runs, rounds)
        promised = at_least(1) if length >= PROMISED else None
        target, note = under(length, len(messages), promised)
        yield Finding(
            GROUP,
            f"{engine}: a turn of a graph at {length:,} messages, "
            f"{name_of(places['theirs'])} to ours",
            ratio(found["theirs"], found["ours"]),
            "x",
            target,
            milliseconds(found["ours"]),
            milliseconds(found["theirs"]),
            note,
        )


async def _timed(graph: Any, said: list[BaseMessage], numbers: Any) -> float:
    thread_id = f"turns-{next(numbers)}"
    await _turn(graph, thread_id, said)
    began = time.perf_counter()
    for _ in range(TURNS):
        found = await _turn(graph, thread_id, [HumanMessage("And what else?")])
    took = (time.perf_counter() - began) / TURNS
    assert len(found["messages"]) == len(said) + 1 + 2 * TURNS
    return took


async def _turn(graph: Any, thread_id: str, said: list[BaseMessage]) -> Any:
    return await graph.ainvoke({"messages": said}, {"configurable": {"thread_id": thread_id}})
