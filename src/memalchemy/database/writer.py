"""SQLite's writer: one thread, one connection, group commit.

An async driver hops between threads some eight times for each save; here a whole save is one hop,
and saves that wait together share one commit. A job is a function of the connection that can run
again from the start: if any job of a batch fails, the batch is rolled back and its jobs run one by
one, so a bad save never harms its neighbours.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import queue
import sqlite3
import threading
import weakref
from collections.abc import Callable
from concurrent.futures import Future
from dataclasses import dataclass, field
from typing import Any, TypeVar

from sqlalchemy import Connection

from memalchemy.database.prepared import Prepared
from memalchemy.database.replies import Reply, settle

T = TypeVar("T")
Job = Callable[[Connection], Any]
Queued = tuple[Job, Reply[Any]]

_END = object()

MAX_BATCH = 256


@dataclass
class Lease:
    """The writer's place in the queue, lent to a transaction that runs elsewhere."""

    granted: Future[None] = field(default_factory=Future)
    _returned: threading.Event = field(default_factory=threading.Event)

    @property
    def is_over(self) -> bool:
        return self._returned.is_set()

    def give_back(self) -> None:
        self._returned.set()

    def wait(self) -> None:
        self._returned.wait()


@dataclass(frozen=True)
class _Left:
    """The end of a writer that nobody can use any more, and what is left to do then."""

    then: Callable[[], object]


class Writer:
    """Runs jobs in the order of their arrival, several in one transaction.

    *connect* is called in the writer's thread on first use. The connection is in autocommit mode;
    BEGIN IMMEDIATE and COMMIT are the writer's. One that *is the database*, in memory, is never
    closed before the end.
    """

    def __init__(self, connect: Callable[[], Connection], *, is_the_database: bool = False) -> None:
        self._connect = connect
        self._is_the_database = is_the_database
        self._queue: queue.SimpleQueue[object] = queue.SimpleQueue()
        self._lock = threading.Lock()
        self._thread: threading.Thread | None = None
        self._ending: threading.Thread | None = None
        self._connection: Connection | None = None
        self._raw: Any = None
        self.working = threading.RLock()
        _writers.add(self)

    def submit(self, job: Callable[[Connection], T]) -> asyncio.Future[T]:
        """Queue *job*, from a task. Its future is settled after the commit; one that is cancelled
        before its turn never starts.
        """
        reply: Reply[T] = Reply()
        with self._lock:
            self._start()
            self._queue.put((job, reply))
        return reply.future

    def lease(self) -> Lease:
        """Ask for the writer's turn. It waits from ``granted`` on until `Lease.give_back`."""
        lease = Lease()
        with self._lock:
            self._start()
            self._queue.put(lease)
        return lease

    def close(self) -> None:
        """Finish what is queued, then close the connection. Idempotent."""
        with self._lock:
            thread, self._thread = self._thread, None
            if thread is not None:
                self._ending = thread
                self._queue.put(_END)
        if thread is not None:
            thread.join()

    def leave(self, then: Callable[[], object]) -> None:
        """Close as `close` does, later and in the writer's own thread, and call *then*.

        For a finaliser, which runs in any thread at any moment: takes no lock, waits for nothing.
        """
        if self._thread is not None:
            self._queue.put(_Left(then))

    def _start(self) -> None:
        if self._thread is None:
            self._thread = threading.Thread(
                target=self._run, args=(self._ending,), name="memalchemy-writer", daemon=True
            )
            self._thread.start()

    def _run(self, ending: threading.Thread | None) -> None:
        if ending is not None:
            ending.join()  # what is queued before its end, and the connection, are still its own
        while True:
            batch, follower = self._collect()
            with self.working:
                self._run_batch(batch)
            del batch  # it may hold what else would be gone before the next one comes
            if follower is _END or isinstance(follower, _Left):
                self._disconnect()
                if isinstance(follower, _Left):
                    follower.then()
                return
            if isinstance(follower, Lease) and follower.granted.set_running_or_notify_cancel():
                follower.granted.set_result(None)
                follower.wait()

    def _collect(self) -> tuple[list[Queued], object]:
        """Wait for a job; take all that wait behind it, up to the first item that is no job."""
        batch: list[Queued] = []
        item = self._queue.get()
        while isinstance(item, tuple):
            batch.append(item)
            if len(batch) == MAX_BATCH:
                return batch, None
            try:
                item = self._queue.get_nowait()
            except queue.Empty:
                return batch, None
        return batch, item

    def _run_batch(self, batch: list[Queued]) -> None:
        live = [(job, reply) for job, reply in batch if reply.is_wanted]
        if not live:
            return
        try:
            connection = self._begin()
        except BaseException as error:  # noqa: BLE001 - handed to everybody who waits
            # A database that is locked is so for all of them: nobody waits for it again.
            settle((reply, None, error) for _, reply in live)
            return
        has_begun = True
        if len(live) > 1:
            # A failure is not lost: each job runs again alone and reports for itself.
            with contextlib.suppress(Exception):
                results = self._finish(connection, [job for job, _ in live])
                settle((r, result, None) for (_, r), result in zip(live, results, strict=True))
                return
            has_begun = False
        for job, reply in live:
            try:
                if not has_begun:
                    connection = self._begin()
                has_begun = False
                (result,) = self._finish(connection, [job])
            except BaseException as error:  # noqa: BLE001 - handed to whoever waits for the job
                settle([(reply, None, error)])
            else:
                settle([(reply, result, None)])

    def _begin(self) -> Connection:
        if self._connection is None:
            self._connection = self._connect()
            prepared = Prepared(self._connection)
            prepared.keep()
            self._raw = prepared.raw
        elif self._raw.in_transaction:
            self._raw.execute("ROLLBACK")  # the last one failed; a job must not run in its rest
        self._raw.execute("BEGIN IMMEDIATE")
        return self._connection

    def _finish(self, connection: Connection, jobs: list[Job]) -> list[Any]:
        try:
            results = [job(connection) for job in jobs]
            self._raw.execute("COMMIT")
        except BaseException:
            self._roll_back()
            raise
        return results

    def _roll_back(self) -> None:
        """Undo the transaction, if need be by closing the connection."""
        try:
            if self._raw.in_transaction:  # a full disk or a failed COMMIT may have done it already
                self._raw.execute("ROLLBACK")
        except sqlite3.Error:
            if not self._is_the_database and self._connection is not None:
                self._connection.invalidate()  # which asks for no ROLLBACK
                self._disconnect()

    def _disconnect(self) -> None:
        if self._connection is not None:
            engine = self._connection.engine
            self._connection.close()
            engine.dispose()
            self._connection = None


# A child inherits what SQLite remembers of this process's locks: forked in the middle of a batch,
# it would find the file locked for ever. So a fork waits for the batches that run.
FORK_PATIENCE = 5.0
_writers: weakref.WeakSet[Writer] = weakref.WeakSet()
_held: list[Writer] = []


def _before_fork() -> None:
    _held.extend(w for w in list(_writers) if w.working.acquire(timeout=FORK_PATIENCE))


def _after_fork() -> None:
    while _held:
        _held.pop().working.release()


os.register_at_fork(before=_before_fork, after_in_parent=_after_fork, after_in_child=_after_fork)
