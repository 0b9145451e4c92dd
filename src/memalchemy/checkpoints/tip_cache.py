"""Cache of the newest tips of logs: the bases of the next saves, and the answers to loads.

An entry is never trusted for what the database holds now: a save sends the epoch under which its
base was read, and a load looks whether the checkpoint is still the one that was read. Nothing is
cached from a transaction that may still roll back.
"""

from __future__ import annotations

from operator import itemgetter

from memalchemy._cache import BoundedCache
from memalchemy.checkpoints.skip_deltas import Tip
from memalchemy.codec.checksum import check_state
from memalchemy.database import Database
from memalchemy.database.per_database import shared
from memalchemy.errors import Corrupt
from memalchemy.log import Log

MAX_BYTES = 64 * 1024 * 1024
MAX_SHARE = 4
"""One tip takes at most this fraction of the cache: a quarter."""


class TipCache:
    """Least-recently-used cache of one tip for each log, bounded in bytes."""

    def __init__(self, max_bytes: int = MAX_BYTES) -> None:
        self._max_tip_bytes = max_bytes // MAX_SHARE
        self._tips: BoundedCache[Log, tuple[Tip, int]] = BoundedCache(
            max_bytes, itemgetter(1), max_value_size=self._max_tip_bytes
        )

    @classmethod
    def of(cls, db: Database) -> TipCache:
        """Return the cache that all checkpointers on one `Database` share."""
        return shared(db, cls)

    @property
    def bytes(self) -> int:
        """Size of all tips in memory."""
        return self._tips.size

    def get(self, log: Log) -> Tip | None:
        """Return the tip of a log, if it is cached."""
        found = self._tips.get(log)
        return None if found is None else found[0]

    def get_checked(self, log: Log) -> Tip | None:
        """Return the tip of a log whose state is at hand, and still has its checksum.

        A state that has changed in memory is dropped, so that it is read again.
        """
        tip = self.get(log)
        parts = None if tip is None else tip.links[-1].parts
        if tip is None or parts is None:
            return None
        try:
            check_state(parts, tip.checksum)
        except Corrupt:
            self.drop(log)
            return None
        return tip

    def put(self, log: Log, tip: Tip) -> None:
        """Cache *tip*, unless a tip of the same epoch is cached that is newer, or of the same rows.

        Of two tips of the same rows the cached one has more of its chain decoded, but the other may
        know its signature. Other rows at the same position are newer: their keys were rotated, or
        an older copy was restored.
        """
        entry = tip.limit_decoded(self._max_tip_bytes)

        def is_as_new(cached: tuple[Tip, int]) -> bool:
            known = cached[0]
            if known is tip:
                return True
            if known.epoch != tip.epoch or known.seq < tip.seq:
                return False
            if known.seq > tip.seq:
                return True
            is_as_known = tip.signature in (None, known.signature)
            return is_as_known and known.row_keys == tip.row_keys

        self._tips.put(log, entry, unless=is_as_new)

    def drop(self, log: Log) -> None:
        """Drop the tip of a log."""
        self._tips.drop(log)

    def drop_thread(self, tenant: str, thread_id: str) -> None:
        """Drop the tips of all logs of a thread."""
        self._tips.drop_where(lambda log, _: log[:2] == (tenant, thread_id))

    def drop_below(self, tenant: str, path: str) -> None:
        """Drop the tips of all logs of an encoded namespace and of those below it."""
        self._tips.drop_where(
            lambda log, _: log.tenant == tenant and log.namespace.startswith(path)
        )

    def drop_tenant(self, tenant: str) -> None:
        """Drop the tips of all logs of a tenant."""
        self._tips.drop_where(lambda log, _: log.tenant == tenant)

    def __len__(self) -> int:
        return len(self._tips)
