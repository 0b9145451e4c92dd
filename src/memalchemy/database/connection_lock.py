"""Keep the users of one connection apart, and a connection in a transaction out of its pool.

Several tasks may be given one connection: ours, by `Database.transaction`, or the host's own. An
async driver runs one statement at a time on it. What comes meanwhile it refuses, a ROLLBACK too,
and the pool would lend the connection on with its transaction open. So the operations of memalchemy
take turns on a connection, the end of its transaction takes a turn of its own, and a pool neither
keeps nor lends a connection that is in a transaction.
"""

from __future__ import annotations

import asyncio
import weakref
from collections.abc import AsyncIterator, Coroutine
from contextlib import asynccontextmanager
from contextvars import ContextVar
from dataclasses import dataclass
from types import TracebackType
from typing import Any, TypeVar

from sqlalchemy import Connection, Engine, ExceptionContext, Transaction, event
from sqlalchemy.exc import DisconnectionError, InvalidatePoolError, InvalidRequestError
from sqlalchemy.ext.asyncio import AsyncConnection, AsyncSession
from sqlalchemy.orm import Session
from sqlalchemy.pool import NullPool, Pool, QueuePool
from sqlalchemy.util import await_only

from memalchemy.database.thread_future import to_its_end
from memalchemy.dialects import Dialect, Failure, dialect_of
from memalchemy.errors import MemalchemyError

T = TypeVar("T")

_OVER = (
    "the transaction of this connection has ended, so nothing more can be part of it: wait for "
    "every task that uses connection= before the end of its block"
)


class ConnectionLock:
    """One lock for each open connection: who holds it is the only one to send statements on it.

    It is an asynchronous context manager of one operation. The end of a transaction waits for the
    operations that asked before it, and those that come later are refused.
    """

    def __init__(self) -> None:
        self._lock = asyncio.Lock()
        self._holder: asyncio.Task[Any] | None = None
        self._ended: weakref.ref[Transaction] | None = None
        self._only: weakref.ref[Transaction] | None = None
        self.is_interrupted: bool = False
        """The end of the transaction was cancelled while it waited for an operation."""

    @classmethod
    def of(cls, connection: AsyncConnection) -> ConnectionLock:
        """Return the lock of a connection that has been opened, the same for all who ask."""
        sync = connection.sync_connection
        assert sync is not None
        lock = _locks.get(sync)
        if lock is None:
            lock = _locks[sync] = cls()
            if sync.engine not in _guarded:
                # It was opened before its engine had listeners.
                _guard_pool(sync.engine, dialect_of(sync))
                event.listen(sync, "commit", _end_lock)
                event.listen(sync, "rollback", _end_lock)
        return lock

    def confine(self, transaction: Transaction) -> None:
        """Allow operations in this transaction alone: the connection has no other."""
        self._only = weakref.ref(transaction)

    def operation(self, connection: AsyncConnection) -> _Operation:
        """Wait for a turn on *connection*: ``async with lock.operation(connection)``.

        Raises:
            MemalchemyError: the transaction that it was to be part of has ended; nothing was sent.
        """
        return _Operation(self, connection)

    async def acquire(self, connection: AsyncConnection) -> None:
        """Wait for a turn; see `operation`."""
        sync = connection.sync_connection
        if sync is None or sync.closed:
            raise MemalchemyError(_OVER)
        transaction = sync.get_transaction()
        await self._lock.acquire()
        if sync.closed or self._is_over(transaction):
            self._lock.release()
            raise MemalchemyError(_OVER)
        self._holder = asyncio.current_task()

    def release(self) -> None:
        """Give the turn to the next."""
        self._holder = None
        self._lock.release()

    async def to_its_end(self, work: Coroutine[Any, Any, T]) -> T:
        """Await the *work* of the operation whose turn it is; if cancelled, wait for its end first.

        A driver's connection to SQLite that is closed in the middle of a statement keeps its
        transaction, and the lock of the file.
        """
        task = self._holder = asyncio.ensure_future(work)
        return await to_its_end(task)

    def end(self, sync: Connection) -> None:
        """Wait in a greenlet for the operations before this end, and refuse those behind it.

        If the wait is cancelled, the operation that runs is interrupted, and the connection is
        closed as soon as nobody uses it: its transaction is undone by that.
        """
        mine = self._holder is not None and self._holder is asyncio.current_task()
        cancelled = self._wait_uncancelled(sync) if self._lock.locked() and not mine else None
        self._refuse_from_now_on(sync)
        if cancelled is not None:
            sync.invalidate(cancelled)
            raise cancelled

    def _wait_uncancelled(self, sync: Connection) -> asyncio.CancelledError | None:
        """Wait until nobody uses the connection; psycopg crashes if it is closed before that."""
        cancelled = None
        while True:
            try:
                await_only(self._lock.acquire())
            except asyncio.CancelledError as error:
                if cancelled is None:
                    cancelled = error
                    self._refuse_from_now_on(sync)
                    self.is_interrupted = True
                    dialect_of(sync).interrupt(sync.connection.driver_connection)
            else:
                self._lock.release()
                return cancelled

    def _refuse_from_now_on(self, sync: Connection) -> None:
        transaction = sync.get_transaction()
        self._ended = None if transaction is None else weakref.ref(transaction)

    def _is_over(self, transaction: Transaction | None) -> bool:
        if self._only is not None and (transaction is None or self._only() is not transaction):
            return True
        return transaction is not None and self._ended is not None and self._ended() is transaction


class _Operation:
    """One turn on a connection."""

    __slots__ = ("_connection", "_lock")

    def __init__(self, lock: ConnectionLock, connection: AsyncConnection) -> None:
        self._lock = lock
        self._connection = connection

    async def __aenter__(self) -> None:
        await self._lock.acquire(self._connection)

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._lock.release()
        if self._lock.is_interrupted and isinstance(error, AttributeError):
            # What asyncpg fails with when it is closed between two messages.
            raise MemalchemyError(_OVER) from error


async def connection_of(session: AsyncSession) -> AsyncConnection:
    """Return the connection of a host's session, which begins a transaction if it has none.

    Raises:
        MemalchemyError: another task is beginning or ending the session's transaction.
    """
    lock = _session_locks.setdefault(session.sync_session, asyncio.Lock())
    async with lock:
        try:
            return await session.connection()
        except InvalidRequestError as error:
            if error.code != "isce":  # SQLAlchemy's code for a state that is just changing
                raise
            raise MemalchemyError(
                "another task is beginning or ending the transaction of this AsyncSession, so "
                "nothing was sent: give each task a session of its own, or wait for every task "
                "that uses it before the end"
            ) from error


_session_locks: weakref.WeakKeyDictionary[Session, asyncio.Lock] = weakref.WeakKeyDictionary()


class SoleConnection:
    """The one connection of a host's engine that has no other, as SQLite's in memory.

    What is done on it is part of whatever transaction it is in, so its users take turns.
    """

    def __init__(self) -> None:
        self._lock = asyncio.Lock()

    @asynccontextmanager
    async def turn(self) -> AsyncIterator[None]:
        """Wait until nobody else of this `Database` uses it.

        Raises:
            MemalchemyError: the running task is in a transaction on it, and would wait for itself.
        """
        if any(turn.of is self and not turn.is_over for turn in _turns.get()):
            raise MemalchemyError(_SOLE)
        async with self._lock:
            mine = _Turn(self)
            _turns.set((*(turn for turn in _turns.get() if not turn.is_over), mine))
            try:
                yield
            finally:
                mine.is_over = True

    def check_free(self, connection: AsyncConnection, dialect: Dialect) -> None:
        """Raise `MemalchemyError` if the host is in a transaction on it."""
        sync = connection.sync_connection
        assert sync is not None
        if dialect.in_transaction(sync.connection.driver_connection):
            raise MemalchemyError(_SOLE)


@dataclass
class _Turn:
    of: SoleConnection
    is_over: bool = False


_SOLE = (
    "the engine has one connection for all, and that is in a transaction: pass it, connection=…, "
    "or use a database with a file"
)

# The turns that the running task, or one that it was started from, has had.
_turns: ContextVar[tuple[_Turn, ...]] = ContextVar("memalchemy_turns", default=())

_locks: weakref.WeakKeyDictionary[Connection, ConnectionLock] = weakref.WeakKeyDictionary()

_guarded: weakref.WeakSet[Engine] = weakref.WeakSet()
"""Engines with the listeners: every connection that they open has them too."""

_guarded_pools: weakref.WeakSet[Pool] = weakref.WeakSet()
"""The pools that have listeners. Engines made by execution_options() have the pool of the first."""


def guard(engine: Engine, dialect: Dialect) -> None:
    """Let the pool of *engine*, ours or the host's, neither keep nor lend an open transaction.

    A connection is returned in a transaction if its ROLLBACK failed, for instance because another
    task was still using it. It is closed, which undoes the transaction.
    """
    if engine in _guarded:
        return
    _guarded.add(engine)
    event.listen(engine, "commit", _end_lock)
    event.listen(engine, "rollback", _end_lock)
    _guard_pool(engine, dialect)


def _guard_pool(engine: Engine, dialect: Dialect) -> None:
    """Close connections that a failed end leaves in a transaction; the pool lends none of them.

    A pool of one connection for all is left alone: what is in memory would go with it.
    """
    if engine.pool in _guarded_pools or not isinstance(engine.pool, (QueuePool, NullPool)):
        return
    _guarded_pools.add(engine.pool)
    guard = _PoolGuard(dialect)
    event.listen(engine, "handle_error", guard.close_if_useless)
    if isinstance(engine.pool, NullPool):
        return  # it keeps none
    event.listen(engine, "checkin", guard.returned)  # of a pool that takes its place as well
    event.listen(engine, "checkout", guard.lent)


@dataclass(frozen=True)
class _PoolGuard:
    """Listeners of an engine that close what cannot be lent again."""

    dialect: Dialect

    def returned(self, _: Any, record: Any) -> None:
        """Close a connection that comes back in a transaction."""
        raw = record.driver_connection
        if raw is not None and self.dialect.in_transaction(raw):
            # A wait here could be cancelled, and the pool would never get its place back.
            record.invalidate(soft=self.dialect.abandon(raw))

    def lent(self, _: Any, record: Any, __: Any) -> None:
        """Let the pool lend another connection for one that has ended, or is in a transaction."""
        if self.dialect.has_said_farewell(record.driver_connection):
            # Before anything is sent: of a lone statement nobody could say whether it ran. The
            # others were most likely ended with it.
            raise InvalidatePoolError("the server has ended the connection")
        if self.dialect.in_transaction(record.driver_connection):
            raise DisconnectionError("the connection is in a transaction of somebody else's")

    def close_if_useless(self, context: ExceptionContext) -> None:
        """Let SQLAlchemy close the connection of an error after which it is useless."""
        sync = context.connection
        if sync is None or sync.invalidated:
            return
        raw, error = sync.connection.driver_connection, context.original_exception
        failure, _ = self.dialect.classify(error)
        is_useless = failure in (Failure.READ_ONLY, Failure.NOT_PREPARED)
        if self.dialect.is_lost(raw, error):
            context.is_disconnect = True
        elif is_useless and sync.in_nested_transaction():
            sync.connection.invalidate(soft=True)  # the savepoint may be rolled back to
        elif is_useless and not self.dialect.single_writer:
            # Another connection may lead to a node that takes writes. So may all of the pool,
            # while what a session has lost is lost to it alone.
            context.is_disconnect = True
            context.invalidate_pool_on_disconnect = failure is Failure.READ_ONLY
        elif (
            context.statement is None
            and self.dialect.in_transaction(raw)
            and not self.dialect.at_work(raw)
        ):
            # Not a statement failed but the end of the transaction. A session that is closed by
            # this error would give its connection back when it is collected as garbage.
            context.is_disconnect = True
            context.invalidate_pool_on_disconnect = False


def _end_lock(sync: Connection) -> None:
    lock = _locks.get(sync)
    if lock is not None:
        lock.end(sync)
