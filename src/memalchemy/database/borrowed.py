"""The connection of a transaction to SQLite, and the short way for our programs on it.

An async driver hops between two threads some eight times for each statement. A program of ours goes
to the connection's own thread as a whole, behind whatever was asked of it before.
"""

from __future__ import annotations

import asyncio
import sqlite3
from collections.abc import Callable
from typing import Any, TypeVar

import aiosqlite
from sqlalchemy.ext.asyncio import AsyncConnection

from memalchemy.database.handles import view_of
from memalchemy.database.prepared import Prepared
from memalchemy.errors import MemalchemyError

T = TypeVar("T")


_OVER = (
    "the transaction has ended: its block has, or SQLite rolled it back after a statement that ran "
    "out of time or room; nothing more can be part of it"
)


class Borrowed(aiosqlite.Connection):
    """A connection of aiosqlite's that takes whole jobs, too.

    In its earlier releases it is a `threading.Thread`, whose names must not be given anew.
    """

    _prepared: Prepared | None = None
    _is_unclear = False

    @staticmethod
    def of(connection: AsyncConnection) -> Borrowed | None:
        """What is below *connection*, if it is one of ours, and SQLAlchemy would run a statement on
        it: of what that refuses, or is to begin first, it shall say so itself.
        """
        outer: Any = connection.sync_connection
        if outer is None or outer.closed or outer.invalidated or not outer.in_transaction():
            return None
        nested, block = outer.get_nested_transaction(), outer._trans_context_manager
        if nested is not None and not nested.is_active:
            return None
        if block is not None and not block._transaction_is_active():
            return None  # a block whose transaction, or savepoint, has been ended inside it
        found = outer.connection.driver_connection
        return found if isinstance(found, Borrowed) else None

    @staticmethod
    def below(connection: AsyncConnection) -> Borrowed:
        """Return the connection of ours that *connection*, which is open, stands on."""
        outer: Any = connection.sync_connection
        found: Borrowed = outer.connection.driver_connection
        return found

    @property
    def handle(self) -> Any:
        """The connection of the standard library's below this one."""
        return self._conn

    async def perform(self, job: Callable[[Prepared], T]) -> T:
        """Run *job* in the connection's thread.

        If the caller is cancelled, it runs to its end or not at all, and nobody is told which: from
        then on the transaction can only be rolled back.

        Raises:
            MemalchemyError: the transaction has ended meanwhile; nothing was done.
        """
        has_started = False

        def start() -> T:
            nonlocal has_started
            has_started = True
            return self._perform(job)

        try:
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
        """Commit, unless there is nothing any more that could be committed."""
        self._check()
        await super().commit()

    def _perform(self, job: Callable[[Prepared], T]) -> T:
        self._check()  # here, behind a COMMIT that was asked for before
        if self._prepared is None:
            self._prepared = Prepared(view_of(self._conn))
        return job(self._prepared)

    def _check(self) -> None:
        if self._is_unclear:
            raise MemalchemyError(
                "an operation in this transaction was cancelled, and it is not known whether it "
                "was done: the transaction can only be rolled back"
            )
        try:
            is_over = self._connection is None or not self.in_transaction
        except sqlite3.ProgrammingError:  # it is closed
            is_over = True
        if is_over:
            raise MemalchemyError(_OVER)
