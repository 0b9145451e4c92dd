"""Locks that are free in a forked child, and whose data is consistent there.

A child has one thread, the one that forked. A lock that another thread held at that moment would
stay locked for ever, and the data that it guards might be half changed. So a fork waits until it
holds all locks that were created here, and both processes release them.
"""

from __future__ import annotations

import os
import threading
import time
import weakref

PATIENCE = 1.0
"""Seconds that a fork waits; in the child a lock that is held for longer is free."""
TURN = 0.01
"""Seconds that it waits for one lock, whose holder may wait for another that the fork has."""

_locks: dict[int, weakref.ref[threading.Lock]] = {}
_held: list[threading.Lock] = []


def lock() -> threading.Lock:
    """Create a lock for short work that waits for no other thread and does not fork."""
    made = threading.Lock()
    key = id(made)
    _locks[key] = weakref.ref(made, lambda _: _locks.pop(key, None))
    return made


def _living() -> list[threading.Lock]:
    return [found for known in list(_locks.values()) if (found := known()) is not None]


def _before() -> None:
    end = time.monotonic() + PATIENCE
    while True:
        for one in _living():
            if not one.acquire(timeout=TURN):
                break
            _held.append(one)
        else:
            return
        if time.monotonic() > end:
            return
        _release()


def _release() -> None:
    while _held:
        _held.pop().release()


def _in_the_child() -> None:
    _held.clear()
    for one in _living():
        # As the standard library's modules do it. A thread that has just acquired the lock, and has
        # not gone on yet, leaves it taken although locked() is false and release() would raise.
        one._at_fork_reinit()  # type: ignore[attr-defined]


os.register_at_fork(before=_before, after_in_parent=_release, after_in_child=_in_the_child)
