"""The engines of a database: one for each event loop, which ends with its loop or its database.

A connection of an asynchronous driver refers to its event loop, so no weak reference tells that a
loop is over: its connections would stay open for ever. They are closed when another loop begins to
use the database, when a loop closes it, when the database is dropped, and when the process ends.
"""

from __future__ import annotations

import asyncio
import os
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager, suppress
from contextvars import Context
from dataclasses import dataclass, field
from typing import Any
from weakref import WeakSet

from sqlalchemy import event
from sqlalchemy.ext.asyncio import AsyncEngine
from sqlalchemy.util import greenlet_spawn

from memalchemy import _fork_safe_locks
from memalchemy.database.connection_lock import SoleConnection

# Engines inherited through a fork share sockets with the parent: never used, never closed here.
_inherited: list[object] = []


@dataclass
class LoopEngine:
    """The engine of one event loop: one pool, used with and without transactions."""

    plain: AsyncEngine
    sole: SoleConnection | None
    """For an engine of the host's with one connection for all, such as SQLite's in memory."""
    is_the_hosts: bool
    """The host made the engine, and disposes of it."""
    kept: list[Any] = field(default_factory=list)
    """Connections that are out of the pool, and in no use; see `executors.asyncpg`."""
    keeps: int = 0
    """The most of these."""
    busy: int = 0
    """Connections in use, or asked for."""
    asking: int = 0
    """Tasks that ask the pool for a connection, and may be waiting for one."""
    is_closed: bool = False
    _opened: WeakSet[Any] = field(default_factory=WeakSet)
    """The driver's connections, in the pool or out of it."""

    def __post_init__(self) -> None:
        if not self.is_the_hosts:
            opened = self._opened  # a reference to this object would be a cycle

            def connected(_: Any, record: Any) -> None:
                opened.add(record.driver_connection)

            event.listen(self.plain.sync_engine, "connect", connected)

    async def close(self) -> None:
        """Close the connections; those in use when they are given back."""
        self.is_closed = True
        await self.give_up_kept()
        if not self.busy:
            await self._dispose()

    def end(self, close: Callable[[Any], object]) -> None:
        """Close every connection at once by *close*, which does not wait. Nobody uses them."""
        self.is_closed = True
        while self.kept:
            self.kept.pop().give_back()
        if not self.is_the_hosts:
            for raw in list(self._opened):
                close(raw)
            self.plain.sync_engine.dispose(close=False)
        _empty_reflection_caches(type(self.plain.dialect))

    async def give_back(self) -> None:
        """Count one connection less in use; the last of a closed engine closes the pool."""
        self.busy -= 1
        if self.is_closed and not self.busy:
            await self._dispose()

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

    async def _dispose(self) -> None:
        if not self.is_the_hosts:
            await self.plain.dispose()
        _empty_reflection_caches(type(self.plain.dialect))


class LoopEngines:
    """The engines of one executor, by event loop.

    Refers to nothing that refers to the executor, whose finaliser calls `end_all`.

    Args:
        make: makes the engine of a loop.
        abandon: closes a driver's connection at once, in its running loop.
        close_without_loop: the same where the loop does not run.
    """

    def __init__(
        self,
        make: Callable[[], LoopEngine],
        abandon: Callable[[Any], object],
        close_without_loop: Callable[[Any], object],
    ) -> None:
        self._make = make
        self._abandon = abandon
        self._close_without_loop = close_without_loop
        self._engines: dict[asyncio.AbstractEventLoop, LoopEngine] = {}
        self._lock = _fork_safe_locks.create_lock()
        self._pid = os.getpid()

    def enter(self) -> LoopEngine:
        """Return the engine of the running loop, with one connection more in use.

        The caller ends with `LoopEngine.give_back`.
        """
        self._leave_to_the_parent()
        loop = asyncio.get_running_loop()
        ended: list[tuple[asyncio.AbstractEventLoop, LoopEngine]] = []
        with self._lock:
            engine = self._engines.get(loop)
            if engine is None:
                ended = self._take_ended()
                engine = self._engines[loop] = self._make()
            engine.busy += 1
        self._end(ended)
        return engine

    def current(self) -> LoopEngine | None:
        """Return the engine of the running loop; ``None`` if it has made none."""
        self._leave_to_the_parent()
        return self._engines.get(asyncio.get_running_loop())

    async def close(self) -> None:
        """Close the engine of the running loop, and those of loops that have ended."""
        self._leave_to_the_parent()
        with self._lock:
            engine = self._engines.pop(asyncio.get_running_loop(), None)
            ended = self._take_ended()
        self._end(ended)
        if engine is not None:
            await engine.close()

    def end_all(self) -> None:
        """Close all connections at once, in any thread. Nobody uses them any more."""
        self._leave_to_the_parent()
        engines, self._engines = self._engines, {}
        self._end(list(engines.items()))

    def _take_ended(self) -> list[tuple[asyncio.AbstractEventLoop, LoopEngine]]:
        """Remove and return the engines of loops that are closed, or do not run.

        A loop that does not run may run again, and then it opens new connections. What it has
        begun, it keeps.
        """
        ended = [
            loop
            for loop, engine in self._engines.items()
            if loop.is_closed() or not (loop.is_running() or engine.busy)
        ]
        return [(loop, self._engines.pop(loop)) for loop in ended]

    def _end(self, engines: list[tuple[asyncio.AbstractEventLoop, LoopEngine]]) -> None:
        for loop, engine in engines:
            if not loop.is_running():
                engine.end(self._close_without_loop)
            elif loop is _running_loop():
                engine.end(self._abandon)
            else:
                with suppress(RuntimeError):  # it was closed meanwhile
                    loop.call_soon_threadsafe(engine.end, self._abandon, context=Context())

    def _leave_to_the_parent(self) -> None:
        if self._pid != os.getpid():
            _inherited.append(self._engines)
            self._engines = {}
            self._pid = os.getpid()


def _running_loop() -> asyncio.AbstractEventLoop | None:
    try:
        return asyncio.get_running_loop()
    except RuntimeError:
        return None


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
