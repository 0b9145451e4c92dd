"""Checks that jobs go on beside an edited row, for as many edits as a test asks for."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from datetime import timedelta
from pathlib import Path
from typing import Any

from edited_rows import VALUES, Files, is_whole
from sqlalchemy import Connection, text

from lifetimes import MOMENT
from memalchemy import Checkpointer, ConversationStore, Corrupt, Database, Store
from memalchemy.codec.secret_keys import generate_key
from memalchemy.conversations import RetainedCheckpointer
from memalchemy.errors import MemalchemyError
from memalchemy.signing import sign
from memalchemy.words import rebuild_words

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


async def check_job(
    directory: Path, name: str, *, signed: bool, values: tuple[str, ...] = VALUES
) -> int:
    """Do a job of `JOBS` once for each edit of its tables; return the number of edits.

    What was not edited is done as it is beside rows that are whole.
    """
    job, tables = JOBS[name]
    files = Files(directory, {"signing_keys": [generate_key()]} if signed else {})
    await files.make()
    files.restore()
    async with files.opened() as db:
        before = await left(db)
        await job(db)
        wanted = await left(db)
        assert before != wanted, "the job has something to do"
    tried = 0
    for table in tables:
        async for edit in files.each(table, values):
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
    return tried


async def check_signing(directory: Path, table: str, values: tuple[str, ...] = VALUES) -> int:
    """Sign a database anew once for each edit of a table; return the number of edits."""
    old, new = generate_key(), generate_key()
    files, tried = Files(directory, {"signing_keys": [old]}), 0
    await files.make()
    async for edit in files.each(table, values):
        tried += 1
        async with files.opened(signing_keys=[new, old]) as db:
            report = await sign(db)
        if edit.column in COVERED:
            assert report.refused, edit
        async with files.opened(signing_keys=[new]) as db:
            for name in "ac":
                assert await is_whole(db, name), edit
    return tried


async def check_words(
    directory: Path, table: str, *, signed: bool, values: tuple[str, ...] = VALUES
) -> int:
    """Rebuild words once for each edit of a table; return the number of edits."""
    keys: dict[str, Any] = {"signing_keys": [generate_key()]} if signed else {}
    files, tried = Files(directory, keys | {"keys": [generate_key()], "readable": ("vectors",)}), 0
    await files.make()
    allowed = {"readable": ("text", "fields", "vectors")}
    files.restore()
    async with files.opened(**allowed) as db:
        assert not await db.run_sync(words_of_others)
        await rebuild_words(db, all_namespaces=True)
        wanted = await db.run_sync(words_of_others)
        assert len(wanted) == 20
    async for edit in files.each(table, values):
        tried += 1
        async with files.opened(**allowed) as db:
            report = await rebuild_words(db, all_namespaces=True)
            assert await db.run_sync(words_of_others) == wanted, f"{edit}: {report}"
            for name in "ac":
                assert await is_whole(db, name), edit
            if not signed and edit.column in ("payload", "value"):
                assert report.damaged == report.left > 0, f"{edit}: {report}"
    return tried


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
