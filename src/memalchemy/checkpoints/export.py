"""Exporting checkpoints and entries as JSON objects, and as a directory of JSON files."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Iterable
from datetime import UTC, datetime
from functools import partial
from os import PathLike
from typing import Any

from memalchemy.checkpoints import listing, rewrite
from memalchemy.checkpoints.json_files import Directory
from memalchemy.checkpoints.load import load_chain
from memalchemy.checkpoints.skip_deltas import rebuild_checkpoint
from memalchemy.codec.payloads import decode_payload
from memalchemy.codec.values import decode_value, jsonable
from memalchemy.database import READ, Database, HostConnection
from memalchemy.keys import decode_namespace
from memalchemy.log import Log
from memalchemy.log.entries import MAX_POSITION, read_entries
from memalchemy.log.listing import all_threads, list_logs_of_thread
from memalchemy.log.scan import run_query, scan

Record = dict[str, Any]

# An expired thread is gone for every reader, but forget erases it, so export writes it out.
_BEFORE_ANY_EXPIRY = datetime(1970, 1, 1, tzinfo=UTC)


async def records(
    db: Database,
    threads: Iterable[str] | None,
    namespace: str | None,
    connection: HostConnection | None,
) -> AsyncIterator[Record]:
    """Every checkpoint and entry of *threads*, or of all, in one encoded namespace, or in all.

    Thread by thread and log by log, the oldest checkpoint first, then the entries in order.
    """
    d = db.dialect
    if threads is None:
        threads = await all_threads(db, connection)
    for thread_id in threads:
        paths = [namespace]
        if namespace is None:
            binds = {"k_tenant": db.tenant, "k_thread_id": thread_id}
            logs = await run_query(db, list_logs_of_thread(d), binds, connection)
            paths = [row.namespace for row in logs]
        for path in paths:
            assert path is not None
            log = Log(db.tenant, thread_id, path)
            async for record in _checkpoints(db, log, connection):
                yield record
            async for record in _entries(db, log, connection):
                yield record


async def _checkpoints(
    db: Database, log: Log, connection: HostConnection | None
) -> AsyncIterator[Record]:
    d = db.dialect
    for name in await run_query(db, rewrite.list_in_order(d), log.binds(), connection):
        tip = await db.run(
            partial(load_chain, d, log, name.checkpoint_id, _BEFORE_ANY_EXPIRY),
            READ,
            connection=connection,
        )
        binds = {"p_checkpoint_id": name.checkpoint_id, "p_now": _BEFORE_ANY_EXPIRY}
        rows = await run_query(db, listing.read_name(d), log.binds() | binds, connection)
        if tip is None or not rows:
            continue  # deleted meanwhile
        parts = rebuild_checkpoint(log.thread_id, tip, db.keyring).parts()
        yield (
            listing.info(rows[0]).as_dict()
            | {"tenant": log.tenant, "namespace": list(decode_namespace(log.namespace))}
            | {"state": {k: jsonable(decode_value(v)) for k, v in parts.items()}}
        )


async def _entries(
    db: Database, log: Log, connection: HostConnection | None
) -> AsyncIterator[Record]:
    place = {"tenant": log.tenant, "namespace": list(decode_namespace(log.namespace))}
    binds = {"p_now": _BEFORE_ANY_EXPIRY, "p_after": -1, "p_before": MAX_POSITION}
    pages = scan(
        db,
        lambda _: read_entries(db.dialect, end="first", timed=False),
        log.binds() | binds,
        lambda last: {"p_after": last.seq},
        connection,
    )
    async for rows in pages:
        for row in rows:
            stored = db.keyring.decrypt(row.codec, row.checksum, bytes(row.payload))
            value = decode_payload(stored.payload, stored.checksum, stored.codec)
            yield place | {
                "thread_id": log.thread_id,
                "position": row.seq,
                "key": row.entry_key,
                "occurred_at": row.occurred_at,
                "stored_at": row.stored_at,
                "value": jsonable(value),
            }


async def write_files(
    directory: str | PathLike[str],
    exported: AsyncIterator[Record],
    progress: Callable[[int], object] | None,
) -> int:
    """Write each record to a file of its own; how many. The directory appears when all is in it.

    Raises:
        Conflict: *directory* is there, and not empty.
        OSError: it cannot be written.
    """
    to, count = Directory(directory), 0
    await asyncio.to_thread(to.begin)
    try:
        async for record in exported:
            await asyncio.to_thread(to.write, record)
            count += 1
            if progress is not None:
                progress(count)
        await asyncio.to_thread(to.finish)
    except BaseException:
        to.abandon()
        raise
    return count
