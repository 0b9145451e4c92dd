"""Process that runs a graph until it is killed, for test_langgraph_kill.py.

    python graph_to_kill.py URL TENANT THREAD

It prints a line for every step that LangGraph reports, after the step's checkpoint was saved.
"""

from __future__ import annotations

import asyncio
import operator
import os
import sys
from typing import Annotated

from langgraph.graph import START, StateGraph
from typing_extensions import TypedDict

from memalchemy import Database
from memalchemy.integrations.langgraph import MemalchemySaver

STEPS = 150


class Count(TypedDict):
    done: Annotated[list[int], operator.add]


def build(saver: MemalchemySaver):  # type: ignore[no-untyped-def]
    """Counts up to `STEPS`, a step for each number."""
    return (
        StateGraph(Count)
        .add_node("count", lambda state: {"done": [len(state["done"])]})
        .add_edge(START, "count")
        .add_conditional_edges(
            "count", lambda state: "count" if len(state["done"]) < STEPS else "__end__"
        )
        .compile(checkpointer=saver)
    )


async def count_until_killed(url: str, tenant: str, thread: str) -> None:
    async with Database(url, tenant=tenant) as db:
        graph = build(MemalchemySaver(db))
        config = {"configurable": {"thread_id": thread}, "recursion_limit": STEPS + 10}
        async for told in graph.astream(
            {"done": []}, config, stream_mode="checkpoints", durability="sync"
        ):
            # With "sync" the step before has been saved when the next is told of.
            line = f"{told['config']['configurable']['checkpoint_id']} {told['metadata']['step']}"
            os.write(1, f"{line}\n".encode())


if __name__ == "__main__":
    asyncio.run(count_until_killed(*sys.argv[1:4]))
