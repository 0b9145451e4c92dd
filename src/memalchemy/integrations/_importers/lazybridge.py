"""Reads the SQLite file of LazyBridge's `Store`: its keys, and the memories of agents."""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import Any

from memalchemy._bounds import parse_json
from memalchemy.contracts import NewItem
from memalchemy.database import Database
from memalchemy.importers.foreign_tables import ForeignTables, Row
from memalchemy.importers.log_times import LogTimes
from memalchemy.importers.stored_time import from_seconds
from memalchemy.importers.target import Record, Unreadable, Whole
from memalchemy.importers.unreadable import UNREADABLE, Unusable, describe_problem, text_field
from memalchemy.integrations._importers._record_batches import paged_items, pages_of
from memalchemy.integrations.lazybridge import MemalchemyStore

_STORE = ("store", "key", "value", "written_at")
_MEMORIES = ("agent_memory", "agent_id", "session_key", "turns")
_NAMESPACE = (MemalchemyStore.root, "store")


async def count(place: str, *, schema: str | None = None) -> int:
    """Count the records: one for 500 keys, and one for each memory."""
    async with ForeignTables.open(place, schema=schema) as tables:
        keys = await tables.count(tables.one(*_STORE))
        memories = [await tables.count(name) for name in tables.like(*_MEMORIES)]
        return pages_of(keys) + sum(memories)


async def read(place: str, *, schema: str | None = None) -> AsyncIterator[Record]:
    """Yield the keys, 500 at a time, and then the memories.

    Values that LazyBridge's `EncryptedStore` wrote stay encrypted: read them through it.
    """
    async with ForeignTables.open(place, schema=schema) as tables:
        rows = tables.rows(tables.one(*_STORE), "key")
        async for page in paged_items(rows, _to_item, lambda row: repr(row.get("key")), "keys"):
            yield page
        for name in tables.like(*_MEMORIES):
            async for row in tables.rows(name, "agent_id", "session_key"):
                try:
                    yield _record_of_memory(row)
                except UNREADABLE as error:
                    yield Unreadable("thread", _label_of_memory(row), describe_problem(error))


def _to_item(row: Row) -> NewItem:
    written_at = from_seconds(row["written_at"])
    return NewItem(
        _NAMESPACE,
        text_field(row, "key"),
        parse_json(row["value"]),
        {} if row["agent_id"] is None else {"agent_id": text_field(row, "agent_id")},
        created_at=written_at,
        updated_at=written_at,
    )


def _record_of_memory(row: Row) -> Whole:
    agent, session = text_field(row, "agent_id"), text_field(row, "session_key")
    turns, summary = parse_json(row["turns"]), row["summary"]
    at = from_seconds(row["updated_at"])
    if not isinstance(turns, list) or not all(isinstance(turn, dict) for turn in turns):
        raise Unusable("has turns that are no list of objects")
    if not isinstance(summary, str | None):
        raise Unusable("has a summary that is no text")
    value = {"turns": turns, "summary": summary, "updated_at": row["updated_at"]}

    async def load(db: Database, prefix: str) -> Any:
        return await MemalchemyStore(db).memories(agent).load(prefix + session)

    async def save(db: Database, prefix: str, _: Any) -> None:
        memories = MemalchemyStore(db).memories(agent)
        await memories.save(value, prefix + session, occurred_at=at)

    return Whole(
        "thread",
        _label_of_memory(row),
        value,
        load,
        save,
        logs=lambda db, prefix: LogTimes.of(
            MemalchemyStore(db).memories(agent).namespace, prefix + session, [at]
        ),
        covers=lambda found: found["updated_at"] > value["updated_at"],
    )


def _label_of_memory(row: Row) -> str:
    return f"memory of {row.get('agent_id')}, session {row.get('session_key')}"
