"""Removal of old messages from conversations: whole exchanges, from the start on."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import aclosing
from datetime import UTC, datetime
from functools import partial

from memalchemy._transactions import transaction_of
from memalchemy.contracts import Entry, Seconds, to_lifetime
from memalchemy.conversations._stored_summary import SummaryLog
from memalchemy.database import HostConnection
from memalchemy.errors import Conflict, Corrupt
from memalchemy.events import operation
from memalchemy.keys import encode_namespace
from memalchemy.log.listing import threads_older
from memalchemy.messages import is_system, is_user_turn
from memalchemy.protection.proven_jobs import Damage
from memalchemy.threads import ThreadLog
from memalchemy.threads.locked_log_retry import retry_on_log


async def purge_messages(
    log: ThreadLog,
    older_than: Seconds,
    thread_id: str | None = None,
    batch: int = 500,
) -> int:
    """Remove old messages of one conversation or of all in a log; see `ConversationStore`."""
    cutoff = datetime.now(UTC) - to_lifetime(older_than, "older_than")
    if isinstance(batch, bool) or not isinstance(batch, int):
        raise TypeError(f"batch is a whole number, not {type(batch).__name__}")
    if batch < 1:
        raise ValueError(f"batch is at least 1, not {batch}")
    with operation(
        "memory.conversation.purged", tenant=log.db.tenant, thread_id=thread_id
    ) as event:
        if thread_id is not None:
            removed = await _delete_from_thread(log, thread_id, cutoff, batch)
            event.details["removed"] = removed
            return removed
        removed, damage = 0, Damage()
        path = encode_namespace(log.namespace)
        async with aclosing(threads_older(log.db, path, cutoff, damage)) as pages:
            async for page in pages:
                for one in page:
                    with damage.noted(Conflict):  # of a version that nobody can reach
                        removed += await _delete_from_thread(log, one, cutoff, batch)
                    event.details["removed"] = removed
        event.details["removed"] = removed
        damage.raise_if_any(f"{removed:,} messages were removed")
    return removed


async def _delete_from_thread(log: ThreadLog, thread_id: str, cutoff: datetime, batch: int) -> int:
    removed, after, has_more = 0, 0, True
    while has_more:
        attempt = partial(_delete_batch, log, thread_id, cutoff, after, batch)
        gone, after, has_more = await retry_on_log(log, thread_id, attempt)
        removed += gone
    return removed


async def _delete_batch(
    log: ThreadLog,
    thread_id: str,
    cutoff: datetime,
    after: int,
    batch: int,
    connection: HostConnection | None,
) -> tuple[int, int, bool]:
    """Remove about *batch* old messages beyond *after*, in one transaction.

    Returns how many were removed, up to which position, and whether there may be more.
    """
    version = await log.version(thread_id, connection=connection)
    if version < 0:
        raise Corrupt(f"the version of thread {thread_id!r} is {version}")
    entries = log.iter_entries(thread_id, after=after, page_size=batch, connection=connection)
    async with aclosing(entries):
        old, reached, has_more = await _old_messages(entries, cutoff, after, batch)
    removed = 0
    if old:
        async with transaction_of(log.db, connection) as tx:
            removed = await log.remove(thread_id, old, expected_version=version, connection=tx)
            await SummaryLog(log, thread_id).invalidate(tx)
    return removed, reached, has_more


async def _old_messages(
    entries: AsyncIterator[Entry], cutoff: datetime, after: int, batch: int
) -> tuple[list[int], int, bool]:
    """Return the positions of about *batch* old messages, the last position, and if there is more.

    The first exchange that stays ends the search.
    """
    old: list[int] = []
    exchange: list[Entry] = []
    reached = after
    async for entry in entries:
        if is_user_turn(entry.value) and exchange:
            if not _is_old(exchange, cutoff):
                return old, reached, False
            old += _positions_of_dialogue(exchange)
            reached = exchange[-1].position
            exchange = []
            if len(old) >= batch:
                return old, reached, True
        exchange.append(entry)
    if exchange and _is_old(exchange, cutoff):
        old += _positions_of_dialogue(exchange)
    return old, reached, False


def _is_old(exchange: list[Entry], cutoff: datetime) -> bool:
    return all(entry.occurred_at < cutoff for entry in exchange if not is_system(entry.value))


def _positions_of_dialogue(exchange: list[Entry]) -> list[int]:
    return [entry.position for entry in exchange if not is_system(entry.value)]
