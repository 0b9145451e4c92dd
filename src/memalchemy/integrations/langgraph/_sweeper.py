"""`Sweeper`: a thread that removes expired items periodically, until its store is collected."""

from __future__ import annotations

import logging
import threading
import weakref
from collections.abc import Callable
from concurrent.futures import Future

from memalchemy import _detached
from memalchemy.errors import MemalchemyError

log = logging.getLogger(__name__)


class Sweeper:
    """Calls *sweep*, a bound method, periodically in one thread."""

    def __init__(self, sweep: Callable[[], int]) -> None:
        self._sweep: weakref.WeakMethod[Callable[[], int]] = weakref.WeakMethod(sweep)
        self._running: Future[None] | None = None
        self._thread: threading.Thread | None = None
        self._stopping = threading.Event()

    def start(self, seconds: float) -> Future[None]:
        """Start the thread, if it is not running.

        The future is done when the thread has ended; cancelling it ends the thread.
        """
        if self._running is not None and not self._running.done():
            return self._running
        stopping = self._stopping = threading.Event()
        running: Future[None] = Future()
        running.add_done_callback(lambda _: stopping.set())
        # The thread holds no reference to this object, whose `__del__` ends it.
        self._thread = _detached.create_thread(
            _run, self._sweep, seconds, stopping, running, name="memalchemy-langgraph-ttl"
        )
        self._running = running
        self._thread.start()
        return running

    def stop(self, timeout: float | None = None) -> bool:
        """End the thread; return ``True`` if it has ended within *timeout* seconds."""
        self._stopping.set()
        thread = self._thread
        if thread is None or thread is threading.current_thread():
            return True
        thread.join(timeout)
        return not thread.is_alive()

    def __del__(self) -> None:
        self._stopping.set()


def _run(
    sweep: weakref.WeakMethod[Callable[[], int]],
    seconds: float,
    stopping: threading.Event,
    running: Future[None],
) -> None:
    while not stopping.wait(seconds):
        method = sweep()
        if method is None:
            break
        try:
            method()
        except MemalchemyError as error:  # the database may be back next time
            log.warning("expired items were not removed: %s", error)
        del method
    if not running.done():
        running.set_result(None)
