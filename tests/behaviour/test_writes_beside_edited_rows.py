"""An edit at rest steers no write, and no read that another test does not make.

`test_jobs_beside_edits_at_rest` and `test_reads_of_edited_rows` generate edits; these are those
that they do not make, found by asking of each statement what proves the rows that it returns.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from sqlalchemy import Table, delete, select, update

from memalchemy import Checkpointer, Conversation, Corrupt, Database, Store, ThreadLog
from memalchemy.cli.checkpoint_references import find_checkpoint, find_entry
from memalchemy.codec.secret_keys import generate_key
from memalchemy.inspection import Inspector
from memalchemy.schema import Base
from memalchemy.store.jsonl import export_items
from memalchemy.words import rebuild_words

pytestmark = [pytest.mark.own_signing_keys, pytest.mark.own_keys]

KEY = generate_key()
LONG_AGO = datetime(2020, 1, 1, tzinfo=UTC)


@pytest.fixture
def opened(database_url: str) -> Callable[[], Database]:
    """Opens the database as another process would."""
    return lambda: Database(database_url, migrate="off", signing_keys=[KEY])


def table(name: str) -> Table:
    return Base.metadata.tables[name]


async def changed(db: Database, statement: Any) -> None:
    """Execute a statement as somebody would who has the database and no key."""
    assert await db.run_sync(lambda connection: connection.execute(statement).rowcount) == 1


async def key_of_log(db: Database, thread_id: str, namespace: str) -> Any:
    heads = table("threads")
    one = select(heads.c.log_id).where(heads.c.thread_id == thread_id)
    one = one.where(heads.c.namespace == namespace)
    return await db.run_sync(lambda connection: connection.execute(one).scalar_one())


def of(name: str, **key: Any) -> list[Any]:
    return [table(name).c[column] == value for column, value in key.items()]


async def fill(db: Database) -> None:
    await db.migrate()
    checkpointer = Checkpointer(db)
    for path in ((), ("graph",)):
        for step in range(3):
            at = LONG_AGO + timedelta(days=step)
            saver = Checkpointer(db, namespace=path)
            await saver.save({"words": f"lighthouse {step}"}, "t", f"c{step}", occurred_at=at)
    await checkpointer.save({"n": 1}, "other")
    times = [LONG_AGO + timedelta(days=day) for day in range(3)]
    await ThreadLog(db).append(
        "l", ["one", "two", "three"], keys=["a", "b", "c"], occurred_at=times
    )
    conversation = Conversation(db, "talk")
    for number in range(6):
        await conversation.add({"role": "user", "content": f"message {number}"})
    await conversation.set_summary("the first summary", summarized=2)
    await conversation.set_summary("the second summary", summarized=4)
    store = Store(db)
    await store.put(("users",), "ada", {"likes": "tea"}, embedding=[1.0, 0.5])
    await store.put(("users",), "bob", {"likes": "tea"}, embedding=[0.5, 1.0])


async def move_an_entry_key(db: Database) -> None:
    log_id = await key_of_log(db, "l", "/log/")
    rows = of("deltas", log_id=log_id, entry_key="b")
    await changed(db, update(table("deltas")).where(*rows).values(entry_key="new"))


async def remove_an_entry(db: Database) -> None:
    log_id = await key_of_log(db, "l", "/log/")
    await changed(db, delete(table("deltas")).where(*of("deltas", log_id=log_id, entry_key="b")))


async def move_an_entry(db: Database) -> None:
    log_id = await key_of_log(db, "l", "/log/")
    rows = of("deltas", log_id=log_id, entry_key="b")
    await changed(db, update(table("deltas")).where(*rows).values(seq=9))


async def postpone_an_entry(db: Database) -> None:
    log_id = await key_of_log(db, "l", "/log/")
    rows = of("deltas", log_id=log_id, entry_key="b")
    later = datetime.now(UTC) + timedelta(days=1)
    await changed(db, update(table("deltas")).where(*rows).values(occurred_at=later))


async def remove_a_checkpoint(db: Database) -> None:
    log_id = await key_of_log(db, "t", "/")
    rows = of("checkpoints", log_id=log_id, checkpoint_id="c1")
    await changed(db, delete(table("checkpoints")).where(*rows))


async def postpone_a_checkpoint(db: Database, checkpoint_id: str = "c1") -> None:
    log_id = await key_of_log(db, "t", "/")
    rows = of("checkpoints", log_id=log_id, checkpoint_id=checkpoint_id)
    later = datetime.now(UTC) + timedelta(days=1)
    await changed(db, update(table("checkpoints")).where(*rows).values(occurred_at=later))


async def edit_words(db: Database) -> None:
    log_id = await key_of_log(db, "t", "/")
    rows = of("deltas", log_id=log_id, seq=2)
    words = "lighthouse forged"
    await changed(db, update(table("deltas")).where(*rows).values(search_text=words))


async def delete_a_log(db: Database) -> None:
    rows = of("threads", thread_id="t", namespace="/graph/")
    await changed(db, update(table("threads")).where(*rows).values(deleted_at=LONG_AGO))


async def end_a_log(db: Database) -> None:
    rows = of("threads", thread_id="l", namespace="/log/")
    await changed(db, update(table("threads")).where(*rows).values(expires_at=LONG_AGO))


async def bring_back_a_version(db: Database) -> None:
    assert await Store(db).put(("users",), "bob", "of another writer") == 2
    rows = of("store_items", key="bob")
    await changed(db, update(table("store_items")).where(*rows).values(version=1))


async def end_an_item(db: Database) -> None:
    rows = of("store_items", key="bob")
    await changed(db, update(table("store_items")).where(*rows).values(expires_at=LONG_AGO))


async def delete_a_log_of_entries(db: Database) -> None:
    rows = of("threads", thread_id="l", namespace="/log/")
    await changed(db, update(table("threads")).where(*rows).values(deleted_at=LONG_AGO))


async def end_a_thread(db: Database) -> None:
    rows = of("threads", thread_id="t", namespace="/")
    await changed(db, update(table("threads")).where(*rows).values(expires_at=LONG_AGO))


async def remove_the_newest_summary(db: Database) -> None:
    log_id = await key_of_log(db, "talk", "/conversation/summary/")
    await changed(db, delete(table("deltas")).where(*of("deltas", log_id=log_id)))


async def remove_a_vector(db: Database) -> None:
    await changed(db, delete(table("embeddings")).where(*of("embeddings", key="ada")))


async def exported(db: Database) -> list[Any]:
    return [item async for item in export_items(Store(db), ("users",), vectors=True)]


async def batch(db: Database, *items: tuple[str, Any]) -> bool:
    await Store(db).put_batch([(("users",), key, value) for key, value in items])
    return True


AT = "@2020-01-02T12:00:00"
Call = Callable[[Database], Awaitable[Any]]
CASES: dict[str, tuple[Call, Call]] = {
    "an append of a key that was moved": (
        move_an_entry_key,
        lambda db: ThreadLog(db).append("l", ["new"], keys=["new"]),
    ),
    "an append of it and of another": (
        move_an_entry_key,
        lambda db: ThreadLog(db).append("l", ["new", "newer"], keys=["new", "newer"]),
    ),
    "a fork of a log without an entry": (remove_an_entry, lambda db: ThreadLog(db).fork("l")),
    "a fork up to an entry that was moved": (move_an_entry, lambda db: ThreadLog(db).fork("l", 3)),
    "a fork of a log that was ended": (end_a_log, lambda db: ThreadLog(db).fork("l")),
    "a fork of a thread without a checkpoint": (
        remove_a_checkpoint,
        lambda db: Checkpointer(db).fork("t"),
    ),
    "a copy of a thread without a checkpoint": (
        remove_a_checkpoint,
        lambda db: Checkpointer(db).copy_thread("t", "copy"),
    ),
    "a copy of a thread of which a log was deleted": (
        delete_a_log,
        lambda db: Checkpointer(db).copy_thread("t", "copy"),
    ),
    "a checkpoint at a time": (
        postpone_a_checkpoint,
        lambda db: find_checkpoint(Checkpointer(db), "t", AT),
    ),
    "an entry at a time": (postpone_an_entry, lambda db: find_entry(ThreadLog(db), "l", AT)),
    "a conversation without its summary": (
        remove_the_newest_summary,
        lambda db: Conversation(db, "talk").messages(),
    ),
    "a search of the inspector that finds a checkpoint": (
        lambda db: postpone_a_checkpoint(db, "c0"),
        lambda db: Inspector(db).search("lighthouse", kinds=["step"]),
    ),
    "one that finds it by words that were edited": (
        edit_words,
        lambda db: Inspector(db).search("lighthouse forged", kinds=["step"]),
    ),
    "an export of vectors": (remove_a_vector, exported),
    "a put if a version is there": (
        bring_back_a_version,
        lambda db: Store(db).put(("users",), "bob", "replaced", expected_version=1),
    ),
    "a deletion if a version is there": (
        bring_back_a_version,
        lambda db: Store(db).delete(("users",), "bob", expected_version=1),
    ),
    "a put of an item that was ended": (
        end_an_item,
        lambda db: Store(db).put(("users",), "bob", "anew"),
    ),
    "a batch of it": (end_an_item, lambda db: batch(db, ("bob", "anew"))),
    "a batch of it and of another": (
        end_an_item,
        lambda db: batch(db, ("ada", "anew"), ("bob", "anew"), ("new", 1)),
    ),
    "a pop of a log that was deleted": (
        delete_a_log_of_entries,
        lambda db: ThreadLog(db).pop("l"),
    ),
    "a removal from it": (delete_a_log_of_entries, lambda db: ThreadLog(db).remove("l", [1])),
    "a clearing of it": (delete_a_log_of_entries, lambda db: ThreadLog(db).clear("l")),
    "a deletion of a checkpoint of a thread that was ended": (
        end_a_thread,
        lambda db: Checkpointer(db).delete("t", "c0"),
    ),
    "a deletion of some": (
        end_a_thread,
        lambda db: Checkpointer(db).delete_checkpoints("t", ["c0"]),
    ),
}


@pytest.mark.parametrize("case", CASES)
async def test_an_edit_is_refused(opened: Callable[[], Database], case: str) -> None:
    edit, call = CASES[case]
    async with opened() as db:
        await fill(db)
        await edit(db)
    async with opened() as db:
        before = await db.run_sync(rows_there)
        with pytest.raises(Corrupt):
            await call(db)
        assert await db.run_sync(rows_there) == before


@pytest.mark.parametrize("case", CASES)
async def test_without_the_edit_it_is_done(opened: Callable[[], Database], case: str) -> None:
    async with opened() as db:
        await fill(db)
    async with opened() as db:
        assert await CASES[case][1](db)


def rows_there(connection: Any) -> dict[str, int]:
    return {
        name: len(connection.execute(select(*one.primary_key)).all())
        for name, one in Base.metadata.tables.items()
        if name in ("threads", "checkpoints", "deltas", "store_items")
    }


async def test_words_are_not_rebuilt_by_a_log_without_a_checkpoint(
    opened: Callable[[], Database],
) -> None:
    async with opened() as db:
        await db.migrate()
        saver = Checkpointer(db, index_text=False)
        for step in range(3):
            words = " ".join(f"word{number}" for number in range(step + 1))
            await saver.save({"words": words}, "t", f"c{step}")
        rows = of("checkpoints", checkpoint_id="c1")
        await changed(db, delete(table("checkpoints")).where(*rows))
    async with opened() as db:
        report = await rebuild_words(db, all_namespaces=True)
        texts = await db.run_sync(
            lambda connection: connection.execute(select(table("deltas").c.search_text)).all()
        )
    assert (report.states, report.left) == (0, 2)
    assert {row.search_text for row in texts} == {None}
