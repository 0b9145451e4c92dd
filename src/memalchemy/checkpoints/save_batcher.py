"""Saves that wait at the same moment go to a server together, where it can take them so.

While a statement of saves is on its way, those that come meanwhile gather behind it and make the
next. So a lone save waits for nobody, and many cost one round trip and one commit. SQLite's writer
does the same with transactions.
"""

from __future__ import annotations

import asyncio
import weakref
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from memalchemy.database import Database
from memalchemy.database.sharing import shared
from memalchemy.errors import DatabaseUnreachable, MemalchemyError
from memalchemy.events import Event
from memalchemy.log import Log, Position, append_checkpoint, append_checkpoints

LANES = 4
"""Statements on their way at once: the server has more than one processor."""

MAX_ROWS = 16
"""Enough to share what a statement costs. Of more, the words of one statement would be indexed by
one processor while the others wait for the savers, and these for it."""

MAX_BYTES = 4 * 1024 * 1024
"""Of payloads in one statement, beyond its first row."""


@dataclass(eq=False)
class _Waiting:
    db: Database
    log: Log
    row: Mapping[str, Any]
    first: str
    event: Event
    future: asyncio.Future[Any]
    sending: asyncio.Task[Any] | None = None


@dataclass
class _Queue:
    """What waits in one event loop."""

    waiting: list[_Waiting] = field(default_factory=list)
    busy: set[Log] = field(default_factory=set)
    """Logs whose saves are on their way: the next of them wait, so that none overtakes another."""
    running: int = 0
    lanes: set[asyncio.Task[None]] = field(default_factory=set)
    """So that a task that runs is not collected."""


class SaveBatcher:
    """The saves of one `Database` that may be sent together."""

    def __init__(self) -> None:
        self._queues: weakref.WeakKeyDictionary[asyncio.AbstractEventLoop, _Queue]
        self._queues = weakref.WeakKeyDictionary()

    @classmethod
    def of(cls, db: Database) -> SaveBatcher:
        """The one that all checkpointers on one `Database` share."""
        return shared(db, cls)

    async def append(
        self, db: Database, log: Log, row: Mapping[str, Any], first: str, event: Event
    ) -> Position | None:
        """`append_checkpoint` of a row without conditions of its own, with others if others wait.

        A caller that is cancelled leaves a save that is whole or absent, and hears of it when that
        is decided: nothing is saved later.

        Raises:
            CapabilityMissing, KeyMissing: as `Database.write`. Each save is looked at as it comes:
                those that go together are of several tenants, keys and views of the database.
        """
        await db.check_payloads()
        loop = asyncio.get_running_loop()
        queue = self._queues.setdefault(loop, _Queue())
        mine = _Waiting(db, log, row, first, event, loop.create_future())
        queue.waiting.append(mine)
        if queue.running < LANES:
            queue.running += 1
            lane = loop.create_task(_send_all(queue))
            queue.lanes.add(lane)
            lane.add_done_callback(queue.lanes.discard)
        try:
            found: Position | None = await mine.future
        except asyncio.CancelledError:
            if mine.sending is not None:
                await asyncio.wait([mine.sending])
            raise
        return found


async def _send_all(queue: _Queue) -> None:
    try:
        while batch := _next_batch(queue):
            logs = {waiting.log for waiting in batch}
            queue.busy |= logs
            try:
                await _send_batch(batch)
            finally:
                queue.busy -= logs
    except asyncio.CancelledError:
        for waiting in queue.waiting:
            waiting.future.cancel()
        raise
    finally:
        # Before anybody else runs: whoever comes next must not count on this lane.
        queue.running -= 1


async def _send_batch(batch: list[_Waiting]) -> None:
    sending = asyncio.get_running_loop().create_task(_send(batch))

    def stop_if_nobody_waits(_: object = None) -> None:
        # Once: a driver that is cancelled while it calls off a query gives up on the connection.
        if not sending.cancelling() and all(waiting.future.cancelled() for waiting in batch):
            sending.cancel()

    for waiting in batch:
        waiting.sending = sending
        waiting.future.add_done_callback(stop_if_nobody_waits)
    try:
        positions = await asyncio.shield(sending)
    except asyncio.CancelledError:
        if sending.done() and all(waiting.future.cancelled() for waiting in batch):
            return
        for waiting in batch:
            waiting.future.cancel()
        stop_if_nobody_waits()
        raise
    except MemalchemyError as error:
        await _answer_for(batch, error)
    except BaseException as error:  # noqa: BLE001 - handed to everybody who waits
        _settle(batch, error)
    else:
        for waiting, position in zip(batch, positions, strict=True):
            if not waiting.future.done():
                waiting.future.set_result(position)


def _next_batch(queue: _Queue) -> list[_Waiting]:
    """The first that can go, with those behind it that can go in the same statement; the saves of
    one log in the order they came in.
    """
    batch: list[_Waiting] = []
    left: list[_Waiting] = []
    names: set[tuple[Log, str]] = set()
    closed = set(queue.busy)
    room = MAX_BYTES
    for waiting in queue.waiting:
        if waiting.future.cancelled():
            continue
        name = waiting.log, waiting.row["p_checkpoint_id"]
        fits = len(batch) < MAX_ROWS and room > 0 and name not in names
        alike = not batch or waiting.first == batch[0].first
        if waiting.log in closed or not (fits and alike):
            left.append(waiting)
            closed.add(waiting.log)
            continue
        batch.append(waiting)
        names.add(name)
        room -= len(waiting.row["p_payload"])
    queue.waiting = left
    return batch


async def _send(batch: list[_Waiting]) -> list[Position | None]:
    db = batch[0].db  # of one engine with the others', which were looked at as they came
    event, d = Event("checkpoint.save"), db.dialect
    rows, first = [waiting.row for waiting in batch], batch[0].first
    try:
        if len(rows) > 1:
            return await db.write(
                lambda: append_checkpoints(d, rows, first=first),
                event=event,
                single=True,
            )
        return [
            await db.write(
                lambda: append_checkpoint(d, rows[0], first=first, condition="any", retain=False),
                event=event,
                single=True,
            )
        ]
    finally:
        for waiting in batch:
            waiting.event.round_trips += event.round_trips


async def _answer_for(batch: list[_Waiting], error: MemalchemyError) -> None:
    """One of several may be to blame: each is tried alone. A lost connection is everybody's."""
    if len(batch) == 1 or isinstance(error, DatabaseUnreachable):
        _settle(batch, error)
        return
    for waiting in batch:
        if waiting.future.cancelled():
            continue
        try:
            (position,) = await _send([waiting])
        except MemalchemyError as own:
            _settle([waiting], own)
        else:
            if not waiting.future.done():
                waiting.future.set_result(position)


def _settle(batch: list[_Waiting], error: BaseException) -> None:
    for waiting in batch:
        if waiting.future.done():
            continue
        own = error
        if isinstance(error, DatabaseUnreachable) and len(batch) > 1:
            # Raised in several tasks, one object would gather all their tracebacks.
            own = DatabaseUnreachable(
                str(error), maybe_applied=error.maybe_applied, busy=error.busy
            )
            own.__cause__ = error.__cause__
        waiting.future.set_exception(own)
