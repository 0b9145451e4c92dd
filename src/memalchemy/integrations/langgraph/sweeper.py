"""A thread that does something every so often, as long as whose it is is there."""

from __future__ import annotations

import logging
import threading
import weakref
from collections.abc import Callable
from concurrent.futures import Future

from memalchemy.errors import MemalchemyError

log = logging.getLogger(__name__)


class Sweeper:
    """Calls *sweep*, a method, every so often. One thread at a time."""

    def __init__(self, sweep: Callable[[], int]) -> None:
        self._sweep: weakref.WeakMethod[Callable[[], int]] = weakref.WeakMethod(sweep)
        self._running: Future[None] | None = None
        self._thread: threading.Thread | None = None
        self._stopping = threading.Event()

    def start(self, seconds: float) -> Future[None]:
        """Begin, unless it has begun. The future is done when it has ended; cancel it to end it."""
        if self._running is not None and not self._running.done():
            return self._running
        stopping = self._stopping = threading.Event()
        running: Future[None] = Future()
        running.add_done_callback(lambda _: stopping.set())
        # Neither knows this object: it ends the thread when it goes, see `stop` in `__del__`.
        work = (self._sweep, seconds, stopping, running)
        self._thread = threading.Thread(
            target=_run, args=work, daemon=True, name="memalchemy-langgraph-ttl"
        )
        self._running = running
        self._thread.start()
        return running

    def stop(self, timeout: float | None = None) -> bool:
        """Let it end, and wait for *timeout* seconds; whether it has ended."""
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
        wanted = sweep()
        if wanted is None:
            break
        try:
            wanted()
        except MemalchemyError as error:  # the next time it may be there again
            log.warning("expired items were not removed: %s", error)
        del wanted
    if not running.done():
        running.set_result(None)
