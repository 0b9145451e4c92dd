"""LazyBridge's own memories, agents, plans and blackboards on `MemalchemyStore`."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest
from lazybridge import Agent, LLMEngine, Memory, Plan, Step, from_agent
from lazybridge.core.providers.base import BaseProvider
from lazybridge.core.types import CompletionRequest, CompletionResponse, StreamChunk
from lazybridge.engines.plan import ConcurrentPlanRunError
from lazybridge.ext.approval import ApprovalQueue
from lazybridge.ext.knowledge import DurableKnowledgeBase
from lazybridge.ext.planners import DurableBlackboard
from lazybridge.testing import MockAgent

from memalchemy import Database
from memalchemy.context import SummarizingManager
from memalchemy.integrations.lazybridge import MemalchemyStore

Reopened = Callable[[], MemalchemyStore]


@pytest.fixture
def store(db: Database) -> MemalchemyStore:
    return MemalchemyStore(db)


@pytest.fixture
def reopened(reopen: Callable[[], Database]) -> Reopened:
    """Another store on the same rows, as a second process has it."""
    return lambda: MemalchemyStore(reopen())


class Script(BaseProvider):
    """A provider that answers from a list, and keeps what it was asked."""

    default_model = "script"

    def __init__(self, *answers: str) -> None:
        self.answers = list(answers)
        self.asked: list[list[str]] = []
        super().__init__()

    def complete(self, request: CompletionRequest) -> CompletionResponse:
        self.asked.append([str(message.content) for message in request.messages])
        return CompletionResponse(content=self.answers.pop(0))

    async def acomplete(self, request: CompletionRequest) -> CompletionResponse:
        return self.complete(request)

    def stream(self, request: CompletionRequest) -> Iterator[StreamChunk]:
        yield StreamChunk(delta=self.complete(request).content, is_final=True)

    async def astream(self, request: CompletionRequest) -> AsyncIterator[StreamChunk]:
        yield StreamChunk(delta=self.complete(request).content, is_final=True)


def agent(script: Script, memory: Memory, **options: Any) -> Agent:
    return Agent(engine=LLMEngine("script", provider=script), memory=memory, **options)


async def test_an_agent_remembers_in_another_process(
    store: MemalchemyStore, reopened: Reopened
) -> None:
    first = Script("Hello Marco.")
    await agent(first, Memory(store=store, key="chat"), name="chat").run("Hi, I'm Marco.")

    later = Script("Marco.")
    memory = Memory(store=reopened(), key="chat")
    answer = await agent(later, memory, name="chat").run("What's my name?")

    assert answer.text() == "Marco."
    assert later.asked == [["Hi, I'm Marco.", "Hello Marco.", "What's my name?"]]
    assert "Hello Marco." in Memory(store=reopened(), key="chat").text()


def test_an_agent_that_is_called_without_await_remembers(store: MemalchemyStore) -> None:
    memory = Memory(store=store, key="chat", session_key="user-1")
    agent(Script("A", "B"), memory, name="chat")("one")
    agent(Script("B"), memory, name="chat")("two")

    found = store.read_memory("chat", session_key="user-1") or {}
    said = [(turn["user"], turn["assistant"]) for turn in found["turns"]]
    assert said == [("one", "A"), ("two", "B")]
    assert store.read_memory("chat") is None


def test_summaries_amendments_and_clearing_survive_a_restart(
    store: MemalchemyStore, reopened: Reopened
) -> None:
    memory = Memory(strategy="summary", store=store, key="a", summarizer=lambda _: "the gist")
    for n in range(14):
        memory.add(f"question {n}", f"answer {n}")
    memory.amend_last("amended")

    again = Memory(store=reopened(), key="a")
    assert [str(m.content) for m in again.messages()] == [str(m.content) for m in memory.messages()]
    assert "the gist" in again.text()
    assert "amended" in again.text()
    memory.clear()
    assert Memory(store=reopened(), key="a").messages() == []


async def test_an_agent_summarises_for_a_manager_of_ours_as_it_does_for_a_memory() -> None:
    heard: list[str] = []

    def told(envelope: Any) -> str:
        heard.append(envelope.text())
        return "the gist"

    manager = SummarizingManager(4, 2, MockAgent(told, name="summarizer"))
    talk = [{"role": "user", "content": f"question {n}"} for n in range(6)]

    managed = await manager.async_apply(talk)

    summary = "[Summary of previous conversation (4 messages)]:\nthe gist"
    assert [message["content"] for message in managed] == [summary, "question 4", "question 5"]
    told_of = [f"User: question {n}" for n in range(4)]
    assert heard[0].splitlines()[-4:] == told_of


async def test_a_function_of_a_text_summarises_for_a_manager_as_it_does_for_a_memory(
    store: MemalchemyStore,
) -> None:
    heard: list[str] = []

    def summarize(prompt: str) -> str:
        heard.append(prompt)
        return "the gist"

    memory = Memory(strategy="summary", store=store, key="a", summarizer=summarize)
    talk = []
    for n in range(14):
        memory.add(f"question {n}", f"answer {n}")
        talk += [
            {"role": "user", "content": f"question {n}"},
            {"role": "assistant", "content": f"answer {n}"},
        ]
    await SummarizingManager(21, 20, summarize).async_apply(talk)

    theirs, ours = heard[0], heard[-1]
    lines = [line for n in range(4) for line in (f"User: question {n}", f"Assistant: answer {n}")]
    assert theirs.splitlines()[-2:] == lines[:2]
    assert ours.splitlines()[-8:] == lines


def test_concurrent_agents_have_separate_sessions(store: MemalchemyStore) -> None:
    def talk(user: int) -> None:
        memory = Memory(store=store, key="chat", session_key=f"user-{user}")
        for n in range(5):
            memory.add(f"{user} asks {n}", "…")

    with ThreadPoolExecutor(6) as threads:
        list(threads.map(talk, range(6)))
    for user in range(6):
        found = store.read_memory("chat", session_key=f"user-{user}") or {}
        assert [turn["user"] for turn in found["turns"]] == [f"{user} asks {n}" for n in range(5)]


class Crash(Exception):
    pass


def plan(store: MemalchemyStore, *steps: MockAgent, resume: bool = False) -> Agent:
    chain = [Step(target=step, name=step.name, writes=f"by:{step.name}") for step in steps]
    engine = Plan(*chain, store=store, checkpoint_key="report", resume=resume)
    return Agent(engine=engine, name="report")


async def test_a_crashed_plan_continues_in_another_process(
    store: MemalchemyStore, reopened: Reopened
) -> None:
    def crash(_: Any) -> str:
        raise Crash

    research = MockAgent({"*": "facts"}, name="research")
    failed = await plan(store, research, MockAgent(crash, name="write")).run("bees")
    assert not failed.ok

    other = reopened()
    assert other.read("by:research") == "facts"
    assert Plan.store_write_is_current(other, checkpoint_key="report", key="by:research")
    write = MockAgent(lambda env: f"report on {env.text()}", name="write")
    done = await plan(other, research, write, resume=True).run("bees")

    assert done.text() == "report on facts"
    assert research.call_count == 1
    assert store.read("report")["status"] == "done"
    assert store.read("by:write") == "report on facts"


async def test_a_plan_is_refused_while_another_process_runs_it(
    store: MemalchemyStore, reopened: Reopened
) -> None:
    begun, go_on = asyncio.Event(), asyncio.Event()

    async def wait(_: Any) -> str:
        begun.set()
        await go_on.wait()
        return "first"

    running = asyncio.create_task(plan(store, MockAgent(wait, name="step")).run("x"))
    await begun.wait()
    with pytest.raises(ConcurrentPlanRunError):
        await plan(reopened(), MockAgent("second", name="step")).run("x")
    go_on.set()

    assert (await running).text() == "first"
    assert store.read("by:step") == "first"


async def test_a_step_reads_what_an_agent_of_another_process_said(
    store: MemalchemyStore, reopened: Reopened
) -> None:
    source = Agent(
        engine=LLMEngine("script", provider=Script("three facts")), store=store, name="research"
    )
    await source.run("bees")

    script = Script("written")
    writer = Agent(engine=LLMEngine("script", provider=script), name="write")
    same = Agent(engine=LLMEngine("script", provider=Script()), store=reopened(), name="research")
    steps = Plan(Step("write", task=from_agent("research")))
    await Agent(engine=steps, tools=[writer, same], name="p").run("go")
    assert script.asked == [["three facts"]]


def test_workers_on_a_blackboard_take_different_tasks(
    store: MemalchemyStore, reopened: Reopened
) -> None:
    DurableBlackboard(store, "memo").set_plan("a memo", [f"task {n}" for n in range(6)])

    def work(owner: str) -> list[int]:
        # Without any work between two changes one may be the slower nine times in a row.
        board, done = DurableBlackboard(reopened(), "memo", cas_retries=100), []
        while (claimed := board.claim_next(owner=owner)) is not None:
            board.mark_done(claimed[0], f"by {owner}", owner=owner)
            done.append(claimed[0])
        return done

    with ThreadPoolExecutor(2) as threads:
        one, two = threads.map(work, ("one", "two"))
    assert sorted(one + two) == list(range(6))
    tasks = DurableBlackboard(store, "memo").snapshot().tasks
    assert {task["status"] for task in tasks} == {"done"}


def test_lessons_and_approvals_are_there_for_another_process(
    store: MemalchemyStore, reopened: Reopened
) -> None:
    DurableKnowledgeBase(store).save_lesson(topic="windows paths", what_worked="quote the path")
    ticket = ApprovalQueue(store).create_ticket(task_id="t1", prompt="Delete the table?")

    other = reopened()
    (lesson,) = DurableKnowledgeBase(other).find_lessons("windows paths")
    assert lesson["what_worked"] == "quote the path"
    queue = ApprovalQueue(other)
    assert queue.safe_to_call_from_any_thread
    (pending,) = queue.list_pending_tickets()
    assert pending.approval_id == ticket.approval_id
