"""SQLite's connections as Python has them: with a time limit, lent to a transaction, shared."""

from __future__ import annotations

import math
import sqlite3
import time
import weakref
from collections.abc import Callable, Iterable
from contextlib import AbstractContextManager, nullcontext
from functools import cache
from typing import Any

from sqlalchemy import Connection, Engine, create_engine
from sqlalchemy.pool import NullPool, StaticPool

STEPS_BETWEEN_LOOKS = 10_000
"""Of SQLite's virtual machine: well under a millisecond, and asking costs next to nothing."""


class _Clock:
    """When the running statement has had its time. SQLite asks between the steps it takes."""

    def __init__(self, seconds: float) -> None:
        self._seconds = seconds
        self._ends = math.inf

    def start(self) -> None:
        self._ends = time.monotonic() + self._seconds

    def is_over(self) -> bool:
        return time.monotonic() > self._ends


class _Cursor(sqlite3.Cursor):
    """A cursor of a connection that has a clock."""

    def execute(self, *args: Any) -> Any:
        self.connection.clock.start()  # type: ignore[attr-defined]
        return super().execute(*args)

    def executemany(self, *args: Any) -> Any:
        self.connection.clock.start()  # type: ignore[attr-defined]
        return super().executemany(*args)


class Handle(sqlite3.Connection):
    """A connection whose statements may have a time limit."""

    clock: _Clock | None = None
    closing: AbstractContextManager[object] = nullcontext()
    """One at a time: the last to close empties the write-ahead log; of two at once neither is."""

    def limit(self, seconds: float) -> None:
        """End every statement that runs for longer. COMMIT is never ended: it is too few steps."""
        self.clock = _Clock(seconds)
        self.set_progress_handler(self.clock.is_over, STEPS_BETWEEN_LOOKS)

    def cursor(self, *args: Any, **kw: Any) -> Any:
        if self.clock is not None:
            args = args or (_Cursor,)
        return super().cursor(*args, **kw)

    def close(self) -> None:
        with self.closing:
            super().close()


class LentHandle(Handle):
    """A connection of a transaction. A cancelled one may be closed in the middle of a statement;
    unless that is ended first, SQLite keeps the transaction and its lock behind the closed handle.
    """

    def __init__(self, *args: Any, **kw: Any) -> None:
        super().__init__(*args, **kw)
        self._cursors: weakref.WeakSet[sqlite3.Cursor] = weakref.WeakSet()
        self._is_closed = False
        self.on_close: Callable[[], None] = _nothing

    def cursor(self, *args: Any, **kw: Any) -> Any:
        made = super().cursor(*args, **kw)
        self._cursors.add(made)
        return made

    def close(self) -> None:
        """Roll back what is not committed, close, and call ``on_close``. Idempotent."""
        if self._is_closed:
            return
        self._is_closed = True
        try:
            _end(self, self._cursors)
            super().close()
        finally:
            self.on_close()


class MemoryHandle(Handle):
    """The connection that a database in memory is: it stays open until `close_for_good`."""

    def __init__(self, *args: Any, **kw: Any) -> None:
        super().__init__(*args, **kw)
        self._functions: set[str] = set()

    def create_function(self, name: str, *args: Any, **kw: Any) -> None:
        # SQLAlchemy registers its own at each borrowing; SQLite refuses while a statement runs.
        if name not in self._functions:
            self._functions.add(name)
            super().create_function(name, *args, **kw)

    def close(self) -> None:
        """Do nothing: a pool closes what it was lent."""

    def close_for_good(self) -> None:
        super().close()


class LentMemory:
    """A `MemoryHandle`, lent to one transaction: it ends with that, and the database does not.

    Closed, it refuses everything, as any closed connection does: the database may be in another's
    transaction by then.
    """

    def __init__(self, memory: MemoryHandle) -> None:
        self._memory: MemoryHandle | None = memory
        self._cursors: weakref.WeakSet[sqlite3.Cursor] = weakref.WeakSet()
        self.on_close: Callable[[], None] = _nothing

    def __getattr__(self, name: str) -> Any:
        return getattr(self._open(), name)

    @property
    def in_transaction(self) -> bool:
        """Whether it is in a transaction; a closed one is not."""
        return self._memory is not None and self._memory.in_transaction

    def cursor(self, *args: Any, **kw: Any) -> Any:
        made = self._open().cursor(*args, **kw)
        self._cursors.add(made)
        return made

    def close(self) -> None:
        """Roll back what is not committed, and call ``on_close``. Idempotent."""
        memory, self._memory = self._memory, None
        if memory is not None:
            try:
                _end(memory, self._cursors)
            finally:
                self.on_close()

    def _open(self) -> MemoryHandle:
        if self._memory is None:
            raise sqlite3.ProgrammingError("Cannot operate on a closed database.")
        return self._memory


def _end(handle: sqlite3.Connection, cursors: Iterable[sqlite3.Cursor]) -> None:
    """Close what is open and roll back."""
    for cursor in list(cursors):
        cursor.close()
    if handle.in_transaction:
        handle.rollback()


def _nothing() -> None: ...


def engine_of(connect: Callable[[], sqlite3.Connection]) -> Engine:
    """SQLAlchemy's view of one connection in autocommit mode."""
    return create_engine(
        "sqlite://",
        creator=connect,
        poolclass=StaticPool,
        isolation_level="AUTOCOMMIT",
        hide_parameters=True,
    )


def view_of(handle: Any) -> Connection:
    """SQLAlchemy's view of a connection in the middle of a transaction, on which it ends nothing.

    An engine that is made for it would begin with a ROLLBACK.
    """
    kind = _kind_of_all()
    pool = StaticPool(lambda: handle, reset_on_return=None, dialect=kind.dialect)
    engine = Engine(pool, kind.dialect, kind.url, hide_parameters=True)
    return engine.connect().execution_options(compiled_cache=_compiled)


_compiled: dict[Any, Any] = {}
"""What is run on views, which are our own statements: each has an engine of its own."""


@cache
def _kind_of_all() -> Engine:
    engine = create_engine("sqlite://", poolclass=NullPool)
    with engine.connect():
        return engine  # its dialect has seen a connection, and knows this SQLite
