"""What the classes of this adapter share: a database, however it is named, and a settled write."""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine
from typing import Any, TypeVar
from weakref import WeakValueDictionary

from memalchemy.database import Database

T = TypeVar("T")

_by_url: WeakValueDictionary[str, Database] = WeakValueDictionary()


def database(given: Database | Any) -> Database:
    """*given*, or the database that it names, as `Database` takes it.

    Who names the same URL shares a `Database`, except in memory: servers make a session for every
    request, and should not make a pool for each.
    """
    if isinstance(given, Database):
        return given
    if not isinstance(given, str) or given in ("sqlite://", "sqlite:///:memory:"):
        return Database(given)
    found = _by_url.get(given)
    return _by_url.setdefault(given, Database(given)) if found is None else found


async def settled(work: Coroutine[Any, Any, T]) -> T:
    """Await *work* to its end, even if the caller is cancelled meanwhile; then say so.

    The SDK asks this of whatever changes a session: who sees the cancellation knows that nothing
    of it is still under way.
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
            task.exception()  # looked at, so that nobody reports it as lost
        raise cancelled
    return task.result()
