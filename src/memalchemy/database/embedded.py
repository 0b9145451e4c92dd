"""SQLite in this process: a writer thread, reader threads, transactions that borrow the writer."""

from __future__ import annotations

import asyncio
import os
import sqlite3
import threading
import time
import weakref
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from contextvars import ContextVar
from pathlib import Path
from typing import Any, TypeVar

import aiosqlite
from sqlalchemy import Connection, event
from sqlalchemy.ext.asyncio import AsyncConnection, AsyncEngine, create_async_engine
from sqlalchemy.pool import NullPool

from memalchemy import migrate
from memalchemy.database.backup import Progress, back_up
from memalchemy.database.borrowed import Borrowed
from memalchemy.database.handles import Handle, LentHandle, LentMemory, MemoryHandle, engine_of
from memalchemy.database.readers import Readers
from memalchemy.database.writer import Lease, Writer
from memalchemy.dialects.sqlite import prepare
from memalchemy.errors import (
    CapabilityMissing,
    DatabaseUnreachable,
    MemalchemyError,
    SchemaOutdated,
)

T = TypeVar("T")

OPEN_TIMEOUT = 30.0

# The leases that the running task, or one that it was started from, has asked for.
_borrowed: ContextVar[tuple[tuple[int, Lease], ...]] = ContextVar("memalchemy_borrowed", default=())


class Embedded:
    """One SQLite database, opened lazily; ``path=None`` is a database in memory."""

    def __init__(
        self,
        path: str | None,
        synchronous: str,
        *,
        may_create: bool,
        open_timeout: float | None,
        statement_timeout: float | None,
    ) -> None:
        self._path = path
        self._synchronous = synchronous
        self.may_create = may_create
        self._open_timeout = OPEN_TIMEOUT if open_timeout is None else open_timeout
        self._statement_timeout = statement_timeout
        self._memory: MemoryHandle | None = None
        self._readers: Readers | None = None
        self._lending: AsyncEngine | None = None
        self._lock = threading.Lock()
        self._closing = threading.RLock()
        self.writer = Writer(self._connect_writer, is_the_database=path is None)

    async def write(self, job: Callable[[Connection], T]) -> T:
        """Run *job* in a transaction of the writer.

        A cancelled caller leaves a job that is either done or never starts.
        """
        self._refuse_if_borrowed()
        return await self.writer.submit(job)

    async def read(self, job: Callable[[Connection], T]) -> T:
        """Run *job* on a connection of its own; it sees the last commit."""
        if self._path is None:
            return await self.write(job)
        with self._lock:
            if self._readers is None:
                self._readers = Readers(self._connect_reader)
            answer = self._readers.submit(job)
        return await answer

    async def apart(self, job: Callable[[Connection], T]) -> T:
        """Run *job* on a connection of its own, each statement a transaction of its own."""
        if self._path is None:
            raise CapabilityMissing("a database in memory has no file to maintain")
        self._refuse_if_borrowed()
        return await asyncio.to_thread(self._apart, job)

    def file_bytes(self) -> int | None:
        """The file with its write-ahead log; ``None`` in memory."""
        if self._path is None:
            return None
        files = (Path(self._path), Path(f"{self._path}-wal"))
        return sum(file.stat().st_size for file in files if file.exists())

    @asynccontextmanager
    async def transaction(self) -> AsyncIterator[AsyncConnection]:
        """Lend a connection for one transaction; other writers of this process wait meanwhile."""
        self._refuse_if_borrowed()
        lease = self.writer.lease()
        closes_itself = False
        try:
            await asyncio.wrap_future(lease.granted)
            _borrowed.set((*(b for b in _borrowed.get() if not b[1].is_over), (id(self), lease)))
            # Kept, for what it has compiled: one that is new compiles each statement anew.
            engine = self._lending = self._lending or self._lends(read_only=False)
            async with engine.connect() as connection:
                # Its thread closes it and gives the lease back, however often this is cancelled.
                Borrowed.below(connection).handle.on_close = lease.give_back
                closes_itself = True
                yield connection
        finally:
            if not closes_itself:
                lease.give_back()

    @asynccontextmanager
    async def snapshot(self) -> AsyncIterator[AsyncConnection]:
        """Lend a connection whose reads all see one moment; writers go on, except in memory."""
        if self._path is None:
            async with self.transaction() as connection:
                yield connection
            return
        async with self._lends(read_only=True).connect() as connection:
            yield connection

    async def back_up(self, file: Path, progress: Progress) -> int:
        """Copy the database into the new *file* as of one moment; see `database.backup`."""
        if self._path is not None:
            if not os.path.exists(self._path):  # noqa: ASYNC240 - one look
                raise DatabaseUnreachable(f"there is no file {self._path} to back up")
            source = await asyncio.to_thread(self._open_file, read_only=True)
            try:
                return await asyncio.to_thread(back_up, source, file, progress)
            finally:
                source.close()
        self._refuse_if_borrowed()
        lease = self.writer.lease()
        try:
            await asyncio.wrap_future(lease.granted)
            memory = self._memory
            if memory is None:
                raise DatabaseUnreachable("the database in memory has not been opened yet")
            return await asyncio.to_thread(back_up, memory, file, progress)
        finally:
            lease.give_back()

    def close(self) -> None:
        """Finish queued writes and close every connection."""
        self._refuse_if_borrowed()
        memory = self._memory
        self.writer.close()
        with self._lock:
            readers, self._readers = self._readers, None
            if self._memory is memory:  # another may have been opened meanwhile
                self._memory = None
        if readers is not None:
            readers.close()
        if memory is not None:
            memory.close_for_good()

    def leave(self) -> None:
        """Close as `close` does, later and in the threads of this database, which nobody can use
        any more. For a finaliser: takes no lock and waits for nothing.
        """
        memory, readers = self._memory, self._readers
        self.writer.leave(_nothing if memory is None else memory.close_for_good)
        if readers is not None:
            readers.leave()

    @property
    def is_borrowed(self) -> bool:
        """Whether an open transaction of the running task holds the writer."""
        return any(owner == id(self) and not lease.is_over for owner, lease in _borrowed.get())

    def _refuse_if_borrowed(self) -> None:
        """Waiting for the writer while this task holds it would be for ever."""
        if self.is_borrowed:
            raise MemalchemyError(
                "an open transaction of this task holds the database's only writer: pass it, "
                "connection=tx"
            )

    def _connect_writer(self) -> Connection:
        connect = self._open_memory if self._path is None else self._open_file
        return engine_of(connect).connect()

    def _connect_reader(self) -> Connection:
        return engine_of(lambda: self._open_file(read_only=True)).connect()

    def _open_memory(self) -> sqlite3.Connection:
        self._memory = sqlite3.connect(
            ":memory:", factory=MemoryHandle, isolation_level=None, check_same_thread=False
        )
        self._memory.execute("PRAGMA foreign_keys = ON")
        if self._statement_timeout is not None:
            self._memory.limit(self._statement_timeout)
        return self._memory

    def _open_file(
        self, *, read_only: bool = False, factory: type[Handle] = Handle
    ) -> sqlite3.Connection:
        # Switching to WAL needs the file alone for a moment, and SQLite does not wait for that.
        deadline = time.monotonic() + self._open_timeout
        place = self._place()
        while True:
            connection = sqlite3.connect(
                place,
                uri=not self.may_create,
                factory=factory,
                isolation_level=None,
                check_same_thread=False,
            )
            connection.closing = self._closing
            try:
                prepare(
                    connection,
                    synchronous=self._synchronous,
                    read_only=read_only,
                    busy_timeout=self._statement_timeout,
                )
            except sqlite3.Error as error:
                connection.close()
                code = getattr(error, "sqlite_errorcode", 0)
                busy = (code & 0xFF) in (
                    sqlite3.SQLITE_BUSY,
                    sqlite3.SQLITE_LOCKED,
                )
                if not busy or time.monotonic() > deadline:
                    raise
                time.sleep(0.01)
            else:
                if self._statement_timeout is not None:
                    connection.limit(self._statement_timeout)
                return connection

    def _place(self) -> str:
        """What to connect to: SQLite makes a file of any path that it is given plainly."""
        assert self._path is not None
        if self.may_create:
            return self._path
        path = Path(self._path).absolute()
        if not path.exists():
            raise SchemaOutdated(None, migrate.head(), missing_file=self._path)
        return f"{path.as_uri()}?mode=rw"

    def _apart(self, job: Callable[[Connection], T]) -> T:
        engine = engine_of(self._open_file)
        event.listen(engine, "do_execute", _free_pages)
        try:
            with engine.connect() as connection:
                return job(connection)
        finally:
            engine.dispose()

    def _lends(self, *, read_only: bool) -> AsyncEngine:
        """An engine that opens a connection each time, and holds none."""
        own = weakref.ref(self)  # no ring of references: who drops it, drops it at once

        def open_() -> Any:
            embedded = own()
            assert embedded is not None
            if embedded._memory is not None:
                return LentMemory(embedded._memory)
            return embedded._open_file(read_only=read_only, factory=LentHandle)

        async def create(*args: Any, **kw: Any) -> aiosqlite.Connection:
            return await Borrowed(open_, iter_chunk_size=64)

        engine = create_async_engine(
            "sqlite+aiosqlite://", poolclass=NullPool, async_creator=create, hide_parameters=True
        )
        event.listen(engine.sync_engine, "begin", _begin if read_only else _begin_immediate)
        return engine


def _nothing() -> None: ...


def _begin(connection: Connection) -> None:
    connection.exec_driver_sql("BEGIN")


def _free_pages(cursor: sqlite3.Cursor, statement: str, *_: Any) -> bool:
    """Step PRAGMA incremental_vacuum to its end, and tell if this was one: it frees a page a step,
    and Python steps a statement without columns only once unless it is in a script.
    """
    if not statement.startswith("PRAGMA incremental_vacuum"):
        return False
    cursor.executescript(statement)
    return True


def _begin_immediate(connection: Connection) -> None:
    connection.exec_driver_sql("BEGIN IMMEDIATE")
