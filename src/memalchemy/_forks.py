"""Locks that a forked child finds free, guarding what is whole.

A child has one thread, the one that forked. A lock that another thread held at that moment would
stay locked in it for ever, and what the lock guards may be half changed. So a fork waits until it
holds all locks that were made here, and both processes release them.
"""

from __future__ import annotations

import os
import threading
import time
import weakref

PATIENCE = 1.0
"""Seconds that a fork waits; a lock that is held for longer is released in the child."""

_locks: dict[int, weakref.ref[threading.Lock]] = {}
_held: list[threading.Lock] = []


def lock() -> threading.Lock:
    """A new lock, for short work that takes no other thread's time and does not fork."""
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
            if not one.acquire(blocking=False):
                break
            _held.append(one)
        else:
            return
        if time.monotonic() > end:
            return
        # Its holder may wait for one that is held here.
        _release()
        time.sleep(0.001)


def _release() -> None:
    while _held:
        _held.pop().release()


def _in_the_child() -> None:
    _held.clear()
    for one in _living():
        if one.locked():
            one.release()


os.register_at_fork(before=_before, after_in_parent=_release, after_in_child=_in_the_child)
