"""The connection of a transaction to SQLite, and the short way for our programs on it.

An async driver hops between two threads some eight times for each statement. A program of ours goes
to the connection's own thread as a whole, behind whatever was asked of it before.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar

import aiosqlite
from sqlalchemy.ext.asyncio import AsyncConnection

from memalchemy.database.handles import view_of
from memalchemy.database.prepared import Prepared

T = TypeVar("T")


class Borrowed(aiosqlite.Connection):
    """A connection of aiosqlite's that takes whole jobs, too."""

    _prepared: Prepared | None = None

    @staticmethod
    def of(connection: AsyncConnection) -> Borrowed | None:
        """What is below *connection*, if it is one of ours with its transaction open."""
        outer = connection.sync_connection
        if outer is None or outer.closed or outer.invalidated or not outer.in_transaction():
            return None
        found: Any = outer.connection.driver_connection
        return found if isinstance(found, Borrowed) and found.in_transaction else None

    async def run(self, job: Callable[[Prepared], T]) -> T:
        """Run *job* in the connection's thread, to its end even if the caller is cancelled."""
        result: T = await self._execute(self._run, job)  # type: ignore[no-untyped-call]
        return result

    def _run(self, job: Callable[[Prepared], T]) -> T:
        if self._prepared is None:
            self._prepared = Prepared(view_of(self._conn))
        return job(self._prepared)
