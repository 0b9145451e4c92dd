"""On a cluster each statement of a save, a load, a put, a get and an append goes to one node."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterator
from typing import Any

import asyncpg
import pytest
from plans import explain

import golden
from memalchemy import Checkpointer, Database, Store, ThreadLog
from memalchemy.events import StatementEvent, subscribe_statements
from memalchemy.statements import REGISTRY, built_for
from servers import Citus

PLACE = ("people", "ada")


async def save(db: Database) -> None:
    saver = Checkpointer(db)
    await saver.save({"turns": ["hello"]}, "thread", "first")
    await saver.save({"turns": ["hello", "world"]}, "thread", "second")
    await saver.save({"turns": ["again"]}, "thread", "third", parent_id="first")
    await Checkpointer(db).save({"turns": ["a base that is read"]}, "thread")


async def load(db: Database) -> None:
    await save(db)
    await Checkpointer(db).load("thread")
    await Checkpointer(db).load("thread", "first")


async def pending_writes(db: Database) -> None:
    await save(db)
    await Checkpointer(db).put_writes([("channel", 1)], "thread", "third", "task")
    await Checkpointer(db).snapshot("thread")
    await Checkpointer(db).snapshot("thread", "third")


async def put_and_get(db: Database) -> None:
    store = Store(db)
    await store.put(PLACE, "key", {"text": "a word"})
    await store.put(PLACE, "key", {"text": "another word"}, expected_version=1)
    await store.get(PLACE, "key")
    await store.put(PLACE, "vector", {"text": "a word"}, embedding=[1.0, 2.0, 3.0])


async def append(db: Database) -> None:
    log = ThreadLog(db)
    await log.append("thread", [{"n": 1}, {"n": 2}])
    await log.append("thread", [{"n": 3}], expected_version=1)
    await log.append("thread", [{"n": 4}], keys=["four"])


async def search_in_one_namespace(db: Database) -> None:
    await put_and_get(db)
    await Store(db).search(PLACE, "word")
    await Store(db).search(PLACE, "another word")
    await Store(db).search(PLACE, embedding=[1.0, 2.0, 3.0])


OPERATIONS = [save, load, pending_writes, put_and_get, append, search_in_one_namespace]
ONCE = ("database.", "protection.key_registry.", "search._vector_statements.vector_")
"""The beginnings of the names of statements that a process sends once: what the server is, how the
tenants are walled, the keys of a tenant, and how vectors are stored.
"""


@pytest.fixture(scope="module")
def url(citus: Citus) -> Iterator[str]:
    name = citus.create_database()

    async def migrate() -> None:
        db = Database(citus.url(name))
        await db.migrate()
        await db.close()

    asyncio.run(migrate())
    citus.distribute(name)
    yield citus.url(name)
    citus.drop_database(name)


@pytest.fixture
def sent() -> Iterator[list[StatementEvent]]:
    found: list[StatementEvent] = []
    end = subscribe_statements(found.append)
    yield found
    end()


def name_of(statement: object) -> str | None:
    return next(
        (
            family.name
            for family in REGISTRY.values()
            for built in family._built.values()
            if built is statement
        ),
        None,
    )


@pytest.mark.parametrize("operation", OPERATIONS, ids=lambda one: one.__name__)
async def test_every_statement_goes_to_one_node(
    url: str, sent: list[StatementEvent], operation: Callable[[Database], Awaitable[None]]
) -> None:
    async with Database(url, tenant=operation.__name__) as db:
        await operation(db)
    statements: dict[Any, str] = {
        event.statement: name
        for event in sent
        if event.statement is not None and (name := name_of(event.statement)) is not None
    }
    assert statements
    connection = await asyncpg.connect(url)
    try:
        plans = [
            await explain(connection, golden.dialect("postgresql"), statement, name)
            for statement, name in statements.items()
            if not name.startswith(ONCE)
        ]
    finally:
        await connection.close()

    assert {plan.name: plan.text for plan in plans if not plan.is_routed} == {}


@pytest.mark.parametrize("operation", OPERATIONS, ids=lambda one: one.__name__)
async def test_the_first_operation_of_a_process_knows_where_it_is(
    url: str, sent: list[StatementEvent], operation: Callable[[Database], Awaitable[None]]
) -> None:
    db = Database(url, tenant=f"first-{operation.__name__}")  # not opened before

    await operation(db)

    assert db.dialect.distributed
    began = False
    for event in sent:
        began = (began or event.sql == "BEGIN") and event.sql != "COMMIT"
        if event.sql.startswith(("INSERT", "UPDATE", "DELETE")):
            assert began, "a write is alone"
        if event.statement is not None:
            routed = built_for(db.dialect, event.statement)
            assert golden.text_of(routed, "citus") == golden.text_of(event.statement, "citus")
    await db.close()
