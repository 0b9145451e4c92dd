"""A program that uses the public types. It is never run: mypy and pyright check it, strictly.

`tests/test_types_of_public_names.py` runs mypy, and ``nox -s pyright`` pyright.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Iterator, Mapping
from contextlib import closing
from datetime import datetime
from typing import Any, Self, assert_type

from pydantic import BaseModel
from sqlalchemy import CursorResult, create_engine, text
from sqlalchemy.orm import Session

from memalchemy import (
    Checkpointer,
    CheckpointInfo,
    Conflict,
    Database,
    HTTPCheckpointer,
    RetainedCheckpointer,
    Store,
    get_checkpointer,
    sync,
)
from memalchemy.contracts import (
    CheckpointHit,
    CheckpointRecord,
    CheckpointWithData,
    ExportRecord,
    Health,
    SearchMode,
    Snapshot,
    StorageStats,
)
from memalchemy.http import blocking


class Plan(BaseModel):
    """A state as a pydantic model."""

    step: int = 0


class Own:
    """A state as a class of its own."""

    def to_checkpoint(self) -> Mapping[str, Any]:
        """Return the mapping."""
        return {}

    @classmethod
    def from_checkpoint(cls, stored: Mapping[str, Any]) -> Self:
        """Create a state."""
        return cls()


def build(stored: dict[str, Any]) -> tuple[str, ...]:
    """Create a state of another kind."""
    return tuple(stored)


async def states(db: Database) -> None:
    """Check what `load` returns: a dict, or the type that was given."""
    assert_type(await Checkpointer(db).load("t"), dict[str, Any] | None)
    assert_type(await Checkpointer(db, state_type=Plan).load("t"), Plan | None)
    assert_type(await Checkpointer(db, namespace=("a",), state_type=Own).load("t"), Own | None)
    assert_type(await Checkpointer(db, state_type=build, ttl=60).load("t"), tuple[str, ...] | None)
    ordered = Checkpointer(db, state_type=OrderedDict[str, int])
    assert_type(await ordered.load("t"), OrderedDict[str, int] | None)
    assert_type(await RetainedCheckpointer(db, 60).load("t"), dict[str, Any] | None)
    retained = RetainedCheckpointer(db, 60, state_type=Plan, namespace=("a",))
    assert_type(await retained.load("t"), Plan | None)
    assert_type(await HTTPCheckpointer("http://host").load("t"), dict[str, Any] | None)
    assert_type(await HTTPCheckpointer("http://host", state_type=Plan).load("t"), Plan | None)
    async with get_checkpointer("sqlite:agent.db", state_type=Plan) as named:
        assert_type(await named.load("t"), Plan | None)
    async with get_checkpointer("sqlite:agent.db") as plain:
        assert_type(await plain.load("t"), dict[str, Any] | None)


async def declared(of_dicts: Checkpointer, of_plans: Checkpointer[Plan]) -> None:
    """Check annotations: without a parameter a checkpointer is one of dicts."""
    assert_type(await of_dicts.load("t"), dict[str, Any] | None)
    assert_type(await of_plans.load("t"), Plan | None)


async def records(db: Database, checkpointer: Checkpointer[Plan], mode: SearchMode) -> None:
    """Check the records, which are dicts with known keys."""
    record = await checkpointer.get_metadata("t")
    assert_type(record, CheckpointRecord | None)
    if record is not None:
        assert_type(record["created_at"], datetime)
        assert_type(record["namespace"], tuple[str, ...])
    assert_type(await checkpointer.list_with_metadata(), list[CheckpointRecord])
    assert_type(await checkpointer.search("words"), list[CheckpointHit])
    assert_type(await checkpointer.search_data("a", 1), list[CheckpointWithData])
    for found in await checkpointer.query_by_metadata("a", 1, data=True):
        assert_type(found.get("data"), dict[str, Any] | None)
    stats = await checkpointer.get_storage_stats("t")
    assert_type(stats, StorageStats)
    assert_type(stats["compression_ratio"], float)
    health = await db.health()
    assert_type(health, Health)
    assert_type(health["server_version"], str | None)
    async for exported in checkpointer.export(thread_id="t"):
        assert_type(exported, ExportRecord)
        assert_type(exported["thread_id"], str)
    snapshot = await checkpointer.snapshot("t", newest_by="id")
    assert_type(snapshot, Snapshot | None)
    await Store(db, metric="dot").search((), "words", mode=mode)
    await Store(db).list_items((), order="key")


def mistakes(db: Database, mode: str) -> None:
    """Check that wrong arguments are found, by both type checkers."""
    Checkpointer(db, namespaces=("a",))  # type: ignore[call-overload]
    Checkpointer(db, state_type=3)  # type: ignore[call-overload]
    Database("sqlite://", durability="none")  # type: ignore[arg-type]
    Database("sqlite://", migrate="yes")  # type: ignore[arg-type]
    Store(db, metric="euclid")  # type: ignore[arg-type]
    Store(db).search((), "words", mode=mode)  # type: ignore[arg-type,unused-coroutine]
    Store(db).list_items((), order="oldest")  # type: ignore[arg-type,unused-coroutine]


def without_await() -> None:
    """Check the synchronous classes."""
    with sync.Database("sqlite:///agent.db", tenant="acme") as db:
        checkpointer = sync.Checkpointer(db.for_tenant("other"), namespace=("agents",))
        assert_type(checkpointer.save({"n": 1}, "thread"), str)
        assert_type(checkpointer.load("thread"), dict[str, Any] | None)
        assert_type(sync.Checkpointer(db, state_type=Plan).load("thread"), Plan | None)
        assert_type(sync.RetainedCheckpointer(db, 60, state_type=Plan).load("t"), Plan | None)
        assert_type(checkpointer.exists("thread"), bool)
        assert_type(checkpointer.get_storage_stats("thread"), StorageStats)
        assert_type(checkpointer.db.tenant, str)
        assert_type(db.current(), str | None)
        assert_type(db.health(), Health)
        try:
            checkpointer.save({"n": 2}, "thread", expected_parent=None)
        except Conflict as conflict:
            print(conflict.current)
        with db.transaction() as tx:
            assert_type(tx, sync.Transaction)
            checkpointer.save({"n": 3}, "thread", connection=tx)
            assert_type(tx.execute(text("SELECT 1")), CursorResult[Any])
        with Session(create_engine("sqlite:///agent.db")) as session:
            checkpointer.load("thread", connection=session)
        print(list(steps(checkpointer)))
        checkpointer.save({"n": 4}, thread="thread")  # type: ignore[call-arg]
        checkpointer.load("thread", connection="no connection")  # type: ignore[arg-type]
    with blocking.HTTPCheckpointer("http://host", state_type=Plan) as remote:
        assert_type(remote.load("t"), Plan | None)
        assert_type(remote.search("words"), list[CheckpointHit])
        assert_type(blocking.HTTPCheckpointer("http://host").load("t"), dict[str, Any] | None)


def steps(checkpointer: sync.Checkpointer) -> Iterator[int]:
    """Check an iterator that reads as it is used."""
    with closing(checkpointer.history("thread", limit=3)) as infos:
        assert_type(infos, sync.LazyIterator[CheckpointInfo])
        yield from (info.seq for info in infos)


async def no_coroutine(checkpointer: sync.Checkpointer) -> None:
    """Check that a synchronous call cannot be awaited."""
    await checkpointer.save({}, "thread")  # type: ignore[misc]
