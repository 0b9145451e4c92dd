"""The base of Strands' adapters: asynchronous calls from event loops that end right away."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from typing import Any, TypeVar

from strands._async import is_run_async_bridge

from memalchemy.integrations._base import Adapter

T = TypeVar("T")


class StrandsAdapter(Adapter):
    """An adapter that agents call with and without ``await``.

    ``agent("…")`` makes an event loop for each call. Connections to a server belong to the event
    loop that opened them, so such a call goes to the database's own thread, where they stay open.
    """

    root = "strands"

    async def run(self, work: Callable[[], Coroutine[Any, Any, T]]) -> T:
        """Await what *work* returns, in the database's thread if the event loop is Strands'."""
        if not is_run_async_bridge():
            return await work()
        return await asyncio.to_thread(lambda: self.wait(work()))
