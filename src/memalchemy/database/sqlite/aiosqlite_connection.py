"""aiosqlite connections of transactions, which take whole programs, too.

An async driver hops between two threads some eight times for each statement. A program goes to the
connection's own thread as a whole, in line with the statements before it.
"""

from __future__ import annotations

import asyncio
import sqlite3
from collections.abc import Callable
from typing import Any, TypeVar

import aiosqlite
from sqlalchemy.ext.asyncio import AsyncConnection

from memalchemy.database.logging_filters import hide_arguments
from memalchemy.database.sqlite.connections import SQLiteDirectConnection, connection_in_transaction
from memalchemy.errors import MemalchemyError

T = TypeVar("T")


_OVER = (
    "the transaction has ended: its block has, or SQLite rolled it back after a statement that ran "
    "out of time or room; nothing more can be part of it"
)

hide_arguments("aiosqlite")  # it logs calls with their values


class _Opening:
    """The opening of a connection in its thread, which may be given up meanwhile."""

    def __init__(self, connector: Callable[[], Any]) -> None:
        self.connection: Any = None
        self.error: Exception | None = None
        self._connector = connector
        self._is_given_up = False

    # Each of the two threads says what it did before it looks what the other did. So one of them
    # closes the connection; both may, which does no harm.

    def open(self) -> Any:
        """Open the connection; if that fails, one in memory, which aiosqlite closes in order.

        It waits for nothing after an error: its thread would speak to a loop that may have ended.
        """
        try:
            self.connection = self._connector()
        except Exception as error:  # noqa: BLE001 - raised by `AioSQLiteConnection.opened`
            self.error = error
            self.connection = sqlite3.connect(":memory:", check_same_thread=False)
        if self._is_given_up:
            self.connection.close()
        return self.connection

    def give_up(self) -> None:
        """Close the connection, now or when it is there; aiosqlite has forgotten it."""
        self._is_given_up = True
        if self.connection is not None:
            self.connection.close()


class AioSQLiteConnection(aiosqlite.Connection):
    """An aiosqlite connection that can run a whole job in its thread.

    In earlier releases aiosqlite's class is a `threading.Thread`, whose names must not be reused.
    """

    _direct: SQLiteDirectConnection | None = None
    _is_unclear = False

    def __init__(self, connector: Callable[[], Any], *, iter_chunk_size: int) -> None:
        self._opening = _Opening(connector)
        super().__init__(self._opening.open, iter_chunk_size)

    async def opened(self) -> AioSQLiteConnection:
        """Open the connection and return it. A caller that is cancelled leaves nothing open."""
        try:
            await self
        except BaseException:
            self._abandon()
            raise
        if self._opening.error is not None:
            await self.close()
            raise self._opening.error
        return self

    def _abandon(self) -> None:
        """Close it and end its thread without waiting for either, also while it opens."""
        self._opening.give_up()
        own: Any = self
        if hasattr(own, "stop"):
            own.stop()
        else:  # aiosqlite before 0.22.1
            own._stop_running()

    @staticmethod
    def usable_below(connection: AsyncConnection) -> AioSQLiteConnection | None:
        """Return the connection below *connection* if it is of this class and SQLAlchemy would
        execute a statement on it now. Where SQLAlchemy would refuse, or begin a transaction first,
        it has to do so itself.
        """
        outer: Any = connection.sync_connection
        if outer is None or outer.closed or outer.invalidated or not outer.in_transaction():
            return None
        nested, block = outer.get_nested_transaction(), outer._trans_context_manager
        if nested is not None and not nested.is_active:
            return None
        # A block whose transaction, or savepoint, has been ended inside it. Of such a savepoint
        # SQLAlchemy tells nobody in public: the outer transaction goes on.
        if block is not None and not block._transaction_is_active():
            return None
        found = outer.connection.driver_connection
        return found if isinstance(found, AioSQLiteConnection) else None

    @staticmethod
    def below(connection: AsyncConnection) -> AioSQLiteConnection:
        """Return the connection below *connection*, which is open and of this class."""
        outer: Any = connection.sync_connection
        found: AioSQLiteConnection = outer.connection.driver_connection
        return found

    @property
    def sqlite_connection(self) -> Any:
        """The standard library's connection below this one."""
        return self._opening.connection

    async def run_job(self, job: Callable[[SQLiteDirectConnection], T]) -> T:
        """Run *job* in the connection's thread.

        A job whose caller is cancelled runs to its end or not at all, and it is not known which:
        from then on the transaction can only be rolled back.

        Raises:
            MemalchemyError: the transaction has ended meanwhile; nothing was done.
        """
        has_started = False

        def start() -> T:
            nonlocal has_started
            has_started = True
            return self._run_job(job)

        try:
            # aiosqlite runs only its own calls in public, a hop for each of the eight of a
            # statement: docs/adr/0007 has the measurements.
            result: T = await self._execute(start)  # type: ignore[no-untyped-call]
        except asyncio.CancelledError:
            self._is_unclear = True
            raise
        except ValueError as error:
            if has_started:
                raise
            raise MemalchemyError(_OVER) from error  # aiosqlite: the connection is closed
        return result

    async def commit(self) -> None:
        """Commit, or refuse if the transaction has ended or its content is not known."""
        self._check_usable()
        await super().commit()

    def _run_job(self, job: Callable[[SQLiteDirectConnection], T]) -> T:
        self._check_usable()  # in the thread, so that a COMMIT that was sent before has been done
        if self._direct is None:
            self._direct = SQLiteDirectConnection(connection_in_transaction(self.sqlite_connection))
        return job(self._direct)

    def _check_usable(self) -> None:
        if self._is_unclear:
            raise MemalchemyError(
                "an operation in this transaction was cancelled, and it is not known whether it "
                "was done: the transaction can only be rolled back"
            )
        try:
            is_over = not self.sqlite_connection.in_transaction
        except sqlite3.ProgrammingError:  # it is closed
            is_over = True
        if is_over:
            raise MemalchemyError(_OVER)
