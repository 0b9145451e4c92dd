"""`Connections`: the connections of a client to its server, in one event loop.

httpx closes connections by coroutines alone, in their running loop, and opens them in the context
of whoever asks first. So its pools get a backend from here. It opens connections in an empty
context, and notes them, so that they are closed when a client is dropped or its loop has ended.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING, Any
from weakref import WeakSet

from memalchemy import _detached
from memalchemy._per_loop import (
    Pool,
    close_all,
    close_transport_in_loop,
    close_transport_without_loop,
)
from memalchemy.errors import DriverMissing

if TYPE_CHECKING:
    import httpx


class Connections(Pool):
    """An `httpx.AsyncClient`, and the streams that it has opened.

    Args:
        options: those of the client.
    """

    def __init__(self, options: dict[str, Any]) -> None:
        try:
            import httpx
        except ImportError as error:
            raise DriverMissing("httpx", "http", what="package") from error
        self.client: httpx.AsyncClient = httpx.AsyncClient(**options)
        self._opened: WeakSet[Any] = WeakSet()
        for pool in _pools_of(self.client):
            pool._network_backend = _Backend(pool._network_backend, self._opened)

    async def dispose(self) -> None:
        await self.client.aclose()

    def end(self, close: Callable[[Any], object]) -> None:
        self.is_closed = True
        close_all(self._opened, close)


class _Backend:
    """A network backend of httpcore's that notes the streams that another one opens."""

    def __init__(self, backend: Any, opened: WeakSet[Any]) -> None:
        self._backend = backend
        self._opened = opened

    async def connect_tcp(self, *args: Any, **options: Any) -> Any:
        return await self._connect(self._backend.connect_tcp, *args, **options)

    async def connect_unix_socket(self, *args: Any, **options: Any) -> Any:
        return await self._connect(self._backend.connect_unix_socket, *args, **options)

    async def sleep(self, seconds: float) -> None:
        await self._backend.sleep(seconds)

    async def _connect(self, open_: Any, *args: Any, **options: Any) -> Any:
        stream = await _detached.create_connection(open_, *args, terminate=abandon, **options)
        self._opened.add(stream)
        return stream


def _pools_of(client: Any) -> Iterable[Any]:
    """Return httpcore's pools of a client: that of its own transport, and one for each proxy.

    httpx gives its pools no backend of the caller's, and a transport in place of its own would
    leave out the proxies of the environment.
    """
    transports = (client._transport, *client._mounts.values())
    return [transport._pool for transport in transports if hasattr(transport, "_pool")]


def abandon(stream: Any) -> None:
    """Close a stream of httpcore's at once, in its running loop."""
    close_transport_in_loop(_transport_of(stream))


def close_without_loop(stream: Any, *, is_over: bool) -> None:
    """Close a stream of httpcore's whose loop is closed (*is_over*) or does not run."""
    close_transport_without_loop(_transport_of(stream), is_over=is_over)


def _transport_of(stream: Any) -> Any:
    """Return the transport of asyncio's: httpcore and AnyIO close it by coroutines alone."""
    return stream._stream._transport
