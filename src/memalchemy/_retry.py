"""Try a change again after a conflict with another writer."""

from __future__ import annotations

import asyncio
import random
from collections.abc import Awaitable, Callable
from typing import TypeVar

from memalchemy.errors import Conflict, ThreadDeleted

T = TypeVar("T")

ATTEMPTS = 20
LONGEST_WAIT = 0.05
"""Seconds that are waited at most before another attempt."""


async def retry_on_conflict(attempt: Callable[[], Awaitable[T]], target: str) -> T:
    """Return the result of *attempt*, called again each time somebody else was faster.

    *attempt* reads, and writes only if what it read is still there. It must do nothing else. Before
    it is called again, a random time passes that grows to `LONGEST_WAIT`.

    Raises:
        Conflict: others were faster 20 times in a row; nothing was written to *target*.
    """
    for number in range(ATTEMPTS):
        try:
            return await attempt()
        except (Conflict, ThreadDeleted) as error:
            conflict = error
        # Those who try at the same moment again lose to each other again.
        await asyncio.sleep(random.uniform(0, min(0.001 * 2**number, LONGEST_WAIT)))
    raise Conflict(
        f"others wrote to {target} {ATTEMPTS} times while this was tried; nothing was written"
    ) from conflict
