"""Turns: the writes of one log by one process, in the order in which they came.

A database with a single writer keeps the order by itself, and so do rows that wait for a shared
statement. Transactions on connections of their own would overtake each other.
"""

from __future__ import annotations

import asyncio
from weakref import WeakKeyDictionary, WeakValueDictionary

from memalchemy.dialects import Dialect
from memalchemy.log.tables import Log
from memalchemy.variants import varies


@varies
def takes_turns(dialect: Dialect) -> bool:
    """Return whether unsigned saves take turns, too, because they are not sent in groups."""
    return False


class Turns:
    """A queue for each log, in each event loop."""

    def __init__(self) -> None:
        self._queues: WeakKeyDictionary[
            asyncio.AbstractEventLoop, WeakValueDictionary[Log, asyncio.Lock]
        ] = WeakKeyDictionary()

    def of(self, log: Log) -> asyncio.Lock:
        """Return the lock that the writers of *log* wait for, first come, first served."""
        loop = asyncio.get_running_loop()
        queues = self._queues.setdefault(loop, WeakValueDictionary())
        lock = queues.get(log)
        if lock is None:
            lock = queues[log] = asyncio.Lock()
        return lock
