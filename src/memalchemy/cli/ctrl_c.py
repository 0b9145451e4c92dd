"""Ctrl-C: the first one cancels the running command, the second one ends the process.

This module imports nothing slow, so that Ctrl-C is handled from the first moment.
"""

from __future__ import annotations

import signal
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

INTERRUPTED = 130
"""Exit code of an interrupted command, the same as in shells."""


def install_handler() -> None:
    """Raise `KeyboardInterrupt` at the first Ctrl-C; let the second one end the process.

    Ending the process loses nothing: every write is in a transaction. A second `KeyboardInterrupt`
    would end in a traceback wherever the first one is being handled.
    """
    signal.signal(signal.SIGINT, _raise_keyboard_interrupt)


def restore_default() -> None:
    """Let the next Ctrl-C end the process at once, for example while Python shuts down."""
    signal.signal(signal.SIGINT, signal.SIG_DFL)


@contextmanager
def exit_on_interrupt() -> Iterator[None]:
    """Turn a `KeyboardInterrupt` into one line on stderr and exit code 130."""
    try:
        yield
    except KeyboardInterrupt:
        sys.stderr.write("interrupted\n")
        raise SystemExit(INTERRUPTED) from None


@contextmanager
def cancel_task_on_interrupt() -> Iterator[None]:
    """Cancel the running task at a Ctrl-C, so that it rolls back and closes its files.

    Does nothing where `install_handler` was not called: the surrounding program handles Ctrl-C.

    Raises:
        KeyboardInterrupt: a Ctrl-C cancelled the task.
    """
    if signal.getsignal(signal.SIGINT) is not _raise_keyboard_interrupt:
        yield
        return
    import asyncio

    task, loop = asyncio.current_task(), asyncio.get_running_loop()
    interrupted = False

    def cancel(number: int, frame: Any) -> None:
        nonlocal interrupted
        interrupted = True
        restore_default()
        assert task is not None
        loop.call_soon_threadsafe(task.cancel)

    signal.signal(signal.SIGINT, cancel)
    try:
        yield
    except asyncio.CancelledError:
        if interrupted:
            raise KeyboardInterrupt from None
        raise
    finally:
        if not interrupted:
            install_handler()


@contextmanager
def ctrl_c_raises() -> Iterator[None]:
    """Raise `KeyboardInterrupt` out of a blocking read.

    A task that blocks its event loop cannot be cancelled, so reads of stdin stand in this block.
    """
    previous = signal.signal(signal.SIGINT, _raise_keyboard_interrupt)
    try:
        yield
    finally:
        if signal.getsignal(signal.SIGINT) is _raise_keyboard_interrupt:  # no Ctrl-C came
            signal.signal(signal.SIGINT, previous)


def _raise_keyboard_interrupt(number: int, frame: Any) -> None:
    restore_default()
    raise KeyboardInterrupt
