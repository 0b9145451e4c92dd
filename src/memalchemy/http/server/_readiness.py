"""Readiness of the database, checked once a second at most.

Readiness is asked for without a token, so the questions must not be a way to load the database.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable

from memalchemy import _detached

CACHE_SECONDS = 1.0
"""Seconds for which a result is given again."""


class Readiness:
    """The latest result of *check*, an error or a success."""

    def __init__(
        self, check: Callable[[], Awaitable[object]], clock: Callable[[], float] = time.monotonic
    ) -> None:
        self._check = check
        self._clock = clock
        self._task: asyncio.Task[Exception | None] | None = None
        self._checked_at = 0.0

    async def __call__(self) -> None:
        """Raise the error of *check*, if its latest result is one."""
        task = self._task
        if task is None or self._is_stale(task):
            task = self._task = _detached.create_task(self._run_check())
        # Several callers wait for one check: the cancellation of one must not cancel the check.
        error = await asyncio.shield(task)
        if error is not None:
            raise error.with_traceback(None)

    def _is_stale(self, task: asyncio.Task[Exception | None]) -> bool:
        if task.done():
            return task.cancelled() or self._clock() - self._checked_at >= CACHE_SECONDS
        return task.get_loop() is not asyncio.get_running_loop()

    async def _run_check(self) -> Exception | None:
        try:
            await self._check()
        except Exception as error:  # noqa: BLE001 - raised to every caller
            return error
        finally:
            self._checked_at = self._clock()
        return None
