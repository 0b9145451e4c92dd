"""Export checkpoints and entries as JSON objects, or as a directory of JSON files."""

from __future__ import annotations

import asyncio
import hashlib
import json
import os
import re
import shutil
from collections.abc import AsyncIterator, Callable, Iterable, Mapping
from datetime import UTC, datetime
from functools import partial
from os import PathLike
from pathlib import Path
from typing import Any

from memalchemy.checkpoints import listing, rewrite
from memalchemy.checkpoints.load import load_chain
from memalchemy.checkpoints.skip_deltas import rebuild_checkpoint
from memalchemy.codec.payloads import decode_payload
from memalchemy.codec.places import entry_place
from memalchemy.codec.values import decode_value, jsonable
from memalchemy.contracts import ExportedCheckpoint, ExportRecord
from memalchemy.database import READ, Database, HostConnection, run_check
from memalchemy.errors import Conflict
from memalchemy.keys import decode_namespace, encode_namespace
from memalchemy.log import Log
from memalchemy.log.entries import MAX_POSITION, read_entries
from memalchemy.log.listing import all_threads, list_logs_of_thread
from memalchemy.log.scan import run_query, scan
from memalchemy.log.thread_parts import list_parts
from memalchemy.protection.signed_reads import check_entries, check_sums

Record = ExportRecord

# An expired thread is gone for every reader, but forget erases it, so export writes it out.
_BEFORE_ANY_EXPIRY = datetime(1970, 1, 1, tzinfo=UTC)

_PLAIN = re.compile(r"[a-z0-9][a-z0-9_-]*(\.[a-z0-9_-]+)*")
_UNFIT = re.compile(r"[^A-Za-z0-9_-]+")
_DEVICES = re.compile(r"(con|prn|aux|nul|com\d|lpt\d)(\..*)?")
_LONGEST = 100


async def records(
    db: Database,
    threads: Iterable[str] | None,
    namespace: str | None,
    connection: HostConnection | None,
) -> AsyncIterator[Record]:
    """Yield the checkpoints and entries of *threads*, or of all, in one namespace, or in all.

    In one namespace a framework's thread is exported with all its logs.

    Thread by thread and log by log, the oldest checkpoint first, then the entries in order.
    """
    d = db.dialect
    if threads is None:
        threads = await all_threads(db, connection)
    for thread_id in threads:
        if namespace is None:
            binds = {"k_tenant": db.tenant, "k_thread_id": thread_id}
            rows = await run_query(db, list_logs_of_thread(d), binds, connection)
            logs = [Log(db.tenant, thread_id, row.namespace) for row in rows]
        else:
            parts = partial(list_parts, d, Log(db.tenant, thread_id, namespace), tombstones=True)
            logs = await db.run(parts, READ, connection=connection)
        for log in logs:
            await _check_log(db, log, connection)
            async for record in _read_checkpoints(db, log, connection):
                yield record
            async for record in _read_entries(db, log, connection):
                yield record


async def _check_log(db: Database, log: Log, connection: HostConnection | None) -> None:
    """Check that no row of a log is missing, in a database with signing keys."""
    check = partial(check_sums, db.dialect, log, db.signing)
    await run_check(db, check, connection=connection)


async def _read_checkpoints(
    db: Database, log: Log, connection: HostConnection | None
) -> AsyncIterator[Record]:
    d = db.dialect
    for name in await run_query(db, rewrite.list_in_order(d), log.binds(), connection):
        tip = await db.run(
            partial(load_chain, d, log, name.checkpoint_id, _BEFORE_ANY_EXPIRY, db.signing),
            READ,
            connection=connection,
        )
        binds = {"p_checkpoint_id": name.checkpoint_id, "p_now": _BEFORE_ANY_EXPIRY}
        rows = await run_query(db, listing.read_checkpoint(d), log.binds() | binds, connection)
        if tip is None or not rows:
            continue  # deleted meanwhile
        parts = rebuild_checkpoint(log, tip, db.keyring).parts()
        info: Any = listing.info(db, rows[0]).as_dict()
        record: ExportedCheckpoint = (
            info
            | {"tenant": log.tenant, "namespace": list(decode_namespace(log.namespace))}
            | {"state": {k: jsonable(decode_value(v)) for k, v in parts.items()}}
        )
        yield record


async def _read_entries(
    db: Database, log: Log, connection: HostConnection | None
) -> AsyncIterator[Record]:
    namespace = list(decode_namespace(log.namespace))
    binds = {"p_now": _BEFORE_ANY_EXPIRY, "p_after": -1, "p_before": MAX_POSITION}
    pages = scan(
        db,
        lambda _: read_entries(db.dialect, end="first", timed=False),
        log.binds() | binds,
        lambda last: {"p_after": last.seq},
        connection,
    )
    async for rows in pages:
        check_entries(log, rows, db.signing)
        for row in rows:
            place = entry_place(log.tenant, log.key, row.seq)
            stored = db.keyring.decrypt(row.codec, row.checksum, bytes(row.payload), place)
            value = decode_payload(stored.payload, stored.checksum, stored.codec)
            yield {
                "tenant": log.tenant,
                "namespace": list(namespace),
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
    """Write each record to a file of its own; return their number.

    The directory appears when it is complete.

    Raises:
        Conflict: *directory* exists and is not empty.
        OSError: the files cannot be written.
    """
    to, count = _Directory(directory), 0
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


# --- Files ---------------------------------------------------------------------------------------


def file_name(text: str) -> str:
    """Return a file's name for an id; no file system takes the names of two ids for the same.

    An id that is plain is its own name. Any other becomes its readable part, ``~`` and its SHA-256:
    one with upper case too, which some file systems do not tell from lower case.
    """
    if len(text) <= _LONGEST and _PLAIN.fullmatch(text) and not _DEVICES.fullmatch(text):
        return text
    digest = hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()
    return f"{_UNFIT.sub('-', text)[:40].strip('-').lower()}~{digest}"


def _path_of(record: Mapping[str, Any]) -> Path:
    """Return the path of a record: ``THREAD/CHECKPOINT.json``, or ``THREAD/@NAMESPACE/…``.

    An entry's file is named ``@`` and its position.
    """
    path = Path(file_name(record["thread_id"]))
    if record["namespace"]:
        path /= "@" + file_name(encode_namespace(record["namespace"]))
    name = record.get("checkpoint_id")
    spelt = f"@{record['position']:012}" if name is None else file_name(name)
    return path / f"{spelt}.json"


class _Directory:
    """Directory that is written under another name, and renamed when it is complete."""

    def __init__(self, path: str | PathLike[str]) -> None:
        self._path = Path(path)
        self._part = self._path.with_name(f".{self._path.name}.{os.getpid()}.part")

    def begin(self) -> None:
        """Create the temporary directory.

        Raises:
            Conflict: the directory exists and is not empty.
        """
        if self._path.exists() and (not self._path.is_dir() or any(self._path.iterdir())):
            raise Conflict(f"{self._path} is there and is not an empty directory; name a new one")
        self._part.mkdir(parents=True)

    def write(self, record: Mapping[str, Any]) -> None:
        """Write one checkpoint or entry."""
        file = self._part / _path_of(record)
        file.parent.mkdir(parents=True, exist_ok=True)
        with file.open("xb") as out:
            out.write(_to_json(record))

    def finish(self) -> None:
        """Rename the temporary directory."""
        if self._path.exists():
            self._path.rmdir()
        self._part.rename(self._path)

    def abandon(self) -> None:
        """Delete the temporary directory."""
        shutil.rmtree(self._part, ignore_errors=True)


def _to_json(record: Mapping[str, Any]) -> bytes:
    """Return a record as indented JSON."""

    def text(ascii: bool) -> str:
        return json.dumps(record, indent=2, ensure_ascii=ascii, default=_encode_datetime) + "\n"

    try:
        return text(False).encode()
    except UnicodeEncodeError:  # a lone surrogate in an id
        return text(True).encode()


def _encode_datetime(value: Any) -> Any:
    if isinstance(value, datetime):
        return value.isoformat()
    raise TypeError(type(value).__name__)
