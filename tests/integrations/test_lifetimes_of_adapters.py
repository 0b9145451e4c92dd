"""What belongs to a thread ends with it: in every adapter that has a ttl, whatever it has stored.

The adapters are found by their signatures. Each fills an id in a random order, with time between
the steps that is shorter than the lifetime, and then the lifetime passes.
"""

from __future__ import annotations

import inspect
import random
import re
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass
from datetime import timedelta
from typing import Any

import pytest
from sqlalchemy import func, or_, select
from subjects import INSTALLED

from clocks import Clock
from memalchemy import Checkpointer, Database, Store
from memalchemy.keys import INTERNAL_RANGE
from memalchemy.schema import CheckpointRow, DeltaRow, EmbeddingRow, StoreItemRow, ThreadRow

HOUR = timedelta(hours=1)
TTL = 10 * HOUR
MOMENT = HOUR / 6
TABLES = (ThreadRow, CheckpointRow, DeltaRow, StoreItemRow, EmbeddingRow)
ORDERS = 4
"""Random orders in which each adapter fills an id."""

Step = Callable[[Any, str], Awaitable[Any]]


@dataclass(frozen=True)
class Recipe:
    """How an adapter is made, all that it stores for an id, and all that can be read of it.

    ``first`` is a step that begins the life of an id. ``lives`` says of what was read whether that
    goes on: by default it is that of the first thing.
    """

    open: Callable[[Database], Any]
    first: Step
    steps: Sequence[Step]
    read: Callable[[Any, str], Awaitable[list[Any]]]
    lives: Callable[[list[Any]], bool] = lambda found: any(found[:1])


RECIPES: dict[tuple[str, str], Recipe] = {}


def simple(framework: str, subject: str, cls: str, **options: Any) -> None:
    """Take the recipe of a kind of thing from the tests of all adapters."""
    if framework not in INSTALLED:
        return
    module = INSTALLED[framework]
    found = module.SUBJECTS[subject]
    adapter = next(one for one in module.ADAPTERS if one.__name__ == cls)
    given = {"ttl": TTL} | options

    async def write(instance: Any, id_: str) -> None:
        await found.write(instance, id_, "text")

    RECIPES[framework, cls] = Recipe(lambda db: adapter(db, **given), write, [write], found.read)


def installed(framework: str) -> Callable[[Callable[[], dict[str, Recipe]]], None]:
    """Take recipes of a framework's own, if it is there."""

    def add(recipes: Callable[[], dict[str, Recipe]]) -> None:
        if framework in INSTALLED:
            RECIPES.update({(framework, cls): one for cls, one in recipes().items()})

    return add


simple("agent_framework", "a session of the Agent Framework", "MemalchemySessionStore")
simple("agent_framework", "checkpoints of the Agent Framework", "MemalchemyCheckpointStorage")
simple("google_adk", "ADK's memories", "MemalchemyMemoryService")
simple("langchain", "LangChain's store", "MemalchemyStore")
simple("langchain", "LangChain's store of bytes", "MemalchemyByteStore")
# A read would renew it, which is LangGraph's default.
LANGGRAPHS = {"default_ttl": TTL / HOUR * 60, "refresh_on_read": False}
simple("langgraph", "LangGraph's store", "MemalchemyStore", ttl=LANGGRAPHS)
simple("llm_agents_from_scratch", "llm-agents' memories", "MemalchemyMemoryStore")
simple("locus", "locus' checkpointer", "MemalchemyCheckpointer")
simple("locus", "locus' store", "MemalchemyStore")


@installed("langchain")
def _langchain() -> dict[str, Recipe]:
    from langchain_core.documents import Document
    from langchain_core.embeddings import DeterministicFakeEmbedding
    from langchain_core.messages import HumanMessage
    from langchain_core.outputs import Generation

    from memalchemy.integrations import langchain

    def documents(db: Database) -> Any:
        embedding = DeterministicFakeEmbedding(size=4)
        return langchain.MemalchemyVectorStore(db, embedding=embedding, ttl=TTL)

    def history(db: Any, id_: str) -> Any:
        return langchain.MemalchemyChatMessageHistory(db, session_id=id_, ttl=TTL)

    async def say(db: Any, id_: str) -> None:
        await history(db, id_).aadd_messages([HumanMessage("text")])

    async def said(db: Any, id_: str) -> list[Any]:
        log = history(db, id_).log
        return [one.content for one in await history(db, id_).aget_messages()] + [
            id_ in await log.list_threads(),
            await log.search("text", thread_id=id_),
        ]

    async def add(store: Any, id_: str) -> None:
        await store.aadd_documents([Document("text", id=id_)])

    async def found(store: Any, id_: str) -> list[Any]:
        hits = [one for one in await store.asimilarity_search("text", 9) if one.id == id_]
        return [*await store.aget_by_ids([id_]), *hits]

    async def answer(cache: Any, id_: str) -> None:
        await cache.aupdate(id_, "model", [Generation(text="text")])

    async def answered(cache: Any, id_: str) -> list[Any]:
        return list(await cache.alookup(id_, "model") or [])

    return {
        "MemalchemyChatMessageHistory": Recipe(lambda db: db, say, [say], said),
        "MemalchemyVectorStore": Recipe(documents, add, [add], found),
        "MemalchemyCache": Recipe(
            lambda db: langchain.MemalchemyCache(db, ttl=TTL), answer, [answer], answered
        ),
    }


@installed("lauren_ai")
def _lauren() -> dict[str, Recipe]:
    from memalchemy.integrations.lauren_ai import MemalchemyConversationStore

    async def save(store: Any, id_: str) -> None:
        await store.save(id_, [{"role": "user", "content": "text"}])

    async def save_more(store: Any, id_: str) -> None:
        exchange = [{"role": "assistant", "content": "a tool's"}]
        messages = [{"role": "user", "content": "text"}]
        await store.save(
            id_,
            {"messages": messages, "summary": "all", "tool_exchange": exchange, "mine": {"a": 1}},
        )

    async def read(store: Any, id_: str) -> list[Any]:
        return [await store.load(id_), id_ in await store.list_conversations()]

    def make(db: Database) -> Any:
        return MemalchemyConversationStore(db, ttl=TTL)

    return {"MemalchemyConversationStore": Recipe(make, save, [save, save_more], read)}


def _subject(framework: str, name: str) -> tuple[Step, Any]:
    found = INSTALLED[framework].SUBJECTS[name]

    async def write(instance: Any, id_: str) -> None:
        await found.write(instance, id_, "text")

    return write, found.read


@installed("langgraph")
def _langgraph() -> dict[str, Recipe]:
    from memalchemy.integrations.langgraph import MemalchemySaver

    write, read = _subject("langgraph", "LangGraph's saver")

    def config(id_: str) -> Any:
        return {"configurable": {"thread_id": id_, "checkpoint_ns": ""}}

    async def pending(saver: Any, id_: str) -> None:
        await write(saver, id_)
        found = await saver.aget_tuple(config(id_))
        await saver.aput_writes(found.config, [("text", "later")], "task")

    async def all_of(saver: Any, id_: str) -> list[Any]:
        tuples = [one async for one in saver.alist(config(id_))]
        return [*await read(saver, id_), *(one.pending_writes for one in tuples)]

    def make(db: Database) -> Any:
        return MemalchemySaver(db, ttl=TTL)

    return {"MemalchemySaver": Recipe(make, write, [write, pending], all_of)}


@installed("claude_agent_sdk")
def _claude() -> dict[str, Recipe]:
    from memalchemy.integrations.claude_agent_sdk import MemalchemySessionStore

    def key(id_: str, **more: str) -> Any:
        return {"project_key": "project", "session_id": id_, **more}

    def line(text: str) -> Any:
        return [{"type": "user", "message": {"role": "user", "content": text}}]

    async def main(store: Any, id_: str) -> None:
        await store.append(key(id_), line("text"))

    async def subagent(store: Any, id_: str) -> None:
        await store.append(key(id_, subpath="subagents/one"), line("of a subagent"))

    async def read(store: Any, id_: str) -> list[Any]:
        summaries = [
            one["data"].get("first_prompt")
            for one in await store.list_session_summaries("project")
            if one["session_id"] == id_
        ]
        return [
            await store.load(key(id_)),
            await store.load(key(id_, subpath="subagents/one")),
            await store.list_subkeys(key(id_)),
            summaries,
            id_ in [one["session_id"] for one in await store.list_sessions("project")],
        ]

    def make(db: Database) -> Any:
        return MemalchemySessionStore(db, ttl=TTL)

    return {"MemalchemySessionStore": Recipe(make, main, [main, subagent], read)}


@installed("openai_agents")
def _openai() -> dict[str, Recipe]:
    from types import SimpleNamespace

    from agents import Agent, RunContextWrapper, RunState
    from agents.usage import Usage

    from memalchemy.integrations.openai_agents import (
        MemalchemyRunStates,
        MemalchemySession,
        MemalchemySessions,
    )

    async def add(sessions: Any, id_: str) -> None:
        await sessions.session(id_).add_items([{"role": "user", "content": "text"}])

    async def use(sessions: Any, id_: str) -> None:
        usage = Usage(requests=1, input_tokens=777, output_tokens=1, total_tokens=778)
        result: Any = SimpleNamespace(context_wrapper=SimpleNamespace(usage=usage))
        await sessions.session(id_).store_run_usage(result)

    async def describe(sessions: Any, id_: str) -> None:
        await sessions.describe(id_, user_id="ada", title="secret")

    async def describe_elsewhere(sessions: Any, id_: str) -> None:
        await MemalchemySessions(sessions.db).describe(id_, note="of an operator without a ttl")

    async def branch(sessions: Any, id_: str) -> None:
        session = sessions.session(id_)
        await session.create_branch(f"b{random.random()}")
        await use(sessions, id_)

    async def on_a_branch(sessions: Any, id_: str) -> None:
        session = sessions.session(id_)
        await session.create_branch(f"b{random.random()}")
        await session.add_items([{"role": "user", "content": "elsewhere"}])
        result: Any = SimpleNamespace(context_wrapper=SimpleNamespace(usage=Usage(requests=2)))
        await session.store_run_usage(result)

    async def end_a_branch(sessions: Any, id_: str) -> None:
        session = sessions.session(id_)
        await session.create_branch("gone" + str(random.random()))
        await session.add_items([{"role": "user", "content": "elsewhere"}])
        await session.delete_branch(session.branch, force=True)

    async def clear(sessions: Any, id_: str) -> None:
        await sessions.session(id_).clear_session()
        await add(sessions, id_)

    async def read(sessions: Any, id_: str) -> list[Any]:
        session = sessions.session(id_)
        found = await sessions.get(id_)
        branches = await session.list_branches()
        return [
            await session.get_items(),
            found and found.metadata,
            await session.get_session_usage(),
            await session.get_turn_usage(),
            [(one["branch_id"] == "main", one["message_count"]) for one in branches],
            await sessions.store.get(("openai", "branches"), id_),
            id_ in [one.session_id for one in await sessions.list()],
            id_ in [one.session_id for one in await sessions.list(filter={"user_id": "ada"})],
            [one.value for one in await sessions.search("text", session_id=id_)],
        ]

    def one_of(db: Database) -> Any:
        class Sessions(MemalchemySessions):
            def session(self, session_id: str, **options: Any) -> MemalchemySession:
                return MemalchemySession(session_id, self.db, ttl=TTL)

        return Sessions(db)

    async def stop(runs: Any, id_: str) -> None:
        context: Any = RunContextWrapper(context=None)
        await runs.save(id_, RunState(context, "text", Agent(name="a")))

    async def stopped(runs: Any, id_: str) -> list[Any]:
        return [await runs.load(id_, Agent(name="a")), id_ in await runs.list()]

    def has_branch(found: list[Any]) -> bool:
        return bool(found[4])

    steps = [add, use, describe, describe_elsewhere, branch, on_a_branch, end_a_branch, clear]
    return {
        "MemalchemySessions": Recipe(
            lambda db: MemalchemySessions(db, ttl=TTL), add, steps, read, has_branch
        ),
        "MemalchemySession": Recipe(one_of, add, steps, read, has_branch),
        "MemalchemyRunStates": Recipe(
            lambda db: MemalchemyRunStates(db, ttl=TTL), stop, [stop], stopped
        ),
    }


@installed("a2a")
def _a2a() -> dict[str, Recipe]:
    from a2a.server.cluster.version import TaskVersion
    from a2a.types import ListTasksRequest, TaskPushNotificationConfig
    from subjects.a2a import CALL, task_of, texts_of

    from memalchemy.integrations.a2a import (
        MemalchemyPushNotificationConfigStore,
        MemalchemyTaskEventStream,
        MemalchemyTaskStore,
        MemalchemyVersionedTaskStore,
    )

    async def save(store: Any, id_: str) -> None:
        if isinstance(store, MemalchemyTaskStore):
            await store.save(task_of(id_, "text"), CALL)
            return
        known = await store.get(id_, CALL)
        task = task_of(id_, *texts_of(known.task if known else None), "text")
        version = known.version if known else TaskVersion.MISSING
        await store.save(task, event=task, prev_version=version, context=CALL)

    async def hook(store: Any, id_: str) -> None:
        config = TaskPushNotificationConfig(id="w", url="https://x", token="secret")
        await MemalchemyPushNotificationConfigStore(store.db).set_info(id_, config, CALL)

    async def hook_for_a_while(store: Any, id_: str) -> None:
        config = TaskPushNotificationConfig(id="w2", url="https://y", token="secret")
        hooks = MemalchemyPushNotificationConfigStore(store.db, ttl=3 * TTL)
        await hooks.set_info(id_, config, CALL)

    async def hook_before(store: Any, id_: str) -> None:
        await hook(store, id_)
        await save(store, id_)

    async def read(store: Any, id_: str) -> list[Any]:
        hooks = MemalchemyPushNotificationConfigStore(store.db)
        listed = await store.list(ListTasksRequest(), CALL)
        events = MemalchemyTaskEventStream(store.db).events
        return [
            await store.get(id_, CALL),
            [one.id for one in await hooks.get_info(id_, CALL)],
            [one.id for one in await hooks.get_info_for_dispatch(id_)],
            [one.id for one in listed.tasks if one.id == id_],
            [one.value["version"] for one in await events.range(id_)],
        ]

    async def set_own(hooks: Any, id_: str) -> None:
        await hooks.set_info(id_, TaskPushNotificationConfig(id="w", url="https://x"), CALL)

    async def own(hooks: Any, id_: str) -> list[Any]:
        return [*await hooks.get_info(id_, CALL), *await hooks.get_info_for_dispatch(id_)]

    steps = [save, hook, hook_for_a_while]
    return {
        "MemalchemyTaskStore": Recipe(
            lambda db: MemalchemyTaskStore(db, ttl=TTL), hook_before, [*steps], read
        ),
        "MemalchemyVersionedTaskStore": Recipe(
            lambda db: MemalchemyVersionedTaskStore(db, ttl=TTL), hook_before, [*steps], read
        ),
        "MemalchemyPushNotificationConfigStore": Recipe(
            lambda db: MemalchemyPushNotificationConfigStore(db, ttl=TTL), set_own, [set_own], own
        ),
    }


def with_ttl() -> set[tuple[str, str]]:
    """Every public adapter that has a ttl."""
    return {
        (framework, cls.__name__)
        for framework, module in INSTALLED.items()
        for cls in module.ADAPTERS
        if "ttl" in inspect.signature(cls).parameters
    }


def test_every_adapter_that_has_a_ttl_is_filled() -> None:
    assert with_ttl() == RECIPES.keys()


async def fill(recipe: Recipe, adapter: Any, id_: str, order: random.Random, clock: Clock) -> None:
    """Begin the life of an id, and store all kinds of things for it before it ends."""
    await recipe.first(adapter, id_)
    steps = [*recipe.steps, *order.choices(recipe.steps, k=3)]
    order.shuffle(steps)
    for step in steps:
        clock.go_on(HOUR * order.random())
        await step(adapter, id_)


async def rows_of(db: Database) -> list[int]:
    counts = []
    for table in TABLES:
        statement = select(func.count()).select_from(table).where(table.tenant == db.tenant)
        if table is StoreItemRow:  # what the library keeps of the tenant as a whole is of no id
            own, above = INTERNAL_RANGE
            statement = statement.where(or_(table.namespace < own, table.namespace >= above))
        counts.append(await db.run_sync(lambda c, s=statement: c.execute(s).scalar_one()))
    return counts


CASES = [
    pytest.param(one, order, id=f"{one[0]}-{one[1]}-{order}")
    for one in sorted(RECIPES)
    for order in range(ORDERS)
]


@pytest.mark.parametrize(("name", "order"), CASES)
async def test_nothing_of_an_id_is_read_after_its_end(
    db: Database, clock: Clock, name: tuple[str, str], order: int
) -> None:
    recipe = RECIPES[name]
    adapter = recipe.open(db)
    await fill(recipe, adapter, "one", random.Random(order), clock)
    alive = await recipe.read(adapter, "one")
    clock.go_on(TTL)

    assert any(alive)
    assert not any(await recipe.read(adapter, "one"))


@pytest.mark.parametrize(("name", "order"), CASES)
async def test_nothing_of_an_id_outlives_it_for_a_moment(
    db: Database, clock: Clock, name: tuple[str, str], order: int
) -> None:
    recipe = RECIPES[name]
    adapter = recipe.open(db)
    await fill(recipe, adapter, "one", random.Random(order), clock)

    found = await recipe.read(adapter, "one")
    for _ in range(TTL // MOMENT + 1):
        if not recipe.lives(found):
            break
        clock.go_on(MOMENT)
        found = await recipe.read(adapter, "one")

    assert not any(found)


@pytest.mark.parametrize(("name", "order"), CASES)
async def test_sweep_and_vacuum_leave_no_row_of_it(
    db: Database, clock: Clock, name: tuple[str, str], order: int
) -> None:
    recipe = RECIPES[name]
    adapter = recipe.open(db)
    before = await rows_of(db)
    await fill(recipe, adapter, "one", random.Random(order), clock)
    # What was deleted while it lived leaves a tombstone for a day.
    clock.go_on(TTL + timedelta(days=2))

    await Store(db).sweep()
    await Checkpointer(db).vacuum(None, all_namespaces=True)

    assert await rows_of(db) == before


@pytest.mark.parametrize(("name", "order"), CASES)
async def test_the_next_of_that_id_inherits_nothing(
    db: Database, clock: Clock, name: tuple[str, str], order: int
) -> None:
    recipe = RECIPES[name]
    adapter = recipe.open(db)
    await fill(recipe, adapter, "one", random.Random(order), clock)
    clock.go_on(TTL)

    for id_ in ("one", "two"):
        await recipe.first(adapter, id_)

    read = [repr(await recipe.read(adapter, id_)) for id_ in ("one", "two")]
    assert read[0] == re.sub(r"\btwo\b", "one", read[1])
