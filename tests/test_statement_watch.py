"""The watch over the registry sees what the library sends, and complains when it should."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
from sqlalchemy import literal, select, text, update

from golden.watch import Watch
from memalchemy import Checkpointer, Database
from memalchemy.database import READ
from memalchemy.log.scan import run_query
from memalchemy.log.tables import THREADS
from memalchemy.statements import Program


@pytest.fixture
def watch() -> Iterator[Watch]:
    with Watch() as watching:
        yield watching


async def test_registered_statements_are_seen_and_pass(
    checkpointer: Checkpointer, watch: Watch
) -> None:
    await checkpointer.save({"a": "word"}, "thread", "one", {"k": 1})
    await checkpointer.load("thread", "one")
    await checkpointer.search("word")
    await checkpointer.delete("thread")

    assert not watch.complaints
    assert "checkpoints.load.read_chain{'signed': False, 'which': 'named'}" in watch.seen
    assert any(name.startswith("search.text.search_checkpoints{") for name in watch.seen)
    assert "log.delete.leave_tombstones{}" in watch.seen
    saved = {name for name in watch.seen if name.startswith(("log.append.", "log.one_statement."))}
    assert saved, "no statement of a save was seen"


async def test_an_unregistered_statement_of_the_library_is_complained_about(
    db: Database, watch: Watch
) -> None:
    # It is a program of the library that sends whatever it is given.
    await run_query(db, select(literal(1)), {})

    (complaint,) = watch.complaints
    assert f"{run_query.__module__} sends" in complaint
    assert "not registered" in complaint


async def test_an_equal_statement_that_was_built_aside_is_not_the_registered_one(
    db: Database, watch: Watch
) -> None:
    aside = select(THREADS.c.thread_id).where(THREADS.c.tenant == "x")
    await run_query(db, aside, {})
    await run_query(db, aside, {})

    assert len(watch.complaints) == 2


async def test_a_statement_sent_past_the_programs_is_complained_about(
    db: Database, watch: Watch
) -> None:
    # Compiled under the name of a module of the library, as if it stood in it.
    namespace: dict[str, Any] = {"__name__": "memalchemy.checkpoints.wild", "text": text}
    exec("def wild(connection):\n    connection.execute(text('SELECT 1'))\n", namespace)

    await db.run_sync(namespace["wild"])

    (complaint,) = watch.complaints
    assert "memalchemy.checkpoints.wild sends statements without a program" in complaint


async def test_a_statement_whose_text_differs_from_the_golden_file_is_complained_about(
    db: Database, checkpointer: Checkpointer, watch: Watch, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("golden.watch._golden", set())  # what was compared before
    monkeypatch.setattr("golden.watch.golden_text", lambda statement, database: "SELECT other")

    await checkpointer.load("thread")

    (complaint,) = watch.complaints
    assert "not sent as it is in the golden file" in complaint


async def test_the_hosts_own_statements_are_its_own_business(
    db: Database, checkpointer: Checkpointer, watch: Watch
) -> None:
    async with db.transaction() as tx:
        await checkpointer.save({"a": 1}, "thread", connection=tx)
        await tx.execute(update(THREADS).where(THREADS.c.tenant == db.tenant).values(version=9))

    assert not watch.complaints


async def test_a_program_of_a_test_is_the_tests_own_business(db: Database, watch: Watch) -> None:
    def program() -> Program[int]:
        rows = yield select(literal(3)), None
        return int(rows[0][0])

    assert await db.run(program, READ) == 3
    assert not watch.complaints
