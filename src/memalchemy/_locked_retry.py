"""Retry of a change to a row that others may write to without pause."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import TypeVar

from memalchemy._retry import retry_on_conflict
from memalchemy._transactions import transaction_of
from memalchemy.database import Database, HostConnection
from memalchemy.errors import Conflict, ThreadDeleted

T = TypeVar("T")


async def retry_with_lock(
    db: Database,
    lock: Callable[[HostConnection], Awaitable[object]],
    attempt: Callable[[HostConnection | None], Awaitable[T]],
    target: str,
    connection: HostConnection | None = None,
) -> T:
    """Return the result of *attempt*, called again under a lock if somebody else was faster.

    *attempt* reads, and writes only if what it read is still there. It must do nothing else. It is
    called with *connection* at first. After a lost try it is called in a transaction, that of
    *connection* or a new one, in which *lock* has locked what it changes: others wait for it, so it
    cannot lose again. Only what does not exist cannot be locked.

    Raises:
        Conflict: others made and removed *target* 20 times while this was tried; nothing was
            written.
    """

    async def locked() -> T:
        async with transaction_of(db, connection) as tx:
            await lock(tx)
            return await attempt(tx)

    try:
        return await attempt(connection)
    except (Conflict, ThreadDeleted):
        return await retry_on_conflict(locked, target)
