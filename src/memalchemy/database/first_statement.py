"""A connection that sends the first statement of its transaction again if it was lost meanwhile.

A connection may have died while it was idle: after a failover, or because a proxy forgot it. The
driver says so at the first statement. Nothing has happened in its transaction by then, and what the
statement itself may have done is undone with the connection, so it is sent again on a new one.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any, TypeVar

from sqlalchemy import Connection
from sqlalchemy.util import await_only

from memalchemy._retry import CONNECTIONS
from memalchemy.errors import MemalchemyError

T = TypeVar("T")

SESSION_TENANT = "memalchemy_tenant"
"""The key of `Connection.info` for the tenant that was set for the session."""


class TransactionConnection(Connection):
    """SQLAlchemy's connection for one transaction of `Database.transaction`, used in greenlets."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self.mode: dict[str, Any] = {}
        """The options of the driver's connection, for the one that takes its place."""
        self._has_begun = False
        self._turn = asyncio.Lock()
        self._sending: asyncio.Task[Any] | None = None
        self._preparing: asyncio.Task[Any] | None = None
        self._before: Callable[[Connection], object] | None = None

    def prepare(self, before: Callable[[Connection], object]) -> None:
        """Do *before*, which changes settings of the transaction alone.

        Its statements count for none: they are sent again with the first.
        """
        self._preparing = asyncio.current_task()
        try:
            before(self)
        finally:
            self._preparing = None
        if not self._has_begun:
            self._before = before

    # All by which a statement is executed: SQLAlchemy has no event that may send it elsewhere.

    def execute(self, *args: Any, **kwargs: Any) -> Any:
        return self._send(super().execute, *args, **kwargs)

    def scalar(self, *args: Any, **kwargs: Any) -> Any:
        return self._send(super().scalar, *args, **kwargs)

    def scalars(self, *args: Any, **kwargs: Any) -> Any:
        return self._send(super().scalars, *args, **kwargs)

    def exec_driver_sql(self, *args: Any, **kwargs: Any) -> Any:
        return self._send(super().exec_driver_sql, *args, **kwargs)

    def _send(self, send: Callable[..., T], *args: Any, **kwargs: Any) -> T:
        # Within the first statement: SQLAlchemy's `scalars` calls `execute`.
        if self._has_begun or self._sending is asyncio.current_task():
            return send(*args, **kwargs)
        await_only(self._turn.acquire())
        try:
            if self._has_begun:
                return send(*args, **kwargs)
            self._sending = asyncio.current_task()
            return self._send_first(lambda: send(*args, **kwargs))
        finally:
            self._sending = None
            self._turn.release()

    def _send_first(self, send: Callable[[], T]) -> T:
        try:
            for left in reversed(range(CONNECTIONS.tries)):
                try:
                    return send()
                except Exception:
                    if not left or not self.invalidated or not self.in_transaction():
                        raise
                self._replace()
            raise AssertionError("unreachable")
        finally:
            # Whatever came of it: the next statement is not the first.
            if self._preparing is None or self._preparing is not asyncio.current_task():
                self._has_begun = True

    def _replace(self) -> None:
        """Put another connection of the pool in the place of the one that was lost."""
        transaction = self.get_transaction()
        fresh = self.engine.connect()
        try:
            fresh.info.pop(SESSION_TENANT, None)
            if self.mode:
                fresh.execution_options(**self.mode)
            if self._before is not None:
                self._before(fresh)
            if self.closed or self.get_transaction() is not transaction:
                raise MemalchemyError("the transaction has ended; the statement was not sent")
        except BaseException:
            fresh.invalidate()
            fresh.close()
            raise
        # SQLAlchemy would do this itself, but only outside of a transaction: there it cannot know
        # that nothing has happened. What has begun the transaction stays.
        self._dbapi_connection = fresh._dbapi_connection


def prepare(connection: Connection, before: Callable[[Connection], object]) -> None:
    """Do *before* on any connection; see `TransactionConnection.prepare`."""
    if isinstance(connection, TransactionConnection):
        connection.prepare(before)
    else:
        before(connection)
