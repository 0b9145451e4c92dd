"""The base of the OpenAI Agents SDK's adapters, and writes that no cancellation interrupts."""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine
from typing import Any, TypeVar

from memalchemy.importers.openai_layout import ROOT
from memalchemy.integrations._base import Adapter

T = TypeVar("T")


class OpenAIAdapter(Adapter):
    """An adapter of which a server makes one per request: those on one URL share a `Database`."""

    root = ROOT
    shares_databases = True


async def uninterrupted(work: Coroutine[Any, Any, T]) -> T:
    """Await *work* to its end, and only then raise a cancellation that came meanwhile.

    The SDK asks this of every method that changes a session: when a caller sees the cancellation,
    the change is not under way any more.
    """
    task = asyncio.ensure_future(work)
    cancelled: asyncio.CancelledError | None = None
    while not task.done():
        try:
            await asyncio.wait({task})
        except asyncio.CancelledError as error:
            cancelled = cancelled or error
    if cancelled is not None:
        if not task.cancelled():
            task.exception()  # retrieved, so that asyncio does not report it as never retrieved
        raise cancelled
    return task.result()
