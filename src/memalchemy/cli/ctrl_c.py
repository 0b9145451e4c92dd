"""Ctrl-C: the first one interrupts what runs, the second one ends the process wherever it is.

This file imports nothing that takes time, so that Ctrl-C has an answer from the start.
"""

from __future__ import annotations

import signal
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

INTERRUPTED = 130
"""The exit code, as shells have it."""


def take_over() -> None:
    """Let Ctrl-C raise a `KeyboardInterrupt` once; the next one ends the process by its signal.

    Nothing is lost by that: what is being written is in a transaction. A second `KeyboardInterrupt`
    would end as a traceback wherever the first one is being answered.
    """
    signal.signal(signal.SIGINT, _interrupt)


def leave() -> None:
    """Let any further Ctrl-C just end the process, while Python tears itself down."""
    signal.signal(signal.SIGINT, signal.SIG_DFL)


@contextmanager
def answered() -> Iterator[None]:
    """End the process at a Ctrl-C: one line, and no traceback."""
    try:
        yield
    except KeyboardInterrupt:
        sys.stderr.write("interrupted\n")
        raise SystemExit(INTERRUPTED) from None


@contextmanager
def cancelling() -> Iterator[None]:
    """Cancel the running task at a Ctrl-C, so that it ends its transactions and closes its files.

    Raises:
        KeyboardInterrupt: it was cancelled by that.
    """
    if signal.getsignal(signal.SIGINT) is not _interrupt:
        yield  # part of somebody else's program, who answers
        return
    import asyncio

    task, loop = asyncio.current_task(), asyncio.get_running_loop()
    came = False

    def cancel(number: int, frame: Any) -> None:
        nonlocal came
        came = True
        leave()
        assert task is not None
        loop.call_soon_threadsafe(task.cancel)

    signal.signal(signal.SIGINT, cancel)
    try:
        yield
    except asyncio.CancelledError:
        if came:
            raise KeyboardInterrupt from None
        raise
    finally:
        if not came:
            take_over()


@contextmanager
def at_once() -> Iterator[None]:
    """Let Ctrl-C end a blocking read: to cancel a task takes a loop that runs."""
    before = signal.signal(signal.SIGINT, _interrupt)
    try:
        yield
    finally:
        if signal.getsignal(signal.SIGINT) is _interrupt:  # none came
            signal.signal(signal.SIGINT, before)


def _interrupt(number: int, frame: Any) -> None:
    leave()
    raise KeyboardInterrupt
