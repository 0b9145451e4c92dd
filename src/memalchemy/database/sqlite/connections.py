"""sqlite3 connections: with a statement timeout, for a transaction, for a database in memory.

`SQLiteDirectConnection` sends compiled statements on them without SQLAlchemy's execution.
"""

from __future__ import annotations

import math
import sqlite3
import time
import weakref
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager, nullcontext
from functools import cache
from typing import Any, Literal

from sqlalchemy import Connection, Engine, create_engine, event
from sqlalchemy.exc import DBAPIError
from sqlalchemy.pool import NullPool, StaticPool

from memalchemy._unreadable_rows import UnreadableRows
from memalchemy.database.compiled import CompiledStatement, CompiledStatements
from memalchemy.database.direct_connection import DirectConnection
from memalchemy.database.logging_filters import ENGINE_NAME
from memalchemy.events import StatementEvent, publish_statement, statement_subscribers
from memalchemy.statements import Answer

STEPS_BETWEEN_CHECKS = 10_000
"""Steps of SQLite's virtual machine between two looks at the clock: well under a millisecond."""


class _StatementClock:
    """The deadline of the running statement. SQLite asks for it between its steps."""

    def __init__(self, seconds: float) -> None:
        self._seconds = seconds
        self._ends = math.inf

    def start(self) -> None:
        self._ends = time.monotonic() + self._seconds

    def is_over(self) -> bool:
        return time.monotonic() > self._ends


class _Cursor(sqlite3.Cursor):
    """A cursor that starts the clock of its connection at each statement."""

    def execute(self, *args: Any) -> Any:
        self.connection.clock.start()  # type: ignore[attr-defined]
        return super().execute(*args)

    def executemany(self, *args: Any) -> Any:
        self.connection.clock.start()  # type: ignore[attr-defined]
        return super().executemany(*args)


class SQLiteConnection(sqlite3.Connection):
    """A connection whose statements may have a timeout."""

    clock: _StatementClock | None = None
    closing: AbstractContextManager[object] = nullcontext()
    """A lock around closing. The last connection to close empties the write-ahead log, and of two
    that close at once neither is the last.
    """
    is_current: Callable[[], bool] = staticmethod(lambda: True)
    """False once what was read may be of two moments; see `sqlite_read_only`."""
    is_open = True
    file: tuple[int, int] | None = None
    """The device and the inode of the file that was opened."""
    loop_thread: int | None = None
    """The thread of the event loop on which a transaction of this connection lives."""

    def set_statement_timeout(self, seconds: float) -> None:
        """Interrupt every statement that runs for longer; never COMMIT, which takes few steps."""
        self.clock = _StatementClock(seconds)
        self.set_progress_handler(self.clock.is_over, STEPS_BETWEEN_CHECKS)

    def cursor(self, *args: Any, **kw: Any) -> Any:
        if self.clock is not None:
            args = args or (_Cursor,)
        return super().cursor(*args, **kw)

    def close(self) -> None:
        with self.closing:
            super().close()
            self.is_open = False


class MemoryConnection(SQLiteConnection):
    """The connection that a database in memory consists of: open until `close_for_good`."""

    def __init__(self, *args: Any, **kw: Any) -> None:
        super().__init__(*args, **kw)
        self._functions: set[str] = set()

    def create_function(self, name: str, *args: Any, **kw: Any) -> None:
        # SQLAlchemy registers its functions with each engine; SQLite refuses to do that while a
        # statement runs.
        if name not in self._functions:
            self._functions.add(name)
            super().create_function(name, *args, **kw)

    def close(self) -> None:
        """Do nothing: a pool closes its connections, and the database has to stay."""

    def close_for_good(self) -> None:
        """Close the connection, which ends the database."""
        super().close()


class LentConnection:
    """A connection for the time of one transaction, on one that it may have borrowed.

    Once closed it refuses everything, as any closed connection does: the one below may be in
    somebody else's transaction by then. A cancelled transaction may close it in the middle of a
    statement. Unless the statement is ended first, SQLite keeps the transaction and its lock.

    Args:
        below: the connection that executes the statements.
        is_borrowed: leave *below* open. What `give_back` is set to is then called at the end; until
            it is set no transaction has begun, and none is ended: one that is open is another's.
    """

    def __init__(self, below: SQLiteConnection, *, is_borrowed: bool) -> None:
        self._below: SQLiteConnection | None = below
        self._is_borrowed = is_borrowed
        self._cursors: weakref.WeakSet[sqlite3.Cursor] = weakref.WeakSet()
        self.give_back: Callable[[], None] | None = None

    def __getattr__(self, name: str) -> Any:
        return getattr(self._open(), name)

    @property
    def in_transaction(self) -> bool:
        """True while a transaction is open; false of a closed connection."""
        below = self._below  # looked at once: it may be closed in another thread meanwhile
        return below is not None and below.in_transaction

    @property
    def text_factory(self) -> Any:
        """The function that makes texts of bytes, for statements from then on."""
        return self._open().text_factory

    @text_factory.setter
    def text_factory(self, factory: Any) -> None:
        self._open().text_factory = factory

    def cursor(self, *args: Any, **kw: Any) -> Any:
        made = self._open().cursor(*args, **kw)
        self._cursors.add(made)
        return made

    # These two may wait in the queue of a thread while the connection is given to another
    # transaction, so what they may do is decided when they run.

    def commit(self) -> None:
        """Commit the transaction."""
        if not self._is_anothers():
            self._open().commit()

    def rollback(self) -> None:
        """Roll the transaction back."""
        if not self._is_anothers():
            self._open().rollback()

    def close(self) -> None:
        """Roll back what is not committed, and give the connection back. Idempotent."""
        below, self._below = self._below, None
        if below is None:
            return
        for cursor in list(self._cursors):
            cursor.close()
        if self._is_anothers():
            return
        try:
            if below.in_transaction:
                below.rollback()
            if not self._is_borrowed:
                below.close()
        finally:
            if self.give_back is not None:
                self.give_back()

    def _is_anothers(self) -> bool:
        """Return whether *below* may be in another's transaction: this one's opening was given up,
        or goes on.
        """
        return self._is_borrowed and self.give_back is None

    def _open(self) -> SQLiteConnection:
        below = self._below
        if below is None:
            raise sqlite3.ProgrammingError("Cannot operate on a closed database.")
        return below


def open_connection(connect: Callable[[], Any]) -> Connection:
    """Return SQLAlchemy's connection, in autocommit mode, for a new one of the driver.

    Its engine shares a dialect: `create_engine` makes one, and asks each new database about it.
    """
    template = _template_engine("AUTOCOMMIT")
    pool = StaticPool(connect, dialect=template.dialect)
    set_up = template.dialect.on_connect()
    if set_up is not None:
        event.listen(pool, "connect", lambda raw, _: set_up(raw))
    engine = Engine(pool, template.dialect, template.url, ENGINE_NAME, hide_parameters=True)
    return engine.connect()


def engine_for(connect: Callable[[], sqlite3.Connection]) -> Engine:
    """Return an engine of one connection in autocommit mode, whose events are its own."""
    return create_engine(
        "sqlite://",
        creator=connect,
        poolclass=StaticPool,
        isolation_level="AUTOCOMMIT",
        hide_parameters=True,
        logging_name=ENGINE_NAME,
    )


def connection_in_transaction(raw: Any) -> Connection:
    """Return SQLAlchemy's connection for *raw*, which is in a transaction, and leave that open.

    `create_engine` would begin with a ROLLBACK.
    """
    template = _template_engine(None)
    pool = StaticPool(lambda: raw, reset_on_return=None, dialect=template.dialect)
    engine = Engine(pool, template.dialect, template.url, ENGINE_NAME, hide_parameters=True)
    return engine.connect().execution_options(compiled_cache=_compiled)


_compiled: dict[Any, Any] = {}
"""SQLAlchemy's compiled-SQL cache, shared by all engines of `connection_in_transaction`."""


@cache
def _template_engine(isolation_level: Literal["AUTOCOMMIT"] | None) -> Engine:
    options = {} if isolation_level is None else {"isolation_level": isolation_level}
    engine = create_engine("sqlite://", poolclass=NullPool, **options)
    with engine.connect():
        return engine  # its dialect has been initialised by a first connection


_statements = CompiledStatements()


class SQLiteDirectConnection(DirectConnection):
    """Executes statements on a connection of the standard library's sqlite3."""

    driver = "sqlite3"
    _binding_errors_are_ours = True

    def __init__(self, connection: Connection) -> None:
        super().__init__(connection, _statements)
        self._cursor: Any = None
        """The cursor of all statements, of which nothing is open between two of them."""

    async def _send(self, compiled: CompiledStatement, values: Sequence[Any]) -> Answer:
        cursor = self._cursor or self._open_cursor()
        try:
            cursor.execute(compiled.sql, values)
            answer = Answer(compiled.rows(cursor.fetchall()) if compiled.width else ())
            answer.touched = cursor.rowcount
            return answer
        except Exception as error:
            self._cursor = None
            cursor.close()  # it may be in the middle of its rows
            if not isinstance(error, sqlite3.Error):
                raise
            if str(error).startswith("Could not decode to UTF-8"):
                return self._send_with_undecodable_text(compiled, values)
            raise DBAPIError.instance(
                compiled.sql, None, error, sqlite3.Error, hide_parameters=True, dialect=self.dialect
            ) from error

    def execute_control(self, sql: str) -> None:
        """Begin or end a transaction."""
        if not statement_subscribers:
            self.raw.execute(sql)
            return
        started = time.perf_counter()
        self.raw.execute(sql)
        seconds = time.perf_counter() - started
        publish_statement(StatementEvent(sql, self.dialect.name, self.driver, seconds))

    def _open_cursor(self) -> Any:
        self._cursor = self.raw.cursor()
        return self._cursor

    def _send_with_undecodable_text(
        self, compiled: CompiledStatement, values: Sequence[Any]
    ) -> Answer:
        """Execute a query again with text that is not UTF-8 read as bytes, to say which row it is.

        Raises:
            UnreadableRows: always, as bytes are not text.
        """

        def decoded(raw: bytes) -> Any:
            try:
                return raw.decode()
            except UnicodeDecodeError:
                return raw

        if not compiled.sql.lstrip().upper().startswith(("SELECT", "WITH")):
            raise UnreadableRows("a text of a row is not UTF-8", [], {})
        before, self.raw.text_factory = self.raw.text_factory, decoded
        cursor = self.raw.cursor()
        try:
            cursor.execute(compiled.sql, values)
            return Answer(compiled.rows(cursor.fetchall()))
        finally:
            cursor.close()
            self.raw.text_factory = before
