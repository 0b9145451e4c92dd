"""Work on large values in a thread, so that the event loop serves others meanwhile."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any, TypeVar

from memalchemy.codec.values import is_heavy

T = TypeVar("T")

LARGE_DOCUMENT = 2 * 1024 * 1024
"""Bytes of JSON whose parsing would hold up the event loop."""


async def offload(value: Any, work: Callable[[], T]) -> T:
    """Return *work()*, called in a thread where *value* is large.

    A document is large by its bytes. Any other value is large by the number of its objects: one
    long text is copied in no time.
    """
    if len(value) > LARGE_DOCUMENT if isinstance(value, bytes) else is_heavy([value]):
        return await asyncio.to_thread(work)
    return work()
