"""Export checkpoints and entries as JSON objects, or as a directory of JSON files."""

from __future__ import annotations

import asyncio
import hashlib
import json
import os
import re
import shutil
from collections.abc import AsyncIterator, Callable, Iterable, Mapping, Sequence
from contextlib import aclosing
from datetime import UTC, datetime
from functools import partial
from operator import attrgetter
from os import PathLike
from pathlib import Path
from typing import Any

from sqlalchemy import Executable

from memalchemy._files import follow_links, put_in_place, take_access
from memalchemy.checkpoints import listing
from memalchemy.checkpoints.load import load_chain
from memalchemy.checkpoints.skip_deltas import decode_tip
from memalchemy.checkpoints.snapshots import load_states, states_decoder
from memalchemy.codec.payloads import decode_payload
from memalchemy.codec.places import entry_place
from memalchemy.codec.values import jsonable
from memalchemy.contracts import ExportedCheckpoint, ExportRecord
from memalchemy.database import READ, Database, HostConnection, run_check
from memalchemy.dialects import Dialect
from memalchemy.errors import Conflict
from memalchemy.keys import decode_namespace, encode_id, encode_namespace
from memalchemy.log import Log
from memalchemy.log.entries import all_binds, read_entries, read_entries_of_logs
from memalchemy.log.listing import all_threads, logs_of_threads, split_into_batches
from memalchemy.log.scan import batches, run_query, scan
from memalchemy.log.tables import bind_rows_of_logs
from memalchemy.log.thread_parts import list_parts
from memalchemy.protection.signed_reads import check_entries, check_sums
from memalchemy.statements import Program

Record = ExportRecord

# An expired thread is gone for every reader, but forget erases it, so export writes it out.
_BEFORE_ANY_EXPIRY = datetime(1970, 1, 1, tzinfo=UTC)

TOGETHER = 100
"""Threads, logs or states that are read together."""

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

    Thread by thread and log by log, the oldest checkpoint first, then the entries in order. Short
    logs are read together.
    """
    if threads is None:
        threads = await all_threads(db, connection)
    ids = sorted(threads, key=encode_id)
    for first in range(0, len(ids), TOGETHER):
        some = ids[first : first + TOGETHER]
        logs = await _list_logs(db, some, namespace, connection)
        for batch in await split_into_batches(db, logs, connection):
            async for record in _read_logs(db, batch, connection):
                yield record


async def _list_logs(
    db: Database,
    thread_ids: Sequence[str],
    namespace: str | None,
    connection: HostConnection | None,
) -> list[Log]:
    """Return the logs of some threads in the order in which they are exported."""
    if namespace is None:
        return await logs_of_threads(db, thread_ids, connection)

    def program() -> Program[list[Log]]:
        found: list[Log] = []
        for thread_id in thread_ids:
            main = Log(db.tenant, thread_id, namespace)
            parts = yield from list_parts(db.dialect, main, tombstones=True)
            found += sorted(parts, key=attrgetter("namespace"))
        return found

    return await db.run(program, READ, connection=connection)


async def _read_logs(
    db: Database, logs: Sequence[Log], connection: HostConnection | None
) -> AsyncIterator[Record]:
    """Yield the records of some logs, which are in the order of their names."""

    def check() -> Program[None]:
        for log in logs:
            yield from check_sums(db.dialect, log, db.signing)

    await run_check(db, check, connection=connection)
    checkpoints = _LogByLog(_read_checkpoints(db, logs, connection))
    entries = _LogByLog(_read_entries(db, logs, connection))
    for log in logs:
        for each in (checkpoints, entries):
            async for record in each.of(log):
                yield record


class _LogByLog:
    """Records of several logs, which are taken one log after another."""

    def __init__(self, found: AsyncIterator[tuple[Log, Record]]) -> None:
        self._found = found
        self._next: tuple[Log, Record] | None = None

    async def of(self, log: Log) -> AsyncIterator[Record]:
        """Yield the records of the next log, if it is this one."""
        while True:
            if self._next is None:
                self._next = await anext(self._found, None)
            if self._next is None or self._next[0] != log:
                return
            (_, record), self._next = self._next, None
            yield record


async def _read_checkpoints(
    db: Database, logs: Sequence[Log], connection: HostConnection | None
) -> AsyncIterator[tuple[Log, Record]]:
    pages = _pages(db, listing.list_oldest, listing.list_of_logs, logs, connection)
    async for rows in pages:
        for some in batches(rows, attrgetter("raw_size"), most_rows=TOGETHER):
            names = [(_log_of(db, row), row.checkpoint_id) for row in some]
            found = await db.run(
                partial(load_states, db.dialect, names),
                READ,
                decode=states_decoder(db.keyring),
                connection=connection,
            )
            for row, name in zip(some, names, strict=True):
                state = found[name].state if name in found else None
                if state is None:  # saved anew meanwhile, or gone
                    state = await _load_state(db, *name, connection)
                if state is not None:
                    yield name[0], _to_record(db, row, state)


async def _load_state(
    db: Database, log: Log, checkpoint_id: str, connection: HostConnection | None
) -> dict[str, Any] | None:
    loading = partial(load_chain, db.dialect, log, checkpoint_id, _BEFORE_ANY_EXPIRY, db.signing)
    tip = await db.run(loading, READ, connection=connection)
    found = decode_tip(log, db.keyring, None, tip)
    return None if found is None else found[1]


def _to_record(db: Database, row: Any, state: Mapping[str, Any]) -> ExportedCheckpoint:
    info: Any = listing.info(db, row).as_dict()
    record: ExportedCheckpoint = info | {
        "tenant": db.tenant,
        "namespace": list(info["namespace"]),
        "state": {key: jsonable(value) for key, value in state.items()},
    }
    return record


async def _read_entries(
    db: Database, logs: Sequence[Log], connection: HostConnection | None
) -> AsyncIterator[tuple[Log, Record]]:
    first = partial(read_entries, end="first", timed=False)
    async for rows in _pages(db, first, read_entries_of_logs, logs, connection):
        for row in rows:
            log = logs[0] if len(logs) == 1 else _log_of(db, row)
            check_entries(log, (row,), db.signing)
            place = entry_place(log.tenant, log.key, row.seq)
            stored = db.keyring.decrypt(row.codec, row.checksum, bytes(row.payload), place)
            value = decode_payload(stored.payload, stored.checksum, stored.codec)
            yield (
                log,
                {
                    "tenant": log.tenant,
                    "namespace": list(decode_namespace(log.namespace)),
                    "thread_id": log.thread_id,
                    "position": row.seq,
                    "key": row.entry_key,
                    "occurred_at": row.occurred_at,
                    "stored_at": row.stored_at,
                    "value": jsonable(value),
                },
            )


async def _pages(
    db: Database,
    page_of_log: Callable[[Dialect], Executable],
    rows_of_logs: Callable[[Dialect], Executable],
    logs: Sequence[Log],
    connection: HostConnection | None,
) -> AsyncIterator[Sequence[Any]]:
    """Yield the rows of some logs, log by log; those of one log, which may be long, by pages."""
    binds = {"p_now": _BEFORE_ANY_EXPIRY}
    if len(logs) > 1:
        for listed in bind_rows_of_logs(db.dialect, "p_logs", [(log,) for log in logs]):
            yield await run_query(db, rows_of_logs(db.dialect), binds | listed, connection)
        return
    pages = scan(
        db,
        lambda _: page_of_log(db.dialect),
        all_binds(logs[0]) | binds,
        lambda last: {"p_after": last.seq},
        connection,
    )
    async with aclosing(pages):
        async for rows in pages:
            yield rows


def _log_of(db: Database, row: Any) -> Log:
    return Log(db.tenant, row.thread_id, row.namespace)


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
        self._path = follow_links(path)
        self._part = self._path.with_name(f".{self._path.name}.{os.getpid()}.part")

    def begin(self) -> None:
        """Create the temporary directory.

        Raises:
            Conflict: the directory exists and is not empty.
        """
        if self._path.exists() and (not self._path.is_dir() or any(self._path.iterdir())):
            raise Conflict(f"{self._path} is there and is not an empty directory; name a new one")
        self._part.mkdir(0o700 if self._path.exists() else 0o777, parents=True)

    def write(self, record: Mapping[str, Any]) -> None:
        """Write one checkpoint or entry."""
        file = self._part / _path_of(record)
        file.parent.mkdir(parents=True, exist_ok=True)
        with file.open("xb") as out:
            out.write(_to_json(record))

    def finish(self) -> None:
        """Rename the temporary directory."""
        take_access(self._part, self._path)
        if self._path.exists():
            self._path.rmdir()  # Windows replaces no directory
        put_in_place(self._part, self._path)

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
