"""Locks that a forked child can use, and whose data is consistent there.

A child has one thread, the one that forked. A lock that another thread held at that moment would
stay locked for ever, and the data that it guards might be half changed. So a fork waits until it
holds all locks that were created here, and both processes release them.
"""

from __future__ import annotations

import os
import threading
import time
import weakref

MAX_WAIT = 1.0
"""Seconds that a fork waits for all locks; one that is held for longer is reset in the child."""
WAIT_FOR_ONE = 0.01
"""Seconds that it waits for one lock, whose holder may wait for a lock that the fork holds."""

_locks: dict[int, weakref.ref[threading.Lock]] = {}
_held: list[threading.Lock] = []


def create_lock() -> threading.Lock:
    """Create a lock for short work that waits for no other thread and does not fork."""
    made = threading.Lock()
    key = id(made)
    _locks[key] = weakref.ref(made, lambda _: _locks.pop(key, None))
    return made


def _live_locks() -> list[threading.Lock]:
    return [found for known in list(_locks.values()) if (found := known()) is not None]


def _acquire_all() -> None:
    end = time.monotonic() + MAX_WAIT
    while True:
        for one in _live_locks():
            if not one.acquire(timeout=WAIT_FOR_ONE):
                break
            _held.append(one)
        else:
            return
        if time.monotonic() > end:
            return
        _release_all()


def _release_all() -> None:
    while _held:
        _held.pop().release()


def _reset_in_child() -> None:
    _held.clear()
    for one in _live_locks():
        # As the standard library's modules do it. A thread that has just acquired the lock, and has
        # not gone on yet, leaves it taken although locked() is false and release() would raise.
        one._at_fork_reinit()  # type: ignore[attr-defined]


os.register_at_fork(
    before=_acquire_all, after_in_parent=_release_all, after_in_child=_reset_in_child
)
