"""A TCP proxy that misbehaves on demand, in front of a server's port or socket.

It knows no protocol: it forwards bytes, counts them, and looks for a text in them.
"""

from __future__ import annotations

import asyncio
import contextlib
import re
from collections.abc import AsyncIterator
from dataclasses import dataclass, field
from typing import Literal

from servers import Postgres

Direction = Literal["to_server", "to_client"]
Then = Literal["go on", "refuse", "hold"]
"""What happens to connections that are made after a cut: `hold` takes them and stays silent."""

LONGEST_MARKER = 64


@dataclass
class Proxy:
    """Orders hold for the next connection or the next bytes that match them, and are used once."""

    server: Postgres
    port: int = 0
    cuts: int = 0
    """How many connections it has cut."""
    pauses: int = 0
    """How often it has paused."""
    _marker: tuple[re.Pattern[bytes], bool, Then] | None = None
    _turn: tuple[int, bool] | None = None
    taken: int = 0
    """How many connections were made to it."""
    _pauses: list[re.Pattern[bytes]] = field(default_factory=list)
    _late: list[re.Pattern[bytes]] = field(default_factory=list)
    _going_on: asyncio.Event = field(default_factory=asyncio.Event)
    latency: float = 0.0
    """Seconds that every answer is late by."""
    _budgets: list[tuple[Direction, int]] = field(default_factory=list)
    _writers: set[asyncio.StreamWriter] = field(default_factory=set)
    _links: set[asyncio.Task[None]] = field(default_factory=set)
    _listener: asyncio.Server | None = None
    _released: asyncio.Event = field(default_factory=asyncio.Event)
    was_cut: asyncio.Event = field(default_factory=asyncio.Event)

    def url(self, database: str, *, driver: str) -> str:
        front = Postgres("127.0.0.1", self.port, self.server.user, self.server.password)
        return front.url(database, driver=driver)

    def drop_answer_to(self, pattern: str, *, then: Then = "go on") -> None:
        """Forward the next bytes that *pattern* matches, wait until the server answers, and cut.

        ``refuse`` lasts until `listen`, ``hold`` until `release`.
        """
        self._marker = (_word(pattern), True, then)

    def drop(self, pattern: str) -> None:
        """Cut instead of forwarding the next bytes that *pattern* matches."""
        self._marker = (_word(pattern), False, "go on")

    def drop_turn(self, turn: int, *, answer: bool) -> None:
        """Cut at the *turn*-th piece, from 1, that clients send from now on: instead of forwarding
        it, or when the server has answered it.
        """
        self._turn = (turn, answer)

    def pause(self, pattern: str) -> None:
        """Stay silent until `go_on`, before the next bytes that *pattern* matches."""
        self._going_on.clear()
        self._pauses.append(_word(pattern))

    def pause_answer_to(self, pattern: str) -> None:
        """Forward the next bytes that *pattern* matches, and hold back what the server answers,
        until `go_on`.
        """
        self._going_on.clear()
        self._late.append(_word(pattern))

    def go_on(self) -> None:
        """End all pauses."""
        self._going_on.set()

    def hold(self) -> None:
        """Take connections and stay silent, until `release`."""
        self._released.clear()

    def cut_after(self, direction: Direction, count: int) -> None:
        """Cut the next connection once it has carried *count* bytes in *direction*."""
        self._budgets.append((direction, count))

    def calm(self) -> None:
        """Forget all orders."""
        self._marker = self._turn = None
        self._pauses.clear()
        self._late.clear()
        self.go_on()
        self.latency = 0.0
        self._budgets.clear()

    def cut_all(self) -> None:
        """Cut every connection at once, as when a switch is turned off."""
        self.cuts += len(self._writers) // 2
        for writer in list(self._writers):
            writer.transport.abort()

    async def listen(self) -> None:
        """Take connections, on the same port as before."""
        self._listener = await asyncio.start_server(self._accept, "127.0.0.1", self.port)
        self.port = self._listener.sockets[0].getsockname()[1]

    def refuse(self) -> None:
        """Take no more connections; those that are open stay."""
        if self._listener is not None:
            self._listener.close()
            self._listener = None

    def release(self) -> None:
        """Serve the connections that were held."""
        self._released.set()

    async def end(self) -> None:
        """Close everything."""
        self.refuse()
        self.release()
        self.go_on()
        for writer in list(self._writers):
            writer.transport.abort()
        await asyncio.gather(*self._links, return_exceptions=True)

    async def _accept(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        assert task is not None
        self.taken += 1
        self._links.add(task)
        task.add_done_callback(self._links.discard)
        await self._released.wait()
        if self.server.host.startswith("/"):
            path = f"{self.server.host}/.s.PGSQL.{self.server.port}"
            upstream = await asyncio.open_unix_connection(path)
        else:
            upstream = await asyncio.open_connection(self.server.host, self.server.port)
        link = _Link(self, (reader, writer), upstream)
        self._writers |= {writer, upstream[1]}
        if self._budgets:
            direction, count = self._budgets.pop(0)
            link.left[direction] = count
        try:
            await asyncio.gather(link.requests(), link.answers())
        except (_CutError, ConnectionError):
            pass
        finally:
            for end in (writer, upstream[1]):
                end.close()
                self._writers.discard(end)


class _CutError(Exception):
    """The link is cut, on order."""


class _Link:
    """One connection through the proxy."""

    def __init__(
        self,
        proxy: Proxy,
        client: tuple[asyncio.StreamReader, asyncio.StreamWriter],
        server: tuple[asyncio.StreamReader, asyncio.StreamWriter],
    ) -> None:
        self.proxy, self.client, self.server = proxy, client, server
        self.left: dict[Direction, int] = {}
        self.answer_is_dropped = False
        self.is_silent = False
        self.tail = b""

    async def requests(self) -> None:
        while data := await self.client[0].read(65536):
            await self._pause(data)
            if self._is_its_turn():
                self._drop_turn()
            if self._matches(data):
                assert self.proxy._marker is not None
                _, forward, then = self.proxy._marker
                self.proxy._marker = None
                if then == "refuse":
                    self.proxy.refuse()
                elif then == "hold":
                    self.proxy._released.clear()
                if not forward:
                    self._cut()
                self.answer_is_dropped = True
            await self._forward("to_server", data, self.server[1])
        self.server[1].write_eof()

    async def answers(self) -> None:
        while data := await self.server[0].read(65536):
            if self.answer_is_dropped:
                self._cut()
            if self.proxy.latency:
                await asyncio.sleep(self.proxy.latency)
            if self.is_silent:
                self.is_silent = False
                await self.proxy._going_on.wait()
            await self._forward("to_client", data, self.client[1])
        self.client[1].close()

    async def _pause(self, data: bytes) -> None:
        if self._is_due(self.proxy._pauses, data):
            await self.proxy._going_on.wait()
        if self._is_due(self.proxy._late, data):
            self.is_silent = True

    def _is_due(self, orders: list[re.Pattern[bytes]], data: bytes) -> bool:
        for order in orders:
            if order.search(data):
                orders.remove(order)
                self.proxy.pauses += 1
                return True
        return False

    def _is_its_turn(self) -> bool:
        if self.proxy._turn is None:
            return False
        turn, answer = self.proxy._turn
        self.proxy._turn = (turn - 1, answer)
        return turn == 1

    def _drop_turn(self) -> None:
        assert self.proxy._turn is not None
        _, answer = self.proxy._turn
        self.proxy._turn = None
        if not answer:
            self._cut()
        self.answer_is_dropped = True

    def _matches(self, data: bytes) -> bool:
        if self.proxy._marker is None:
            return False
        seen = self.tail + data  # a text may arrive in two pieces
        self.tail = seen[-LONGEST_MARKER:]
        return self.proxy._marker[0].search(seen) is not None

    async def _forward(
        self, direction: Direction, data: bytes, writer: asyncio.StreamWriter
    ) -> None:
        left = self.left.get(direction)
        if left is not None:
            self.left[direction] = left - len(data)
            if left <= len(data):
                writer.write(data[:left])
                with contextlib.suppress(ConnectionError):
                    await writer.drain()
                self._cut()
        writer.write(data)
        await writer.drain()

    def _cut(self) -> None:
        self.proxy.cuts += 1
        self.proxy.was_cut.set()
        # At once, both ways: what waits in a buffer is lost, as with a pulled cable.
        self.client[1].transport.abort()
        raise _CutError


@contextlib.asynccontextmanager
async def proxy(server: Postgres) -> AsyncIterator[Proxy]:
    """A proxy on a port of its own, on the running loop."""
    front = Proxy(server)
    front.release()
    await front.listen()
    try:
        yield front
    finally:
        await front.end()


def _word(pattern: str) -> re.Pattern[bytes]:
    # As a word: the drivers number their statements, and __asyncpg_stmt_c1__ is not c1.
    return re.compile(rb"(?<![0-9A-Za-z_])(?:" + pattern.encode() + rb")(?![0-9A-Za-z_])")
