"""A LangGraph agent that asks before it spends money, and is resumed by another process.

    pip install -e '.[langgraph]' langgraph
    python examples/langgraph_interrupts.py

The graph stops at `interrupt`. Nothing waits in memory: the thread is in the database, and the
answer may come hours later, in another process. Afterwards the graph goes back to the step that
asked, and takes another way on a branch.
"""

from __future__ import annotations

import tempfile
from pathlib import Path
from typing import Annotated, Any

from langchain_core.messages import AIMessage, AnyMessage
from langgraph.graph import END, START, StateGraph
from langgraph.graph.message import add_messages
from langgraph.graph.state import CompiledStateGraph
from langgraph.types import Command, interrupt
from typing_extensions import TypedDict

from memalchemy.integrations.langgraph import MemalchemySaver


class Order(TypedDict):
    messages: Annotated[list[AnyMessage], add_messages]
    price: int


def quote(order: Order) -> dict[str, Any]:
    """Find out the price; an agent would ask a shop here."""
    return {"price": 240, "messages": [AIMessage("A bicycle costs 240 euros.")]}


def buy(order: Order) -> dict[str, Any]:
    """Buy, if the person agrees."""
    agreed = interrupt({"question": f"Spend {order['price']} euros?"})
    return {"messages": [AIMessage("Bought." if agreed else "I have left it there.")]}


def compiled(url: str) -> tuple[CompiledStateGraph[Any, Any, Any, Any], MemalchemySaver]:
    """Compile the graph over a database, as each process does."""
    saver = MemalchemySaver(url)
    builder = StateGraph(Order)
    builder.add_node("quote", quote)
    builder.add_node("buy", buy)
    builder.add_edge(START, "quote")
    builder.add_edge("quote", "buy")
    builder.add_edge("buy", END)
    return builder.compile(checkpointer=saver), saver


def main(url: str) -> None:
    thread: Any = {"configurable": {"thread_id": "order-7"}}

    graph, saver = compiled(url)
    with saver:
        asked = graph.invoke({"messages": [("user", "Buy me a bicycle.")], "price": 0}, thread)
        print("The first process asks:", asked["__interrupt__"][0].value["question"])

    graph, saver = compiled(url)
    with saver:
        waiting = graph.get_state(thread)
        assert waiting.next == ("buy",)
        print("The second process finds the question:", waiting.interrupts[0].value["question"])
        done = graph.invoke(Command(resume=True), thread)
        print("It answers yes:", done["messages"][-1].text)
        assert done["messages"][-1].text == "Bought."

        # Every step is kept: go back to the one that asked, with another price, and answer no.
        before = next(step for step in graph.get_state_history(thread) if step.next == ("buy",))
        branch = graph.update_state(before.config, {"price": 990}, as_node="quote")
        asked = graph.invoke(None, branch)
        print("On a branch it asks:", asked["__interrupt__"][0].value["question"])
        left = graph.invoke(Command(resume=False), thread)
        print("It answers no:", left["messages"][-1].text)
        assert left["messages"][-1].text == "I have left it there."


if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as directory:
        main(f"sqlite:///{Path(directory) / 'orders.db'}")
