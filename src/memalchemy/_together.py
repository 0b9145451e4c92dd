"""Works of one call that run at once, of which none outlives the call.

`asyncio.gather` leaves the others running when one fails: on connections that nobody waits for, and
that are lost if the loop ends meanwhile.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable
from typing import TypeVar

T = TypeVar("T")


async def together(*works: Awaitable[T]) -> list[T]:
    """Run *works* at once, and return their results in their order.

    When one fails, or the caller is cancelled, the others are cancelled. None of them is running
    when this raises the first error.
    """
    tasks = [asyncio.ensure_future(work) for work in works]
    try:
        return await asyncio.gather(*tasks)
    finally:
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
