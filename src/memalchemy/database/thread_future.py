"""Resolve asyncio futures from a worker thread."""

from __future__ import annotations

import asyncio
import contextlib
import threading
from collections.abc import Iterable
from typing import Any, Generic, TypeVar

T = TypeVar("T")


class ThreadFuture(Generic[T]):
    """A future of the running loop, made by the task that awaits it and resolved in a thread.

    The thread of a job that must not be done behind its caller's back calls `claim` before it
    begins, and its task awaits `settled`.
    """

    __slots__ = ("_claimed", "_end", "_has_ended", "future", "loop")

    def __init__(self) -> None:
        self.loop: asyncio.AbstractEventLoop = asyncio.get_running_loop()
        self.future: asyncio.Future[T] = self.loop.create_future()
        self._has_ended = False
        self._end: asyncio.Future[None] | None = None
        self._claimed = threading.Lock()

    @property
    def is_wanted(self) -> bool:
        """True while the task still waits for the result."""
        return not self.future.cancelled()

    def claim(self) -> bool:
        """Return whether the job is still to be done. From then on a cancelled task waits for it:
        the future has to be resolved.
        """
        return self._claimed.acquire(blocking=False)

    async def settled(self) -> T:
        """Return the result of a job that is claimed before it begins.

        A cancellation is told when the job has ended, one way or the other, or will never begin.
        """
        try:
            return await self.future
        except asyncio.CancelledError:
            if not self._has_ended and not self.claim():
                self._end = self.loop.create_future()
                await wait_uncancelled(self._end)
            raise

    def resolve_soon(self, result: Any, error: BaseException | None) -> None:
        """Let the loop hand the result or the error to the task."""
        with contextlib.suppress(RuntimeError):  # the loop is closed: nobody waits
            self.loop.call_soon_threadsafe(self.resolve, result, error)

    def resolve(self, result: Any, error: BaseException | None) -> None:
        """Hand the result or the error to the task. Called in the loop."""
        self._has_ended = True
        if self._end is not None:
            self._end.set_result(None)
        if self.future.done():
            return
        if error is None:
            self.future.set_result(result)
        else:
            self.future.set_exception(error)


async def wait_uncancelled(future: asyncio.Future[Any]) -> None:
    """Wait until *future* is done, however often the waiting task is cancelled meanwhile."""
    while not future.done():
        with contextlib.suppress(asyncio.CancelledError):
            await asyncio.wait([future])


async def to_its_end(task: asyncio.Future[T]) -> T:
    """Return the result of *task*; if the waiting task is cancelled, wait for its end first."""
    try:
        return await asyncio.shield(task)
    except asyncio.CancelledError:
        await wait_uncancelled(task)
        if not task.cancelled():
            task.exception()  # it is not told: the caller was cancelled
        raise


Outcome = tuple[ThreadFuture[Any], Any, BaseException | None]
"""A future with its result or error."""


def resolve(outcomes: Iterable[Outcome]) -> None:
    """Resolve each future with its result or error; every loop is woken once."""
    by_loop: dict[asyncio.AbstractEventLoop, list[Outcome]] = {}
    for outcome in outcomes:
        by_loop.setdefault(outcome[0].loop, []).append(outcome)
    for loop, ready in by_loop.items():
        with contextlib.suppress(RuntimeError):  # the loop is closed: nobody waits
            loop.call_soon_threadsafe(_resolve_all, ready)


def _resolve_all(outcomes: list[Outcome]) -> None:
    for waiting, result, error in outcomes:
        waiting.resolve(result, error)
