"""Event loops that end while somebody still asks something of them."""

from __future__ import annotations

import asyncio
from typing import Any


def drop_in_last_step(loop: asyncio.AbstractEventLoop, given: list[Any]) -> None:
    """Drop what is *given* in the last step of a loop, as the collector may, and close the loop.

    What that step asks of the loop is never done.
    """

    def end() -> None:
        loop.stop()
        given.clear()

    loop.call_soon(end)
    loop.run_forever()
    loop.close()
