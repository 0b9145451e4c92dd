"""Work that goes on after a run has ended: in order for each key, a few at a time, none forgotten.

Knows nothing of memories. What fails is the work's own to report.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Hashable
from concurrent.futures import Future
from dataclasses import dataclass, field
from weakref import WeakKeyDictionary

from memalchemy import _forks


@dataclass(eq=False, slots=True)
class _Job:
    loop: asyncio.AbstractEventLoop
    ended: Future[None] = field(default_factory=Future)
    task: asyncio.Task[None] | None = None


class InOrder:
    """Jobs of any number of event loops. Those of one key run one after another, as submitted.

    On each loop at most *most* run at once. A job whose loop was closed is over.
    """

    def __init__(self, most: int) -> None:
        self._most = most
        self._lock = _forks.lock()
        self._jobs: set[_Job] = set()
        self._last: dict[Hashable, _Job] = {}
        self._slots: WeakKeyDictionary[asyncio.AbstractEventLoop, asyncio.Semaphore] = (
            WeakKeyDictionary()
        )

    def __len__(self) -> int:
        with self._lock:
            self._jobs = {job for job in self._jobs if not job.loop.is_closed()}
            return len(self._jobs)

    def submit(self, key: Hashable, work: Callable[[], Awaitable[None]]) -> None:
        """Have *work* done on the running loop, after all that was submitted under *key*."""
        loop = asyncio.get_running_loop()
        job = _Job(loop)
        with self._lock:
            before = self._last.get(key)
            slots = self._slots.setdefault(loop, asyncio.Semaphore(self._most))
            self._last[key] = job
            self._jobs.add(job)
        job.task = loop.create_task(self._run(before, slots, work))
        job.task.add_done_callback(lambda _: self._end(key, job))

    async def drain(self) -> None:
        """Wait until everything that was submitted, meanwhile too, is done.

        Of other loops, what those that are running still do.
        """
        here = asyncio.get_running_loop()
        while True:
            with self._lock:
                left = [job for job in self._jobs if job.loop is here or job.loop.is_running()]
            if not left:
                return
            await _ended(*left)

    async def _run(
        self, before: _Job | None, slots: asyncio.Semaphore, work: Callable[[], Awaitable[None]]
    ) -> None:
        if before is not None and not before.loop.is_closed():
            await _ended(before)
        async with slots:
            await work()

    def _end(self, key: Hashable, job: _Job) -> None:
        with self._lock:
            self._jobs.discard(job)
            if self._last.get(key) is job:
                del self._last[key]
        job.ended.set_result(None)


async def _ended(*jobs: _Job) -> None:
    # Unlike awaiting one, this cancels nothing if it is cancelled itself.
    await asyncio.wait([asyncio.wrap_future(job.ended) for job in jobs])
