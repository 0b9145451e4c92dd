"""Saves into signed threads that this process has written: it looks at a log only if it must.

A save moves the head that is known, and signs the next one in the same statement.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import AsyncExitStack
from datetime import timedelta
from typing import Any

import pytest
from sqlalchemy import select, text
from sqlalchemy import update as update_of

from memalchemy import (
    Checkpointer,
    Conflict,
    Corrupt,
    Database,
    Retention,
    ThreadLog,
    events,
)
from memalchemy.codec.secret_keys import generate_key
from memalchemy.errors import MemalchemyError
from memalchemy.keys import log_key
from memalchemy.schema import ThreadRow
from memalchemy.verify import verify

pytestmark = [pytest.mark.own_signing_keys, pytest.mark.own_keys]

KEY, OTHER = generate_key(), generate_key()


@pytest.fixture
async def opened(database_url: str) -> AsyncIterator[Callable[..., Any]]:
    """Opens a database of the test's own, each time as another process would."""
    async with AsyncExitStack() as stack:

        async def open_(**settings: Any) -> Database:
            settings.setdefault("signing_keys", [KEY])
            db = Database(database_url, migrate="off", **settings)
            if not await db.current():
                await db.migrate()
            return await stack.enter_async_context(db)

        yield open_


async def verbs(save: Any) -> list[str]:
    """Return the first word of each statement that *save* sends."""
    seen: list[events.StatementEvent] = []
    unsubscribe = events.subscribe_statements(seen.append)
    await save
    unsubscribe()
    return [event.sql.split(" ", 1)[0] for event in seen]


SAVE = ("UPDATE", "INSERT", "INSERT")


async def looks_at_nothing(db: Database, write: Any, *several: str) -> bool:
    """Whether *write* sends one statement, or *several* where it is a transaction.

    Without an upsert each looks at the log first, known or not.
    """
    sent = await verbs(write)
    if db.dialect.single_statement_save:
        return sent == ["WITH"]
    looks_at_none = sent == ["BEGIN", *several, "COMMIT"]
    return looks_at_none if db.dialect.upserts else sent[0] == "BEGIN" and not looks_at_none


async def test_a_save_into_a_log_that_is_known_looks_at_nothing(opened: Callable[..., Any]) -> None:
    db = await opened()
    keep = Checkpointer(db)
    await keep.save({"n": 0}, "t")
    for n in range(1, 6):
        assert await looks_at_nothing(db, keep.save({"n": n}, "t", metadata={"n": n}), *SAVE)
    named = keep.save({"n": 6}, "t", "named", ttl=timedelta(days=1))
    assert await looks_at_nothing(db, named, *SAVE)
    assert await looks_at_nothing(db, keep.save({"n": 7}, "t", expected_parent="named"), *SAVE)

    other = Checkpointer(await opened())
    assert await other.load("t") == {"n": 7}
    assert await other.load("t", "named") == {"n": 6}
    assert (await verify(await opened())).findings == ()


@pytest.mark.parametrize("settings", [{}, {"keys": [OTHER]}], ids=["plain", "encrypted"])
async def test_a_save_after_whatever_has_happened_to_the_log_is_right(
    opened: Callable[..., Any], settings: dict[str, Any]
) -> None:
    db, elsewhere = await opened(**settings), await opened(**settings)
    keep, rival, log = Checkpointer(db), Checkpointer(elsewhere), ThreadLog(db)
    await keep.save({"n": 0}, "t", "c0")
    await rival.save({"n": 1}, "t", "c1")  # another process
    await keep.save({"n": 2}, "t", "c2")
    await keep.save({"n": 3}, "t", "c2")  # in place of what is there
    await keep.save({"n": 4}, "t", "c4")
    await keep.put_writes([("channel", "value")], "t", "c4", "task")
    await keep.save({"n": 5}, "t", "c5")
    await keep.set_thread_metadata("t", {"title": "a thread", "at": 1.0})
    await keep.save({"n": 6}, "t", "c6")
    await keep.delete("t", "c6")
    await keep.save({"n": 7}, "t", "c7")
    await keep.save({"n": 8}, "t", "c8", parent_id="c4")
    await rival.delete("t", "c8")
    await keep.save({"n": 9}, "t", "c9")
    with pytest.raises(Conflict):
        await keep.save({"n": 10}, "t", "c10", expected_parent="c7")
    async with db.transaction() as tx:
        await keep.save({"n": 11}, "t", "c11", connection=tx)
    await keep.save({"n": 12}, "t", "c12")
    await log.append("t", ["an entry of another log"])
    await keep.save({"n": 13}, "t", "c13")

    fresh = await opened(**settings)
    assert (await verify(fresh)).findings == ()
    names = [info.checkpoint_id async for info in Checkpointer(fresh).history("t")]
    assert names == ["c13", "c12", "c11", "c9", "c7", "c5", "c4", "c2", "c1", "c0"]
    for name in names:
        expected = 3 if name == "c2" else int(name[1:])
        assert await Checkpointer(fresh).load("t", name) == {"n": expected}

    await rival.delete("t")
    await keep.save({"n": 20}, "t")
    assert await Checkpointer(fresh).load("t") == {"n": 20}
    assert (await verify(fresh)).findings == ()


async def test_a_rolled_back_save_is_not_built_upon(opened: Callable[..., Any]) -> None:
    db = await opened()
    keep = Checkpointer(db)
    await keep.save({"n": 0}, "t", "c0")
    async with db.transaction() as tx:
        await keep.save({"n": 1}, "t", "c1", connection=tx)
        await tx.rollback()
    await keep.save({"n": 2}, "t", "c2")

    fresh = await opened()
    assert await Checkpointer(fresh).list_checkpoints("t") == ["c2", "c0"]
    assert (await verify(fresh)).findings == ()


CHANGED: dict[str, Any] = {
    "tenant": "eve",
    "thread_id": "u",
    "namespace": "/other/",
    "next_seq": 77,
    "version": 1,
    "last_ordinal": 9,
    "head_id": "c0",
    "previous_id": None,
    "created_at": timedelta(days=-1),
    "updated_at": timedelta(seconds=-1),
    "expires_at": timedelta(days=7),
    "meta": {"approved_by": "eve"},
    "signature": b"\x01" * 69,
}


@pytest.mark.parametrize("column", CHANGED)
async def test_a_head_that_was_edited_is_no_head_that_is_known(
    opened: Callable[..., Any], column: str
) -> None:
    db = await opened()
    keep = Checkpointer(db)
    for n in range(3):
        await keep.save({"n": n}, "t", f"c{n}", ttl=timedelta(days=1))
    this = ThreadRow.log_id == log_key("default", "t", "/")

    def job(connection: Any) -> None:
        value = CHANGED[column]
        if isinstance(value, timedelta):
            value += connection.scalar(select(getattr(ThreadRow, column)).where(this))
        connection.execute(update_of(ThreadRow).where(this).values({column: value}))

    stranger = await opened(signing_keys=None)
    await stranger.run_sync(job)

    with pytest.raises(MemalchemyError) as refused:
        await keep.save({"n": 3}, "t")
    assert isinstance(refused.value, Corrupt) or "signed" in str(refused.value)
    count = text("SELECT count(*) FROM checkpoints")
    assert await stranger.run_sync(lambda c: c.scalar(count)) == 3


async def test_of_two_who_begin_a_thread_and_prune_it_both_save(
    opened: Callable[..., Any],
) -> None:
    retention = Retention(keep_last=1)
    savers = [Checkpointer(await opened(), retention=retention) for _ in range(2)]
    for thread in map(str, range(30)):
        await asyncio.gather(*(saver.save({"n": thread}, thread) for saver in savers))

    reader = await opened()
    assert await Checkpointer(reader).count_threads() == 30
    assert (await verify(reader)).findings == ()


@pytest.mark.parametrize("settings", [{}, {"keys": [OTHER]}], ids=["plain", "encrypted"])
async def test_entries_are_appended_to_a_log_that_is_known_without_a_look(
    opened: Callable[..., Any], settings: dict[str, Any]
) -> None:
    db, elsewhere = await opened(**settings), await opened(**settings)
    log, rival = ThreadLog(db), ThreadLog(elsewhere)
    assert await log.append("t", ["e1"]) == [1]
    if db.dialect.single_statement_save or not settings:
        assert await looks_at_nothing(db, log.append("t", ["e2"]), "UPDATE", "INSERT")
    else:
        await log.append("t", ["e2"])
    assert await log.append("t", ["e3", "e4"]) == [3, 4]
    assert await rival.append("t", ["e5"]) == [5]
    assert await log.append("t", ["e6"]) == [6]
    assert await log.append("t", ["e7"], expected_version=5) == [7]
    with pytest.raises(Conflict):
        await log.append("t", ["no"], expected_version=5)
    assert await log.append("t", ["e8"], keys=["key"]) == [8]
    await log.pop("t")
    assert await log.append("t", ["e9"]) == [9]
    await log.edit("t", 3, "edited")
    assert await log.append("t", ["e10"]) == [10]

    fresh = await opened(**settings)
    expected = ["e1", "e2", "edited", "e4", "e5", "e6", "e7", "e9", "e10"]
    assert [entry.value for entry in await ThreadLog(fresh).range("t")] == expected
    assert [entry.value for entry in await ThreadLog(fresh).tail("t", 2)] == ["e9", "e10"]
    assert (await verify(fresh)).findings == ()


async def test_no_entry_is_appended_to_a_log_whose_head_was_edited(
    opened: Callable[..., Any],
) -> None:
    db = await opened()
    log = ThreadLog(db)
    await log.append("t", ["e1"])
    await log.append("t", ["e2"])
    stranger = await opened(signing_keys=None)
    edit = text('UPDATE threads SET meta = \'{"approved_by": "eve"}\'')
    await stranger.run_sync(lambda c: c.execute(edit))

    with pytest.raises(Corrupt):
        await log.append("t", ["e3"])
    count = text("SELECT count(*) FROM deltas")
    assert await stranger.run_sync(lambda c: c.scalar(count)) == 2
