"""Work that several tasks or threads need at once, and that one of them does."""

from __future__ import annotations

import os
from collections.abc import Hashable, Iterator
from concurrent.futures import Future
from contextlib import contextmanager

from memalchemy import _fork_safe_locks


class InFlight:
    """Work that is being done in this process, by keys. Event loops and threads may share it."""

    def __init__(self) -> None:
        self._running: dict[Hashable, Future[bool]] = {}
        self._lock = _fork_safe_locks.create_lock()

    @contextmanager
    def claim(self, key: Hashable) -> Iterator[Future[bool] | None]:
        """Claim work for the caller, who does it within the block.

        If it is being done already, the block gets a future instead, which nobody can cancel: it
        says at the end whether the work was finished, or given up by an error or a cancellation.
        """
        key = (os.getpid(), key)  # a forked child does not wait for its parent
        mine: Future[bool] = Future()
        mine.set_running_or_notify_cancel()
        with self._lock:
            running = self._running.setdefault(key, mine)
        if running is not mine:
            yield running
            return
        finished = False
        try:
            yield None
            finished = True
        finally:
            with self._lock:
                del self._running[key]
            mine.set_result(finished)
