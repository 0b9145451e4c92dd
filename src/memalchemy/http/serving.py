"""Running the application on a socket, until it is told to stop. Knows nothing of endpoints."""

from __future__ import annotations

import asyncio
import contextlib
import ipaddress
import signal
import socket
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any

from memalchemy.database import Database
from memalchemy.errors import DriverMissing
from memalchemy.http.asgi import MAX_BODY, TIMEOUT, app
from memalchemy.http.limits import Limits
from memalchemy.http.tokens import VARIABLE, Tokens

try:
    import uvicorn
    from uvicorn.protocols.http.h11_impl import H11Protocol
except ImportError as error:
    raise DriverMissing("uvicorn", "server", what="package") from error

HEADER_SECONDS = 10.0
"""How long a connection may take to bring a request's line and headers."""

LOCAL = ("localhost", "127.0.0.1", "[::1]")


async def serve(
    db: Database,
    *,
    host: str = "127.0.0.1",
    port: int = 8080,
    tokens: Tokens | Mapping[str, str] | None = None,
    insecure: bool = False,
    max_body: int = MAX_BODY,
    rate: float | None = None,
    burst: int | None = None,
    timeout: float = TIMEOUT,  # noqa: ASYNC109 - of a request
    origins: Iterable[str] = (),
    limits: Limits | None = None,
    max_connections: int = 1000,
    grace: float = 10.0,
    started: Callable[[str], object] | None = None,
    stop: asyncio.Event | None = None,
) -> None:
    """Offer *db* over HTTP until SIGINT or SIGTERM comes, or *stop* is set.

    It then takes no new requests, lets running ones end for *grace* seconds, and returns; *db* is
    the caller's to close. Signals are answered in the main thread only.

    Args:
        host: the address to listen on. Without *tokens* it must be of the local machine, unless
            *insecure* says that whatever stands before it lets nobody else in.
        port: 0 is any that is free.
        max_connections: connections at once; above it, a request is answered with 503.
        started: called with the base URL when requests can come.

    The other arguments are those of `app`.

    Raises:
        ValueError: a host that others can reach, no tokens, and not *insecure*.
        OSError: the address cannot be listened on.
    """
    local = is_loopback(host)
    if tokens is None and not local and not insecure:
        raise ValueError(
            f"{host} can be reached by others, and there are no tokens: everybody could read and "
            f"erase everything. Give tokens ({VARIABLE} or --token-file), listen on 127.0.0.1, or "
            "say insecure (--insecure) if whatever stands before it keeps strangers out"
        )
    if isinstance(tokens, Mapping):
        tokens = Tokens(tokens)
    application = app(
        db,
        tokens=tokens,
        max_body=max_body,
        rate=rate,
        burst=burst,
        timeout=timeout,
        hosts=LOCAL if tokens is None and local and not insecure else None,
        origins=origins,
        limits=limits,
    )
    config = uvicorn.Config(
        application,
        http=_Protocol,
        ws="none",
        lifespan="off",
        log_config=None,
        access_log=False,  # it would have paths in it, and so ids; see `guard`
        server_header=False,
        limit_concurrency=max_connections,
        timeout_graceful_shutdown=max(1, round(grace)),
    )
    listening = _listen(host, port)
    try:
        server = _Server(config, stop or asyncio.Event(), started, _address(host, listening))
        await server.serve(sockets=[listening])
    finally:
        listening.close()


def is_loopback(host: str) -> bool:
    """Whether only this machine can reach *host*."""
    if host == "localhost":
        return True
    try:
        return ipaddress.ip_address(host.strip("[]")).is_loopback
    except ValueError:
        return False


def _listen(host: str, port: int) -> socket.socket:
    name = host.strip("[]")
    ((family, kind, protocol, _, address), *_) = socket.getaddrinfo(
        name, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE
    )
    listening = socket.socket(family, kind, protocol)
    try:
        listening.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        listening.bind(address)
        listening.listen(1024)
        listening.setblocking(False)
    except BaseException:
        listening.close()
        raise
    return listening


def _address(host: str, listening: socket.socket) -> str:
    port = listening.getsockname()[1]
    name = f"[{host}]" if ":" in host and not host.startswith("[") else host
    return f"http://{name}:{port}"


class _Server(uvicorn.Server):
    """uvicorn's server, ended by signals or by an event, and without raising the signal again."""

    def __init__(
        self,
        config: uvicorn.Config,
        stop: asyncio.Event,
        started: Callable[[str], object] | None,
        url: str,
    ) -> None:
        super().__init__(config)
        self._stop, self._tell, self._url = stop, started, url

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        await super().startup(sockets)
        if self._tell is not None:
            self._tell(self._url)

    async def on_tick(self, counter: int) -> bool:
        if self._stop.is_set():
            self.should_exit = True
        return await super().on_tick(counter)

    @contextlib.contextmanager
    def capture_signals(self) -> Iterator[None]:
        loop, taken = asyncio.get_running_loop(), {}
        with contextlib.suppress(NotImplementedError, RuntimeError, ValueError):
            for number in (signal.SIGINT, signal.SIGTERM):
                before = signal.getsignal(number)
                loop.add_signal_handler(number, self.handle_exit, number, None)
                taken[number] = before
        try:
            yield
        finally:
            for number, before in taken.items():
                loop.remove_signal_handler(number)
                signal.signal(number, before or signal.SIG_DFL)


class _Protocol(H11Protocol):
    """A connection that must bring a request's headers in time: uvicorn waits for ever."""

    _waiting: asyncio.TimerHandle | None = None

    def connection_made(self, transport: Any) -> None:
        super().connection_made(transport)
        self._watch()

    def data_received(self, data: bytes) -> None:
        super().data_received(data)
        self._watch()

    def connection_lost(self, exc: Exception | None) -> None:
        super().connection_lost(exc)
        self._unwatch()

    def _watch(self) -> None:
        if self.cycle is not None and not self.cycle.response_complete:
            self._unwatch()  # a request is being answered, and has a time of its own
        elif self._waiting is None:
            self._waiting = self.loop.call_later(HEADER_SECONDS, self._too_slow)

    def _unwatch(self) -> None:
        if self._waiting is not None:
            self._waiting.cancel()
            self._waiting = None

    def _too_slow(self) -> None:
        self._waiting = None
        if self.cycle is None or self.cycle.response_complete:
            self.transport.close()
