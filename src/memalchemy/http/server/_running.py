"""`serve`: the application on a socket, until it is told to stop."""

from __future__ import annotations

import asyncio
import ipaddress
import signal
import socket
import threading
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager

from memalchemy import _detached
from memalchemy.database import Database
from memalchemy.errors import DriverMissing
from memalchemy.http.server._application import MAX_BODY, TIMEOUT, app
from memalchemy.http.server._limits import Limits
from memalchemy.http.server._tokens import Grant, TokenFile, Tokens

try:
    import uvicorn
    from starlette.types import ASGIApp
except ImportError as error:
    raise DriverMissing("uvicorn", "server", what="package") from error

LOCAL_HOSTS = ("localhost", "127.0.0.1", "[::1]")


async def serve(
    db: Database,
    *,
    host: str = "127.0.0.1",
    port: int = 8080,
    tokens: Tokens | Mapping[str, str | Grant] | None = None,
    insecure: bool = False,
    max_body: int = MAX_BODY,
    rate: float | None = None,
    burst: int | None = None,
    timeout: float = TIMEOUT,  # noqa: ASYNC109 - of a request
    origins: Iterable[str] = (),
    limits: Limits | None = None,
    inspector: bool = False,
    requires_conditions: bool = False,
    max_connections: int = 1000,
    grace: float = 10.0,
    started: Callable[[str], object] | None = None,
    stopping: Callable[[], object] | None = None,
    stop: asyncio.Event | None = None,
) -> None:
    """Offer *db* over HTTP until SIGINT or SIGTERM comes, or *stop* is set.

    The server then takes no new requests and lets running ones end for *grace* seconds; it cancels
    those that have not ended then. It does not close *db*, whose `close` waits for writes that have
    begun, such as one that waits for a lock. Signals are handled in the main thread only.

    Args:
        host: the address to listen on. Without *tokens* it must be a local one, unless *insecure*
            says that something in front of the server keeps strangers out.
        port: 0 is any free port.
        max_connections: connections at once. A request above it is answered with 503.
        started: called with the base URL once requests can come.
        stopping: called when no new requests are taken any more.

    The other arguments are those of `app`.

    Raises:
        ValueError: others can reach *host*, there are no tokens, and *insecure* is not given.
        OSError: the address cannot be listened on.
    """
    is_local = is_loopback(host)
    if tokens is None and not is_local and not insecure:
        raise ValueError(
            f"{host} can be reached by others, and there are no tokens: everybody could read and "
            f"erase everything. Give tokens ({Tokens.VARIABLE} or --token-file), listen on "
            "127.0.0.1, or say insecure (--insecure) if something in front of the server keeps "
            "strangers out"
        )
    application = app(
        db,
        tokens=tokens,
        max_body=max_body,
        rate=rate,
        burst=burst,
        timeout=timeout,
        hosts=LOCAL_HOSTS if tokens is None and is_local and not insecure else None,
        origins=origins,
        limits=limits,
        inspector=inspector,
        requires_conditions=requires_conditions,
    )
    watching = _detached.create_task(tokens.watch()) if isinstance(tokens, TokenFile) else None
    try:
        await run_application(
            application,
            host=host,
            port=port,
            max_connections=max_connections,
            grace=grace,
            started=started,
            stopping=stopping,
            stop=stop,
        )
    finally:
        if watching is not None:
            watching.cancel()


class _Server(uvicorn.Server):
    """uvicorn's server, which says when it begins to stop."""

    def __init__(self, config: uvicorn.Config, stopping: Callable[[], object] | None) -> None:
        super().__init__(config)
        self._stopping = stopping

    async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
        if self._stopping is not None:
            self._stopping()
        await super().shutdown(sockets)


async def run_application(
    application: ASGIApp,
    *,
    host: str,
    port: int,
    max_connections: int,
    grace: float,
    started: Callable[[str], object] | None,
    stopping: Callable[[], object] | None = None,
    stop: asyncio.Event | None,
) -> None:
    """Run an application on a socket, with the arguments and errors of `serve`."""
    server = _Server(
        uvicorn.Config(
            application,
            ws="none",
            lifespan="off",
            log_config=None,
            access_log=False,  # uvicorn's log has paths in it, and so ids
            server_header=False,
            limit_concurrency=max_connections,
            timeout_graceful_shutdown=max(1, round(grace)),
        ),
        stopping,
    )
    with _listening(host, port) as listener, _signals_stop(server):
        waiting = None if stop is None else _detached.create_task(_stop_after(stop, server))
        try:
            if started is not None:  # what comes from now on waits in the backlog of the listener
                started(_url_of_listener(host, listener))
            await server.serve(sockets=[listener])
        finally:
            if waiting is not None:
                waiting.cancel()


async def _stop_after(stop: asyncio.Event, server: uvicorn.Server) -> None:
    await stop.wait()
    server.should_exit = True


@contextmanager
def _signals_stop(server: uvicorn.Server) -> Iterator[None]:
    """Stop *server*, and nothing else, at SIGINT or SIGTERM.

    uvicorn handles them while it runs and raises them again when it has stopped. Without these
    handlers that would end the process, and a signal before uvicorn runs would too.
    """
    if threading.current_thread() is not threading.main_thread():
        yield
        return

    def handle(number: int, frame: object) -> None:
        server.should_exit = True

    previous = {number: signal.signal(number, handle) for number in (signal.SIGINT, signal.SIGTERM)}
    try:
        yield
    finally:
        for number, handler in previous.items():
            signal.signal(number, handler)


def is_loopback(host: str) -> bool:
    """Return whether only this machine reaches an address."""
    if host == "localhost":
        return True
    try:
        return ipaddress.ip_address(host.strip("[]")).is_loopback
    except ValueError:
        return False


@contextmanager
def _listening(host: str, port: int) -> Iterator[socket.socket]:
    family, kind, protocol, _, address = socket.getaddrinfo(
        host.strip("[]"), port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE
    )[0]
    with socket.socket(family, kind, protocol) as listener:
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        listener.bind(address)
        listener.listen(1024)
        listener.setblocking(False)
        yield listener


def _url_of_listener(host: str, listener: socket.socket) -> str:
    port = listener.getsockname()[1]
    name = f"[{host}]" if ":" in host and not host.startswith("[") else host
    return f"http://{name}:{port}"
