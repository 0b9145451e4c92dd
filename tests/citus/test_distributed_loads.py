"""Loads on distributed tables: by key where the process knows the newest checkpoint."""

from __future__ import annotations

import pytest
from observed import verbs
from sqlalchemy import text

from memalchemy import Checkpointer, Corrupt, Database

STATES = [{"messages": [f"message {m}" for m in range(n)]} for n in range(1, 30)]


async def saved(db: Database) -> Checkpointer:
    checkpointer = Checkpointer(db)
    for state in STATES:
        await checkpointer.save(state, "thread")
    return checkpointer


async def test_what_this_process_has_saved_or_loaded_is_read_by_key(distributed_url: str) -> None:
    async with Database(distributed_url) as db, Database(distributed_url) as other:
        checkpointer = await saved(db)
        with verbs() as sent:
            assert await checkpointer.load("thread") == STATES[-1]
            assert sent == ["SELECT", "SELECT"]
        reader = Checkpointer(other)
        with verbs() as sent:
            assert await reader.load("thread") == STATES[-1]
            assert await reader.load("thread") == STATES[-1]
            assert sent == ["WITH", "SELECT", "SELECT"]


async def test_what_others_have_done_since_is_seen(distributed_url: str) -> None:
    async with Database(distributed_url) as db, Database(distributed_url) as other:
        checkpointer = await saved(db)
        others = Checkpointer(other)

        await others.save({"n": 1}, "thread")
        assert await checkpointer.load("thread") == {"n": 1}
        await others.put_writes([("n", 2)], "thread", "unsaved", "task")
        assert await checkpointer.load("thread") == {"n": 1}
        await others.delete("thread")
        assert await checkpointer.load("thread") is None
        await others.save({"n": 3}, "thread")
        assert await checkpointer.load("thread") == {"n": 3}


@pytest.mark.parametrize(
    "damage", ["payload = 'x'", "checksum = checksum + 1", "payload = 'x', checksum = 7"]
)
async def test_a_damaged_row_is_told_though_the_process_knows_what_it_was(
    distributed_url: str, damage: str
) -> None:
    async with Database(distributed_url) as db:
        checkpointer = await saved(db)
        async with db.transaction() as connection:
            await connection.execute(text(f"UPDATE deltas SET {damage}"))
        with pytest.raises(Corrupt):
            await checkpointer.load("thread")


async def test_a_missing_row_is_told(distributed_url: str) -> None:
    async with Database(distributed_url) as db:
        checkpointer = await saved(db)
        async with db.transaction() as connection:
            await connection.execute(text("DELETE FROM deltas WHERE base_seq IS NULL"))
        with pytest.raises(Corrupt):
            await checkpointer.load("thread")


async def test_the_same_id_of_another_history_is_read(distributed_url: str) -> None:
    """A standby has taken over that did not have the last save, and its id was used again."""
    async with Database(distributed_url) as db, Database(distributed_url) as other:
        checkpointer = Checkpointer(db)
        await checkpointer.save({"n": [*range(50)]}, "thread", "c1")
        await checkpointer.save({"n": [*range(50), "lost"]}, "thread", "c2")
        async with other.transaction() as connection:
            for sql in (
                "DELETE FROM checkpoints WHERE checkpoint_id = 'c2'",
                "DELETE FROM deltas WHERE seq = 2",
                "UPDATE threads SET next_seq = 2, version = 1, last_ordinal = 1, "
                "head_id = 'c1', previous_id = NULL",
            ):
                await connection.execute(text(sql))
        await Checkpointer(other).save({"n": [*range(50), "kept"]}, "thread", "c2")

        assert await checkpointer.load("thread") == {"n": [*range(50), "kept"]}
