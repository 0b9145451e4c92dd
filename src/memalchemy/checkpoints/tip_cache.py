"""What a process remembers of the logs it writes: for each, the newest tip, bounded in bytes.

An entry is never trusted for what the database says: a save sends the epoch it was read under. It
is never filled from a transaction that may still roll back.
"""

from __future__ import annotations

from collections import OrderedDict

from memalchemy import _forks
from memalchemy.checkpoints.skip_deltas import Tip
from memalchemy.database import Database
from memalchemy.database.per_database import shared
from memalchemy.log import Log

MAX_BYTES = 64 * 1024 * 1024
SHARE = 4
"""One log's entry may take a quarter of the cache."""


class TipCache:
    """Least recently used first out; safe from several threads."""

    def __init__(self, max_bytes: int = MAX_BYTES) -> None:
        self.max_bytes = max_bytes
        self.bytes = 0
        self._tips: OrderedDict[Log, tuple[Tip, int]] = OrderedDict()
        self._lock = _forks.lock()

    @classmethod
    def of(cls, db: Database) -> TipCache:
        """The cache that all checkpointers on one `Database` share."""
        return shared(db, cls)

    def get(self, log: Log) -> Tip | None:
        with self._lock:
            found = self._tips.get(log)
            if found is None:
                return None
            self._tips.move_to_end(log)
            return found[0]

    def put(self, log: Log, tip: Tip) -> None:
        """Keep *tip* unless a newer one of the same life is there."""
        tip, size = tip.within(self.max_bytes // SHARE)
        with self._lock:
            found = self._tips.get(log)
            # Of the same state, the one that is there has more of its chain decoded.
            if found is not None and found[0].epoch == tip.epoch and found[0].seq >= tip.seq:
                return
            self._drop(log)
            if size > self.max_bytes // SHARE:
                return
            self._tips[log] = (tip, size)
            self.bytes += size
            while self.bytes > self.max_bytes:
                self._drop(next(iter(self._tips)))

    def drop(self, log: Log) -> None:
        with self._lock:
            self._drop(log)

    def drop_thread(self, tenant: str, thread_id: str) -> None:
        """Forget every log of a thread."""
        with self._lock:
            for log in [k for k in self._tips if k[:2] == (tenant, thread_id)]:
                self._drop(log)

    def drop_tenant(self, tenant: str) -> None:
        """Forget every log of a tenant."""
        with self._lock:
            for log in [k for k in self._tips if k.tenant == tenant]:
                self._drop(log)

    def __len__(self) -> int:
        return len(self._tips)

    def _drop(self, log: Log) -> None:
        found = self._tips.pop(log, None)
        if found is not None:
            self.bytes -= found[1]
