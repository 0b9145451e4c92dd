"""Retention of messages by their age: whole exchanges go, from the start of a conversation on."""

from __future__ import annotations

from datetime import UTC, datetime

from memalchemy.contracts import Entry, Seconds, to_lifetime
from memalchemy.errors import Conflict, ThreadDeleted
from memalchemy.events import operation
from memalchemy.memory.summarised import Beginnings
from memalchemy.messages import is_system, is_user_turn
from memalchemy.threads import ThreadLog

TRIES = 20


async def purge_messages(
    log: ThreadLog,
    older_than: Seconds,
    thread_id: str | None = None,
    batch: int = 500,
) -> int:
    """Remove messages older than that, of one conversation or of all in a log; how many.

    What goes is whole: an exchange, which is what the user said and all up to what the user said
    next, goes when its newest message is old. From the start of a conversation on, up to the first
    exchange that stays. System messages stay. Each transaction removes about *batch* messages.
    """
    cutoff = datetime.now(UTC) - to_lifetime(older_than, "older_than")
    if isinstance(batch, bool) or not isinstance(batch, int):
        raise TypeError(f"batch is a whole number, not {type(batch).__name__}")
    if batch < 1:
        raise ValueError(f"batch is at least 1, not {batch}")
    tenant = log.db.tenant
    with operation("memory.conversation.purged", tenant=tenant, thread_id=thread_id) as event:
        removed = 0
        after: str | None = None
        while True:
            found = (
                [thread_id] if thread_id is not None else await log.list_older(cutoff, after=after)
            )
            for one in found:
                removed += await _purge(log, one, cutoff, batch)
            event.details["removed"] = removed
            if thread_id is not None or not found:
                return removed
            after = found[-1]


async def _purge(log: ThreadLog, thread_id: str, cutoff: datetime, batch: int) -> int:
    removed = 0
    after, conflicts = 0, 0
    while True:
        version = await log.version(thread_id)
        going, after_next, more = await _old(log, thread_id, cutoff, after, batch)
        if not going and not more:
            return removed
        try:
            if going:
                removed += await _remove(log, thread_id, going, version)
        except (Conflict, ThreadDeleted):
            conflicts += 1
            if conflicts == TRIES:
                raise
            continue
        after = after_next
        if not more:
            return removed


async def _remove(log: ThreadLog, thread_id: str, going: list[int], version: int) -> int:
    async with log.db.transaction() as tx:
        gone = await log.remove(thread_id, going, expected_version=version, connection=tx)
        await Beginnings(log, thread_id).forget_summary(tx)
    return gone


async def _old(
    log: ThreadLog, thread_id: str, cutoff: datetime, after: int, batch: int
) -> tuple[list[int], int, bool]:
    """Positions beyond *after* that go, about *batch* of them; up to where this has looked; and
    whether there may be more.
    """
    going: list[int] = []
    exchange: list[Entry] = []
    looked = at = after
    while True:
        entries = await log.range(thread_id, after=at, limit=batch)
        for entry in entries:
            if is_user_turn(entry.value) and exchange:
                if not _is_old(exchange, cutoff):
                    return going, looked, False
                going += _talk(exchange)
                looked = exchange[-1].position
                exchange = []
                if len(going) >= batch:
                    return going, looked, True
            exchange.append(entry)
        if len(entries) < batch:
            if exchange and _is_old(exchange, cutoff):
                going += _talk(exchange)
            return going, looked, False
        at = entries[-1].position


def _is_old(exchange: list[Entry], cutoff: datetime) -> bool:
    return all(e.occurred_at < cutoff for e in exchange if not is_system(e.value))


def _talk(exchange: list[Entry]) -> list[int]:
    return [entry.position for entry in exchange if not is_system(entry.value)]
