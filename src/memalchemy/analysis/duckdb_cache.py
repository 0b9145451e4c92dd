"""A DuckDB file with the tables of an analysis, brought up to date by what has changed.

The head of a log says whether the log has changed: see `LogHead.mark`. A log that has, or that is
below one that has, is read again as a whole; the rows of the others are copied from the file of the
last time, and those of logs that are gone, because they were deleted, erased or have expired, are
not. Items of stores are read anew. The file is a new one each time, which takes the old one's name
once it is complete: so it holds nothing of what was erased, not in its free blocks either.
"""

from __future__ import annotations

import hashlib
import os
from collections.abc import AsyncIterator, Iterator, Sequence
from contextlib import contextmanager
from os import PathLike
from pathlib import Path
from typing import Any

from memalchemy._files import follow_links, put_in_place
from memalchemy._fork_safe_locks import create_lock
from memalchemy.analysis.connection import (
    create_table,
    import_duckdb,
    insert_rows,
    open_duckdb,
)
from memalchemy.analysis.log_rows import place_of
from memalchemy.analysis.logs_above import LogsAbove, MarksAbove
from memalchemy.analysis.reader import BATCH_ROWS, Reader
from memalchemy.analysis.selection import EVERYTHING
from memalchemy.analysis.steps import LogHead
from memalchemy.analysis.tables import OF_LOGS, OF_STORES, TABLES
from memalchemy.dialects import parse_url
from memalchemy.errors import CapabilityMissing, Conflict, DatabaseUnreachable

_umask = create_lock()
_LOG_COLUMNS = "(thread VARCHAR, namespace VARCHAR, mark VARCHAR)"


@contextmanager
def private_files() -> Iterator[None]:
    """Create files in this block that only their owner may read."""
    with _umask:
        before = os.umask(0o077)
        try:
            yield
        finally:
            os.umask(before)


async def refresh(
    reader: Reader, file: str | PathLike[str], memory: str, *, plaintext: bool = False
) -> None:
    """Bring the cache in *file* up to date with the database of *reader*, or make a new one.

    Raises:
        CapabilityMissing: the database is encrypted, and *plaintext* is not set.
        Conflict: the file is the cache of another database or tenant, or is no cache.
        DatabaseUnreachable: the file cannot be opened or written.
    """
    if reader.db.keyring.encrypts and not plaintext:
        raise CapabilityMissing(
            "the database is encrypted, and a cache would hold its content unencrypted; nothing "
            "was written. Allow it explicitly, or go without a cache"
        )
    cache = _NewCache(follow_links(file), memory, _origin_of(reader))
    try:
        cache.begin()
        marks, above = MarksAbove(), LogsAbove(reader.db, EVERYTHING, reader.damage)
        async for heads in reader.log_heads(EVERYTHING, order="name"):
            marked = [marks.marked(await reader.with_usage_mark(head)) for head in heads]
            for head in cache.changed(marked):
                missed = len(reader.damage.errors)
                await cache.insert(reader.rows_of_logs([head], OF_LOGS, EVERYTHING, above))
                if len(reader.damage.errors) == missed:  # otherwise it is read, and told, again
                    cache.note(head)
        cache.copy_unchanged()
        await cache.insert(reader.rows_of_stores(OF_STORES, EVERYTHING))
        cache.complete()
    finally:
        cache.close()


def _origin_of(reader: Reader) -> str:
    """Return what tells the database and tenant of a cache, and the form of its tables, apart."""
    db = reader.db
    backend: Any = db.identity
    file = parse_url(backend.display).path
    place = backend.display if file is None else os.path.realpath(file)
    form = repr([(table.name, table.columns) for table in TABLES.values()])
    names = repr([place, db.schema, db.tenant, form])
    return hashlib.blake2b(names.encode("utf-8", "surrogatepass"), digest_size=16).hexdigest()


class _NewCache:
    """The new file of a cache, beside the one of the last time."""

    def __init__(self, file: Path, memory: str, origin: str) -> None:
        self._file = file
        self._part = file.with_name(f".{file.name}.part")
        self._memory = memory
        self._origin = origin
        self._duck: Any = None

    def begin(self) -> None:
        """Create the new file, and attach the old one if there is one."""
        duckdb = import_duckdb()
        try:
            self._delete_left_behind()
            with private_files():
                self._duck = open_duckdb(self._part, self._memory, attaches=True)
            self._create()
            self._attach_old()
        except duckdb.Error as error:
            what = f"the cache {self._file} cannot be opened or written: {error}"
            raise DatabaseUnreachable(what) from error

    def _delete_left_behind(self) -> None:
        """Delete the new file of a process that was killed; that of a living one is locked."""
        duckdb = import_duckdb()
        if not self._part.exists():
            return
        try:
            open_duckdb(self._part, self._memory).close()
        except duckdb.IOException as error:
            if "lock" in str(error):
                raise
        self._delete_part()

    def _delete_part(self) -> None:
        for name in (self._part, Path(f"{self._part}.wal")):
            name.unlink(missing_ok=True)

    def _create(self) -> None:
        with private_files():
            for table in TABLES.values():
                create_table(self._duck, table)
        self._execute("CREATE SCHEMA memalchemy_cache")
        self._execute("CREATE TABLE memalchemy_cache.origin (digest VARCHAR)")
        self._execute("INSERT INTO memalchemy_cache.origin VALUES (?)", [self._origin])
        self._execute(f"CREATE TABLE memalchemy_cache.logs {_LOG_COLUMNS}")
        self._execute(f"CREATE TEMP TABLE page {_LOG_COLUMNS}")
        self._execute(f"CREATE TEMP TABLE unchanged {_LOG_COLUMNS}")

    def _attach_old(self) -> None:
        duckdb = import_duckdb()
        if not self._file.exists():
            self._execute("ATTACH ':memory:' AS old")
            self._execute("CREATE SCHEMA old.memalchemy_cache")
            self._execute(f"CREATE TABLE old.memalchemy_cache.logs {_LOG_COLUMNS}")
            return
        refusal = Conflict(
            f"{self._file} is not a cache of this database and tenant that this release made; it "
            "was not changed. Name another file, or remove it"
        )
        path = str(self._file).replace("'", "''")
        try:
            self._execute(f"ATTACH '{path}' AS old (TYPE duckdb, READ_ONLY)")
            found = self._execute("FROM old.memalchemy_cache.origin").fetchall()
        except (duckdb.CatalogException, duckdb.BinderException) as error:
            raise refusal from error
        except duckdb.IOException as error:
            if "not a valid DuckDB" in str(error):
                raise refusal from error
            raise
        if found != [(self._origin,)]:
            raise refusal

    def changed(self, heads: Sequence[LogHead]) -> list[LogHead]:
        """Return the logs that have changed since they were read, and note the others."""
        self._execute("DELETE FROM page")
        self._insert("page", [(*_place(head), head.mark) for head in heads])
        same = "FROM page JOIN old.memalchemy_cache.logs USING (thread, namespace, mark)"
        known = set(self._execute(f"SELECT thread, namespace {same}").fetchall())
        self._execute(f"INSERT INTO unchanged SELECT thread, namespace, mark {same}")
        return [head for head in heads if _place(head) not in known]

    def note(self, head: LogHead) -> None:
        """Note that a log was read."""
        self._insert("memalchemy_cache.logs", [(*_place(head), head.mark)])

    def copy_unchanged(self) -> None:
        """Copy the rows of logs that have not changed."""
        self._execute("INSERT INTO memalchemy_cache.logs FROM unchanged")
        if not self._file.exists():
            return
        places = "SELECT thread, namespace FROM unchanged"
        for name in OF_LOGS:
            rows = f"FROM old.{name} WHERE (thread, namespace) IN ({places})"
            self._execute(f"INSERT INTO {name} {rows}")

    async def insert(self, rows: AsyncIterator[tuple[str, dict[str, Any]]]) -> None:
        """Insert rows of any tables."""
        waiting: dict[str, list[dict[str, Any]]] = {}
        async for name, row in rows:
            batch = waiting.setdefault(name, [])
            batch.append({column: row[column] for column in TABLES[name].names})
            if len(batch) == BATCH_ROWS:
                self._insert_batch(name, waiting.pop(name))
        for name, batch in waiting.items():
            self._insert_batch(name, batch)

    def complete(self) -> None:
        """Put the new file in the place of the old one."""
        self._execute("DETACH old")
        with private_files():
            self._duck.close()
        self._duck = None
        put_in_place(self._part, self._file)

    def close(self) -> None:
        """Remove the new file, if it was not completed."""
        if self._duck is not None:
            self._duck.close()
            self._delete_part()

    def _insert_batch(self, name: str, batch: list[dict[str, Any]]) -> None:
        with private_files():
            insert_rows(self._duck, TABLES[name], batch)

    def _insert(self, name: str, rows: Sequence[Sequence[Any]]) -> None:
        with private_files():
            self._duck.executemany(f"INSERT INTO {name} VALUES (?, ?, ?)", rows)  # noqa: S608

    def _execute(self, sql: str, parameters: Sequence[Any] = ()) -> Any:
        with private_files():
            return self._duck.execute(sql, parameters)


def _place(head: LogHead) -> tuple[str, str]:
    """Return how the rows of a log name it."""
    named = place_of("", head.thread_id, head.namespace)
    return named["thread"], named["namespace"]
