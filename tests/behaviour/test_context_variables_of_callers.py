"""What a caller has in its context variables is free after its call, while the database is open.

A run of a framework, a request, a trace: whatever calls first also starts threads, loops, tasks and
connections, which live on.
"""

from __future__ import annotations

import ast
import asyncio
import random
import sys
from pathlib import Path
from typing import Any

import pytest

from callers_in_contexts import in_a_run, in_a_run_of_a_task, is_free
from memalchemy import Checkpointer, Database, Episode, MemoryFact, Store, sync
from memalchemy.inspection import Inspector
from memalchemy.memory import LLMMemoryManager
from public_calls import CLASSES, arguments, methods_of
from waiting import until, wait_until

pytestmark = [
    pytest.mark.asyncio_only(reason="it asks both faces itself"),
    pytest.mark.usefixtures("frozen_heap"),
]

SOURCES = Path(sys.modules["memalchemy"].__file__ or "").parent


USUAL: dict[str, Any] = {
    "thread_id": "t",
    "thread_ids": ["t"],
    "checkpoint_id": "c",
    "a": "c",
    "b": "c",
    "state": {"messages": ["hello"]},
    "metadata": {"step": 1},
    "namespace": ("users", "ada"),
    "prefix": (),
    "key": "k",
    "value": {"text": "some words"},
    "values": [1, 2],
    "entries": [1, "two"],
    "query": "words",
    "limit": 10,
    "offset": 0,
    "filter": None,
    "embedding": [1.0, 2.0],
    "vector": [1.0, 2.0],
    "position": 1,
    "items": [(("users", "ada"), "k", 1)],
    "writes": [("channel", 1)],
    "task_id": "task",
    "user_id": "ada",
    "fact": MemoryFact("f", "ada", "likes tea"),
    "episode": Episode(task="a task", result="done"),
    "text": "some words",
    "messages": [{"role": "user", "content": "hello"}],
    "role": "user",
    "content": "hello",
}
"""Arguments by parameters' names. What a call refuses must be let go as well."""


def argument(name: str, _: random.Random) -> Any:
    return USUAL.get(name, "x")


METHODS = [
    (name, method)
    for name, make in CLASSES.items()
    for method in methods_of(make(Database("sqlite://")))
]


@pytest.mark.parametrize("name", CLASSES)
async def test_a_caller_with_await_is_let_go(name: str, shared_url: str) -> None:
    """Each method is the first call of a `Database`, so it opens what the others use."""
    rng = random.Random(name)
    for method in (method for kind, method in METHODS if kind == name):
        db = Database(shared_url, tenant=f"let-go-{name}")
        call = getattr(CLASSES[name](db), method)
        given, named = arguments(call, rng, argument)
        run = await in_a_run_of_a_task(lambda call=call, a=given, kw=named: call(*a, **kw))
        await until(lambda run=run: is_free(run), f"{name}.{method} keeps its caller")
        assert await Store(db).get(("none",), "none") is None
        await db.close()


@pytest.mark.parametrize("name", CLASSES)
def test_a_caller_without_await_is_let_go(name: str, shared_url: str) -> None:
    rng = random.Random(name)
    for method in (method for kind, method in METHODS if kind == name):
        db = sync.Database(shared_url, tenant=f"let-go-{name}")
        call = getattr(getattr(sync, name)(db), method)
        given, named = arguments(getattr(CLASSES[name](db._async), method), rng, argument)
        run = in_a_run(lambda call=call, a=given, kw=named: call(*a, **kw))
        wait_until(lambda run=run: is_free(run), f"{name}.{method} keeps its caller")
        assert sync.Store(db).get(("none",), "none") is None
        db.close()


async def test_callers_that_share_a_statement_are_let_go(shared_url: str) -> None:
    async with Database(shared_url, tenant="let-go-batches") as db:
        checkpointer = Checkpointer(db)

        async def save(number: int) -> None:
            await checkpointer.save({"n": number}, f"t{number}")

        runs = await asyncio.gather(
            *(in_a_run_of_a_task(lambda n=n: save(n)) for n in range(40)),
            *(in_a_run_of_a_task(lambda: checkpointer.load("t0")) for _ in range(10)),
        )
        await until(lambda: all(map(is_free, runs)))


async def test_a_caller_of_a_transaction_or_a_snapshot_is_let_go(shared_url: str) -> None:
    async with Database(shared_url, tenant="let-go-transactions") as db:

        async def change() -> None:
            async with db.transaction() as tx:
                await Store(db).put(("a",), "k", 1, connection=tx)

        async def look() -> None:
            async with db.snapshot() as then:
                await Store(db).get(("a",), "k", connection=then)

        for work in (change, look, db.check, db.health, db.now):
            run = await in_a_run_of_a_task(work)
            await until(lambda run=run: is_free(run), f"{work} keeps its caller")


async def test_who_looks_at_a_database_is_let_go(shared_url: str) -> None:
    async with Database(shared_url, tenant="let-go-inspector") as db:
        inspector = Inspector(db)
        for name in methods_of(inspector):
            call = getattr(inspector, name)
            given, named = arguments(call, random.Random(name), argument)
            run = await in_a_run_of_a_task(lambda call=call, a=given, kw=named: call(*a, **kw))
            await until(lambda run=run: is_free(run), f"{name} keeps its caller")


async def test_who_hands_over_work_in_the_background_is_let_go(shared_url: str) -> None:
    async with Database(shared_url, tenant="let-go-managers") as db:
        manager = LLMMemoryManager(db, extract_mode="background", namespace_prefix=("u", "ada"))

        async def talk() -> None:
            await manager.on_session_end([{"role": "user", "content": "I like tea"}])
            await manager.drain()

        run = await in_a_run_of_a_task(talk)
        await until(lambda: is_free(run))


STARTS = {
    "Thread",
    "Timer",
    "ThreadPoolExecutor",
    "create_task",
    "ensure_future",
    "gather",
    "run_in_executor",
    "call_later",
    "call_at",
    "new_event_loop",
    "SelectorEventLoop",
    "add_reader",
    "start_server",
    "start_soon",
    "TaskGroup",
}
"""What may outlive its caller."""

HELPER = "_detached.py"

ENDS_WITH_ITS_CALL = {
    "_together.py: ensure_future": "the caller waits for its end",
    "_together.py: gather": "the caller waits for the end of all, also when one has failed",
    "analysis/connection.py: Timer": "interrupts the query of the block that starts it",
    "cli/commands/sql.py: Thread": "ends the process",
    "cli/commands/serve.py: Timer": "ends the process",
    "context/_user_functions.py: Thread": "runs the caller's own function, in its context",
    "database/connection_lock.py: ensure_future": "the caller waits for its end",
    "database/executors/batching.py: create_task": "a statement, in the context of its first row",
    "database/executors/sqlalchemy.py: ensure_future": "the caller waits for its end",
    "importers/openai_chat.py: create_task": "the caller waits for its end",
    "importers/openai_chat.py: gather": "waits for the end of what it has cancelled",
    "integrations/langgraph/_batcher.py: create_task": "a batch, in the context of its first call",
    "integrations/openai_agents/_adapter.py: ensure_future": "the caller waits for its end",
    "memory/_background.py: create_task": "runs the caller's own function, in its context",
    "search/indexes.py: ensure_future": "the caller waits for its end",
    "search/indexes.py: gather": "waits for the end of what it has cancelled",
    "sync/loop.py: ThreadPoolExecutor": "its threads run jobs in the contexts of these",
    "sync/loop.py: create_task": "the caller waits for its end",
}
"""Starts that are not the helper's, with the reason."""


def starts() -> set[str]:
    """Return the calls in the package that start something, by module and name."""
    found = set()
    for path in sorted(SOURCES.rglob("*.py")):
        module = path.relative_to(SOURCES).as_posix()
        if module == HELPER or module.startswith("conformance/"):
            continue
        for node in ast.walk(ast.parse(path.read_text())):
            if not isinstance(node, ast.Call):
                continue
            called = node.func
            name = getattr(called, "attr", getattr(called, "id", ""))
            owner = getattr(getattr(called, "value", None), "id", "")
            if name in STARTS and owner != "_detached":
                found.add(f"{module}: {name}")
    return found


def test_what_outlives_a_call_is_started_by_one_helper() -> None:
    unknown = starts() - set(ENDS_WITH_ITS_CALL)
    assert not unknown, f"start it by memalchemy._detached, or say why not: {unknown}"
    assert set(ENDS_WITH_ITS_CALL) <= starts(), "a reason for what is not there any more"
