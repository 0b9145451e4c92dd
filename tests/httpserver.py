"""Servers on real sockets: memalchemy's in a thread of its own, and ones that misbehave."""

from __future__ import annotations

import asyncio
import json
import os
import signal
import socket
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from typing import Any

from memalchemy import Database
from memalchemy.http import serve
from waiting import A_WHILE

TOKEN = "a-token-of-the-tests-0123456789"


@contextmanager
def running(db: Database, **options: Any) -> Iterator[str]:
    """Run `serve` on a free port, in a thread with a loop of its own; yield its base URL."""
    up = threading.Event()
    said: list[str] = []
    failed: list[BaseException] = []
    loop_and_stop: list[Any] = []

    def started(url: str) -> None:
        said.append(url)
        up.set()

    async def main() -> None:
        stop = asyncio.Event()
        loop_and_stop[:] = [asyncio.get_running_loop(), stop]
        try:
            await serve(db, port=0, started=started, stop=stop, grace=1, **options)
        finally:
            await db.close()  # the connections of this loop

    def work() -> None:
        try:
            asyncio.run(main())
        except BaseException as error:  # noqa: BLE001 - raised by whoever started it
            failed.append(error)
        finally:
            up.set()

    thread = threading.Thread(target=work, daemon=True)
    thread.start()
    assert up.wait(A_WHILE), "the server did not start"
    if failed:
        raise failed[0]
    try:
        yield said[0]
    finally:
        loop, stop = loop_and_stop
        loop.call_soon_threadsafe(stop.set)
        thread.join(A_WHILE)
        assert not thread.is_alive(), "the server did not stop"
        if failed:
            raise failed[0]


def started(
    *arguments: str,
    port: int = 0,
    grace: int = 10,
    timeout: int = A_WHILE,
    options: Sequence[str] = (),
    **environment: str,
) -> tuple[subprocess.Popen[str], str]:
    """Start `memalchemy serve` in a process of its own; return it and its URL."""
    limits = ("--json", "--port", str(port), "--grace", str(grace), "--timeout", str(timeout))
    process = subprocess.Popen(
        [sys.executable, "-m", "memalchemy", *arguments, "serve", *limits, *options],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env=os.environ | environment,
    )
    assert process.stdout is not None
    document = ""
    while not document.endswith("}\n"):
        line = process.stdout.readline()
        assert line, process.communicate()
        document += line
    return process, json.loads(document)["url"]


def ended(process: subprocess.Popen[str], number: signal.Signals) -> tuple[int, str]:
    """End a process by a signal; return its exit code, and what it said on stderr."""
    process.send_signal(number)
    try:
        _, said = process.communicate(timeout=A_WHILE)
    except subprocess.TimeoutExpired:
        process.kill()
        process.communicate()
        raise
    return process.returncode, said


@contextmanager
def answering(behave: Callable[[socket.socket], None]) -> Iterator[str]:
    """Run a server that calls *behave* with each connection, in a thread; yield its base URL."""
    listening = socket.create_server(("127.0.0.1", 0))
    ended = threading.Event()
    threads: list[threading.Thread] = []
    open_: list[socket.socket] = []

    def one(connection: socket.socket) -> None:
        with connection, suppress(OSError):  # the client has gone
            behave(connection)

    def accept() -> None:
        while not ended.is_set():
            try:
                connection, _ = listening.accept()
            except OSError:
                return
            open_.append(connection)
            threads.append(threading.Thread(target=one, args=(connection,), daemon=True))
            threads[-1].start()

    accepting = threading.Thread(target=accept, daemon=True)
    accepting.start()
    try:
        yield f"http://127.0.0.1:{listening.getsockname()[1]}"
    finally:
        ended.set()
        listening.shutdown(socket.SHUT_RDWR)
        listening.close()
        for connection in open_:
            with suppress(OSError):
                connection.shutdown(socket.SHUT_RDWR)
        accepting.join(A_WHILE)
        for thread in threads:
            thread.join(A_WHILE)


def request_of(connection: socket.socket) -> bytes:
    """Read the line and headers of a request."""
    found = b""
    while b"\r\n\r\n" not in found:
        more = connection.recv(65536)
        if not more:
            break
        found += more
    return found


def response(status: int, body: bytes, kind: str = "application/json", *more: str) -> bytes:
    """Return an HTTP response that ends its connection."""
    lines = [f"HTTP/1.1 {status} x", f"Content-Type: {kind}", f"Content-Length: {len(body)}"]
    return "\r\n".join([*lines, "Connection: close", *more, "", ""]).encode() + body


def saying(status: int, body: bytes, kind: str = "application/json", *more: str) -> Any:
    """Return the behaviour of a server that always gives one answer."""

    def behave(connection: socket.socket) -> None:
        request_of(connection)
        connection.sendall(response(status, body, kind, *more))

    return behave
