"""The command line on the data of all frameworks in one database."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path
from typing import Any

import pytest
from langchain_core.messages import AIMessage
from langgraph.graph import END, START, MessagesState, StateGraph
from locus import Agent as LocusAgent
from locus.testing import ScriptedModel, text
from typer.testing import CliRunner

from memalchemy import Database
from memalchemy.cli.app import app
from memalchemy.integrations.langgraph import MemalchemySaver
from memalchemy.integrations.locus import MemalchemyCheckpointer
from memalchemy.integrations.openai_agents import MemalchemySession


async def work(url: str) -> None:
    """Every framework remembers something of a thread called ada."""
    async with Database(url) as db:
        builder = StateGraph(MessagesState)
        builder.add_node("answer", lambda _: {"messages": [AIMessage("A copper kettle.")]})
        builder.add_edge(START, "answer")
        builder.add_edge("answer", END)
        graph = builder.compile(checkpointer=MemalchemySaver(db))
        config: Any = {"configurable": {"thread_id": "ada"}}
        await graph.ainvoke({"messages": [("user", "What shall I buy?")]}, config)

        model = ScriptedModel([text("A flight at 9:15.")])
        agent = LocusAgent(model=model, checkpointer=MemalchemyCheckpointer(db))
        await agent.arun("When shall I fly?", thread_id="ada")

        session = MemalchemySession("ada", db)
        await session.add_items([{"role": "user", "content": "Where is my parcel?"}])


@pytest.fixture(scope="module")
def url(tmp_path_factory: pytest.TempPathFactory) -> str:
    path: Path = tmp_path_factory.mktemp("used") / "agent.db"
    asyncio.run(work(f"sqlite:///{path}"))
    return f"sqlite:///{path}"


def call(url: str, *arguments: str) -> Any:
    result = CliRunner().invoke(app, [*arguments, "--db", url, "--json"], catch_exceptions=False)
    assert result.exit_code == 0, result.stderr
    return json.loads(result.stdout)


def test_the_threads_of_every_framework_are_listed(url: str) -> None:
    listed = {"/".join(log["namespace"]): log for log in call(url, "threads")}

    assert set(listed) == {"langgraph", "locus", "openai"}
    assert {log["thread_id"] for log in listed.values()} == {"ada"}
    assert listed["langgraph"]["checkpoints"] == 3
    assert listed["locus"]["checkpoints"] >= 1
    assert listed["openai"]["entries"] == 1


@pytest.mark.parametrize(
    ("words", "namespace"), [("copper kettle", "langgraph"), ("flight 9:15", "locus")]
)
def test_a_search_shows_the_namespace_of_each_hit(url: str, words: str, namespace: str) -> None:
    hits = call(url, "search", words)

    assert hits[0]["namespace"] == [namespace]
    assert hits[0]["thread_id"] == "ada"


def test_items_of_a_session_are_found_by_search(url: str) -> None:
    assert call(url, "search", "parcel", "--in", "entries")[0]["namespace"] == ["openai"]
    assert call(url, "show", "ada", "--namespace", "openai")[0]["text"] == "Where is my parcel?"


def test_a_graphs_state_is_printed_message_by_message(url: str) -> None:
    state = call(url, "show", "ada", "--raw", "--namespace", "langgraph")["state"]

    assert [(said["type"], said["content"]) for said in state["messages"]] == [
        ("human", "What shall I buy?"),
        ("ai", "A copper kettle."),
    ]
    assert state["~metadata"]["source"] == "loop"


def test_a_diff_of_graph_steps_shows_the_packed_values(url: str) -> None:
    newest, before, *_ = call(url, "history", "ada", "--namespace", "langgraph")
    ids = before["checkpoint_id"], newest["checkpoint_id"]
    found = call(url, "diff", "ada", *ids, "--namespace", "langgraph")

    assert found["added"]["/messages/1"]["content"] == "A copper kettle."
    assert not any(where.startswith("/messages") for where in found["changed"])


def test_an_agents_state_is_printed_message_by_message(url: str) -> None:
    state = call(url, "show", "ada", "--raw", "--namespace", "locus")["state"]

    assert "A flight at 9:15." in json.dumps(state)
