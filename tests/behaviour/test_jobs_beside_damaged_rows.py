"""A row that somebody has edited stops no job: it is left, named, and the others are done.

The edits are generated: each column of a row that a job looks at gets values of each sort.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
from edited_rows import EDITED, Files, fill, is_whole
from sqlalchemy import Connection, text

from lifetimes import MOMENT
from memalchemy import Checkpointer, ConversationStore, Corrupt, Database, Store
from memalchemy.codec.secret_keys import generate_key
from memalchemy.conversations import RetainedCheckpointer
from memalchemy.errors import MemalchemyError
from memalchemy.signing import sign
from memalchemy.words import rebuild_words

pytestmark = [pytest.mark.own_signing_keys, pytest.mark.own_keys]

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


async def left(db: Database) -> dict[str, set[tuple[Any, ...]]]:
    """The rows of a tenant in each table that are there, by what names them."""

    def read(connection: Connection) -> dict[str, set[tuple[Any, ...]]]:
        queries = {
            "checkpoints": "SELECT checkpoint_id FROM checkpoints WHERE true",
            "store_items": "SELECT key FROM store_items WHERE namespace = '/old/'",
            "deltas": "SELECT entry_key FROM deltas WHERE entry_key LIKE 'said %'",
        }
        of_tenant = f" AND tenant = '{db.tenant}'"
        return {
            name: {tuple(row) for row in connection.execute(text(query + of_tenant))}
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
    files = Files(tmp_path, {"signing_keys": [generate_key()]} if signed else {})
    await files.make()
    files.restore()
    async with files.opened() as db:
        before = await left(db)
        await job(db)
        wanted = await left(db)
        assert before != wanted, "the job has something to do"
    tried = 0
    for table in tables:
        async for edit in files.each(table):
            if name in SAVES and edit.column == "signature" and not signed:
                continue
            tried += 1
            async with files.opened() as db:
                told = await error_of(job(db))
                now = await left(db)
            assert of_others(now) == of_others(wanted), f"{edit}: {told!r}"
            more = set().union(*((now[one] - wanted[one]) & before[one] for one in now))
            if more and edit.column not in STEERING:
                assert isinstance(told, Corrupt), f"{edit}: {more} were left in silence"
    assert tried > 20


UNREADABLE = {
    "threads": {"meta": "'[1]'", "thread_id": "'\x1bu{ffffffff}' || thread_id"},
    "checkpoints": {"meta": "'[1]'", "checkpoint_id": "'\x1bu{ffffffff}' || checkpoint_id"},
    "store_items": {"meta": "'[1]'", "key": "'\x1bu{ffffffff}' || key"},
}
"""By table, values that every database takes, and that memalchemy's types do not read: metadata
that is no object, and ids with an escape of nothing.
"""


@pytest.mark.parametrize("name", JOBS)
async def test_the_others_are_done_beside_a_row_that_no_type_reads(db: Database, name: str) -> None:
    job, tables = JOBS[name]
    whole = db.for_tenant(f"{db.tenant}-whole")
    await fill(whole)
    await job(whole)
    wanted = of_others(await left(whole))
    made = [(one, *edit) for one in tables for edit in UNREADABLE.get(one, {}).items()]
    for table, column, value in made:
        edited = db.for_tenant(f"{db.tenant}-{table}-{column}")
        await fill(edited)
        rows = f"tenant = '{edited.tenant}' AND {EDITED[table]}"
        change = text(f"UPDATE {table} SET {column} = {value} WHERE {rows}")
        changed = await edited.run_sync(lambda connection, sql=change: connection.execute(sql))
        assert changed.rowcount
        told = await error_of(job(edited))
        assert of_others(await left(edited)) == wanted, f"{table}.{column} = {value}: {told!r}"


@pytest.mark.parametrize("table", EDITED)
async def test_the_others_are_signed_beside_an_edited_row(tmp_path: Path, table: str) -> None:
    old, new = generate_key(), generate_key()
    files, tried = Files(tmp_path, {"signing_keys": [old]}), 0
    await files.make()
    async for edit in files.each(table):
        tried += 1
        async with files.opened(signing_keys=[new, old]) as db:
            report = await sign(db)
        if edit.column in COVERED:
            assert report.refused, edit
        async with files.opened(signing_keys=[new]) as db:
            for name in "ac":
                assert await is_whole(db, name), edit
    assert tried > 20


@pytest.mark.parametrize("signed", [False, True], ids=["plain", "signed"])
@pytest.mark.parametrize("table", EDITED)
async def test_the_words_of_others_are_rebuilt_beside_an_edited_row(
    tmp_path: Path, table: str, signed: bool
) -> None:
    keys: dict[str, Any] = {"signing_keys": [generate_key()]} if signed else {}
    files, tried = Files(tmp_path, keys | {"keys": [generate_key()], "readable": ("vectors",)}), 0
    await files.make()
    allowed = {"readable": ("text", "fields", "vectors")}
    files.restore()
    async with files.opened(**allowed) as db:
        assert not await db.run_sync(words_of_others)
        await rebuild_words(db, all_namespaces=True)
        wanted = await db.run_sync(words_of_others)
        assert len(wanted) == 20
    async for edit in files.each(table):
        tried += 1
        async with files.opened(**allowed) as db:
            report = await rebuild_words(db, all_namespaces=True)
            assert await db.run_sync(words_of_others) == wanted, f"{edit}: {report}"
            for name in "ac":
                assert await is_whole(db, name), edit
            if not signed and edit.column in ("payload", "value"):
                assert report.damaged == report.left > 0, f"{edit}: {report}"
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


def words_of_others(connection: Connection) -> set[tuple[Any, ...]]:
    """Return the search texts of rows that are not edited, with what names the rows."""
    logs = (
        "SELECT thread_id, seq, search_text FROM deltas JOIN threads USING (log_id) "
        "WHERE (thread_id LIKE '%a' OR thread_id LIKE '%c') AND search_text IS NOT NULL"
    )
    items = (
        "SELECT namespace, key, search_text FROM store_items "
        "WHERE key IN ('a', 'c') AND search_text IS NOT NULL"
    )
    found = connection.exec_driver_sql(f"{logs} UNION ALL {items}")
    return {tuple(row) for row in found}


async def error_of(job: Awaitable[Any]) -> MemalchemyError | None:
    try:
        await job
    except MemalchemyError as error:
        return error
    return None
