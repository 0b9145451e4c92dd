"""`KeyedQueue`: background jobs that run in order for each key, a few at a time."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Hashable
from concurrent.futures import Future
from dataclasses import dataclass, field
from weakref import WeakKeyDictionary

from memalchemy import _fork_safe_locks


@dataclass(eq=False, slots=True)
class _Job:
    loop: asyncio.AbstractEventLoop
    ended: Future[None] = field(default_factory=Future)
    task: asyncio.Task[None] | None = None


class KeyedQueue:
    """Jobs on any number of event loops. Jobs of one key run one after another, as submitted.

    On each loop at most *max_concurrent* jobs run at the same time. A job whose loop was closed has
    ended. Jobs report their own errors.
    """

    def __init__(self, max_concurrent: int) -> None:
        self._max_concurrent = max_concurrent
        self._lock = _fork_safe_locks.create_lock()
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
        """Run *work* on the running loop, after all jobs that were submitted with *key*."""
        loop = asyncio.get_running_loop()
        job = _Job(loop)
        with self._lock:
            previous = self._last.get(key)
            slots = self._slots.setdefault(loop, asyncio.Semaphore(self._max_concurrent))
            self._last[key] = job
            self._jobs.add(job)
        job.task = loop.create_task(self._run_job(previous, slots, work))
        job.task.add_done_callback(lambda _: self._end_job(key, job))

    async def drain(self) -> None:
        """Wait until all jobs have ended, those submitted meanwhile too.

        Jobs of other loops are waited for as long as those run.
        """
        here = asyncio.get_running_loop()
        while True:
            with self._lock:
                left = [job for job in self._jobs if job.loop is here or job.loop.is_running()]
            if not left:
                return
            await _wait_for_jobs(*left)

    async def _run_job(
        self, previous: _Job | None, slots: asyncio.Semaphore, work: Callable[[], Awaitable[None]]
    ) -> None:
        if previous is not None and not previous.loop.is_closed():
            await _wait_for_jobs(previous)
        async with slots:
            await work()

    def _end_job(self, key: Hashable, job: _Job) -> None:
        with self._lock:
            self._jobs.discard(job)
            if self._last.get(key) is job:
                del self._last[key]
        job.ended.set_result(None)


async def _wait_for_jobs(*jobs: _Job) -> None:
    # asyncio.wait cancels none of the jobs if it is cancelled itself.
    await asyncio.wait([asyncio.wrap_future(job.ended) for job in jobs])
