"""Group commit for servers: rows that wait at the same moment share one statement.

While statements are on their way, the rows that come meanwhile gather behind them and make the
next. So a lone row waits for nobody, its own program writes it, and many cost one round trip and
one commit. SQLite's writer does the same with transactions.
"""

from __future__ import annotations

import asyncio
import weakref
from collections.abc import Awaitable, Callable, Hashable, Mapping, Sequence
from contextvars import Context, copy_context
from dataclasses import dataclass, field
from typing import Any, Generic, TypeVar

from memalchemy import _detached
from memalchemy.errors import DatabaseUnreachable, MemalchemyError
from memalchemy.events import Event
from memalchemy.statements import Program

T = TypeVar("T")

LANES = 4
"""Statements on their way at once: the server has more than one processor."""

MAX_ROWS = 16
"""Enough to share the cost of a statement. The words of a larger one would be indexed by one
processor while the others wait for the savers, and these for it."""

MAX_BYTES = 4 * 1024 * 1024
"""The most bytes of payloads in one statement, its first row not counted."""


@dataclass(frozen=True, eq=False, slots=True)
class BatchedRow(Generic[T]):
    """A row to be written, alone or in one statement with others.

    Attributes:
        binds: returns the values of the row.
        size: the bytes of its payload.
        family: rows share a statement with those of the same family only.
        sequence: rows of the same sequence are written in the order in which they came.
        key: two rows of the same key are never in one statement.
        program: makes the program that writes several rows, with a result for each.
    """

    binds: Callable[[], Mapping[str, Any]]
    size: int
    family: Hashable
    sequence: Hashable
    key: Hashable
    program: Callable[[Sequence[Mapping[str, Any]]], Program[list[T]]]


Send = Callable[[Callable[[], Program[list[Any]]], Event], Any]
"""Runs a program in autocommit, with retry; counts its round trips in the event."""


@dataclass(eq=False)
class _Waiting:
    row: BatchedRow[Any]
    event: Event
    send: Send
    future: asyncio.Future[Any]
    tenant: str | None
    context: Context = field(default_factory=copy_context)
    sending: asyncio.Task[Any] | None = None


@dataclass
class _Queue:
    """The rows that wait in one event loop."""

    waiting: list[_Waiting] = field(default_factory=list)
    busy: set[Hashable] = field(default_factory=set)
    """Sequences with a row on its way: their next rows wait, so that none overtakes another."""
    running: int = 0
    lanes: set[asyncio.Task[None]] = field(default_factory=set)
    """References to the running tasks, which asyncio itself holds only weakly."""


class Batcher:
    """Writes rows in batches."""

    def __init__(self) -> None:
        self._queues: weakref.WeakKeyDictionary[asyncio.AbstractEventLoop, _Queue]
        self._queues = weakref.WeakKeyDictionary()

    async def write(
        self,
        row: BatchedRow[T],
        event: Event,
        send: Send,
        alone: Callable[[], Awaitable[T]],
        tenant: str | None = None,
    ) -> T:
        """Write *row*, with others if others wait; return its own result.

        Where row-level security walls tenants, *tenant* is the one of the statement: rows of others
        are not in it.

        *send* runs the program of the batch of which this is the first row, *alone* the program
        that writes this row only.

        A caller that is cancelled leaves a row that is written or not, and is told when that is
        decided: nothing is written later. The caller has checked what the row may do, each row on
        its own: a batch has rows of several tenants, keys and views of the database.
        """
        loop = asyncio.get_running_loop()
        queue = self._queues.get(loop)
        if queue is None:
            queue = self._queues[loop] = _Queue()
        if queue.running < LANES and not queue.waiting and row.sequence not in queue.busy:
            # Its caller writes it, in the place of a lane.
            queue.running += 1
            queue.busy.add(row.sequence)
            try:
                return await alone()
            finally:
                queue.busy.discard(row.sequence)
                queue.running -= 1
                if queue.waiting:
                    self._start_lane(queue)
        mine = _Waiting(row, event, send, loop.create_future(), tenant)
        queue.waiting.append(mine)
        self._start_lane(queue)
        try:
            result: T = await mine.future
        except asyncio.CancelledError:
            if mine.sending is not None:
                await asyncio.wait([mine.sending])
            raise
        return result

    def _start_lane(self, queue: _Queue) -> None:
        """Start a lane for what waits, unless enough of them run."""
        if queue.running < LANES:
            queue.running += 1
            lane = _detached.create_task(self._run_lane(queue))
            queue.lanes.add(lane)
            lane.add_done_callback(queue.lanes.discard)

    async def _run_lane(self, queue: _Queue) -> None:
        """Send batches until nothing is left that could go now."""
        try:
            while batch := _next_batch(queue):
                sequences = {waiting.row.sequence for waiting in batch}
                queue.busy |= sequences
                try:
                    await self._send_batch(batch)
                finally:
                    queue.busy -= sequences
        except asyncio.CancelledError:
            for waiting in queue.waiting:
                waiting.future.cancel()
            raise
        finally:
            # Before any other task runs, so that no later row counts on this lane.
            queue.running -= 1

    async def _send_batch(self, batch: list[_Waiting]) -> None:
        sending = asyncio.create_task(self._send_rows(batch), context=batch[0].context)

        def stop_if_nobody_waits(_: object = None) -> None:
            # Once: asyncpg gives up on a connection if it is cancelled while it cancels a query.
            if not sending.cancelling() and all(waiting.future.cancelled() for waiting in batch):
                sending.cancel()

        for waiting in batch:
            waiting.sending = sending
            waiting.future.add_done_callback(stop_if_nobody_waits)
        try:
            results = await asyncio.shield(sending)
        except asyncio.CancelledError:
            if sending.done() and all(waiting.future.cancelled() for waiting in batch):
                return
            for waiting in batch:
                waiting.future.cancel()
            stop_if_nobody_waits()
            raise
        except MemalchemyError as error:
            await self._retry_one_by_one(batch, error)
        except BaseException as error:  # noqa: BLE001 - handed to every caller that waits
            _set_error(batch, error)
        else:
            for waiting, result in zip(batch, results, strict=True):
                if not waiting.future.done():
                    waiting.future.set_result(result)

    async def _send_rows(self, batch: list[_Waiting]) -> list[Any]:
        event = Event("batch")
        rows = [waiting.row.binds() for waiting in batch]
        try:
            results: list[Any] = await batch[0].send(lambda: batch[0].row.program(rows), event)
            return results
        finally:
            for waiting in batch:
                waiting.event.round_trips += event.round_trips

    async def _retry_one_by_one(self, batch: list[_Waiting], error: MemalchemyError) -> None:
        """Try the rows of a failed batch one by one: one of them may be to blame.

        A lost connection is reported to all of them.
        """
        if len(batch) == 1 or isinstance(error, DatabaseUnreachable):
            _set_error(batch, error)
            return
        for waiting in batch:
            if waiting.future.cancelled():
                continue
            try:
                (result,) = await self._send_rows([waiting])
            except MemalchemyError as own:
                _set_error([waiting], own)
            else:
                if not waiting.future.done():
                    waiting.future.set_result(result)


def _next_batch(queue: _Queue) -> list[_Waiting]:
    """Take the first row that can go and those behind it that can go in the same statement.

    The rows of one sequence are taken in the order in which they came.
    """
    batch: list[_Waiting] = []
    left: list[_Waiting] = []
    keys: set[Hashable] = set()
    closed = set(queue.busy)
    room = MAX_BYTES
    for waiting in queue.waiting:
        row = waiting.row
        if waiting.future.cancelled():
            continue
        fits = len(batch) < MAX_ROWS and room > 0 and row.key not in keys
        alike = not batch or (
            row.family == batch[0].row.family and waiting.tenant == batch[0].tenant
        )
        if row.sequence in closed or not (fits and alike):
            left.append(waiting)
            closed.add(row.sequence)
            continue
        batch.append(waiting)
        keys.add(row.key)
        room -= row.size
    queue.waiting = left
    return batch


def _set_error(batch: list[_Waiting], error: BaseException) -> None:
    for waiting in batch:
        if waiting.future.done():
            continue
        own = error
        if isinstance(error, DatabaseUnreachable) and len(batch) > 1:
            # One object raised in several tasks would gather the tracebacks of all of them.
            own = DatabaseUnreachable(
                str(error), maybe_applied=error.maybe_applied, busy=error.busy
            )
            own.__cause__ = error.__cause__
        waiting.future.set_exception(own)
