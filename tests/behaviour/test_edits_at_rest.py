"""No edit at rest makes a job with the key remove, replace or sign anew what nobody wanted it to.

The edits are generated: each signed column of each row of each table gets values that could steer a
job. After a job the edit is undone: nothing may be lost then, and nothing may have been signed
meanwhile that hides it.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from functools import partial
from typing import Any

import pytest
from sqlalchemy import LargeBinary, Table, select, update

from memalchemy import Checkpointer, Database, Retention, Store, ThreadLog
from memalchemy.codec.keys import generate_key
from memalchemy.codec.signed_rows import (
    CHECKPOINT,
    DELTA,
    DELTA_WORDS,
    HEAD,
    ITEM,
    ITEM_WORDS,
    VECTOR,
)
from memalchemy.errors import Conflict, Corrupt, KeyMissing, StatementFailed
from memalchemy.maintenance import sign as signing
from memalchemy.schema import Base
from memalchemy.signing import sign
from memalchemy.verify import verify

pytestmark = [pytest.mark.own_signing_keys, pytest.mark.own_keys]

KEY = generate_key()
MARK = {"mark": "evil"}
"""Metadata that nothing has, and that `forget` erases."""
GONE = "gone"
"""A checkpoint that is not there, and that is deleted."""

PLACE = ("tenant", "log_id", "seq")
SIGNED: dict[str, tuple[str, ...]] = {
    "threads": HEAD,
    "checkpoints": (*PLACE, *CHECKPOINT),
    "deltas": (*PLACE, "kind", "label", *DELTA, *DELTA_WORDS),
    "store_items": ("tenant", "namespace", "key", *ITEM, *ITEM_WORDS),
    "embeddings": ("tenant", "namespace", "key", *VECTOR),
}
"""The signed columns, from the lists by which signatures are made."""

UNSIGNED = {
    "threads": {"active_at", "epoch", "forked_from", "forked_seq", "signature"},
    "checkpoints": {"raw_size", "stored_size", "signature"},
    "deltas": {"checksum", "signature"},
    "store_items": {"checksum", "signature"},
    "embeddings": {"change", "signature", "vector"},
}
"""Columns that no signature covers, or (a vector) that are covered in another form."""


def table(name: str) -> Table:
    return Base.metadata.tables[name]


@dataclass
class Edit:
    """One column of one row, and what somebody sets it to."""

    table: str
    column: str
    row: dict[str, Any]
    """The values of its key."""
    after: Any
    before: Any = None

    def apply(self, connection: Any) -> None:
        column = table(self.table).c[self.column]
        there = connection.execute(select(column).where(*self._same(self.row))).all()
        if not there:
            raise LookupError("a state that no checkpoint needs any more was swept meanwhile")
        self.before = there[0][0]
        self._set(connection, self.row, self.after)

    def undo(self, connection: Any) -> None:
        moved = {name: self.after if name == self.column else v for name, v in self.row.items()}
        self._set(connection, moved, self.before)

    def _same(self, row: dict[str, Any]) -> list[Any]:
        return [table(self.table).c[name] == part for name, part in row.items()]

    def _set(self, connection: Any, row: dict[str, Any], value: Any) -> None:
        changing = update(table(self.table)).where(*self._same(row)).values({self.column: value})
        assert connection.execute(changing).rowcount == 1, f"{self} hits no row: it was removed"


def values_for(column: Any, before: Any) -> Iterator[Any]:
    """Yield values that could steer a job, other than the one that is there."""
    now = datetime.now(UTC)
    if column.name == "meta":
        yield {**(before or {}), **MARK}
    elif column.name.endswith("_at"):
        yield now - timedelta(days=3650)
        yield now + timedelta(days=3650)
    elif isinstance(before, bool | int) or column.name in ("overwrites", "base_seq", "lifetime"):
        yield (before or 0) + 1
        yield 12
    elif isinstance(before, bytes | bytearray | memoryview) or isinstance(column.type, LargeBinary):
        yield bytes(before) + b"\x00"
    elif isinstance(before, str) or before is None:
        yield GONE
        yield "c1"
    if column.nullable and before is not None:
        yield None


def edits_of(connection: Any, name: str) -> list[Edit]:
    """Return all edits of a table."""
    found = []
    rows = table(name)
    own = [] if name not in ("store_items", "embeddings") else [rows.c.namespace.not_like("/~%")]
    key = [column.name for column in rows.primary_key.columns]
    given = connection.execute(
        select(*(c for c in rows.c if c.name != "vector")).where(*own).order_by(*rows.primary_key)
    )
    for row in _some(given.mappings().all()):
        place = {part: row[part] for part in key}
        for column in SIGNED[name]:
            for after in values_for(rows.c[column], row[column]):
                is_signed = column != "label" or row["kind"] == "write"
                if name == "store_items" and column in key:
                    continue  # an item that was moved away is gone: only an anchor tells that
                if after != row[column] and is_signed:
                    found.append(Edit(name, column, place, after))
    return found


def _some(rows: Sequence[Any]) -> list[Any]:
    """Return rows of different sorts: the first and the last of each kind, namespace and state."""
    sorts: dict[Any, list[Any]] = {}
    for row in rows:
        sort = row.get("kind"), row.get("namespace"), row.get("deleted_at") is None
        sorts.setdefault(sort, []).append(row)
    return [row for same in sorts.values() for row in (same[:1] + same[1:][-1:])]


@pytest.fixture(autouse=True)
def nobody_else_writes(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(signing, "NOTICED_AFTER", 0)


@pytest.fixture
def opened(database_url: str) -> Callable[[], Database]:
    """Opens the database as another process would."""
    return lambda: Database(database_url, migrate="off", signing_keys=[KEY])


async def fill(db: Database) -> None:
    """Store something of each kind, of which no job of `JOBS` has anything to remove."""
    checkpointer, log, store = Checkpointer(db), ThreadLog(db), Store(db)
    for step in range(4):
        words = f"sentence number {step} about lighthouses"
        await checkpointer.save({"step": step, "words": words}, "t", f"c{step}", {"step": step})
    await checkpointer.put_writes([("channel", "answer")], "t", "c3", "task")
    await checkpointer.put_writes([("channel", "early")], "t", "not-yet", "task")
    await checkpointer.save({"n": 1}, "u", "c1", ttl=1_000_000)
    below = Checkpointer(db, namespace=("graph",))
    await below.save({"n": 1}, "t", "c1")
    await Checkpointer(db, namespace=("graph", "sub")).save({"n": 2}, "t", "c1")
    await checkpointer.save({"n": 0}, "deleted", "c1")
    await checkpointer.delete("deleted")
    await log.append("l", ["one", {"two": 2}, "three"], keys=["a", "b", "c"])
    for key in ("ada", "bob"):
        value = {"likes": "tea", "key": key}
        await store.put(("users",), key, value, {"n": 1}, ttl=1_000_000, embedding=[1.0, 0.5])
    await store.put(("users",), "eve", "no ttl")


async def contents(db: Database) -> dict[str, Any]:
    """Return all that can be read."""
    read: dict[str, Any] = {}
    for path in ((), ("graph",), ("graph", "sub")):
        checkpointer = Checkpointer(db, namespace=path)
        for thread in ("t", "u", "deleted"):
            async for info in checkpointer.history(thread):
                name = path, thread, info.checkpoint_id
                read[str(name)] = (
                    await checkpointer.load(thread, info.checkpoint_id),
                    info.metadata,
                    await checkpointer.get_writes(thread, info.checkpoint_id),
                )
    read["early"] = await Checkpointer(db).get_writes("t", "not-yet")
    read["log"] = [
        (one.position, one.value, one.key, one.occurred_at)
        for one in await ThreadLog(db).tail("l", 9)
    ]
    for key in ("ada", "bob", "eve"):
        item = await Store(db).get_item(("users",), key)
        read[key] = item and (item.value, item.metadata, item.version, item.created_at)
    found = await Store(db).search_by_embedding(("users",), [1.0, 0.5])
    read["vectors"] = sorted(hit.item.key for hit in found)
    return read


async def put_if_absent(db: Database) -> None:
    for key in ("ada", "bob", "eve"):
        with suppress(Conflict):
            await Store(db).put(("users",), key, "replaced", expected_version=None)
    with suppress(Conflict):
        await Checkpointer(db).save({"replaced": True}, "u", "c1", expected_parent=None)


async def save_with_retention(db: Database) -> None:
    keeper = Checkpointer(db, retention=Retention(keep_last=50))
    await keeper.save({"step": 9}, "t", "again", {"step": 9})


async def save_with_age(db: Database) -> None:
    keeper = Checkpointer(db, retention=Retention(keep_last=1, older_than=timedelta(days=30)))
    await keeper.save({"step": 9}, "t", "again", {"step": 9})


Job = Callable[[Database], Awaitable[Any]]
JOBS: dict[str, Job] = {
    "sweep": lambda db: Store(db).sweep(),
    "vacuum": lambda db: Checkpointer(db).vacuum(None, all_namespaces=True),
    "vacuum by age": lambda db: Checkpointer(db).vacuum(30, all_namespaces=True),
    "prune by age": lambda db: Checkpointer(db).prune(
        keep_last=1, older_than=timedelta(days=30), all_namespaces=True
    ),
    "prune by number": lambda db: Checkpointer(db).prune(keep_last=5, all_namespaces=True),
    "prune by ordinal": lambda db: Checkpointer(db).prune(
        keep_last=1, keep_every=1, all_namespaces=True
    ),
    "forget": lambda db: Checkpointer(db).forget(metadata=MARK),
    "delete checkpoints": lambda db: Checkpointer(db).delete_checkpoints("t", [GONE]),
    "delete a checkpoint": lambda db: Checkpointer(db).delete("t", GONE),
    "save with retention": save_with_retention,
    "save with age": save_with_age,
    "put if absent": put_if_absent,
    "sign": sign,
}


async def damage_in(db: Database) -> list[Any]:
    """Return what `verify` finds, but states that the next sweep of their thread removes."""
    found = (await verify(db, all_tenants=True)).findings
    return [one for one in found if one.code != "unused"]


async def refused(job: Awaitable[Any]) -> bool:
    """Run a job; return whether it met damage."""
    try:
        await job
    except (Corrupt, KeyMissing):
        return True
    return False


def test_every_column_is_here() -> None:
    for name, signed in SIGNED.items():
        assert {column.name for column in table(name).c} == {*signed} | UNSIGNED[name], name


@pytest.mark.parametrize("name", SIGNED)
async def test_no_job_believes_an_edit(opened: Callable[[], Database], name: str) -> None:
    async with opened() as db:
        await db.migrate()
        await fill(db)
        for job in JOBS.values():
            await job(db)
        before = await contents(db)
        assert not await damage_in(db)
        edits, tried = await db.run_sync(partial(edits_of, name=name)), 0
        for edit in edits:
            try:
                await db.run_sync(edit.apply)
            except (StatementFailed, LookupError):
                continue  # the database itself refuses it
            tried += 1
            async with opened() as another:
                met = [name for name, job in JOBS.items() if await refused(job(another))]
            told = await damage_in(db)
            assert told, f"nothing tells {edit} after the jobs; damage was met by {met}"
            await db.run_sync(edit.undo)
            assert not await damage_in(db), f"{edit}, met by {met}"
            assert await contents(db) == before, f"{edit}, met by {met}"
    assert tried > 10
