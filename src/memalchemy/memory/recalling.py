"""What a process holds of the conversations that it has read, so that it reads only what is new.

All objects on one `Database` share it: an application that makes a `Conversation` for each request
reads as little as one that keeps it. It is never trusted for what the database says: every reading
asks whether what is held is still there, in the statement that reads the rest. It is never filled
from a transaction that may still roll back.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Sequence
from typing import Any, NamedTuple

from memalchemy import _forks
from memalchemy.contracts import LogReading
from memalchemy.database import Database, HostConnection
from memalchemy.database.per_database import shared
from memalchemy.keys import check_thread_id
from memalchemy.memory.records import Held, held
from memalchemy.threads import ThreadLog

MAX_BYTES = 64 * 1024 * 1024
"""Held of all conversations, about: a character counts as a byte."""
SHARE = 4
"""One conversation may take a quarter of it."""

_OVERHEAD = 400
"""What Python takes for a record, and the list for its place."""

Key = tuple[str, tuple[str, ...], str]
"""Tenant, namespace, thread."""


class Known(NamedTuple):
    """What was read of a log: with it, the next reading is of what is new. Nobody changes it."""

    seen: LogReading | None = None
    positions: Sequence[int] = ()
    records: Sequence[Held] = ()
    size: int = 0

    def grown(self, reading: LogReading, new: Known) -> Known:
        """This after a *reading* that went on from it, and found *new*."""
        if reading.complete or self.seen is None:
            return new._replace(seen=reading)
        if not new.records:
            return self._replace(seen=reading)
        return Known(
            reading,
            [*self.positions, *new.positions],
            [*self.records, *new.records],
            self.size + new.size,
        )


class Recollection:
    """Least recently used first out; safe from several threads."""

    def __init__(self, max_bytes: int = MAX_BYTES) -> None:
        self.max_bytes = max_bytes
        self.bytes = 0
        self._known: OrderedDict[Key, Known] = OrderedDict()
        self._lock = _forks.lock()

    @classmethod
    def of(cls, db: Database) -> Recollection:
        """That of all conversations on one `Database`."""
        return shared(db, cls)

    def get(self, key: Key) -> Known:
        """What is held; of what is not, nothing."""
        with self._lock:
            found = self._known.get(key)
            if found is None:
                return Known()
            self._known.move_to_end(key)
            return found

    def put(self, key: Key, known: Known) -> None:
        """Hold *known*, in place of what was held; unless it is too much."""
        with self._lock:
            self._drop(key)
            if known.size > self.max_bytes // SHARE:
                return
            self._known[key] = known
            self.bytes += known.size
            while self.bytes > self.max_bytes:
                self._drop(next(iter(self._known)))

    def drop(self, key: Key) -> None:
        """Forget one."""
        with self._lock:
            self._drop(key)

    def __len__(self) -> int:
        return len(self._known)

    def _drop(self, key: Key) -> None:
        found = self._known.pop(key, None)
        if found is not None:
            self.bytes -= found.size


async def recall(log: ThreadLog, thread_id: str, connection: HostConnection | None) -> Known:
    """All of a conversation, of which only what is new was read. One round trip.

    With *connection* it is what that transaction sees, and nothing of it is held.

    Raises:
        Corrupt: what is stored does not match its checksum.
    """
    recollection, key = Recollection.of(log.db), _key(log, thread_id)
    before = recollection.get(key)
    reading, new = await log.read_columns(thread_id, _new, before.seen, connection)
    known = before.grown(reading, new)
    if connection is None:
        recollection.put(key, known)
    return known


def remember(log: ThreadLog, thread_id: str, known: Known) -> None:
    """Hold what was recalled in a transaction that has been committed since."""
    Recollection.of(log.db).put(_key(log, thread_id), known)


def forget(log: ThreadLog, thread_id: str) -> None:
    """Hold nothing more of a conversation that is gone."""
    Recollection.of(log.db).drop(_key(log, thread_id))


def _key(log: ThreadLog, thread_id: str) -> Key:
    return log.db.tenant, log.namespace, check_thread_id(thread_id)


def _new(positions: Sequence[int], values: Sequence[Any], _: Sequence[int]) -> Known:
    records, texts = held(values)
    return Known(None, positions, records, texts + _OVERHEAD * len(records))
