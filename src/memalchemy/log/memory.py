"""Memory that a process has of logs: the heads that it has left, and whose turn it is to write.

A save on a base has to know that the base is still the one that was read, and a signed one which
head it follows. While the head is the one that this process has left, so is all that its checkpoint
is rebuilt from: the statement that moves the head compares it, and nothing has to be looked up. The
memory is never trusted: where the head is another one nothing is written, and the log is looked at.
Newest states are remembered by `memalchemy.checkpoints.tip_cache`.
"""

from __future__ import annotations

import asyncio
from datetime import datetime
from typing import Any, NamedTuple
from weakref import WeakKeyDictionary, WeakValueDictionary

from memalchemy._cache import BoundedCache
from memalchemy.database import Database
from memalchemy.database.per_database import shared
from memalchemy.dialects import Dialect
from memalchemy.log.tables import Log
from memalchemy.protection.known_heads import KnownHead, KnownHeads
from memalchemy.variants import varies

MAX_HEADS = 4096


@varies
def takes_turns(dialect: Dialect) -> bool:
    """Return whether unsigned saves take turns, too, because they are not sent in groups."""
    return False


@varies
def shortens_saves(dialect: Dialect) -> bool:
    """Return whether an unsigned save needs no look at the log where its head is known."""
    return False


Base = tuple[int | None, int | None]
"""Position and checksum of a row that a state is rebuilt from."""


class WrittenHead(NamedTuple):
    """An unsigned head that this process has written.

    Attributes:
        checkpoint_id: the newest checkpoint.
        next_seq: the position that is allotted next.
        updated_at: the time of the write. It tells this head from one of another history, where an
            older copy of the database has taken over and others have saved under the same id.
        bases: each row that the checkpoint is rebuilt from.
    """

    checkpoint_id: str
    next_seq: int
    updated_at: datetime
    bases: frozenset[Base]

    def binds(self) -> dict[str, Any]:
        """Return the binds of `memalchemy.log.citus.move_written_head`."""
        return {
            "h_head_id": self.checkpoint_id,
            "h_next_seq": self.next_seq,
            "h_updated_at": self.updated_at,
        }


class _Memory:
    """Contents of the memory of one `Database`, for all its tenants and features."""

    def __init__(self) -> None:
        self.written_heads: BoundedCache[Log, WrittenHead] = BoundedCache(MAX_HEADS)
        self.queues: WeakKeyDictionary[
            asyncio.AbstractEventLoop, WeakValueDictionary[Log, asyncio.Lock]
        ] = WeakKeyDictionary()


class LogMemory:
    """Memory of logs that all features of one `Database` share."""

    def __init__(self, db: Database) -> None:
        self._db = db
        self._memory = shared(db, _Memory)
        self._allots_first = db.guard.allots_first
        self._known_heads = shared(db, KnownHeads) if db.guard.leaves_known_heads else None

    def turn(self, log: Log) -> asyncio.Lock:
        """Return the lock that writers of *log* in this loop wait for, first come, first served.

        A database with a single writer keeps the order by itself, and so do rows that wait for a
        shared statement. Transactions on connections of their own would overtake each other.
        """
        loop = asyncio.get_running_loop()
        queues = self._memory.queues.setdefault(loop, WeakValueDictionary())
        lock = queues.get(log)
        if lock is None:
            lock = queues[log] = asyncio.Lock()
        return lock

    def known_head(self, log: Log) -> KnownHead | None:
        """Return the signed head of a log as this process has left it, if it is known.

        ``None`` where heads are not signed.
        """
        return None if self._known_heads is None else self._known_heads.get(log.key)

    @property
    def keeps_written_heads(self) -> bool:
        """True if a save is the shorter for unsigned heads that are known.

        A save on one server looks in the statement that writes, and one that binds its rows to
        their places counts before.
        """
        return shortens_saves(self._db.dialect) and not self._allots_first

    def written_head(self, log: Log, base: Base) -> WrittenHead | None:
        """Return the unsigned head of a log as this process has left it, if *base* is under it."""
        head = self._memory.written_heads.get(log)
        return head if head is not None and base in head.bases else None

    def note_checkpoint(
        self, log: Log, checkpoint_id: str, seq: int, at: datetime, bases: frozenset[Base]
    ) -> None:
        """Note the head that a committed save has left, whose checkpoint stands at *seq*."""
        head = WrittenHead(checkpoint_id, seq + 1, at, bases)
        self._memory.written_heads.put(log, head)

    def note_row(self, log: Log, seq: int, at: datetime) -> None:
        """Note that a row was inserted at *seq*, which moves a head and leaves its checkpoint."""
        head = self._memory.written_heads.get(log)
        if head is not None and head.next_seq == seq:
            moved = head._replace(next_seq=seq + 1, updated_at=at)
            self._memory.written_heads.put(log, moved)
