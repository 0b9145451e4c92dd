"""SQLite's readers: a few threads, each with a connection of its own.

The standard library's thread pool makes a future with a lock for each job, which takes as long as a
small read. Here a job costs a queue and a callback of the loop, and the reader that became free
last takes the next job, because its caches are warm.
"""

from __future__ import annotations

import asyncio
import queue
import threading
from collections import deque
from collections.abc import Callable
from typing import Any, TypeVar

from sqlalchemy import Connection

from memalchemy import _detached
from memalchemy._retry import CONFLICTS
from memalchemy.database.sqlite import forks
from memalchemy.database.sqlite.connections import SQLiteDirectConnection
from memalchemy.database.sqlite.read_only import unsettled
from memalchemy.database.thread_future import Outcome, ThreadFuture, resolve

T = TypeVar("T")
Job = Callable[[SQLiteDirectConnection], Any]
QueuedJob = tuple[Job, ThreadFuture[Any]]

READERS = 4


class Readers:
    """Runs jobs in the order of their arrival, up to `READERS` at once.

    *connect* is called in each reader's thread on its first job, *check* before each job.
    """

    def __init__(self, connect: Callable[[], Connection], check: Callable[[], object]) -> None:
        self._connect = connect
        self.check = check
        self._lock = threading.Lock()
        self._waiting: deque[QueuedJob] = deque()
        self._readers: list[_Reader] = []
        self._free: list[_Reader] = []

    def submit(self, job: Callable[[SQLiteDirectConnection], T]) -> asyncio.Future[T]:
        """Queue *job*, from a task; if its future is cancelled before its turn it never starts."""
        reply: ThreadFuture[T] = ThreadFuture()
        with self._lock:
            if self._free:
                self._free.pop().inbox.put((job, reply))
            else:
                self._waiting.append((job, reply))
                if len(self._readers) < READERS:
                    self._readers.append(_Reader(self))
        return reply.future

    def close(self) -> None:
        """Finish queued jobs and close the connections. Nothing is submitted afterwards."""
        for reader in self._readers:
            reader.inbox.put(None)
        for reader in self._readers:
            reader.thread.join()

    def abandon(self) -> None:
        """Close as `close` does, later and in the readers' own threads. For a finaliser."""
        for reader in self._readers:
            reader.inbox.put(None)

    def connect(self) -> SQLiteDirectConnection:
        """Return a connection for the calling thread."""
        direct = SQLiteDirectConnection(self._connect())
        direct.register()
        return direct

    def next_for(self, reader: _Reader) -> QueuedJob | None:
        """Return the job that waits longest.

        After ``None`` *reader* is free, and its next job comes to its inbox.
        """
        with self._lock:
            if self._waiting:
                return self._waiting.popleft()
            self._free.append(reader)
            return None


class _Reader:
    def __init__(self, readers: Readers) -> None:
        self.inbox: queue.SimpleQueue[QueuedJob | None] = queue.SimpleQueue()
        self._readers = readers
        self._direct: SQLiteDirectConnection | None = None
        self.in_use: Any = threading.RLock()
        self._is_running = False
        forks.keep(self)
        self.thread: threading.Thread = _detached.create_thread(
            self._run_jobs, name="memalchemy-reader"
        )
        self.thread.start()

    def _run_jobs(self) -> None:
        item = self._readers.next_for(self) or self.inbox.get()
        while item is not None:
            job, reply = item
            done = [self._outcome(job, reply)] if reply.is_wanted else []
            # Become free before resolving: the task that gets its answer may read again at once.
            item = self._readers.next_for(self)
            resolve(done)
            del (
                job,
                reply,
                done,
            )  # they may be the last to refer to the database, which ends this thread
            item = item or self.inbox.get()
        self._disconnect()

    def close_idle(self) -> None:
        """Close the connection, for a fork; the next job opens another."""
        if not self._is_running:
            self._disconnect()

    def _outcome(self, job: Job, reply: ThreadFuture[Any]) -> Outcome:
        with self.in_use:
            self._is_running = True
            try:
                for _ in range(CONFLICTS.tries):  # a writer may come while it is read without locks
                    outcome = self._try_job(job, reply)
                    if self._direct is None or self._direct.raw.is_current():
                        return outcome
                    self._disconnect()
                return reply, None, unsettled()
            finally:
                self._is_running = False

    def _try_job(self, job: Job, reply: ThreadFuture[Any]) -> Outcome:
        try:
            self._readers.check()
            if self._direct is None:
                self._direct = self._readers.connect()
            return reply, job(self._direct), None
        except BaseException as error:  # noqa: BLE001 - handed to whoever waits
            return reply, None, error

    def _disconnect(self) -> None:
        if self._direct is not None:
            direct, self._direct = self._direct, None
            direct.connection.close()
            direct.connection.engine.dispose()
