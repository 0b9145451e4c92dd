"""SQLite's writer: one thread, one connection, group commit.

An async driver hops between threads some eight times for each save; here a whole save is one hop,
and saves that wait at the same time share one commit. A job is a function of the connection that
can run again from the start: if one job of a batch fails, the batch is rolled back and its jobs run
one by one, so a failing save does not affect the others.
"""

from __future__ import annotations

import contextlib
import queue
import sqlite3
import threading
from collections.abc import Awaitable, Callable
from concurrent.futures import Future
from dataclasses import dataclass, field
from typing import Any, TypeVar

from sqlalchemy import Connection

from memalchemy import _detached
from memalchemy.database.sqlite import forks
from memalchemy.database.sqlite.connections import SQLiteDirectConnection
from memalchemy.database.thread_future import ThreadFuture, resolve

T = TypeVar("T")
Job = Callable[[SQLiteDirectConnection], Any]
QueuedJob = tuple[Job, ThreadFuture[Any]]

_CLOSE = object()

MAX_BATCH = 256


@dataclass
class WriterLease:
    """A place in the writer's queue, held by a transaction on a connection of its own."""

    granted: Future[None] = field(default_factory=Future)
    is_left: bool = False
    """The transaction's block has ended. Its connection may still have to be closed."""
    _returned: threading.Event = field(default_factory=threading.Event)

    @property
    def is_held(self) -> bool:
        """True while who has it would wait for the writer in vain."""
        return not self.is_left and not self._returned.is_set()

    def give_back(self) -> None:
        self._returned.set()

    def wait(self) -> None:
        self._returned.wait()


@dataclass(frozen=True)
class _Abandon:
    """The last item of a writer that nobody refers to any more, with the work after it."""

    then: Callable[[], object]


class Writer:
    """Runs jobs in the order of their arrival, several in one transaction.

    *connect* is called in the writer's thread on first use, *check* before each transaction.
    The connection is in autocommit mode; the writer sends BEGIN IMMEDIATE and COMMIT on it. With
    *is_the_database*, as in memory, the connection is never closed before the end.
    """

    def __init__(
        self,
        connect: Callable[[], Connection],
        check: Callable[[], object],
        *,
        is_the_database: bool = False,
    ) -> None:
        self._connect = connect
        self._check = check
        self._is_the_database = is_the_database
        self._queue: queue.SimpleQueue[object] = queue.SimpleQueue()
        self._lock = threading.Lock()
        self._thread: threading.Thread | None = None
        self._ending: threading.Thread | None = None
        self._direct: SQLiteDirectConnection | None = None
        self.in_use: Any = threading.RLock()
        if not is_the_database:
            forks.keep(self)

    def run(self, job: Callable[[SQLiteDirectConnection], T]) -> Awaitable[T]:
        """Return the result of *job* after its commit.

        A job that is cancelled before its transaction has begun never starts. Later the
        cancellation waits for the end of the transaction: who is told of it finds in the database
        what will stay there.
        """
        reply: ThreadFuture[T] = ThreadFuture()
        with self._lock:
            if self._thread is None:
                self._start_thread()
            self._queue.put((job, reply))
        return reply.settled()

    def lease(self) -> WriterLease:
        """Queue a lease. From ``granted`` on the writer waits until `WriterLease.give_back`."""
        lease = WriterLease()
        with self._lock:
            if self._thread is None:
                self._start_thread()
            self._queue.put(lease)
        return lease

    def close(self) -> None:
        """Finish what is queued, then close the connection. Idempotent."""
        with self._lock:
            thread, self._thread = self._thread, None
            if thread is not None:
                self._ending = thread
                self._queue.put(_CLOSE)
        if thread is not None:
            thread.join()

    def abandon(self, then: Callable[[], object]) -> None:
        """Close as `close` does, later and in the writer's own thread, then call *then*.

        For a finaliser, which runs in any thread at any moment: takes no lock and does not wait.
        """
        if self._thread is not None:
            self._queue.put(_Abandon(then))

    def close_idle(self) -> None:
        """Close the connection, for a fork; the next batch opens another."""
        if self._direct is not None and not self._direct.raw.in_transaction:
            self._disconnect()

    def _start_thread(self) -> None:
        self._thread = _detached.create_thread(
            self._run_queue, self._ending, name="memalchemy-writer"
        )
        self._thread.start()

    def _run_queue(self, ending: threading.Thread | None) -> None:
        if ending is not None:
            ending.join()  # until then the connection, and earlier jobs, are that thread's
        while True:
            batch, follower = self._collect_batch()
            with self.in_use:
                self._run_batch(batch)
            del batch  # its jobs may be the last to refer to the database, which ends this thread
            if follower is _CLOSE or isinstance(follower, _Abandon):
                self._disconnect()
                if isinstance(follower, _Abandon):
                    follower.then()
                return
            if (
                isinstance(follower, WriterLease)
                and follower.granted.set_running_or_notify_cancel()
            ):
                follower.granted.set_result(None)
                follower.wait()

    def _collect_batch(self) -> tuple[list[QueuedJob], object]:
        """Wait for a job; take all that wait behind it, up to the first item that is no job."""
        batch: list[QueuedJob] = []
        item = self._queue.get()
        while isinstance(item, tuple):
            batch.append(item)
            if len(batch) == MAX_BATCH or self._queue.empty():
                return batch, None
            item = self._queue.get()
        return batch, item

    def _run_batch(self, batch: list[QueuedJob]) -> None:
        """Run jobs in one transaction; if one of them fails, each in a transaction of its own."""
        if len(batch) == 1:
            self._run_alone(*batch[0])
            return
        live = [(job, reply) for job, reply in batch if reply.is_wanted]
        if not live:
            return
        try:
            connection = self._begin_immediate()
        except BaseException as error:  # noqa: BLE001 - handed to everybody who waits
            # A locked database is locked for all of them: the others do not wait for it again.
            resolve((reply, None, error) for _, reply in live)
            return
        # A wait for another process may have been long.
        live = [(job, reply) for job, reply in live if reply.claim()]
        # A failure is not lost: each job runs again alone and reports its own error.
        with contextlib.suppress(Exception):
            results = self._run_and_commit(connection, [job for job, _ in live])
            resolve((r, result, None) for (_, r), result in zip(live, results, strict=True))
            return
        for job, reply in live:
            self._run_alone(job, reply, is_claimed=True)

    def _run_alone(self, job: Job, reply: ThreadFuture[Any], *, is_claimed: bool = False) -> None:
        """Run a job in a transaction of its own, and tell its result or its error."""
        if reply.future.cancelled():
            if is_claimed:
                reply.resolve_soon(None, None)
            return
        try:
            connection = self._begin_immediate()
            # A wait for another process may have been long.
            jobs = [job] if is_claimed or reply.claim() else []
            results = self._run_and_commit(connection, jobs)
        except BaseException as error:  # noqa: BLE001 - handed to whoever waits for the job
            reply.resolve_soon(None, error)
        else:
            for result in results:
                reply.resolve_soon(result, None)

    def _begin_immediate(self) -> SQLiteDirectConnection:
        self._check()
        if self._direct is None:
            self._direct = SQLiteDirectConnection(self._connect())
            self._direct.register()
        elif self._direct.raw.in_transaction:
            # The last transaction failed, and so did its ROLLBACK.
            self._direct.execute_control("ROLLBACK")
        self._direct.execute_control("BEGIN IMMEDIATE")
        return self._direct

    def _run_and_commit(self, connection: SQLiteDirectConnection, jobs: list[Job]) -> list[Any]:
        """Run jobs in the transaction that has begun, and commit it."""
        results = []
        try:
            for job in jobs:
                results.append(job(connection))
            connection.execute_control("COMMIT")
        except BaseException:
            self._roll_back(connection)
            raise
        return results

    def _roll_back(self, connection: SQLiteDirectConnection) -> None:
        """Roll the transaction back, or close the connection if that fails."""
        try:
            if connection.raw.in_transaction:  # a full disk or a failed COMMIT may have rolled back
                connection.execute_control("ROLLBACK")
        except sqlite3.Error:
            if not self._is_the_database:
                connection.connection.invalidate()  # so that closing sends no ROLLBACK
                self._disconnect()

    def _disconnect(self) -> None:
        if self._direct is not None:
            connection, self._direct = self._direct.connection, None
            connection.close()
            connection.engine.dispose()
