"""locus' own agents and graphs on `MemalchemyCheckpointer`."""

from __future__ import annotations

import asyncio
import json
import subprocess
import sys
from collections.abc import Callable
from typing import Any

import pytest
from locus.agent import Agent
from locus.core.command import Command
from locus.core.events import InterruptEvent
from locus.core.messages import Message, Role
from locus.core.state import AgentState
from locus.memory.manager import LLMMemoryManager, Memory, MemoryType
from locus.multiagent.graph import END, START, StateGraph
from locus.testing import FunctionModel, ScriptedModel, text, tool_call
from locus.tools import tool

from memalchemy import Database, Store
from memalchemy.integrations.locus import MemalchemyCheckpointer, MemalchemyStore

Reopen = Callable[[], Database]


@tool
def weather(city: str) -> str:
    """The weather in a city."""
    return f"It is 18 degrees and raining in {city}."


def agent_on(checkpointer: MemalchemyCheckpointer, model: Any, **options: Any) -> Agent:
    return Agent(
        model=model,
        tools=[weather],
        checkpointer=checkpointer,
        reflexion=False,
        grounding=False,
        **options,
    )


def trip() -> ScriptedModel:
    return ScriptedModel(
        [
            tool_call("weather", city="Lisbon"),
            tool_call("weather", city="Porto"),
            text("Take an umbrella."),
        ]
    )


class Watched(MemalchemyCheckpointer):
    """Notes what an agent asks of it."""

    def __init__(self, db: Database) -> None:
        super().__init__(db)
        self.calls: list[str] = []

    async def save(self, *args: Any, **kw: Any) -> str:
        self.calls.append("save")
        return await super().save(*args, **kw)

    async def delete(self, *args: Any, **kw: Any) -> bool:
        self.calls.append("delete")
        return await super().delete(*args, **kw)


async def test_each_iteration_is_saved_and_the_last_save_of_a_turn_stays(db: Database) -> None:
    checkpointer = Watched(db)
    result = await agent_on(checkpointer, trip()).arun("Lisbon or Porto?", thread_id="t")

    assert result.text == "Take an umbrella."
    assert checkpointer.calls == ["save", "save", "save", "delete", "delete"]
    assert len(await checkpointer.list_checkpoints("t")) == 1


async def test_words_of_a_turns_iterations_are_found_at_its_last_checkpoint(db: Database) -> None:
    checkpointer = MemalchemyCheckpointer(db)
    await agent_on(checkpointer, trip()).arun("Which seaside town is nicer?", thread_id="t")
    (first,) = await checkpointer.list_checkpoints("t")
    model = ScriptedModel([tool_call("weather", city="Faro"), text("Sunscreen, rather.")])
    await agent_on(checkpointer, model).arun("And the Algarve?", thread_id="t")
    second, _ = await checkpointer.list_checkpoints("t")

    for word in ("seaside", "Lisbon", "Porto", "umbrella"):
        assert [hit["checkpoint_id"] for hit in await checkpointer.search(word)] == [first], word
    for word in ("Algarve", "Faro", "sunscreen"):
        assert [hit["checkpoint_id"] for hit in await checkpointer.search(word)] == [second], word


async def test_a_thread_continues_in_another_process(db: Database, reopen: Reopen) -> None:
    model = ScriptedModel([text("Hello Ada."), text("You are Ada.")])
    await agent_on(MemalchemyCheckpointer(db), model).arun("I am Ada.", thread_id="t")
    other = reopen()
    result = await agent_on(MemalchemyCheckpointer(other), model).arun("Who am I?", thread_id="t")
    await other.close()

    assert result.text == "You are Ada."
    assert [m.content for m in result.state.messages if m.role == Role.USER] == [
        "I am Ada.",
        "Who am I?",
    ]


KILLED = """
import asyncio, os, sys
from locus.agent import Agent
from locus.testing import ScriptedModel, tool_call
from locus.tools import tool
from memalchemy import Database
from memalchemy.integrations.locus import MemalchemyCheckpointer, MemalchemyStore

@tool
def weather(city: str) -> str:
    "The weather in a city."
    if city == "Porto":
        os._exit(9)
    return f"It is 18 degrees and raining in {city}."

async def main():
    db = Database(sys.argv[1], tenant=sys.argv[2])
    model = ScriptedModel([tool_call("weather", city="Lisbon"), tool_call("weather", city="Porto")])
    agent = Agent(model=model, tools=[weather], checkpointer=MemalchemyCheckpointer(db),
                  reflexion=False, grounding=False)
    await agent.arun("Lisbon or Porto?", thread_id="t")

asyncio.run(main())
"""


async def test_a_killed_turn_continues_after_its_last_iteration(
    db: Database, shared_url: str, lasting: None
) -> None:
    killed = subprocess.run(  # noqa: ASYNC221 - it ends by itself
        [sys.executable, "-c", KILLED, shared_url, db.tenant],
        env={"PYTHONPATH": ":".join(path for path in sys.path if path)},
        capture_output=True,
        text=True,
    )
    assert killed.returncode == 9, killed.stderr
    checkpointer = MemalchemyCheckpointer(db)
    left = await checkpointer.load("t")
    assert left is not None
    assert "raining in Lisbon" in str(left.messages[-1].content)

    model = ScriptedModel([text("Take an umbrella.")])
    async for _ in agent_on(checkpointer, model).continue_turn("t"):
        pass

    finished = await checkpointer.load("t")
    assert finished is not None
    assert finished.messages[-1].content == "Take an umbrella."
    assert sum(message.role == Role.USER for message in finished.messages) == 1
    assert len(await checkpointer.list_checkpoints("t")) == 1
    (hit,) = await checkpointer.search("Lisbon")
    assert hit["thread_id"] == "t"


@tool
def ask_user(question: str) -> str:
    """Ask the person, and wait."""
    return json.dumps({"__interrupt__": True, "question": question})


async def test_an_interrupted_run_continues_in_another_process(
    db: Database, reopen: Reopen
) -> None:
    model = ScriptedModel([tool_call("ask_user", question="Which day?"), text("Friday it is.")])
    options = {"model": model, "tools": [ask_user], "reflexion": False, "grounding": False}
    agent = Agent(checkpointer=MemalchemyCheckpointer(db), **options)
    seen = [event async for event in agent.run("Book a table", thread_id="t")]
    assert isinstance(seen[-1], InterruptEvent)

    other = reopen()
    checkpointer = MemalchemyCheckpointer(other)
    async for _ in Agent(checkpointer=checkpointer, **options).resume("Friday", thread_id="t"):
        pass
    state = await checkpointer.load("t")
    await other.close()

    assert state is not None
    assert state.messages[-1].content == "Friday it is."


async def test_history_edits_and_forks_are_locus_own(db: Database) -> None:
    checkpointer = MemalchemyCheckpointer(db)
    model = FunctionModel(lambda messages, tools: text(f"answer to {messages[-1].content}"))
    agent = agent_on(checkpointer, model)
    for question in ("one", "two"):
        await agent.arun(question, thread_id="t")
    history = await agent.get_state_history("t")
    newest, oldest = history[0][0], history[-1][0]

    assert [state.messages[-1].content for _, state in history] == [
        "answer to two",
        "answer to one",
    ]
    edited = await agent.update_state("t", messages=[Message.user("three")], checkpoint_id=oldest)
    found = await checkpointer.query_by_metadata("source", "update_state")
    assert [one["checkpoint_id"] for one in found] == [edited]
    assert found[0]["metadata"]["parent_checkpoint_id"] == oldest
    fork = await agent.fork("t", newest)
    assert fork.startswith("t-fork-")
    await agent.arun("three", thread_id=fork)
    assert (await agent.get_state("t", newest)).messages[-1].content == "answer to two"
    assert (await agent.get_state(fork)).messages[-1].content == "answer to three"
    with pytest.raises(LookupError):
        await agent.get_state("nobody")


def test_run_sync_ends_a_loop_after_each_turn(shared_url: str, reopen: Reopen) -> None:
    for checkpointer in (MemalchemyCheckpointer(reopen()), MemalchemyCheckpointer()):
        model = ScriptedModel([text("Hello Ada."), text("You are Ada.")])
        agent = agent_on(checkpointer, model)
        agent.run_sync("I am Ada.", thread_id="sync")
        result = agent.run_sync("Who am I?", thread_id="sync")

        assert [m.content for m in result.state.messages if m.role == Role.USER] == [
            "I am Ada.",
            "Who am I?",
        ]
        assert checkpointer.get_checkpoint_count("sync") == 2
        checkpointer.clear()


async def test_a_failed_delete_of_a_step_does_not_lose_the_turn(db: Database) -> None:
    class Failing(MemalchemyCheckpointer):
        async def delete(self, thread_id: str, checkpoint_id: str | None = None) -> bool:
            raise ConnectionError("the database is away")

    checkpointer = Failing(db)
    await agent_on(checkpointer, trip()).arun("Lisbon or Porto?", thread_id="t")

    newest = await checkpointer.load("t")
    assert newest is not None
    assert newest.messages[-1].content == "Take an umbrella."
    assert len(await checkpointer.list_checkpoints("t")) == 3


def counting(checkpointer: MemalchemyCheckpointer, **options: Any) -> StateGraph:
    graph = StateGraph()

    def step(name: str) -> Callable[..., Any]:
        async def run(inputs: dict[str, Any]) -> dict[str, Any]:
            return {"count": inputs.get("count", 0) + 1, "path": [*inputs.get("path", []), name]}

        return run

    for name in ("a", "b", "c"):
        graph.add_node(name, step(name))
    for edge in ((START, "a"), ("a", "b"), ("b", "c"), ("c", END)):
        graph.add_edge(*edge)
    graph.compile(checkpointer=checkpointer, **options)
    graph.config.thread_id = "g"
    return graph


async def test_each_step_of_a_graph_is_kept_and_can_be_read_edited_and_forked(
    db: Database,
) -> None:
    checkpointer = MemalchemyCheckpointer(db)
    graph = counting(checkpointer)
    result = await graph.execute({"count": 0})
    history = await graph.aget_state_history("g")

    assert result.final_state["count"] == 3
    assert [state["path"] for _, state in history] == [["a", "b", "c"], ["a", "b"], ["a"]]
    oldest = history[-1][0]
    fork = await graph.afork("g", oldest, new_thread_id="g-alt")
    await graph.aupdate_state(fork, {"count": 10})
    assert (await graph.aget_state(fork))["count"] == 10
    assert (await graph.aget_state("g", checkpoint_id=oldest))["count"] == 1


async def test_an_interrupted_graph_continues_in_another_process_from_an_edited_state(
    db: Database, reopen: Reopen
) -> None:
    first = counting(MemalchemyCheckpointer(db), interrupt_before=["b"])
    paused = await first.execute({"count": 0})
    assert paused.interrupt is not None

    other = reopen()
    second = counting(MemalchemyCheckpointer(other), interrupt_before=["b"])
    await second.aupdate_state("g", {"count": 40})
    result = await second.execute(Command(resume=True))
    await other.close()

    assert result.interrupt is None
    assert (result.final_state["count"], result.final_state["path"]) == (42, ["a", "b", "c"])


async def test_a_state_in_a_store_is_restored_equal(db: Database) -> None:
    state = AgentState(messages=(Message.user("hello"),))
    store = Store(db)
    await store.put(("states",), "k", state.to_checkpoint())

    assert AgentState.from_checkpoint(await store.get(("states",), "k")) == state


async def test_a_run_does_not_wait_for_memories_that_are_extracted_in_the_background(
    db: Database,
) -> None:
    may_end = asyncio.Event()

    async def extract(messages: object) -> list[Memory]:
        await may_end.wait()
        return [Memory(type=MemoryType.PROJECT, key="turn", content="hello")]

    store = MemalchemyStore(db)
    manager = LLMMemoryManager(store, extract_fn=extract, extract_mode="background")
    agent = Agent(model=ScriptedModel([text("Noted.")]), memory_manager=manager)

    _ = [event async for event in agent.run("hello")]

    assert manager.pending_extractions == 1
    assert await store.get(("locus_memory", "project"), "turn") is None
    may_end.set()
    await agent.drain_memory()
    saved = await store.get(("locus_memory", "project"), "turn")
    assert saved is not None
    assert saved["content"] == "hello"
