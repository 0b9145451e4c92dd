"""The engine of a database in one event loop, which ends with its loop or its database."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Any
from weakref import WeakSet

from sqlalchemy import event
from sqlalchemy.ext.asyncio import AsyncEngine
from sqlalchemy.util import greenlet_spawn

from memalchemy._per_loop import Pool, close_all
from memalchemy.database.connection_lock import SoleConnection


@dataclass
class LoopEngine(Pool):
    """The engine of one event loop: one pool, used with and without transactions."""

    plain: AsyncEngine
    sole: SoleConnection | None
    """For an engine of the host's with one connection for all, such as SQLite's in memory."""
    is_the_hosts: bool
    """The host made the engine."""
    is_disposed_of_by_the_host: bool
    """The host disposes of it: its loop can use the connections."""
    kept: list[Any] = field(default_factory=list)
    """Connections that are out of the pool, and in no use; see `executors.asyncpg`."""
    keeps: int = 0
    """The most of these."""
    asking: int = 0
    """Tasks that ask the pool for a connection, and may be waiting for one."""
    _opened: WeakSet[Any] = field(default_factory=WeakSet)
    """The driver's connections, in the pool or out of it."""

    def __post_init__(self) -> None:
        if not self.is_the_hosts:
            opened = self._opened  # a reference to this object would be a cycle

            def connected(_: Any, record: Any) -> None:
                opened.add(record.driver_connection)

            event.listen(self.plain.sync_engine, "connect", connected)

    def end(self, close: Callable[[Any], object]) -> None:
        """Close every connection at once by *close*, which does not wait. Nobody uses them."""
        self.is_closed = True
        while self.kept:
            self.kept.pop().give_back()
        if not self.is_the_hosts:
            close_all(self._opened, close)
            self.plain.sync_engine.dispose(close=False)
        _empty_reflection_caches(type(self.plain.dialect))

    @asynccontextmanager
    async def asks_pool(self) -> AsyncIterator[None]:
        """Return a block that asks the pool for a connection: nobody keeps one meanwhile."""
        self.asking += 1
        try:
            await self.give_up_kept()
            yield
        finally:
            self.asking -= 1

    def take_kept(self) -> Any:
        """Return the connection that was kept last; ``None`` if there is none to use."""
        return self.kept.pop() if self.kept and self.kept[-1].may_be_used else None

    def keep(self, connection: Any) -> bool:
        """Keep *connection* for the next program, unless the pool needs it."""
        if self.is_closed or self.asking or len(self.kept) >= self.keeps:
            return False
        if not connection.may_be_kept:
            return False
        self.kept.append(connection)
        return True

    async def give_up_kept(self) -> None:
        """Return all kept connections to the pool."""
        while self.kept:
            await greenlet_spawn(self.kept.pop().give_back)

    async def dispose(self) -> None:
        await self.give_up_kept()
        if not self.is_disposed_of_by_the_host:
            await self.plain.dispose()
        _empty_reflection_caches(type(self.plain.dialect))


def _empty_reflection_caches(kind: type) -> None:
    """Empty the caches of SQLAlchemy's dialect class *kind*.

    It keeps its queries of a server's catalogue in caches of `functools` whose keys are dialects.
    The dialects of 128 engines would stay in memory, each with all that it knows of our types: 100
    kB. What is removed for engines in use is made again when they need it.
    """
    for base in kind.__mro__:
        for member in list(vars(base).values()):
            if hasattr(member, "cache_clear"):
                member.cache_clear()
