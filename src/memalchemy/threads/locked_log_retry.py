"""Retry of a change to a log, which is locked after a lost try."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from functools import partial
from typing import TypeVar

from memalchemy._locked_retry import retry_with_lock
from memalchemy.database import HostConnection
from memalchemy.threads.thread_log import ThreadLog

T = TypeVar("T")


async def retry_on_log(
    log: ThreadLog,
    thread_id: str,
    attempt: Callable[[HostConnection | None], Awaitable[T]],
    connection: HostConnection | None = None,
) -> T:
    """Do as `retry_with_lock` with the log of a thread.

    Raises:
        Conflict: others created and deleted the log 20 times while this was tried; nothing was
            written.
    """
    lock = partial(log.hold, thread_id)
    return await retry_with_lock(log.db, lock, attempt, f"thread {thread_id!r}", connection)
