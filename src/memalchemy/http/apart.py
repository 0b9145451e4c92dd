"""Work on what may be large, away from the loop where it is. Knows nothing of HTTP."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any, TypeVar

from memalchemy.codec.values import is_heavy

T = TypeVar("T")

LARGE = 2 * 1024 * 1024


async def apart(value: Any, work: Callable[[], T]) -> T:
    """Do *work* on *value* here, or in a thread if it is so much that the loop would wait: many
    objects, or a long document that makes them. A long text in an object is copied in no time.
    """
    if len(value) > LARGE if isinstance(value, bytes) else is_heavy([value]):
        return await asyncio.to_thread(work)
    return work()
