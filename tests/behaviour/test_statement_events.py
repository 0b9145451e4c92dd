"""Subscribers are told of every statement that memalchemy sends, on every road, and of no value."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
from sqlalchemy import text
from sqlalchemy.ext.asyncio import AsyncSession

from memalchemy import Checkpointer, Database, Store, events
from memalchemy.database import READ
from memalchemy.errors import StatementFailed
from memalchemy.statements import Program

SECRET = "a value that nobody is told"


@pytest.fixture
def seen() -> Iterator[list[events.StatementEvent]]:
    statements: list[events.StatementEvent] = []
    unsubscribe = events.subscribe_statements(statements.append)
    yield statements
    unsubscribe()


def tables_written(seen: list[events.StatementEvent]) -> set[str]:
    tables = ("threads", "checkpoints", "deltas", "store_items")
    return {
        t
        for t in tables
        for e in seen
        if any(f"{verb} {t}" in e.sql for verb in ("INTO", "UPDATE"))
    }


async def work(db: Database, connection: Any = None) -> None:
    await Checkpointer(db).save({"n": SECRET}, "trip", "c1", connection=connection)
    assert await Checkpointer(db).load("trip", connection=connection) == {"n": SECRET}
    await Store(db).put(("n",), SECRET, {"n": SECRET}, connection=connection)


@pytest.mark.parametrize(
    "road",
    [
        "alone",
        "transaction",
        pytest.param(
            "session", marks=pytest.mark.asyncio_only("an AsyncSession has no other face")
        ),
    ],
)
async def test_statements_are_told_on_every_road(
    db: Database, seen: list[events.StatementEvent], road: str
) -> None:
    if road == "alone":
        await work(db)
    else:
        async with db.transaction() as tx:
            await work(db, AsyncSession(tx) if road == "session" else tx)

    assert tables_written(seen) == {"threads", "checkpoints", "deltas", "store_items"}
    assert any(e.sql.lstrip().startswith(("SELECT", "WITH")) for e in seen)
    assert not any(SECRET in e.sql for e in seen)
    assert {e.database for e in seen} == {db.dialect.sqlalchemy_name}
    assert all(e.seconds >= 0 and e.error is None for e in seen)


async def test_a_statement_that_fails_is_told_with_its_error(
    db: Database, seen: list[events.StatementEvent]
) -> None:
    def wrong() -> Program[Any]:
        return (yield text("SELEC nothing"), None)

    with pytest.raises(StatementFailed):
        await db.run(wrong, READ)

    (failed,) = [e for e in seen if e.error is not None]
    assert "SELEC" in failed.sql


async def test_statements_of_migrations_are_told(
    database_url: str, seen: list[events.StatementEvent]
) -> None:
    async with Database(database_url, migrate="off") as db:
        await db.migrate()

    assert any("CREATE TABLE deltas" in e.sql for e in seen)


async def test_who_has_unsubscribed_is_told_nothing(db: Database) -> None:
    statements: list[events.StatementEvent] = []
    unsubscribe = events.subscribe_statements(statements.append)
    unsubscribe()

    await work(db)

    assert statements == []


async def test_a_subscriber_that_raises_breaks_nothing(db: Database) -> None:
    def broken(event: events.StatementEvent) -> None:
        raise RuntimeError("a subscriber's own")

    unsubscribe = events.subscribe_statements(broken)
    try:
        await work(db)
    finally:
        unsubscribe()
