"""The base of the OpenAI Agents SDK's adapters, uninterrupted writes, and ends of sessions."""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine, Mapping
from datetime import UTC, datetime
from typing import Any, TypeVar

from memalchemy.contracts import Seconds, to_lifetime
from memalchemy.database import Database, HostConnection
from memalchemy.importers.openai_session_namespaces import MAIN, ROOT, branch_namespace, branch_of
from memalchemy.integrations._base import Adapter
from memalchemy.log.listing import entry_namespaces
from memalchemy.threads import ThreadLog

T = TypeVar("T")


class OpenAIAdapter(Adapter):
    """An adapter of which a server makes one per request: those on one URL share a `Database`."""

    root = ROOT
    shares_databases = True


async def uninterrupted(work: Coroutine[Any, Any, T]) -> T:
    """Await *work* to its end, and only then raise a cancellation that came meanwhile.

    The SDK asks this of every method that changes a session: when a caller sees the cancellation,
    the change is not under way any more.
    """
    task = asyncio.ensure_future(work)
    cancelled: asyncio.CancelledError | None = None
    while not task.done():
        try:
            await asyncio.wait({task})
        except asyncio.CancelledError as error:
            cancelled = cancelled or error
    if cancelled is not None:
        if not task.cancelled():
            task.exception()  # retrieved, so that asyncio does not report it as never retrieved
        raise cancelled
    return task.result()


async def hold_branches(
    db: Database, session_id: str, tx: HostConnection
) -> dict[str, datetime | None]:
    """Lock the logs of a session; return when each live branch ends, ``None`` if it never does.

    Main is locked first, then the others in the order of their names, as by whoever clears or
    deletes the session.
    """
    found = await entry_namespaces(db, session_id, connection=tx)
    others = sorted({one for one in map(branch_of, found) if one} - {MAIN})
    ends = {}
    for branch in (MAIN, *others):
        log = ThreadLog(db, namespace=branch_namespace(branch))
        head = await log.hold(session_id, tx)
        if head is not None:
            ends[branch] = head.expires_at
    return ends


def end_of_session(ends: Mapping[str, datetime | None], ttl: Seconds | None) -> datetime | None:
    """Return when the last branch of a session ends; ``None`` if one lives for ever.

    What is stored before there is a branch ends *ttl* after now.
    """
    if not ends:
        return None if ttl is None else datetime.now(UTC) + to_lifetime(ttl)
    known = [end for end in ends.values() if end is not None]
    return max(known) if len(known) == len(ends) else None
