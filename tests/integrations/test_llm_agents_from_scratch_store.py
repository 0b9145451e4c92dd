"""`MemalchemyMemoryStore`: episodes on every database, with real agents."""

from __future__ import annotations

import asyncio
import warnings
from collections.abc import Callable
from datetime import UTC, datetime, timedelta, timezone
from pathlib import Path
from typing import Any

import pytest
from cryptography.fernet import Fernet
from llm_agents_from_scratch import LLMAgent, LLMAgentBuilder
from llm_agents_from_scratch.base.llm import BaseLLM
from llm_agents_from_scratch.base.memory_store import BaseMemoryStore
from llm_agents_from_scratch.data_structures import (
    ChatMessage,
    ChatRole,
    CompleteResult,
    Episode,
    NextStepDecision,
    RecallMode,
    Task,
    TaskResult,
)
from llm_agents_from_scratch.errors import EpisodeNotFoundError
from llm_agents_from_scratch.memory import Memory

from memalchemy import Database, EpisodeStore, MemalchemyError
from memalchemy.integrations.llm_agents_from_scratch import MemalchemyMemoryStore
from memalchemy.memory import episodes

NOON = datetime(2026, 3, 1, 12)


class Scripted(BaseLLM):
    """Answers with *answer*, or fails with it; keeps the system prompts that it heard."""

    def __init__(self, answer: str | Exception) -> None:
        self.answer = answer
        self.prompts: list[str] = []

    async def structured_output(self, prompt: str, mdl: Any, **kwargs: Any) -> Any:
        return NextStepDecision(kind="final_result", content="")

    async def complete(self, prompt: str, **kwargs: Any) -> CompleteResult:
        raise AssertionError("nothing asks for this")

    async def chat(self, input: str, chat_history: Any = None, *args: Any, **kwargs: Any) -> Any:
        self.prompts.append(chat_history[0].content)
        if isinstance(self.answer, Exception):
            raise self.answer
        said = ChatMessage(role=ChatRole.ASSISTANT, content=self.answer)
        return ChatMessage(role=ChatRole.USER, content=input), said

    async def continue_chat_with_tool_results(self, *args: Any, **kwargs: Any) -> Any:
        raise AssertionError("no tool was called")


def episode(instruction: str, minute: int = 0, **more: Any) -> Episode:
    task = Task(instruction=instruction)
    given = {"result": TaskResult(task_id=task.id_, content="done")} | more
    return Episode(
        **{"task": task, "rollout": "", "completed_at": NOON + timedelta(minutes=minute)} | given
    )


def tasks(found: list[Episode]) -> list[str]:
    return [one.task.instruction for one in found]


@pytest.fixture
def store(db: Database) -> MemalchemyMemoryStore:
    return MemalchemyMemoryStore(db)


def test_construction_of_a_memory_store_needs_no_loop_and_no_reachable_database() -> None:
    made = MemalchemyMemoryStore("postgresql://nobody@127.0.0.1:1/none")
    assert isinstance(made, BaseMemoryStore)
    assert (made.max_results, made.recall_mode) == (5, RecallMode.SEARCH)


async def test_an_agent_recalls_in_another_process_what_it_has_done(
    db: Database, store: MemalchemyMemoryStore
) -> None:
    first = Scripted("Booked at 9:40")
    agent = await LLMAgentBuilder().with_llm(first).with_memory(Memory(store)).build()
    result = await agent.run(Task(instruction="Book the flight to Lisbon"))
    assert result.content == "Booked at 9:40"
    assert "Booked at 9:40" not in first.prompts[0]

    second = Scripted("It is at 9:40")
    later = LLMAgent(second, memories=[Memory(MemalchemyMemoryStore(db))])
    await later.run(Task(instruction="When is the flight?"))
    assert "<result>Booked at 9:40</result>" in second.prompts[0]
    assert await store.count() == 2
    (found,) = await store.recall("Lisbon")
    assert "Booked at 9:40" in found.rollout


async def test_a_failed_task_is_remembered_with_the_metadata_functions_results(
    store: MemalchemyMemoryStore,
) -> None:
    async def reflection(_: Episode) -> str:
        return "ask first"

    memory = Memory(store, metadata_fns={"reflection": reflection})
    agent = LLMAgent(Scripted(ValueError("no money")), memories=[memory])
    with pytest.raises(ValueError, match="no money"):
        await agent.run(Task(instruction="Buy the boat"))

    (found,) = await store.recall("boat")
    assert found.error == "ValueError: no money"
    assert found.result is None
    assert found.metadata == {"reflection": "ask first"}
    assert "<reflection>ask first</reflection>" in await memory.recall(Task(instruction="boat"))


@pytest.mark.parametrize(
    "given",
    [
        episode("naive"),
        episode("aware", completed_at=NOON.replace(tzinfo=UTC)),
        episode("failed", result=None, error="KeyError: 'x'", rollout="=== Step ===\n💬"),
        episode("another's result", result=TaskResult(task_id="t0", content="")),
        episode("annotated", metadata={"reflection": "<b>&", "task_id": "mine"}, id_="e 1/ü"),
    ],
    ids=lambda given: given.task.instruction,
)
async def test_an_episode_is_restored_as_it_was(
    store: MemalchemyMemoryStore, given: Episode
) -> None:
    await store.write(given)
    assert await store.get(given.id_) == given
    assert await store.recall(given.task.instruction) == [given]
    assert await store._read_recent(1) == [given]
    assert isinstance(await store.get(given.id_), Episode)


async def test_an_exception_is_stored_as_its_text(store: MemalchemyMemoryStore) -> None:
    given = episode("x", result=None, error=RuntimeError("boom"))
    await store.write(given)
    found = await store.get(given.id_)
    assert found is not None
    assert found.model_dump() == given.model_dump()
    assert isinstance(given.error, RuntimeError)


async def test_d4_the_latest_come_first_whatever_their_zones(store: MemalchemyMemoryStore) -> None:
    store.recall_mode = RecallMode.RECENT
    local = NOON.astimezone()
    east = timezone(timedelta(hours=9))
    await store.write(episode("second", 1))
    await store.write(episode("third", completed_at=(local + timedelta(minutes=2)).astimezone(UTC)))
    await store.write(episode("first", completed_at=local.astimezone(east)))
    assert tasks(await store.recall("ignored")) == ["third", "second", "first"]
    store.max_results = 2
    assert tasks(await store.recall("ignored")) == ["third", "second"]


async def test_a_search_returns_at_most_max_results_best_first(
    store: MemalchemyMemoryStore,
) -> None:
    for n in range(4):
        await store.write(episode(f"paint the fence {n}", n))
    await store.write(episode("bake bread", metadata={"by": "ada"}))
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert tasks(await store.recall("bread to bake")) == ["bake bread"]
        store.max_results = 3
        assert len(await store.recall("fence")) == 3
        store.max_results = 10
        assert len(await store.recall("fence")) == 4
    assert await store.recall("bread", filter={"/metadata/by": "bob"}) == []
    assert tasks(await store.recall("bread", filter={"/metadata/by": "ada"})) == ["bake bread"]


async def test_an_embedder_finds_by_meaning(db: Database) -> None:
    def embedder(texts: list[str]) -> list[list[float]]:
        return [[float("boat" in text or "ship" in text), 0.1] for text in texts]

    store = MemalchemyMemoryStore(db, 1, embedder=embedder)
    await store.write(episode("steer the ship"))
    await store.write(episode("bake bread"))
    assert tasks(await store.recall("boat")) == ["steer the ship"]


async def test_where_words_are_encrypted_the_latest_are_recalled() -> None:
    async with Database("sqlite://", keys=[Fernet.generate_key()]) as db:
        store = MemalchemyMemoryStore(db)
        await store.write(episode("paint the fence"))
        assert tasks(await store.recall("boat")) == ["paint the fence"]


async def test_d2_an_id_is_unique_and_can_be_updated_and_deleted(
    store: MemalchemyMemoryStore,
) -> None:
    one = episode("paint the fence")
    with pytest.raises(EpisodeNotFoundError, match=one.id_):
        await store.update(one)
    await store.write(one)
    await store.write(one)
    assert await store.count() == 1
    changed = one.model_copy(update={"metadata": {"colour": "green"}})
    await store.update(changed)
    assert await store.recall("fence") == [changed]
    await store.delete(one.id_)
    assert await store.count() == 0
    with pytest.raises(EpisodeNotFoundError, match=one.id_):
        await store.delete(one.id_)


async def test_d1_concurrent_processes_lose_nothing(
    db: Database, reopen: Callable[[], Database]
) -> None:
    given = [episode(f"task {n}", n) for n in range(6)]
    async with reopen() as other:
        ours, theirs = MemalchemyMemoryStore(db), MemalchemyMemoryStore(other)
        await asyncio.gather(*((ours, theirs)[n % 2].write(one) for n, one in enumerate(given)))
        await asyncio.gather(ours.delete(given[1].id_), theirs.delete(given[0].id_))
    assert tasks(await ours._read_recent(9)) == ["task 5", "task 4", "task 3", "task 2"]


async def test_d10_namespaces_are_separate(db: Database) -> None:
    ada = MemalchemyMemoryStore(db, namespace=("ada",))
    bob = MemalchemyMemoryStore(db, namespace=("bob",))
    await ada.write(episode("paint the fence"))
    assert await bob.recall("fence") == await bob._read_recent(5) == []
    assert await MemalchemyMemoryStore(db).count() == 0
    with pytest.raises(TypeError, match="a tuple"):
        MemalchemyMemoryStore(db, namespace="ada")


async def test_the_summary_names_the_newest_and_the_oldest(store: MemalchemyMemoryStore) -> None:
    assert (await store.summary()).startswith("MemalchemyMemoryStore: 0 episodes | Database(")
    for n in (1, 0, 2):
        await store.write(episode(f"task {n}", n))
    first, newest, oldest = (await store.summary()).splitlines()
    assert first.startswith("MemalchemyMemoryStore: 3 episodes")
    assert newest.endswith("| task 2")
    assert oldest.endswith("| task 0")
    assert newest.startswith("  newest: 2026-0")
    assert "metadata_fns: none" in await Memory(store).summary()


async def test_an_episode_that_was_written_without_the_framework_is_read(
    db: Database, store: MemalchemyMemoryStore
) -> None:
    native = EpisodeStore(db, namespace=("llm-agents", "episodes"))
    await native.write(episodes.Episode(id_="e", task="by hand", result="ok", metadata={"n": 1}))
    found = await store.get("e")
    assert found is not None
    assert (found.task, found.result) == (
        Task(id_="e", instruction="by hand"),
        TaskResult(task_id="e", content="ok"),
    )
    assert found.metadata == {"n": "1"}
    assert await store.get("e") == found


async def test_an_agent_continues_without_a_reachable_database(
    caplog: pytest.LogCaptureFixture,
) -> None:
    store = MemalchemyMemoryStore("postgresql://nobody@127.0.0.1:1/none")
    with pytest.raises(MemalchemyError):
        await store.count()
    agent = LLMAgent(Scripted("fine"), memories=[Memory(store)])
    assert (await agent.run(Task(instruction="x"))).content == "fine"
    assert "episode not saved" in caplog.text


async def test_a_store_opened_by_url_closes_what_it_opened(tmp_path: Path) -> None:
    async with MemalchemyMemoryStore(f"sqlite:///{tmp_path}/agent.db") as store:
        await store.write(episode("paint the fence"))
    async with MemalchemyMemoryStore(f"sqlite:///{tmp_path}/agent.db") as again:
        assert await again.count() == 1
