"""A database for an adapter that has each of its methods with and without ``await``."""

from __future__ import annotations

import weakref
from collections.abc import Coroutine
from functools import partial
from typing import Any, TypeVar

from memalchemy import _forks
from memalchemy.database import Database, check_database
from memalchemy.sync.face import Root, wait
from memalchemy.sync.loop import Caller, Loop

T = TypeVar("T")

_loops: weakref.WeakKeyDictionary[Any, weakref.ref[Loop]] = weakref.WeakKeyDictionary()
_lock = _forks.lock()


class Bridge:
    """What an adapter is given, a URL or a database, with and without ``await``.

    ``db`` is the asynchronous `Database`; `wait` runs its coroutines in a thread of their own, so
    a caller may be anywhere: in no event loop, or in one, which stands still meanwhile. Adapters
    on one database share that thread. Made without I/O.
    """

    def __init__(self, given: Any, asking: object) -> None:
        self.owned = isinstance(given, str)
        if isinstance(given, Root):
            self.db: Database = given._async
            self._loop = given._loop
            return
        self.db = Database(given) if self.owned else check_database(given, asking)
        self._loop = _loop_of(self.db, self.owned)

    def wait(self, work: Coroutine[Any, Any, T]) -> T:
        """What *work* gives, or raises."""
        return wait(self._loop, None, work, Caller())

    def close(self) -> None:
        """Close the database, if it was given as a URL; a later use opens it anew."""
        if self.owned:
            self._loop.close(self.db.close)

    async def aclose(self) -> None:
        """`close`, and what was opened in the running event loop."""
        if self.owned:
            await self.db.close()
            self.close()


def _loop_of(db: Database, owned: bool) -> Loop:
    """The loop of a database's calls without ``await``, as long as anybody uses it."""
    with _lock:
        kept = _loops.get(db.identity)
        loop = None if kept is None else kept()
        if loop is None:
            shared: Any = db.identity
            finish = partial(shared.close, in_thread=False) if owned else partial(_leave, shared)
            loop = Loop(finish)
            _loops[db.identity] = weakref.ref(loop)
        return loop


async def _leave(shared: Any) -> None:
    """Close what the loop has opened of a database that goes on elsewhere."""
    if not shared.dialect.single_writer:
        await shared.close()
