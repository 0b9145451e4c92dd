"""What a thread of ours owes a task: a future of the task's own loop, settled from outside."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Iterable
from typing import Any, Generic, TypeVar

T = TypeVar("T")


class Reply(Generic[T]):
    """Made in the task that waits; `settle` is called in a thread."""

    __slots__ = ("future", "loop")

    def __init__(self) -> None:
        self.loop = asyncio.get_running_loop()
        self.future: asyncio.Future[T] = self.loop.create_future()

    @property
    def is_wanted(self) -> bool:
        """Whether somebody still waits."""
        return not self.future.cancelled()


Settled = tuple[Reply[Any], Any, BaseException | None]


def settle(replies: Iterable[Settled]) -> None:
    """Wake those who wait, each with a result or an error; a loop is woken once."""
    by_loop: dict[asyncio.AbstractEventLoop, list[Settled]] = {}
    for settled in replies:
        by_loop.setdefault(settled[0].loop, []).append(settled)
    for loop, owed in by_loop.items():
        with contextlib.suppress(RuntimeError):  # the loop is closed: nobody waits
            loop.call_soon_threadsafe(_settle, owed)


def _settle(owed: list[Settled]) -> None:
    for reply, result, error in owed:
        if reply.future.done():
            continue
        if error is None:
            reply.future.set_result(result)
        else:
            reply.future.set_exception(error)
