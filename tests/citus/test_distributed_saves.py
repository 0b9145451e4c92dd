"""Saves on distributed tables: few statements, each by the shortest way, and right counts."""

from __future__ import annotations

from sqlalchemy import text

from memalchemy import Checkpointer, Database
from memalchemy.events import StatementEvent, subscribe_statements


async def ordinals(db: Database, thread: str) -> tuple[int, list[int]]:
    """Return the number that a head has counted to, and the numbers of its checkpoints."""
    head = text("SELECT log_id, last_ordinal FROM threads WHERE thread_id = :thread")
    those = text("SELECT ordinal FROM checkpoints WHERE log_id = :log ORDER BY ordinal")
    async with db.transaction() as connection:
        log, counted = (await connection.execute(head, {"thread": thread})).one()
        return counted, list((await connection.execute(those, {"log": log})).scalars())


async def test_a_save_looks_at_its_base_alone(distributed_url: str) -> None:
    async with Database(distributed_url) as db:
        checkpointer = Checkpointer(db)
        await checkpointer.save({"messages": ["one"]}, "thread")
        told: list[StatementEvent] = []
        unsubscribe = subscribe_statements(told.append)
        await checkpointer.save({"messages": ["one", "two"]}, "thread")
        unsubscribe()

        sent = [event.sql.split()[0] for event in told if event.statement is not None]
        assert sent == ["SELECT", "UPDATE", "INSERT", "INSERT"]


async def test_a_checkpoint_that_is_saved_again_is_counted_once(distributed_url: str) -> None:
    async with Database(distributed_url) as db, Database(distributed_url) as other:
        for number in range(3):
            await Checkpointer(db).save({"n": number}, "thread", f"c{number}")
        await Checkpointer(other).save({"n": 10}, "thread", "c1")
        await Checkpointer(db).save({"n": 3}, "thread", "c3")

        assert await ordinals(db, "thread") == (4, [1, 2, 3, 4])
        assert await Checkpointer(db).load("thread", "c1") == {"n": 10}
