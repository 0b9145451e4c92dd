"""Loads on distributed tables: a look where the process holds the newest checkpoint."""

from __future__ import annotations

import asyncio
import threading

import pytest
from observed import verbs
from sqlalchemy import text

from memalchemy import Checkpointer, Corrupt, Database
from memalchemy.codec.encryption import generate_key
from memalchemy.events import StatementEvent, subscribe_statements
from memalchemy.rotation import rotate_keys

STATES = [{"messages": [f"message {m}" for m in range(n)]} for n in range(1, 30)]


async def saved(db: Database) -> Checkpointer:
    checkpointer = Checkpointer(db)
    for state in STATES:
        await checkpointer.save(state, "thread")
    return checkpointer


async def test_what_this_process_has_saved_or_loaded_is_looked_at(distributed_url: str) -> None:
    async with Database(distributed_url) as db, Database(distributed_url) as other:
        checkpointer = await saved(db)
        with verbs() as sent:
            assert await checkpointer.load("thread") == STATES[-1]
            assert sent == ["SELECT"]
        reader = Checkpointer(other)
        with verbs() as sent:
            assert await reader.load("thread") == STATES[-1]
            assert await reader.load("thread") == STATES[-1]
            assert sent == ["WITH", "SELECT"]


async def test_pending_writes_leave_the_newest_what_it_is(distributed_url: str) -> None:
    async with Database(distributed_url) as db, Database(distributed_url) as other:
        checkpointer = await saved(db)
        newest = (await checkpointer.list_checkpoints("thread", limit=1))[0]
        await Checkpointer(other).put_writes([("n", 2)], "thread", newest, "task")
        with verbs() as sent:
            assert await checkpointer.load("thread") == STATES[-1]
            assert sent == ["SELECT"]


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


async def test_a_rewrite_between_the_statements_of_a_load_is_no_damage(
    distributed_url: str,
) -> None:
    async def rewrite() -> None:
        async with Database(distributed_url) as other:
            await Checkpointer(other).rewrite("thread")

    def rewrite_behind_the_look(event: StatementEvent) -> None:
        if event.sql.startswith("SELECT checkpoints.checkpoint_id") and not rewriting:
            rewriting.append(threading.Thread(target=asyncio.run, args=(rewrite(),)))
            rewriting[0].start()
            rewriting[0].join()

    rewriting: list[threading.Thread] = []
    async with Database(distributed_url) as db:
        checkpointer = Checkpointer(db, radix=32)
        for n in range(6):
            await checkpointer.save({"pad": "x" * 3000, "n": n}, "thread")
        unsubscribe = subscribe_statements(rewrite_behind_the_look)
        try:
            assert await checkpointer.load("thread") == {"pad": "x" * 3000, "n": 5}
        finally:
            unsubscribe()
    assert rewriting


async def test_rows_under_a_new_key_are_known_after_one_look(distributed_url: str) -> None:
    old, new = generate_key(), generate_key()
    async with (
        Database(distributed_url, keys=[new, old]) as db,
        Database(distributed_url, keys=[old]) as other,
    ):
        await saved(other)
        checkpointer = Checkpointer(db)
        assert await checkpointer.load("thread") == STATES[-1]
        assert (await rotate_keys(db)).left == 0
        with verbs() as sent:
            assert await checkpointer.load("thread") == STATES[-1]
            assert await checkpointer.load("thread") == STATES[-1]
            assert sent == ["SELECT", "WITH", "SELECT"]


@pytest.mark.parametrize("damage", ["checksum = checksum + 1", "payload = 'x', checksum = 7"])
async def test_a_damaged_row_is_told_though_the_process_knows_what_it_was(
    distributed_url: str, damage: str
) -> None:
    async with Database(distributed_url) as db:
        checkpointer = await saved(db)
        async with db.transaction() as connection:
            await connection.execute(text(f"UPDATE deltas SET {damage}"))
        with pytest.raises(Corrupt):
            await checkpointer.load("thread")


@pytest.mark.parametrize(
    "damage", ["DELETE FROM deltas WHERE base_seq IS NULL", "UPDATE deltas SET payload = 'x'"]
)
async def test_what_is_damaged_below_a_held_state_is_told_by_another_process(
    distributed_url: str, damage: str
) -> None:
    async with Database(distributed_url) as db, Database(distributed_url) as other:
        checkpointer = await saved(db)
        async with db.transaction() as connection:
            await connection.execute(text(damage))
        assert await checkpointer.load("thread") == STATES[-1]
        with pytest.raises(Corrupt):
            await Checkpointer(other).load("thread")


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
