"""Waiting for what happens in its own time: for the thing itself, never for a number of seconds.

No limit here decides a test. `A_WHILE` ends one that would hang, so it is far more than a busy
machine takes; and a clock that a test sets (`clock` in conftest.py) passes by itself for nobody.
`tests/test_tests_do_not_time.py` refuses tests that do it otherwise.
"""

from __future__ import annotations

import asyncio
import inspect
import time
from collections.abc import Awaitable, Callable, Iterable
from itertools import islice

A_WHILE = 60
"""Seconds after which what has not happened is taken never to happen."""
PAUSE = 0.01
"""Seconds between two looks at what tells nobody."""


async def until(
    holds: Callable[[], Awaitable[object] | object], otherwise: str = "it did not become true"
) -> None:
    """Wait until what *holds* returns, or what its coroutine does, is true; fail after a while."""
    ends = time.monotonic() + A_WHILE
    while True:
        held = holds()
        if inspect.isawaitable(held):
            held = await held
        if held:
            return
        assert time.monotonic() < ends, otherwise  # timed: this is the limit of all who wait
        await asyncio.sleep(PAUSE)


def wait_until(holds: Callable[[], object], otherwise: str = "it did not become true") -> None:
    """Do the same where there is no event loop."""
    ends = time.monotonic() + A_WHILE
    while not holds():
        assert time.monotonic() < ends, otherwise  # timed: this is the limit of all who wait
        time.sleep(PAUSE)


async def give_time_to_go_wrong() -> None:
    """Let others do what they must not do, if they would.

    No test needs it to pass: with less time it might miss a mistake, with more it finds no other.
    """
    await asyncio.sleep(0.05)  # timed: nobody waits for a thing that happens


async def steps(count: int) -> None:
    """Let the other tasks of the loop run, *count* times."""
    for _ in range(count):
        await asyncio.sleep(0)


def first_lines(stream: Iterable[str], number: int) -> list[str]:
    """Return the first lines of a stream, and leave the next one in it, as ``zip`` would not."""
    return [*islice(stream, number)]
