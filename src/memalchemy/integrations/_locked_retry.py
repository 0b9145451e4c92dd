"""Retry of a write to a log that others may write to without pause."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import TypeVar

from memalchemy._retry import retry_on_conflict
from memalchemy.database import HostConnection
from memalchemy.errors import Conflict, ThreadDeleted
from memalchemy.threads import ThreadLog

T = TypeVar("T")


async def retry_with_lock(
    log: ThreadLog, thread_id: str, attempt: Callable[[HostConnection | None], Awaitable[T]]
) -> T:
    """Return the result of *attempt*, called again with the log locked if somebody else was faster.

    *attempt* reads the log, and writes only if what it read is still there. It must do nothing
    else. It is called with ``None`` at first, and then with the connection of a transaction that
    holds the lock: others wait for it, so it cannot lose again. Only a log that does not exist
    cannot be locked.

    Raises:
        Conflict: others created and deleted the log 20 times while this was tried; nothing was
            written.
    """

    async def locked() -> T:
        async with log.db.transaction() as tx:
            await log.hold(thread_id, tx)
            return await attempt(tx)

    try:
        return await attempt(None)
    except (Conflict, ThreadDeleted):
        return await retry_on_conflict(locked, f"thread {thread_id!r}")
