"""How a request is framed: which Host it names, and where its body ends."""

from __future__ import annotations

import itertools
import socket
from urllib.parse import urlsplit

import pytest

from httpserver import running
from memalchemy import Database
from waiting import A_WHILE

LOCAL = ("localhost", "127.0.0.1", "[::1]")
FOREIGN = [
    form.format(name=name)
    for name, form in itertools.product(
        LOCAL,
        (
            "{name}:8472@evil.example",
            "{name}@evil.example",
            "evil.example@{name}",
            "user:secret@{name}",
            "{name}:1:2",
            "{name}:port",
            "{name}/x",
            "{name}?",
            "{name}#",
            "{name},evil.example",
            "{name} evil.example",
            "{name}.evil.example",
            "x{name}",
            "{name}:",
        ),
    )
]


def exchange(url: str, request: bytes) -> tuple[int, bool]:
    """Send bytes; return the status of the first answer, and whether the connection was closed."""
    parts = urlsplit(url)
    assert parts.hostname is not None
    assert parts.port is not None
    with socket.create_connection((parts.hostname, parts.port), timeout=A_WHILE) as connection:
        connection.sendall(request)
        answer = b""
        while b"\r\n\r\n" not in answer:
            if not (more := connection.recv(65_536)):
                return int(answer.split()[1]) if answer else 0, True
            answer += more
        status = int(answer.split()[1])
        # A second request: whoever has closed the connection does not answer it.
        try:
            connection.sendall(b"GET /v1/threads HTTP/1.1\r\nHost: localhost\r\n\r\n")
            head, _, rest = answer.partition(b"\r\n\r\n")
            length = next(
                int(line.split(b":")[1])
                for line in head.lower().split(b"\r\n")
                if line.startswith(b"content-length")
            )
            while len(rest) < length:
                rest += connection.recv(65_536)
            return status, len(rest) == length and not connection.recv(65_536)
        except (BrokenPipeError, ConnectionResetError):
            return status, True


def test_a_host_that_only_begins_like_a_local_one_is_refused(db: Database) -> None:
    with running(db) as url:
        for host in FOREIGN:
            request = f"GET /v1/threads HTTP/1.1\r\nHost: {host}\r\n\r\n".encode()
            status, _ = exchange(url, request)
            assert status in (400, 421), host
        for host in LOCAL:
            for port in ("", ":80", ":8472"):
                request = f"GET /v1/threads HTTP/1.1\r\nHost: {host}{port}\r\n\r\n".encode()
                assert exchange(url, request) == (200, False), host


@pytest.mark.parametrize("method", ["GET", "PUT", "POST", "DELETE"])
@pytest.mark.parametrize("length", [0, 3, 18, 100])
@pytest.mark.parametrize("length_first", [True, False])
def test_a_request_with_two_ends_of_its_body_is_refused_and_the_connection_closed(
    db: Database, method: str, length: int, length_first: bool
) -> None:
    body = b'{"value": {"a":1}}'
    headers = [f"Content-Length: {length}", "Transfer-Encoding: chunked"]
    lines = [
        f"{method} /v1/store/a/items/k HTTP/1.1",
        "Host: localhost",
        "Content-Type: application/json",
        *(headers if length_first else reversed(headers)),
    ]
    request = "\r\n".join(lines).encode() + b"\r\n\r\n%x\r\n%s\r\n0\r\n\r\n" % (len(body), body)
    with running(db) as url:
        status, is_closed = exchange(url, request)
    assert status == 400
    assert is_closed
