"""Saves on distributed tables: few statements, each by the shortest way, and right counts."""

from __future__ import annotations

from observed import verbs
from sqlalchemy import text

from memalchemy import Checkpointer, Database
from memalchemy.verify import verify
from servers import Citus


async def ordinals(db: Database, thread: str) -> tuple[int, list[int]]:
    """Return the number that a head has counted to, and the numbers of its checkpoints."""
    head = text("SELECT log_id, last_ordinal FROM threads WHERE thread_id = :thread")
    those = text("SELECT ordinal FROM checkpoints WHERE log_id = :log ORDER BY ordinal")
    async with db.transaction() as connection:
        log, counted = (await connection.execute(head, {"thread": thread})).one()
        return counted, list((await connection.execute(those, {"log": log})).scalars())


async def test_a_save_behind_a_head_that_this_process_wrote_looks_nothing_up(
    distributed_url: str,
) -> None:
    async with Database(distributed_url) as db:
        checkpointer = Checkpointer(db)
        await checkpointer.save({"messages": ["one"]}, "thread", "c1")
        with verbs() as sent:
            await checkpointer.save({"messages": ["one", "two"]}, "thread", "c2")
            assert sent == ["UPDATE", "INSERT", "INSERT"]
        await checkpointer.put_writes([("messages", "three")], "thread", "c2", "task")
        with verbs() as sent:
            await checkpointer.save(
                {"messages": ["one", "two", "three"]}, "thread", "c3", expected_parent="c2"
            )
            assert sent == ["UPDATE", "INSERT", "INSERT"]
        assert await checkpointer.load("thread") == {"messages": ["one", "two", "three"]}
        assert (await verify(db)).ok


async def test_a_save_behind_another_head_looks_at_its_base_alone(distributed_url: str) -> None:
    async with Database(distributed_url) as db, Database(distributed_url) as other:
        checkpointer = Checkpointer(db)
        await checkpointer.save({"messages": ["one"]}, "thread", "c1")
        await Checkpointer(other).put_writes([("messages", "two")], "thread", "c1", "task")
        with verbs() as sent:
            await checkpointer.save({"messages": ["one", "two"]}, "thread")
            assert sent == ["UPDATE", "SELECT", "UPDATE", "INSERT", "INSERT"]
        await Checkpointer(other).save({"messages": []}, "thread")
        await checkpointer.save({"messages": ["one", "two", "four"]}, "thread")
        assert await checkpointer.load("thread") == {"messages": ["one", "two", "four"]}
        assert (await verify(db)).ok


async def test_a_save_is_not_based_on_a_state_of_another_history(
    distributed_url: str, cluster: Citus, name: str
) -> None:
    """A standby has taken over that did not have the last save, and its id was used again."""
    async with Database(distributed_url) as db:
        lost = Checkpointer(db)
        await lost.save({"n": list(range(50))}, "thread", "c1")
        tables = ("threads", "checkpoints", "deltas")
        for table in tables:
            cluster.execute(f"CREATE TABLE standby_{table} AS SELECT * FROM {table}", name)
        await lost.save({"n": [*range(50), "lost"]}, "thread", "c2")
        for table in reversed(tables):
            cluster.execute(f"DELETE FROM {table}", name)
        for table in tables:
            cluster.execute(f"INSERT INTO {table} SELECT * FROM standby_{table}", name)
        async with Database(distributed_url) as survivor:
            await Checkpointer(survivor).save({"n": [*range(50), "kept"]}, "thread", "c2")

        after = {"n": [*range(50), "lost", "later"]}
        await lost.save(after, "thread", "c3")
        assert await lost.load("thread") == after
        assert await lost.load("thread", "c2") == {"n": [*range(50), "kept"]}
        assert (await verify(db)).ok


async def test_a_checkpoint_that_is_saved_again_is_counted_once(distributed_url: str) -> None:
    async with Database(distributed_url) as db, Database(distributed_url) as other:
        for number in range(3):
            await Checkpointer(db).save({"n": number}, "thread", f"c{number}")
        await Checkpointer(other).save({"n": 10}, "thread", "c1")
        await Checkpointer(db).save({"n": 3}, "thread", "c3")

        assert await ordinals(db, "thread") == (4, [1, 2, 3, 4])
        assert await Checkpointer(db).load("thread", "c1") == {"n": 10}
