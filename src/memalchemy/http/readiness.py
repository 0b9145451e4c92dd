"""Whether the database answers: asked once a second at most, however many want to know.

The question comes without a token, so that it must not be a way to load the database.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable

KEPT = 1.0
"""Seconds that an answer is good for."""


class Readiness:
    """The last answer of *check*, an error as well as a success."""

    def __init__(
        self, check: Callable[[], Awaitable[object]], clock: Callable[[], float] = time.monotonic
    ) -> None:
        self._check = check
        self._clock = clock
        self._asking: asyncio.Task[Exception | None] | None = None
        self._answered = 0.0

    async def __call__(self) -> None:
        """Raise what *check* raises, or has raised just now."""
        asking = self._asking
        if asking is None or self._is_stale(asking):
            asking = self._asking = asyncio.create_task(self._ask())
        # Others wait for the same answer: whoever gives up leaves it to them.
        error = await asyncio.shield(asking)
        if error is not None:
            raise error.with_traceback(None)

    def _is_stale(self, asking: asyncio.Task[Exception | None]) -> bool:
        if asking.done():
            return asking.cancelled() or self._clock() - self._answered >= KEPT
        return asking.get_loop() is not asyncio.get_running_loop()

    async def _ask(self) -> Exception | None:
        try:
            await self._check()
        except Exception as error:  # noqa: BLE001 - raised to each who asks
            return error
        finally:
            self._answered = self._clock()
        return None
