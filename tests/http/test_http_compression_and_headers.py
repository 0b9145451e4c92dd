"""Compression, request ids, CORS, and bytes in flight of the HTTP server."""

from __future__ import annotations

import gzip
import json
import logging
import socket
import zlib
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import httpx
import pytest

from httpserver import running
from memalchemy import Database, HTTPCheckpointer, TooLarge
from memalchemy.http import Limits, app
from memalchemy.http.server import _health
from memalchemy.http.server._compression import Inflater, accepts_gzip
from memalchemy.http.server._problems import Problem
from waiting import wait_until

JSON = {"Content-Type": "application/json"}
PAGE = "https://app.example"


@pytest.fixture
def db(tmp_path: Path) -> Database:
    """A SQLite file, whichever databases the run is for: none of this depends on one."""
    return Database(f"sqlite:///{tmp_path}/agent.db")


@pytest.fixture
def client(db: Database) -> Iterator[httpx.Client]:
    limits = Limits(values=1000)
    with (
        running(db, max_body=100_000, limits=limits, origins=[PAGE]) as url,
        httpx.Client(base_url=url, verify=False, timeout=60) as client,
    ):
        yield client


# --- Compression ---------------------------------------------------------------------------------


def test_bodies_and_answers_are_compressed(client: httpx.Client) -> None:
    state = {"text": "word " * 10_000}
    body = gzip.compress(json.dumps({"state": state}).encode())
    path = "/v1/threads/t/checkpoints"
    saved = client.post(path, content=body, headers=JSON | {"Content-Encoding": "gzip"})
    piecewise = client.post(
        path,
        content=(body[at : at + 7] for at in range(0, len(body), 7)),
        headers=JSON | {"Content-Encoding": "gzip"},
    )
    loaded = client.get("/v1/threads/t")
    plain = client.get("/v1/threads/t", headers={"Accept-Encoding": "identity"})
    small = client.get("/v1/threads")

    assert (saved.status_code, piecewise.status_code) == (201, 201)
    assert loaded.json()["state"] == plain.json()["state"] == state
    assert loaded.headers["content-encoding"] == "gzip"
    assert int(loaded.headers["content-length"]) < 5000
    assert "content-encoding" not in plain.headers
    assert all("Accept-Encoding" in one.headers["vary"] for one in (loaded, plain))
    assert "content-encoding" not in small.headers


@pytest.mark.parametrize(
    ("body", "encoding", "status"),
    [
        (gzip.compress(b'{"state": {"a": "' + b"0" * 50_000_000 + b'"}}'), "gzip", 413),
        (gzip.compress(b'{"state": {"a": [' + b"0," * 5000 + b"0]}}"), "gzip", 413),
        (gzip.compress(b'{"state": {}}')[:-4], "gzip", 400),
        (gzip.compress(b'{"state": {}}') + b"more", "gzip", 400),
        (b'{"state": {}}', "gzip", 400),
        (b"", "gzip", 400),
        (zlib.compress(b'{"state": {}}'), "deflate", 415),
    ],
    ids=["a bomb", "many values", "cut off", "more behind it", "no gzip", "empty", "deflate"],
)
def test_compressed_bodies_are_held_to_the_limits(
    client: httpx.Client, body: bytes, encoding: str, status: int
) -> None:
    headers = JSON | {"Content-Encoding": encoding}
    answer = client.post("/v1/threads/t/checkpoints", content=body, headers=headers)

    assert answer.status_code == status
    assert client.get("/v1/threads").json() == {"threads": []}


def test_a_bomb_is_expanded_to_the_limit_and_no_further() -> None:
    bomb = gzip.compress(b"0" * 10_000_000)

    assert len(Inflater().inflate(bomb, 1000, is_last=True)) == 1001
    with pytest.raises(Problem):
        Inflater().inflate(bomb[:-1], 10_000_000, is_last=True)


def test_bombs_are_counted_as_they_expand(db: Database) -> None:
    bomb = gzip.compress(json.dumps({"state": {"text": "0" * 1_000_000}}).encode())
    headers = JSON | {"Content-Encoding": "gzip"}
    with running(db, limits=Limits(pending_bytes=500_000)) as url:
        answers = [
            httpx.post(f"{url}/v1/threads/t/checkpoints", content=bomb, headers=headers)
            for _ in range(3)
        ]
        small = httpx.post(f"{url}/v1/threads/t/checkpoints", json={"state": {}})

    assert len(bomb) < 10_000
    assert [answer.status_code for answer in answers] == [503] * 3
    assert all("retry-after" in answer.headers for answer in answers)
    assert small.status_code == 201, "the bytes of refused bodies are given back"


async def test_the_client_compresses_large_bodies_if_the_server_takes_that(
    client: httpx.Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    sent: list[tuple[str | None, int]] = []
    request = httpx.AsyncClient.request

    async def watched(self: Any, *arguments: Any, **more: Any) -> httpx.Response:
        if more["content"] is not None:
            sent.append((more["headers"].get("Content-Encoding"), len(more["content"])))
        return await request(self, *arguments, **more)

    monkeypatch.setattr(httpx.AsyncClient, "request", watched)
    url, large = str(client.base_url), {"text": "word " * 18_000}
    async with HTTPCheckpointer(url) as checkpointer:
        await checkpointer.save({"text": "small"}, "t")
        await checkpointer.save(large, "t", "one")
        assert await checkpointer.load("t") == large
        with pytest.raises(TooLarge):
            await checkpointer.save({"text": "word " * 100_000}, "t")
    monkeypatch.setattr(_health, "GZIP", "br")
    async with HTTPCheckpointer(url) as checkpointer:
        await checkpointer.save(large, "t", "two")
        assert await checkpointer.load("t", "two") == large

    encodings = [encoding for encoding, _ in sent]
    sizes = [size for _, size in sent]
    assert encodings == [None, "gzip", "gzip", None]
    assert sizes[1] < 2000 < 90_000 < sizes[3]


def test_accept_encoding_is_read() -> None:
    assert all(map(accepts_gzip, ["gzip", "br, GZIP;q=0.5", "*", "deflate , gzip"]))
    assert not any(map(accepts_gzip, ["", "br", "gzip;q=0", "gzip; q=0.00", "identity"]))


# --- Request ids ---------------------------------------------------------------------------------


def test_requests_have_ids_that_logs_and_answers_name(
    client: httpx.Client, caplog: pytest.LogCaptureFixture
) -> None:
    with caplog.at_level(logging.INFO, "memalchemy.http.access"):
        given = client.get("/v1/threads", headers={"X-Request-Id": "req-1/a"})
        refused = client.get("/v1/nothing", headers={"X-Request-Id": "req-2"})
        made = [client.get("/v1/threads").headers["x-request-id"] for _ in range(2)]
        odd = [
            client.get("/v1/threads", headers={"X-Request-Id": text}).headers["x-request-id"]
            for text in ("a b", "x" * 129, 'a"b')
        ]
        wait_until(lambda: len(caplog.records) >= 7)  # a line comes after its answer
    lines = [record.getMessage() for record in caplog.records]

    assert given.headers["x-request-id"] == "req-1/a"
    assert (refused.status_code, refused.headers["x-request-id"]) == (404, "req-2")
    assert len({*made, *odd}) == 5
    assert all(len(name) == 32 for name in made + odd)
    names = ["req-1/a", "req-2", *made, *odd]
    assert [line.rpartition("request=")[2] for line in lines] == names


def test_the_log_of_an_error_names_the_request(
    client: httpx.Client, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    def broken(*args: Any) -> Any:
        raise KeyError("private")

    monkeypatch.setattr(_health, "asdict", broken)
    answer = client.get("/v1/capabilities", headers={"X-Request-Id": "req-3"})

    assert (answer.status_code, answer.headers["x-request-id"]) == (500, "req-3")
    (line,) = [r.getMessage() for r in caplog.records if r.name == "memalchemy.http"]
    assert line.startswith("KeyError at ")
    assert line.endswith("request=req-3")


# --- CORS ----------------------------------------------------------------------------------------

ASKING = {"Access-Control-Request-Method": "PUT", "Access-Control-Request-Headers": "authorization"}


def test_pages_of_an_allowed_origin_may_read_and_write(client: httpx.Client) -> None:
    path = "/v1/store/n/items/k"
    asked = client.options(path, headers={"Origin": PAGE, **ASKING})
    other = client.options(path, headers={"Origin": "https://evil.example", **ASKING})
    written = client.put(path, json={"value": 1}, headers={"Origin": PAGE})
    read = client.get(path, headers={"Origin": "https://evil.example"})
    missing = client.get("/v1/store/n/items/none", headers={"Origin": PAGE})

    assert asked.status_code == 200
    assert asked.headers["access-control-allow-origin"] == PAGE
    assert "PUT" in asked.headers["access-control-allow-methods"]
    assert "authorization" in asked.headers["access-control-allow-headers"].lower()
    assert other.status_code == 400
    assert "access-control-allow-origin" not in other.headers
    assert written.headers["access-control-allow-origin"] == PAGE
    assert "ETag" in written.headers["access-control-expose-headers"]
    assert "access-control-allow-origin" not in read.headers
    assert missing.status_code == 404
    assert missing.headers["access-control-allow-origin"] == PAGE


def test_without_origins_the_questions_of_browsers_are_not_answered(db: Database) -> None:
    with running(db) as url:
        asked = httpx.options(f"{url}/v1/threads", headers={"Origin": PAGE, **ASKING})
        read = httpx.get(f"{url}/v1/threads", headers={"Origin": PAGE})

    assert asked.status_code == 405
    assert not [name for name in read.headers if name.startswith("access-control")]


def test_origins_are_named_one_by_one(db: Database) -> None:
    with pytest.raises(ValueError, match="one by one"):
        app(db, origins=["*"])


# --- Bytes in flight -----------------------------------------------------------------------------


def test_answers_that_are_not_read_count_as_bytes_in_flight(db: Database) -> None:

    state = {"text": "".join(chr(33 + n * n % 89) for n in range(6_000_000))}
    with running(db, limits=Limits(pending_bytes=16_000_000)) as url:
        assert httpx.post(
            f"{url}/v1/threads/t/checkpoints", json={"state": state}, timeout=60
        ).is_success
        target = urlsplit(url)
        slow = [socket.create_connection((target.hostname, target.port)) for _ in range(4)]
        for connection in slow:
            connection.sendall(b"GET /v1/threads/t HTTP/1.1\r\nHost: localhost\r\n\r\n")
            connection.recv(100)
        refused = httpx.get(
            f"{url}/v1/threads/t", headers={"Accept-Encoding": "identity"}, timeout=60
        )
        small = httpx.get(f"{url}/v1/threads")
        for connection in slow:
            with closing(connection):
                pass
        waited = [
            httpx.get(f"{url}/v1/threads/t", headers={"Accept-Encoding": "identity"}).status_code
            for _ in range(3)
        ]

    assert refused.status_code == 503
    assert refused.headers["retry-after"] == "1"
    assert small.status_code == 200
    assert waited[-1] == 200
