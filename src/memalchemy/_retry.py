"""Retry of a change that others may be faster with."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import TypeVar

from memalchemy.errors import Conflict, ThreadDeleted

T = TypeVar("T")

ATTEMPTS = 20


async def retry_on_conflict(attempt: Callable[[], Awaitable[T]], target: str) -> T:
    """Return the result of *attempt*, called again each time somebody else was faster.

    *attempt* reads, and writes only if what it read is still there. It must do nothing else.

    Raises:
        Conflict: others were faster 20 times in a row; nothing was written to *target*.
    """
    for _ in range(ATTEMPTS):
        try:
            return await attempt()
        except (Conflict, ThreadDeleted) as error:
            conflict = error
    raise Conflict(
        f"others wrote to {target} {ATTEMPTS} times while this was tried; nothing was written"
    ) from conflict
