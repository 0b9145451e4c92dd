"""Cache of the conversations that a process has read, so that it reads only what is new.

All objects on one `Database` share it: an application that creates a `Conversation` for each
request reads as little as one that keeps it. Every read asks the database whether the cached part
is still there, in the statement that reads the rest. Nothing is cached from a transaction that may
still be rolled back.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

from memalchemy._cache import BoundedCache
from memalchemy.contracts import Entry, LogReading
from memalchemy.conversations._stored_summary import LogMessage, StoredSummary, SummaryLog
from memalchemy.conversations.records import CachedRecord, cached_records
from memalchemy.database import HostConnection
from memalchemy.database.per_database import shared
from memalchemy.keys import check_thread_id
from memalchemy.threads import ThreadLog

MAX_BYTES = 64 * 1024 * 1024
"""Approximate size of all cached conversations; a character counts as a byte."""

_RECORD_OVERHEAD = 400
"""Bytes that Python takes for a record and for its place in a list."""

Key = tuple[str, tuple[str, ...], str]
"""Tenant, namespace, thread id."""


class CachedConversation(NamedTuple):
    """Immutable content of a conversation's log, and the reading that it is of."""

    reading: LogReading | None = None
    positions: Sequence[int] = ()
    records: Sequence[CachedRecord] = ()
    size: int = 0

    def extended(self, reading: LogReading, new: CachedConversation) -> CachedConversation:
        """Return this conversation after a later reading, which found *new*."""
        if reading.complete or self.reading is None:
            return new._replace(reading=reading)
        if not new.records:
            return self._replace(reading=reading)
        return CachedConversation(
            reading,
            [*self.positions, *new.positions],
            [*self.records, *new.records],
            self.size + new.size,
        )


class ConversationCache(BoundedCache[Key, CachedConversation]):
    """Least-recently-used cache, of which one conversation takes at most a quarter."""

    def __init__(self, max_bytes: int = MAX_BYTES) -> None:
        super().__init__(max_bytes, lambda cached: cached.size, max_value_size=max_bytes // 4)


async def read_conversation(
    log: ThreadLog, thread_id: str, connection: HostConnection | None
) -> CachedConversation:
    """Return the whole conversation, of which only what is new is read, in one round trip.

    With *connection* it is what that transaction sees, and is not cached.

    Raises:
        Corrupt: what is stored does not match its checksum.
    """
    cache, key = shared(log.db, ConversationCache), _cache_key(log, thread_id)
    cached = cache.get(key) or CachedConversation()
    reading, new = await log.read_columns(thread_id, _from_log, cached.reading, connection)
    conversation = cached.extended(reading, new)
    if connection is None:
        cache.put(key, conversation)
    return conversation


async def read_with_summary(
    log: ThreadLog, summary: SummaryLog, thread_id: str, connection: HostConnection | None
) -> tuple[StoredSummary, LogReading, list[LogMessage]] | CachedConversation:
    """Do as `read_conversation`; with a summary, return that and all messages instead.

    Raises:
        Corrupt: as `read_conversation`.
    """
    cache, key = shared(log.db, ConversationCache), _cache_key(log, thread_id)
    cached = cache.get(key) or CachedConversation()

    def make(
        newest: Entry | None,
        positions: Sequence[int],
        values: Sequence[Any],
        checksums: Sequence[int],
    ) -> tuple[StoredSummary, list[LogMessage]] | CachedConversation:
        if newest is None:
            return _from_log(positions, values, checksums)
        return StoredSummary(**newest.value), list(map(LogMessage, positions, values, checksums))

    reading, found = await log.read_columns_beside(
        summary.log, thread_id, make, cached.reading, connection
    )
    if not isinstance(found, CachedConversation):
        return found[0], reading, found[1]
    conversation = cached.extended(reading, found)
    if connection is None:
        cache.put(key, conversation)
    return conversation


def known_records(log: ThreadLog, thread_id: str) -> Sequence[CachedRecord]:
    """Return the records that are cached of a conversation, which may have others by now."""
    cached = shared(log.db, ConversationCache).get(_cache_key(log, thread_id))
    return () if cached is None else cached.records


def cache_conversation(log: ThreadLog, thread_id: str, conversation: CachedConversation) -> None:
    """Cache what was read in a transaction that has been committed since."""
    shared(log.db, ConversationCache).put(_cache_key(log, thread_id), conversation)


def drop_conversation(log: ThreadLog, thread_id: str) -> None:
    """Remove a conversation from the cache."""
    shared(log.db, ConversationCache).drop(_cache_key(log, thread_id))


def _cache_key(log: ThreadLog, thread_id: str) -> Key:
    return log.db.tenant, log.namespace, check_thread_id(thread_id)


def _from_log(
    positions: Sequence[int], values: Sequence[Any], checksums: Sequence[int]
) -> CachedConversation:
    records, characters = cached_records(values)
    return CachedConversation(
        None, positions, records, characters + _RECORD_OVERHEAD * len(records)
    )
