"""A row that somebody has edited stops no job: it is left, named, and the others are done.

The edits are generated: each column of a row that a job looks at gets values of each sort.
"""

from __future__ import annotations

import shutil
from collections.abc import Awaitable, Callable
from contextlib import suppress
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
from sqlalchemy import Connection, text
from sqlalchemy.exc import DBAPIError

from lifetimes import MOMENT
from memalchemy import Checkpointer, ConversationStore, Corrupt, Database, Store
from memalchemy.codec.keys import generate_key
from memalchemy.conversations import RetainedCheckpointer
from memalchemy.errors import MemalchemyError
from memalchemy.schema import Base
from memalchemy.signing import sign
from memalchemy.state import Message
from rows import without_checks

pytestmark = [pytest.mark.own_signing_keys, pytest.mark.own_keys]

NAMES = ("a", "b", "c")
VALUES = ("'garbage'", "x'ff'", "-5", "NULL", "'[]'", "'a'")
"""What a column is set to, as it is written in SQL. A column of SQLite takes nearly all of them."""

EDITED = {
    "threads": "thread_id IN ('b', 'expired b', 'talk b')",
    "checkpoints": "checkpoint_id IN ('b2', 'expired b', 'talk b')",
    "deltas": "log_id IN (SELECT log_id FROM threads WHERE thread_id IN ('b', 'talk b')) "
    "AND seq IN (1, 2)",
    "store_items": "key = 'b'",
}

Job = Callable[[Database], Awaitable[Any]]
JOBS: dict[str, tuple[Job, tuple[str, ...]]] = {
    "prune": (
        lambda db: Checkpointer(db).prune(keep_last=1, all_namespaces=True),
        ("threads", "checkpoints"),
    ),
    "vacuum": (
        lambda db: Checkpointer(db).vacuum(None, all_namespaces=True),
        ("threads", "checkpoints"),
    ),
    "sweep": (lambda db: Store(db).sweep(), ("store_items",)),
    "forget threads": (
        lambda db: Checkpointer(db).forget(metadata={"of": "a thread"}),
        ("threads", "checkpoints"),
    ),
    "forget items": (
        lambda db: Checkpointer(db).forget(metadata={"of": "an item"}),
        ("threads", "store_items"),
    ),
    "purge messages of conversations": (
        lambda db: ConversationStore(db).purge_messages(MOMENT),
        ("threads", "deltas"),
    ),
    "purge messages of states": (
        lambda db: RetainedCheckpointer(db, timedelta(days=1)).purge_messages(MOMENT, history=True),
        ("threads", "checkpoints", "deltas"),
    ),
}


async def fill(db: Database) -> None:
    agent, store = Checkpointer(db), Store(db)
    for name in NAMES:
        for step in range(4):
            await agent.save(
                {"text": f"word{step} {name}"}, name, f"{name}{step}", {"of": "a thread"}
            )
        await agent.put_writes([("channel", "x")], name, f"{name}3", "task")
        await agent.save({"n": 1}, f"expired {name}", f"expired {name}", ttl=MOMENT)
        await store.put(("old",), name, {"t": name}, {"of": "an item"}, ttl=MOMENT)
        said = [Message.user(f"said by {name}"), Message.assistant("an answer")]
        await ConversationStore(db).conversation(name).add(said, keys=[f"said {name}", None])
        talk = [{"role": "user", "content": "hello"}, {"role": "assistant", "content": "hi"}]
        await agent.save({"messages": talk}, f"talk {name}", f"talk {name}")


async def left(db: Database) -> dict[str, set[tuple[Any, ...]]]:
    """The rows of each table that are there, by what names them."""

    def read(connection: Connection) -> dict[str, set[tuple[Any, ...]]]:
        queries = {
            "checkpoints": "SELECT checkpoint_id FROM checkpoints",
            "store_items": "SELECT key FROM store_items WHERE namespace = '/old/'",
            "deltas": "SELECT entry_key FROM deltas WHERE entry_key LIKE 'said %'",
        }
        return {
            name: {tuple(row) for row in connection.execute(text(query))}
            for name, query in queries.items()
        }

    return await db.run_sync(read)


def of_others(rows: dict[str, set[tuple[Any, ...]]]) -> set[tuple[Any, ...]]:
    """Those that were not edited, nor are of an edited thread."""
    names = {
        "checkpoints": {
            *(f"{name}{n}" for name in "ac" for n in range(4)),
            "expired a",
            "expired c",
            "talk a",
            "talk c",
        },
        "store_items": {"a", "c"},
        "deltas": {"said a", "said c"},
    }
    return {(one, *row) for one, found in rows.items() for row in found if row[0] in names[one]}


@pytest.mark.parametrize("signed", [False, True], ids=["plain", "signed"])
@pytest.mark.parametrize("name", JOBS)
async def test_the_others_are_done_beside_an_edited_row(
    tmp_path: Path, name: str, signed: bool
) -> None:
    job, tables = JOBS[name]
    keys: dict[str, Any] = {"signing_keys": [generate_key()]} if signed else {}
    whole, file = tmp_path / "whole.db", tmp_path / "agent.db"
    async with Database(f"sqlite:///{whole}", migrate="upgrade", **keys) as db:
        await fill(db)

    def restored() -> Database:
        for suffix in ("", "-wal", "-shm"):
            file.with_name(file.name + suffix).unlink(missing_ok=True)
        shutil.copy(whole, file)
        return Database(f"sqlite:///{file}", migrate="off", **keys)

    async with restored() as db:
        before = await left(db)
        await job(db)
        wanted = await left(db)
        assert before != wanted, "the job has something to do"
    tried = 0
    for table in tables:
        for column in Base.metadata.tables[table].columns:
            if name in SAVES and column.name == "signature" and not signed:
                continue
            for value in VALUES:
                async with restored() as db:
                    if not await edit(db, table, column.name, value):
                        continue
                tried += 1
                where = f"{column} = {value}"
                async with Database(f"sqlite:///{file}", migrate="off", **keys) as db:
                    told = await error_of(job(db))
                    now = await left(db)
                assert of_others(now) == of_others(wanted), f"{where}: {told!r}"
                more = set().union(*((now[one] - wanted[one]) & before[one] for one in now))
                if more and column.name not in STEERING:
                    assert isinstance(told, Corrupt), f"{where}: {more} were left in silence"
    assert tried > 20


@pytest.mark.parametrize("table", EDITED)
async def test_the_others_are_signed_beside_an_edited_row(tmp_path: Path, table: str) -> None:
    old, new = generate_key(), generate_key()
    whole, file = tmp_path / "whole.db", tmp_path / "agent.db"
    async with Database(f"sqlite:///{whole}", migrate="upgrade", signing_keys=[old]) as db:
        await fill(db)
        for name in NAMES:
            await Store(db).put(("new",), name, name)
    tried = 0
    for column in Base.metadata.tables[table].columns:
        for value in VALUES:
            for suffix in ("", "-wal", "-shm"):
                file.with_name(file.name + suffix).unlink(missing_ok=True)
            shutil.copy(whole, file)
            async with Database(f"sqlite:///{file}", migrate="off", signing_keys=[old]) as db:
                if not await edit(db, table, column.name, value):
                    continue
            tried += 1
            where = f"{column} = {value}"
            keys = [new, old]
            async with Database(f"sqlite:///{file}", migrate="off", signing_keys=keys) as db:
                report = await sign(db)
            if column.name in COVERED:
                assert report.refused, where
            async with Database(f"sqlite:///{file}", migrate="off", signing_keys=[new]) as db:
                for name in "ac":
                    assert await Checkpointer(db).load(name) == {"text": f"word3 {name}"}, where
                    assert await Store(db).get(("new",), name) == name, where
    assert tried > 20


COVERED = {"version", "checkpoint_id", "payload", "signature", "value"}
"""Some of the columns of which a row says by its signature that they were edited."""

SAVES = {"purge messages of states"}
"""Jobs that save states: without keys nobody does where some rows have signatures."""

STEERING = {"tenant", "thread_id", "namespace", "key", "meta", "log_id", "seq", "field_terms"}
"""Columns whose other values name another row, or one that a job has nothing to do with. Rows that
are not signed may say so, and an index finds items by ``field_terms``, which `verify` compares."""
STEERING |= {
    "expires_at",
    "occurred_at",
    "deleted_at",
    "updated_at",
    "ordinal",
    "rests_on",
    "head_id",
    "kind",
}


async def edit(db: Database, table: str, column: str, value: str) -> bool:
    """Set a column of the row of `EDITED`; return whether the database took it."""

    def change(connection: Connection) -> int:
        with without_checks(connection, table):
            connection.exec_driver_sql("PRAGMA foreign_keys = OFF")
            sql = f"UPDATE {table} SET {column} = {value} WHERE {EDITED[table]}"
            return connection.exec_driver_sql(sql).rowcount

    with suppress(DBAPIError, MemalchemyError):
        return await db.run_sync(change) > 0
    return False


async def error_of(job: Awaitable[Any]) -> MemalchemyError | None:
    try:
        await job
    except MemalchemyError as error:
        return error
    return None
