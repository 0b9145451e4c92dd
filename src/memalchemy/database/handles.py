"""SQLite's connections as Python has them: with a time limit, lent to a transaction, shared."""

from __future__ import annotations

import math
import sqlite3
import time
import weakref
from collections.abc import Callable
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

    def cursor(self, *args: Any, **kw: Any) -> Any:
        made = super().cursor(*args, **kw)
        self._cursors.add(made)
        return made

    def end(self) -> None:
        """Close what is open on it and roll back."""
        for cursor in list(self._cursors):
            cursor.close()
        if self.in_transaction:
            self.rollback()

    def close(self) -> None:
        self.end()
        super().close()


class SharedHandle(LentHandle):
    """A database in memory is its connection: closing a borrowed one must not end it."""

    def __init__(self, *args: Any, **kw: Any) -> None:
        super().__init__(*args, **kw)
        self._functions: set[str] = set()

    def create_function(self, name: str, *args: Any, **kw: Any) -> None:
        # SQLAlchemy registers its own at each borrowing; SQLite refuses while a statement runs.
        if name not in self._functions:
            self._functions.add(name)
            super().create_function(name, *args, **kw)

    def close(self) -> None:
        self.end()

    def close_for_good(self) -> None:
        super().close()


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
