"""SQLite's readers: a few threads, each with a connection of its own.

A small read takes as long as handing it to a pool of the standard library and back, which makes a
future with a lock for each. Here it is a queue, and a callback of the loop; and whoever was free
last is asked first, because its caches are warm.
"""

from __future__ import annotations

import asyncio
import queue
import threading
from collections import deque
from collections.abc import Callable
from typing import Any, TypeVar

from sqlalchemy import Connection

from memalchemy.database.prepared import Prepared
from memalchemy.database.replies import Reply, Settled, settle

T = TypeVar("T")
Job = Callable[[Connection], Any]
Queued = tuple[Job, Reply[Any]]

READERS = 4


class Readers:
    """Runs jobs in the order of their arrival, up to `READERS` at once.

    *connect* is called in each reader's thread on its first job.
    """

    def __init__(self, connect: Callable[[], Connection]) -> None:
        self._connect = connect
        self._lock = threading.Lock()
        self._waiting: deque[Queued] = deque()
        self._readers: list[_Reader] = []
        self._free: list[_Reader] = []

    def submit(self, job: Callable[[Connection], T]) -> asyncio.Future[T]:
        """Queue *job*, from a task; one whose future is cancelled before its turn never starts."""
        reply: Reply[T] = Reply()
        with self._lock:
            if self._free:
                self._free.pop().inbox.put((job, reply))
            else:
                self._waiting.append((job, reply))
                if len(self._readers) < READERS:
                    self._readers.append(_Reader(self))
        return reply.future

    def close(self) -> None:
        """Finish what is queued, and close the connections. Nothing is submitted any more."""
        for reader in self._readers:
            reader.inbox.put(None)
        for reader in self._readers:
            reader.thread.join()

    def leave(self) -> None:
        """Close as `close` does, later and in the readers' own threads. For a finaliser."""
        for reader in self._readers:
            reader.inbox.put(None)

    def connect(self) -> Connection:
        """A connection for the thread that asks."""
        connection = self._connect()
        Prepared(connection).keep()
        return connection

    def next_for(self, reader: _Reader) -> Queued | None:
        """What waits longest; with ``None`` *reader* is free, and finds its next in its inbox."""
        with self._lock:
            if self._waiting:
                return self._waiting.popleft()
            self._free.append(reader)
            return None


class _Reader:
    def __init__(self, readers: Readers) -> None:
        self.inbox: queue.SimpleQueue[Queued | None] = queue.SimpleQueue()
        self._readers = readers
        self._connection: Connection | None = None
        self.thread = threading.Thread(target=self._run, name="memalchemy-reader", daemon=True)
        self.thread.start()

    def _run(self) -> None:
        item = self._readers.next_for(self) or self.inbox.get()
        while item is not None:
            job, reply = item
            done = [self._settled(job, reply)] if reply.is_wanted else []
            # Free first: whoever is answered may ask again at once.
            item = self._readers.next_for(self)
            settle(done)
            del job, reply, done  # they may hold what else would be gone before the next one comes
            item = item or self.inbox.get()
        if self._connection is not None:
            self._connection.close()
            self._connection.engine.dispose()

    def _settled(self, job: Job, reply: Reply[Any]) -> Settled:
        try:
            if self._connection is None:
                self._connection = self._readers.connect()
            return reply, job(self._connection), None
        except BaseException as error:  # noqa: BLE001 - handed to whoever waits
            return reply, None, error
