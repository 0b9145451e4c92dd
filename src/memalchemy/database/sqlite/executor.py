"""The executor for SQLite: a writer thread, reader threads, transactions that hold the writer."""

from __future__ import annotations

import asyncio
import os
import sqlite3
import threading
import weakref
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager, suppress
from contextvars import ContextVar
from functools import partial
from pathlib import Path
from typing import Any, ClassVar, TypeVar

import aiosqlite
from sqlalchemy import Connection, event
from sqlalchemy.ext.asyncio import AsyncConnection, AsyncEngine, create_async_engine
from sqlalchemy.pool import NullPool

from memalchemy import migrate
from memalchemy._retry import CONFLICTS, retry_while_busy
from memalchemy.database.executors.base import Attempt, Executor
from memalchemy.database.intent import Kind
from memalchemy.database.logging_filters import ENGINE_NAME
from memalchemy.database.program_runner import run_synchronously
from memalchemy.database.sqlite import forks
from memalchemy.database.sqlite.aiosqlite_connection import AioSQLiteConnection
from memalchemy.database.sqlite.backup import Progress, back_up, complete_or_absent
from memalchemy.database.sqlite.connections import (
    LentConnection,
    MemoryConnection,
    SQLiteConnection,
    SQLiteDirectConnection,
    engine_for,
    open_connection,
)
from memalchemy.database.sqlite.read_only import is_locked, open_read_only, unsettled
from memalchemy.database.sqlite.readers import Readers
from memalchemy.database.sqlite.writer import Writer, WriterLease
from memalchemy.dialects.sqlite import prepare_connection
from memalchemy.errors import (
    CapabilityMissing,
    DatabaseUnreachable,
    MemalchemyError,
    ReadOnly,
    SchemaOutdated,
)

T = TypeVar("T")

OPEN_TIMEOUT = 30.0

# The leases that the running task, or one that it was started from, has asked for.
_leases: ContextVar[tuple[tuple[int, WriterLease], ...]]
_leases = ContextVar("memalchemy_writer_leases", default=())


class SQLiteExecutor(Executor):
    """Runs jobs on one SQLite database, opened on first use; ``path=None`` is one in memory.

    All writes go through one connection in one thread, all reads of a file through connections of
    their own, which see the last commit.
    """

    is_embedded: ClassVar[bool] = True

    def __init__(
        self,
        path: str | None,
        synchronous: str,
        *,
        may_create: bool,
        read_only: bool,
        open_timeout: float | None,
        statement_timeout: float | None,
    ) -> None:
        self._path = path
        self._read_only = read_only
        self._synchronous = synchronous
        self.may_create = may_create
        self._open_timeout = OPEN_TIMEOUT if open_timeout is None else open_timeout
        self._statement_timeout = statement_timeout
        self._memory: MemoryConnection | None = None
        self._readers: Readers | None = None
        self._opened: forks.FileId | None = None
        """The file that was opened first, by which the others are held to be the same."""
        self._transaction_engine: AsyncEngine | None = None
        self._lock = threading.Lock()
        self._closing = threading.RLock()
        self.writer: Writer = Writer(
            self._connect_writer, self._check_same_file, is_the_database=path is None
        )

    def run(
        self, job: Callable[[Any], Any], kind: Kind, attempt: Attempt, *, is_program: bool
    ) -> Awaitable[Any]:
        if self._read_only and kind not in ("read", "read_transaction"):
            raise ReadOnly
        if is_program:
            job = partial(run_synchronously, job)
        if kind == "maintenance":
            return self._run_in_autocommit(job)
        if not is_program:
            job = partial(_run_on_sqlalchemy, job)
        if kind in ("read", "read_transaction") and self._path is not None:
            with self._lock:
                if self._readers is None:
                    self._readers = Readers(self._connect_reader, self._check_same_file)
                return self._readers.submit(job)
        if _leases.get():
            self._refuse_while_held()
        return self.writer.run(job)

    def allow_creation(self) -> None:
        self.may_create = True

    def file_bytes(self) -> int | None:
        """Return the size of the file with its write-ahead log; ``None`` in memory."""
        if self._path is None:
            return None
        return _size_of(self._path) + _size_of(f"{self._path}-wal")

    @asynccontextmanager
    async def transaction(self) -> AsyncIterator[AsyncConnection]:
        """Return a block with a connection for one transaction; other writers wait meanwhile."""
        if self._read_only:
            raise ReadOnly
        self._refuse_while_held()
        lease = self.writer.lease()
        closing_returns_lease = False
        try:
            await asyncio.wrap_future(lease.granted)
            _leases.set(
                (*(asked for asked in _leases.get() if asked[1].is_held), (id(self), lease))
            )
            # The engine is kept for its compiled-SQL cache.
            if self._transaction_engine is None:
                self._transaction_engine = self._async_engine(read_only=False)
            async with self._transaction_engine.connect() as connection:
                # Closing it gives the lease back, in its own thread, which no cancellation reaches.
                raw = AioSQLiteConnection.below(connection).sqlite_connection
                raw.give_back = lease.give_back
                closing_returns_lease = True
                yield connection
        finally:
            lease.is_left = True  # a block whose end is cancelled is left before it is closed
            if not closing_returns_lease:
                lease.give_back()

    @asynccontextmanager
    async def snapshot(self) -> AsyncIterator[AsyncConnection]:
        """Return a block with a connection whose reads all see one moment.

        Writers go on meanwhile, except in memory.
        """
        if self._path is None:
            async with self.transaction() as connection:
                yield connection
            return
        async with self._async_engine(read_only=True).connect() as connection:
            raw = AioSQLiteConnection.below(connection).sqlite_connection
            try:
                yield connection
            except Exception as error:
                if not raw.is_current():
                    raise unsettled() from error
                raise
            if not raw.is_current():
                raise unsettled()

    def refuse_inherited(self) -> None:
        if self._path is not None:
            forks.refuse_inherited(self._path)

    async def back_up(self, file: str, progress: Progress, *, force: bool) -> int:
        with complete_or_absent(file, force=force) as part:
            return await self._back_up(part, progress)

    async def _back_up(self, file: Path, progress: Progress) -> int:
        """Copy the database into the new *file* as of one moment; return the size in bytes."""
        if self._path is not None:
            if not os.path.exists(self._path):  # noqa: ASYNC240 - one look
                raise DatabaseUnreachable(f"there is no file {self._path} to back up")
            for _ in range(CONFLICTS.tries):  # see `Readers`
                source = await asyncio.to_thread(self._open_file, read_only=True)
                try:
                    size = await asyncio.to_thread(back_up, source, file, progress)
                    if source.is_current():
                        return size
                finally:
                    source.close()
            raise unsettled()
        self._refuse_while_held()
        lease = self.writer.lease()
        try:
            await asyncio.wrap_future(lease.granted)
            memory = self._memory
            if memory is None:
                raise DatabaseUnreachable("the database in memory has not been opened yet")
            return await asyncio.to_thread(back_up, memory, file, progress)
        finally:
            lease.give_back()

    async def close(self, *, in_thread: bool = True) -> None:
        if in_thread:
            await asyncio.to_thread(self._close)
        else:
            self._close()

    def _close(self) -> None:
        """Finish queued jobs and close every connection. Blocks."""
        self._refuse_while_held()
        memory = self._memory
        self.writer.close()
        self._opened = None  # the file may be replaced before it is used again
        with self._lock:
            readers, self._readers = self._readers, None
            if self._memory is memory:  # another may have been opened meanwhile
                self._memory = None
        if readers is not None:
            readers.close()
        if memory is not None:
            memory.close_for_good()

    def abandon(self) -> None:
        """Close as `close` does, later and in the threads of this database.

        For a finaliser, when nobody can use the database any more: takes no lock, does not wait.
        """
        memory, readers = self._memory, self._readers
        self.writer.abandon(_do_nothing if memory is None else memory.close_for_good)
        if readers is not None:
            readers.abandon()

    @property
    def holds_writer(self) -> bool:
        """True while an open transaction of the running task holds the writer."""
        return any(owner == id(self) and lease.is_held for owner, lease in _leases.get())

    def _refuse_while_held(self) -> None:
        """Refuse to wait for the writer in a task that holds it, which would last for ever."""
        if self.holds_writer:
            raise MemalchemyError(
                "an open transaction of this task holds the database's only writer: pass it, "
                "connection=tx"
            )

    def _connect_writer(self) -> Connection:
        connect = self._open_memory if self._path is None else self._open_file
        return open_connection(connect)

    def _connect_reader(self) -> Connection:
        return open_connection(lambda: self._open_file(read_only=True))

    def _open_memory(self) -> sqlite3.Connection:
        self._memory = sqlite3.connect(
            ":memory:", factory=MemoryConnection, isolation_level=None, check_same_thread=False
        )
        self._memory.execute("PRAGMA foreign_keys = ON")
        if self._statement_timeout is not None:
            self._memory.set_statement_timeout(self._statement_timeout)
        return self._memory

    def _open_file(self, *, read_only: bool = False) -> SQLiteConnection:
        self._check_same_file()
        opened = self._open_read_only() if self._read_only else self._open_shared(read_only)
        if self._opened is None:
            self._opened = opened.file
        return opened

    def _check_same_file(self) -> None:
        """Refuse to go on when the file was removed or replaced: nobody would find what is stored.

        The connections still have the file that was there before, without its name.
        """
        opened = self._opened  # looked at once: another thread may close the database meanwhile
        if opened is None or self._path is None or self._read_only:
            return  # a reader of a file that others replace reads the new one
        try:
            found = os.stat(self._path)
            if (found.st_dev, found.st_ino) == opened:
                return
            what = "replaced by another file"
        except FileNotFoundError:
            what = "removed or renamed"
        raise DatabaseUnreachable(
            f"{self._path} was {what} while it was open. Nothing was done: what this process would "
            "store now is in no file that anybody finds. Close the Database; if the file is to be "
            "another one, a new Database opens that."
        )

    def _open_shared(self, read_only: bool) -> SQLiteConnection:
        assert self._path is not None
        place = self._uri_or_path()
        if self.may_create:
            # For its owner alone; SQLite gives -wal and -shm the rights of the file.
            with suppress(OSError):  # it is there, or SQLite says what is wrong
                os.close(os.open(self._path, os.O_CREAT | os.O_EXCL | os.O_RDWR, 0o600))
        opening = partial(self._open_once, place, read_only)
        # Switching to WAL needs the file alone for a moment, and SQLite does not wait for that.
        connection = retry_while_busy(opening, self._open_timeout, is_locked)
        if self._statement_timeout is not None:
            connection.set_statement_timeout(self._statement_timeout)
        return connection

    def _open_once(self, place: str, read_only: bool) -> SQLiteConnection:
        assert self._path is not None
        connection = forks.open_file(self._path, place, uri=not self.may_create)
        connection.closing = self._closing
        try:
            prepare_connection(
                connection,
                synchronous=self._synchronous,
                read_only=read_only,
                busy_timeout=self._statement_timeout,
            )
        except sqlite3.Error:
            connection.close()
            raise
        return connection

    def _open_read_only(self) -> SQLiteConnection:
        assert self._path is not None
        self._check_file()
        connection = open_read_only(self._path, timeout=self._open_timeout)
        connection.closing = self._closing
        prepare_connection(
            connection,
            synchronous=self._synchronous,
            read_only=True,
            busy_timeout=self._statement_timeout,
        )
        if self._statement_timeout is not None:
            connection.set_statement_timeout(self._statement_timeout)
        return connection

    def _uri_or_path(self) -> str:
        """Return the name to connect to. Given a path SQLite creates the file, given a URI not."""
        assert self._path is not None
        if self.may_create:
            return self._path
        return f"{self._check_file().as_uri()}?mode=rw"

    def _check_file(self) -> Path:
        """Return the absolute path of the file, which must be there."""
        assert self._path is not None
        path = Path(self._path).absolute()
        if not path.exists():
            raise SchemaOutdated(
                None, migrate.head(), missing_file=self._path, read_only=self._read_only
            )
        return path

    async def _run_in_autocommit(self, job: Callable[[Connection], T]) -> T:
        """Run *job* on a connection of its own, each statement a transaction of its own."""
        if self._path is None:
            raise CapabilityMissing("a database in memory has no file to maintain")
        self._refuse_while_held()
        return await asyncio.to_thread(self._run_in_this_thread, job)

    def _run_in_this_thread(self, job: Callable[[Connection], T]) -> T:
        engine = engine_for(self._open_file)
        event.listen(engine, "do_execute", _free_pages)
        try:
            with engine.connect() as connection:
                return job(connection)
        finally:
            engine.dispose()

    def _async_engine(self, *, read_only: bool) -> AsyncEngine:
        """Return an engine that opens a connection each time and keeps none."""
        own = weakref.ref(self)  # a cycle of references would delay the end of the database

        def open_(loop_thread: int) -> Any:
            executor = own()
            assert executor is not None
            if executor._memory is not None:
                return LentConnection(executor._memory, is_borrowed=True)
            opened = executor._open_file(read_only=read_only)
            opened.loop_thread = loop_thread
            return LentConnection(opened, is_borrowed=False)

        async def create(*args: Any, **kw: Any) -> aiosqlite.Connection:
            opening = partial(open_, threading.get_ident())
            return await AioSQLiteConnection(opening, iter_chunk_size=64).opened()

        engine = create_async_engine(
            "sqlite+aiosqlite://",
            poolclass=NullPool,
            async_creator=create,
            hide_parameters=True,
            logging_name=ENGINE_NAME,
        )
        event.listen(engine.sync_engine, "begin", _begin if read_only else _begin_immediate)
        return engine


def _run_on_sqlalchemy(job: Callable[[Connection], T], direct: SQLiteDirectConnection) -> T:
    return job(direct.connection)


def _do_nothing() -> None: ...


def _size_of(path: str) -> int:
    """Return the size of a file; 0 if it is not there, as a log that somebody has just removed."""
    try:
        return os.stat(path).st_size
    except FileNotFoundError:
        return 0


def _begin(connection: Connection) -> None:
    connection.exec_driver_sql("BEGIN")


def _free_pages(cursor: sqlite3.Cursor, statement: str, *_: Any) -> bool:
    """Run PRAGMA incremental_vacuum to its end; return whether *statement* was one.

    It frees a page for each step, and Python steps a statement without columns only once unless it
    is in a script.
    """
    if not statement.startswith("PRAGMA incremental_vacuum"):
        return False
    cursor.executescript(statement)
    return True


def _begin_immediate(connection: Connection) -> None:
    connection.exec_driver_sql("BEGIN IMMEDIATE")
