"""Entries of logs, one by one."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable

from memalchemy.contracts import Entry
from memalchemy.database import Database
from memalchemy.errors import NotFound
from memalchemy.inspection._log_heads import find_head, log_of
from memalchemy.inspection._records import Record, entry_record
from memalchemy.inspection.tree import tree, value_at
from memalchemy.keys import decode_namespace
from memalchemy.log import Log
from memalchemy.threads import ThreadLog


async def list_entries(
    db: Database,
    thread_id: str,
    namespace: Iterable[str] = (),
    *,
    before: int | None = None,
    limit: int = 100,
) -> Record:
    """Return the newest entries of a log below position *before*, the oldest of them first."""
    log = log_of(db, thread_id, namespace)
    found = await read_tail(db, log, limit + 1, before)
    if not found and before is None:
        await find_head(db, log)
    shown = found[-limit:]
    return {
        "entries": await asyncio.to_thread(lambda: [entry_record(one) for one in shown]),
        "previous": shown[0].position if len(found) > limit else None,
    }


async def read_entry(
    db: Database,
    thread_id: str,
    namespace: Iterable[str] = (),
    *,
    position: int,
    path: str = "",
    offset: int = 0,
) -> Record:
    """Return a value within an entry, as a tree."""
    entry = await require_entry(db, log_of(db, thread_id, namespace), position)
    node = await asyncio.to_thread(lambda: tree(value_at(entry.value, path), offset=offset))
    return {"position": position, "path": path, "node": node}


async def read_tail(db: Database, log: Log, limit: int, before: int | None) -> list[Entry]:
    """Return the newest entries of a log below position *before*, the oldest of them first."""
    return await entry_log_of(db, log).tail(log.thread_id, limit, before=before)


async def require_entry(db: Database, log: Log, position: int) -> Entry:
    """Return an entry.

    Raises:
        NotFound: there is none at *position*.
    """
    found = await read_tail(db, log, 1, position + 1)
    if not found or found[0].position != position:
        raise NotFound(f"thread {log.thread_id!r} has no entry at {position}")
    return found[0]


def entry_log_of(db: Database, log: Log) -> ThreadLog:
    """Return the interface of entries for the namespace of a log."""
    return ThreadLog(db, namespace=decode_namespace(log.namespace))
