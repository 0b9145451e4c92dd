"""Heads of logs as this process has left them, where a look at a log is a statement of its own.

A save on a base has to know that the base is still the one that was read. While the head is the one
that this process has written, so is all that its checkpoint is rebuilt from: the UPDATE that moves
the head compares it, and nothing has to be looked up. What is held here is never trusted: where the
head is another one, nothing is written, and the base is looked up.
"""

from __future__ import annotations

from datetime import datetime
from typing import Any, NamedTuple

from memalchemy._cache import BoundedCache
from memalchemy.database import Database
from memalchemy.database.per_database import shared
from memalchemy.dialects import Dialect
from memalchemy.log.tables import Log
from memalchemy.variants import varies

MAX_HEADS = 4096


@varies
def shortens_saves(dialect: Dialect) -> bool:
    """Return whether a save needs no look at the log where its head is known."""
    return False


class WrittenHead(NamedTuple):
    """A head that this process has written.

    Attributes:
        checkpoint_id: the newest checkpoint.
        next_seq: the position that is allotted next.
        updated_at: the time of the write. It tells this head from one of another history, where an
            older copy of the database has taken over and others have saved under the same id.
        bases: position and checksum of each row that the checkpoint is rebuilt from.
    """

    checkpoint_id: str
    next_seq: int
    updated_at: datetime
    bases: frozenset[tuple[int, int]]

    def binds(self) -> dict[str, Any]:
        """Return the binds of `memalchemy.log.citus.move_written_head`."""
        return {
            "h_head_id": self.checkpoint_id,
            "h_next_seq": self.next_seq,
            "h_updated_at": self.updated_at,
        }


class WrittenHeads:
    """Least-recently-used cache of heads."""

    def __init__(self) -> None:
        self._heads: BoundedCache[Log, WrittenHead] = BoundedCache(MAX_HEADS)

    @classmethod
    def of(cls, db: Database) -> WrittenHeads | None:
        """Return the heads of a `Database`; ``None`` where no save is the shorter for them.

        A save on one server looks in the statement that writes, and one that binds its rows to
        their places counts before.
        """
        is_of_use = shortens_saves(db.dialect) and not db.binds_places
        return shared(db, cls) if is_of_use else None

    def get(self, log: Log) -> WrittenHead | None:
        """Return the head of a log as this process has left it, if it is known."""
        return self._heads.get(log)

    def of_base(self, log: Log, base: tuple[int | None, int | None]) -> WrittenHead | None:
        """Return the head of a log if its checkpoint is rebuilt from the row *base*."""
        head = self._heads.get(log)
        return head if head is not None and base in head.bases else None

    def put(self, log: Log, head: WrittenHead) -> None:
        """Note the head that a committed save has left."""
        self._heads.put(log, head)

    def note_row(self, log: Log, seq: int, at: datetime) -> None:
        """Note that a row was inserted at *seq*, which moves a head and leaves its checkpoint."""
        head = self._heads.get(log)
        if head is not None and head.next_seq == seq:
            self._heads.put(log, head._replace(next_seq=seq + 1, updated_at=at))
