"""Pools of connections, one for each event loop, which end with their loop or their owner.

A connection of an asynchronous library refers to its event loop, so no weak reference tells that a
loop is over: its connections would stay open for ever. They are closed when another loop begins to
use the owner, when a loop closes it, when the owner is dropped, and when the process ends.
"""

from __future__ import annotations

import asyncio
import os
import socket
import weakref
from collections.abc import Callable, Iterable
from contextlib import ExitStack, suppress
from contextvars import Context
from functools import partial
from typing import Any, Generic, TypeVar

from memalchemy import _fork_safe_locks

# Pools inherited through a fork share sockets with the parent: never used, never closed here.
_inherited: list[object] = []


class Pool:
    """The connections that an owner has opened in one event loop."""

    busy: int = 0
    """Connections in use, or asked for."""
    is_closed: bool = False
    abandon: Callable[[Any], object]
    """Closes a connection at once, in its running loop."""

    async def close(self) -> None:
        """Close the connections; those in use when they are given back."""
        self.is_closed = True
        if not self.busy:
            await self._dispose_of_all()

    async def give_back(self) -> None:
        """Count one connection less in use; the last of a closed pool closes it."""
        self.busy -= 1
        if self.is_closed and not self.busy:
            await self._dispose_of_all()

    async def _dispose_of_all(self) -> None:
        """Close the connections, at once where a cancellation ends the wait for the server."""
        try:
            await self.dispose()
        except BaseException:
            self.end(self.abandon)
            raise

    async def dispose(self) -> None:
        """Close the connections, which nobody uses, in their running loop."""
        raise NotImplementedError

    def end(self, close: Callable[[Any], object]) -> None:
        """Close every connection at once by *close*, which does not wait. Nobody uses them."""
        raise NotImplementedError


P = TypeVar("P", bound=Pool)


class PerLoop(Generic[P]):
    """The pools of one owner, by event loop.

    Refers to nothing that refers to the owner, whose finaliser calls `end_all`.

    Args:
        make: makes the pool of a loop.
        abandon: closes a connection at once, in its running loop.
        close_without_loop: the same where the loop is closed (*is_over*) or does not run.
    """

    def __init__(
        self,
        make: Callable[[], P],
        abandon: Callable[[Any], object],
        close_without_loop: Callable[..., object],
    ) -> None:
        self._make = make
        self._abandon = abandon
        self._close_without_loop = close_without_loop
        self._pools: dict[asyncio.AbstractEventLoop, P] = {}
        self._lock = _fork_safe_locks.create_lock()
        self._pid = os.getpid()

    def enter(self) -> P:
        """Return the pool of the running loop, with one connection more in use.

        The caller ends with `Pool.give_back`.
        """
        self._leave_pools_to_the_parent()
        loop = asyncio.get_running_loop()
        ended: list[tuple[asyncio.AbstractEventLoop, P]] = []
        with self._lock:
            pool = self._pools.get(loop)
            if pool is None:
                pool = self._make()
                pool.abandon = self._abandon
                ended = self._take_ended_pools()
                self._pools[loop] = pool
            pool.busy += 1
        self._end_pools(ended)
        return pool

    def current(self) -> P | None:
        """Return the pool of the running loop; ``None`` if it has made none."""
        self._leave_pools_to_the_parent()
        return self._pools.get(asyncio.get_running_loop())

    async def close(self) -> None:
        """Close the pool of the running loop, and those of loops that have ended."""
        self._leave_pools_to_the_parent()
        with self._lock:
            pool = self._pools.pop(asyncio.get_running_loop(), None)
            ended = self._take_ended_pools()
        self._end_pools(ended)
        if pool is not None:
            await pool.close()

    def end_all(self) -> None:
        """Close all connections at once, in any thread. Nobody uses them any more."""
        self._leave_pools_to_the_parent()
        pools, self._pools = self._pools, {}
        self._end_pools(list(pools.items()))

    def _take_ended_pools(self) -> list[tuple[asyncio.AbstractEventLoop, P]]:
        """Remove and return the pools of loops that are closed, or do not run.

        A loop that does not run may run again, and then it opens new connections. What it has
        begun, it keeps.
        """
        ended = [
            loop
            for loop, pool in self._pools.items()
            if loop.is_closed() or not (loop.is_running() or pool.busy)
        ]
        return [(loop, self._pools.pop(loop)) for loop in ended]

    def _end_pools(self, pools: list[tuple[asyncio.AbstractEventLoop, P]]) -> None:
        for loop, pool in pools:
            if not loop.is_running():
                _end_without_loop(pool, loop, self._close_without_loop)
            elif loop is _running_loop():
                pool.end(self._abandon)
            else:
                in_loop = _EndInLoop(pool, loop, self._close_without_loop)
                with suppress(RuntimeError):  # it was closed meanwhile
                    loop.call_soon_threadsafe(in_loop, context=Context())

    def _leave_pools_to_the_parent(self) -> None:
        if self._pid != os.getpid():
            _inherited.append(self._pools)
            self._pools = {}
            self._pid = os.getpid()


class _EndInLoop:
    """Ends a pool at the next step of its loop; or when the loop is closed, which drops its steps.

    asyncio closes sockets in a step of their own.
    """

    def __init__(
        self,
        pool: Pool,
        loop: asyncio.AbstractEventLoop,
        close_without_loop: Callable[..., object],
    ) -> None:
        self._pool = pool
        self._loop = loop
        self._dropped = weakref.finalize(self, _end_without_loop, pool, loop, close_without_loop)

    def __call__(self) -> None:
        self._pool.end(self._pool.abandon)
        self._loop.call_soon(self._forget_finalizer)

    def _forget_finalizer(self) -> None:
        self._dropped.detach()


def _end_without_loop(
    pool: Pool, loop: asyncio.AbstractEventLoop, close_without_loop: Callable[..., object]
) -> None:
    pool.end(partial(close_without_loop, is_over=loop.is_closed()))


def close_all(opened: Iterable[Any], close: Callable[[Any], object]) -> None:
    """Close each of the *opened* connections by *close*, also when one of them fails to close."""
    with ExitStack() as every:
        for connection in list(opened):
            every.callback(close, connection)


def _running_loop() -> asyncio.AbstractEventLoop | None:
    try:
        return asyncio.get_running_loop()
    except RuntimeError:
        return None


def close_transport_without_loop(transport: Any, *, is_over: bool) -> None:
    """Close a transport of asyncio's whose event loop is closed (*is_over*) or does not run.

    asyncio closes a socket in its loop, at the loop's next step. So the server is told here, by the
    end of the stream. A loop that is not closed closes the socket when it runs again, or when it is
    closed before that; that of one that is closed would stay open until it is collected as garbage,
    with a ResourceWarning.
    """
    connected = transport.get_extra_info("socket")
    with suppress(RuntimeError):  # the loop is closed
        transport.abort()
    if connected is not None:
        with suppress(OSError):  # the server was faster
            connected.shutdown(socket.SHUT_RDWR)
    lowest = _lowest(transport)
    if lowest is None:
        return
    if is_over:
        _close_socket(lowest)
    else:
        _close_with_loop(lowest)


def close_transport_in_loop(transport: Any) -> None:
    """Close a transport of asyncio's at once, in its running loop, even in the loop's last step.

    asyncio closes the socket at the next step. If none comes, it is closed with the loop.
    """
    transport.abort()
    lowest = _lowest(transport)
    if lowest is not None:
        _close_with_loop(lowest)


def _close_with_loop(lowest: Any) -> None:
    with suppress(RuntimeError):  # it was closed meanwhile
        lowest._loop.call_soon(_CloseWithLoop(lowest), context=Context())


def _lowest(transport: Any) -> Any:
    """Return the transport that has an open socket.

    ``None`` if it is closed, or is uvloop's, which closes it by itself.
    """
    under_tls = getattr(transport, "_ssl_protocol", None)
    lowest = transport if under_tls is None else under_tls._transport
    # asyncio has no public way to close the socket of a closed loop.
    return None if getattr(lowest, "_sock", None) is None else lowest


class _CloseWithLoop:
    """Closes a socket when its loop is closed, which drops its steps, unless this step is taken."""

    def __init__(self, transport: Any) -> None:
        self._dropped = weakref.finalize(self, _close_socket, transport)

    def __call__(self) -> None:
        self._dropped.detach()


def _close_socket(transport: Any) -> None:
    if transport._sock is not None:
        with suppress(RuntimeError):
            transport._call_connection_lost(None)
