"""Resolve asyncio futures from a worker thread."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Iterable
from typing import Any, Generic, TypeVar

T = TypeVar("T")


class ThreadFuture(Generic[T]):
    """A future of the running loop, made by the task that awaits it and resolved in a thread."""

    __slots__ = ("future", "loop")

    def __init__(self) -> None:
        self.loop: asyncio.AbstractEventLoop = asyncio.get_running_loop()
        self.future: asyncio.Future[T] = self.loop.create_future()

    @property
    def is_wanted(self) -> bool:
        """True while the task still waits for the result."""
        return not self.future.cancelled()


Outcome = tuple[ThreadFuture[Any], Any, BaseException | None]
"""A future with its result or error."""


def resolve(outcomes: Iterable[Outcome]) -> None:
    """Resolve each future with its result or error; every loop is woken once."""
    by_loop: dict[asyncio.AbstractEventLoop, list[Outcome]] = {}
    for outcome in outcomes:
        by_loop.setdefault(outcome[0].loop, []).append(outcome)
    for loop, ready in by_loop.items():
        with contextlib.suppress(RuntimeError):  # the loop is closed: nobody waits
            loop.call_soon_threadsafe(_resolve, ready)


def _resolve(outcomes: list[Outcome]) -> None:
    for waiting, result, error in outcomes:
        if waiting.future.done():
            continue
        if error is None:
            waiting.future.set_result(result)
        else:
            waiting.future.set_exception(error)
