"""A LangGraph agent that asks before it spends money, is resumed later, and says what it cost.

    pip install -e '.[langgraph]' langgraph
    python examples/langgraph_agent.py

The graph stops at `interrupt`. Nothing waits in memory: the thread is in the database, and the
answer may come hours later, in another process. Then the graph goes back to the step that asked,
and takes another way on a branch. In the end `memalchemy usage` sums up the tokens and the cost
that the messages state, each message once, however many states and branches hold it.
"""

from __future__ import annotations

import json
import subprocess
import sys
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
from memalchemy.sync import Database, Inspector


class Order(TypedDict):
    messages: Annotated[list[AnyMessage], add_messages]
    price: int


def answer(text: str, tokens_in: int, tokens_out: int) -> AIMessage:
    """Return what a model would. A real one states its tokens itself.

    No model states its cost: whoever knows the price list adds `cost_usd`.
    """
    counts = {"input_tokens": tokens_in, "output_tokens": tokens_out}
    return AIMessage(
        text,
        usage_metadata={**counts, "total_tokens": tokens_in + tokens_out},
        response_metadata={
            "model_name": "small",
            "cost_usd": (tokens_in * 2 + tokens_out * 8) / 1_000_000,
        },
    )


def quote(order: Order) -> dict[str, Any]:
    """Find out the price; an agent would ask a shop here."""
    return {"price": 240, "messages": [answer("A bicycle costs 240 euros.", 900, 100)]}


def buy(order: Order) -> dict[str, Any]:
    """Buy, if the person agrees."""
    agreed = interrupt({"question": f"Spend {order['price']} euros?"})
    text = "Bought." if agreed else "I have left it there."
    return {"messages": [answer(text, 1200, 50)]}


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


def memalchemy(url: str, *arguments: str) -> str:
    """Run a command, as a person would in a terminal, and print what it prints."""
    command = [sys.executable, "-m", "memalchemy", "--db", url, *arguments]
    done = subprocess.run(command, check=True, capture_output=True, encoding="utf-8")
    print("$ memalchemy --db orders.db", *arguments)
    print(done.stdout)
    return done.stdout


def main(url: str) -> None:
    thread: Any = {
        "configurable": {"thread_id": "order-7"},
        "metadata": {"agent": "shopper", "user_id": "ada"},
    }

    graph, saver = compiled(url)
    with saver:
        asked = graph.invoke({"messages": [("user", "Buy me a bicycle.")], "price": 0}, thread)
        print("The first process asks:", asked["__interrupt__"][0].value["question"])

    # What the inspector lists as "waiting for a person", with the graph or without it.
    with Database(url) as db:
        (waiting_thread,) = Inspector(db).threads(waiting=True)["threads"]
        print("Waiting for", waiting_thread["user"] + ":", waiting_thread["thread_id"])
        assert waiting_thread["thread_id"] == "order-7"

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

    with Database(url) as db:
        assert Inspector(db).threads(waiting=True)["threads"] == []

    memalchemy(url, "usage", "--by", "agent", "--by", "model")
    (total,) = json.loads(memalchemy(url, "usage", "--by", "agent", "--json"))
    assert total["agent"] == "shopper"
    # Three answers, of which both branches hold the first.
    assert (total["answers"], total["input_tokens"], total["output_tokens"]) == (3, 3300, 200)
    assert round(total["cost_usd"], 6) == 0.0082


if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as directory:
        main(f"sqlite:///{Path(directory) / 'orders.db'}")
