"""`HTTPCheckpointer`: outages, retries, errors, event loops, and servers of somebody else's."""

from __future__ import annotations

import asyncio
import ipaddress
import json
import socket
import ssl
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from enum import Enum
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.serialization import Encoding, PrivateFormat
from cryptography.x509.oid import NameOID
from pydantic import BaseModel

import off_loop
from httpserver import TOKEN, answering, request_of, response, running, saying
from memalchemy import (
    AuthenticationFailed,
    CapabilityMissing,
    Checkpointer,
    Conflict,
    Corrupt,
    Database,
    DatabaseUnreachable,
    HTTPCheckpointer,
    MemalchemyError,
    NotFound,
    NotSerialisable,
    ThreadDeleted,
    TooLarge,
    UnknownURL,
    events,
)
from memalchemy._retry import REQUESTS
from memalchemy.codec.values import is_heavy
from memalchemy.errors import InvalidArgument
from memalchemy.http import wire
from memalchemy.http._offload import LARGE_DOCUMENT
from memalchemy.http.blocking import HTTPCheckpointer as Blocking
from servers import free_port
from waiting import A_WHILE

OURS = json.dumps(
    {
        "server": "memalchemy",
        "version": "0",
        "checkpointer": {"search": True, "persistent_checkpoint_ids": True},
        "calls": ["save", "load", "load_newest", "list_checkpoints", "get_metadata", "history"],
        "max_body_bytes": 1,
    }
).encode()

READS: dict[str, Callable[[HTTPCheckpointer], Any]] = {
    "load": lambda c: c.load("thread"),
    "load one": lambda c: c.load("thread", "id"),
    "list": lambda c: c.list_checkpoints("thread"),
    "exists": lambda c: c.exists("thread"),
    "exists one": lambda c: c.exists("thread", "id"),
    "metadata": lambda c: c.get_metadata("thread"),
}


def behaving(then: Callable[[socket.socket, bytes], None]) -> Callable[[socket.socket], None]:
    """Return the behaviour of a server that says it is memalchemy's; *then* does the rest."""

    def behave(connection: socket.socket) -> None:
        request = request_of(connection)
        if b"/capabilities" in request.split(b"\r\n")[0]:
            connection.sendall(response(200, OURS))
        else:
            then(connection, request)

    return behave


def half(connection: socket.socket, request: bytes) -> None:
    connection.sendall(response(200, b'{"thread_id": "thread", "state": {"a": 1}}')[:-10])


def silent(connection: socket.socket, request: bytes) -> None:
    connection.recv(1)  # until the client hangs up


def dripping(connection: socket.socket, request: bytes) -> None:
    for byte in response(200, b" " * 10_000):
        connection.sendall(bytes([byte]))
        time.sleep(0.02)


def garbage(connection: socket.socket, request: bytes) -> None:
    connection.sendall(b"\x00\x01garbage\r\n\r\n")


def says(status: int, body: bytes, kind: str = "application/json") -> Any:
    return lambda connection, request: connection.sendall(response(status, body, kind))


OUTAGES: dict[str, Callable[[socket.socket, bytes], None]] = {
    "half an answer": half,
    "no answer": silent,
    "an answer that drips": dripping,
    "no HTTP": garbage,
    "a connection that closes": lambda connection, request: None,
    "a page of a proxy": says(200, b"<html>Welcome</html>", "text/html"),
    "an empty answer": says(200, b""),
    "JSON of another kind": says(200, b"[[]]"),
    "a number": says(200, b"17"),
    "null": says(200, b"null"),
    "a broken document": says(200, b'{"state": {"a": '),
    "another server's 404": says(404, b"<h1>not found</h1>", "text/html"),
    "a gateway without a server": says(502, b"bad gateway", "text/plain"),
    "an error": says(500, b"oops", "text/plain"),
    "a login page": says(302, b"", "text/html"),
}


@pytest.mark.parametrize("outage", OUTAGES)
async def test_an_outage_is_an_exception_for_every_read_and_never_an_absence(
    outage: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    once = replace(REQUESTS, tries=1)
    monkeypatch.setattr("memalchemy.http.client._transport.REQUESTS", once)
    with answering(behaving(OUTAGES[outage])) as url:
        async with HTTPCheckpointer(url, timeout=A_WHILE) as client:
            if OUTAGES[outage] in (silent, dripping):  # the answers that do not end
                client._server.transport._timeout = 0.1
            for read in READS.values():
                with pytest.raises(DatabaseUnreachable):
                    await read(client)
            with pytest.raises(DatabaseUnreachable):
                [info async for info in client.history("thread")]


@pytest.mark.parametrize("read", READS)
async def test_a_server_that_is_not_there_is_unreachable(read: str) -> None:
    client = HTTPCheckpointer(f"http://ada:hush@127.0.0.1:{free_port()}", timeout=A_WHILE)

    with pytest.raises(DatabaseUnreachable, match=r"cannot reach http://127\.0\.0\.1") as caught:
        await READS[read](client)

    assert "hush" not in str(caught.value) + repr(client)
    assert not caught.value.maybe_applied
    assert await client.health_check() is False
    await client.close()


async def test_a_client_is_entered_while_its_server_is_away(db: Database, base_url: str) -> None:
    async with HTTPCheckpointer(f"http://127.0.0.1:{free_port()}", timeout=A_WHILE) as client:
        assert await client.health_check() is False
        assert not client.capabilities.search
        with pytest.raises(DatabaseUnreachable):
            await client.load("thread")
    with Blocking(f"http://127.0.0.1:{free_port()}", timeout=A_WHILE) as waiting:
        assert waiting.health_check() is False
    async with HTTPCheckpointer(base_url) as client:
        assert client.capabilities == Checkpointer(db).capabilities


async def test_search_data_compares_typed_values(db: Database, base_url: str) -> None:
    when = datetime(2026, 1, 2, tzinfo=UTC)
    await Checkpointer(db).save({"when": when, "raw": b"x"}, "t")

    async with HTTPCheckpointer(base_url) as client:
        (found,) = await client.search_data("when", when)
        assert found["data"] == {"when": when, "raw": b"x"}
        assert await client.search_data("raw", b"x", among=None) == [found]
        assert await client.search_data("raw", "x") == []


@pytest.mark.usefixtures("lasting")
async def test_states_survive_a_restart_of_the_server(
    db: Database,
) -> None:
    with running(db) as url:
        client = HTTPCheckpointer(url, timeout=A_WHILE)
        await client.save({"n": 1}, "thread")
    with pytest.raises(DatabaseUnreachable):
        await client.load("thread")
    with pytest.raises(DatabaseUnreachable):
        await client.save({"n": 2}, "thread")
    await client.close()
    with running(db) as url:
        again = HTTPCheckpointer(url)
        assert await again.load("thread") == {"n": 1}
        await again.close()


async def test_a_write_without_an_answer_may_have_happened_and_is_sent_once() -> None:
    sent = []

    def cut(connection: socket.socket, request: bytes) -> None:
        sent.append(request.split(b" ")[0])

    with answering(behaving(cut)) as url:
        async with HTTPCheckpointer(url, timeout=A_WHILE) as client:
            with pytest.raises(DatabaseUnreachable, match="may or may not") as caught:
                await client.save({"n": 1}, "thread")
            assert caught.value.maybe_applied
            assert sent == [b"POST"]
            with pytest.raises(DatabaseUnreachable) as caught:
                await client.load("thread")
            assert not caught.value.maybe_applied
            assert sent[1:] == [b"GET"] * 3


async def test_a_write_whose_answer_makes_no_sense_may_have_happened() -> None:
    able = json.loads(OURS) | {"calls": ["fork", "copy_thread", "prune", "list_threads"]}

    def odd(connection: socket.socket) -> None:
        asks = b"/capabilities" in request_of(connection)
        connection.sendall(response(200, json.dumps(able).encode() if asks else b"[17]"))

    with answering(odd) as url:
        async with HTTPCheckpointer(url, timeout=A_WHILE) as client:
            for write in (
                client.fork("thread"),
                client.copy_thread("thread", "other"),
                client.prune(keep_last=1),
            ):
                with pytest.raises(DatabaseUnreachable, match="may or may not") as caught:
                    await write
                assert caught.value.maybe_applied
            with pytest.raises(DatabaseUnreachable) as caught:
                await client.list_threads()
            assert not caught.value.maybe_applied


async def test_a_read_is_repeated_until_the_server_is_back() -> None:
    answers = iter([b"", response(503, b"busy", "text/plain")])

    def flaky(connection: socket.socket, request: bytes) -> None:
        connection.sendall(next(answers, response(200, b'{"thread_id": "t", "state": {"a": 1}}')))

    with answering(behaving(flaky)) as url:
        async with HTTPCheckpointer(url, timeout=A_WHILE) as client:
            assert await client.load("thread") == {"a": 1}


async def test_a_read_waits_as_long_as_retry_after_says(monkeypatch: pytest.MonkeyPatch) -> None:
    waited: list[float] = []
    sleep = asyncio.sleep

    async def wait(seconds: float) -> None:
        waited.append(seconds)
        await sleep(0)

    answers = iter([response(429, b"slow down", "text/plain", "Retry-After: 17")])

    def strict(connection: socket.socket, request: bytes) -> None:
        connection.sendall(next(answers, response(200, b'{"thread_id": "t", "state": {"a": 1}}')))

    with answering(behaving(strict)) as url:
        async with HTTPCheckpointer(url, timeout=A_WHILE) as client:
            monkeypatch.setattr(asyncio, "sleep", wait)
            assert await client.load("thread") == {"a": 1}
    assert max(waited) == 17


async def test_a_write_that_got_429_was_not_applied() -> None:
    with answering(behaving(says(429, b'{"code": "HTTP-429"}'))) as url:
        async with HTTPCheckpointer(url, timeout=A_WHILE) as client:
            with pytest.raises(DatabaseUnreachable, match="too often") as refused:
                await client.save({}, "thread")

    assert refused.value.busy
    assert not refused.value.maybe_applied


# --- Errors --------------------------------------------------------------------------------------


async def test_errors_of_the_server_are_raised_with_their_classes_and_attributes(
    checkpointer: HTTPCheckpointer,
) -> None:
    first = await checkpointer.save({"n": 1}, "thread")
    second = await checkpointer.save({"n": 2}, "thread")

    with pytest.raises(Conflict) as conflict:
        await checkpointer.save({}, "thread", expected_parent=first)
    assert (conflict.value.expected, conflict.value.current) == (first, second)
    with pytest.raises(NotFound, match="nobody"):
        await checkpointer.save({}, "thread", parent_id="nobody")
    with pytest.raises(InvalidArgument, match="own"):
        await checkpointer.fork("thread", new_thread_id="thread")
    with pytest.raises(InvalidArgument, match="keep_last"):
        await checkpointer.prune(keep_last=0)
    with pytest.raises(NotSerialisable) as refused:
        await checkpointer.save({"a": [{"b": object()}]}, "thread")
    assert refused.value.path == "/a/0/b"
    with pytest.raises(TooLarge):
        await checkpointer.load("x" * 300)
    await checkpointer.delete("thread")
    with pytest.raises(ThreadDeleted) as deleted:
        await checkpointer.save({}, "thread", parent_id=second)
    assert deleted.value.thread_id == "thread"


@pytest.mark.parametrize("kind", wire.CLASSES.values(), ids=lambda kind: kind.__name__)
def test_every_error_class_is_decoded_from_its_problem_document(
    kind: type[MemalchemyError],
) -> None:
    problem = {"code": kind.code, "detail": "what happened", "status": 400}

    error = wire.decode_error(problem)

    assert type(error) is kind
    assert str(error) == "what happened"
    for name in wire.ATTRIBUTES.get(kind, ()):
        assert not getattr(error, name)


async def test_a_wrong_token_is_an_authentication_failure(db: Database) -> None:
    with running(db, tokens={TOKEN: db.tenant}) as url:
        for client, why in (
            (HTTPCheckpointer(url), r"no token was given: HTTPCheckpointer\(url, token="),
            (HTTPCheckpointer(url, token=TOKEN + "x"), "refused the token"),
        ):
            with pytest.raises(AuthenticationFailed, match=why) as caught:
                await client.load("thread")
            assert TOKEN not in str(caught.value) + repr(client)
            await client.close()
        headers = {"Authorization": f"Bearer {TOKEN}"}
        async with HTTPCheckpointer(url, headers) as client:
            assert await client.load("thread") is None


# --- What travels --------------------------------------------------------------------------------


class Mood(Enum):
    CALM = "calm"


class Agent(BaseModel):
    name: str
    mood: Mood
    seen: datetime
    tags: set[str]


@pytest.mark.usefixtures("lasting")
async def test_a_pydantic_model_is_saved_and_loaded(base_url: str) -> None:
    agent = Agent(name="Ada", mood=Mood.CALM, seen=datetime(2026, 1, 2, tzinfo=UTC), tags={"a"})
    async with HTTPCheckpointer(base_url, state_type=Agent) as client:
        await client.save(agent, "thread")

        assert await client.load("thread") == agent


async def test_states_saved_over_http_equal_those_in_the_database(
    db: Database, base_url: str
) -> None:
    state = {"~b": "no tag", "nested": {"~t": [1]}, "raw": b"\x00", "lone": "\ud800", "n": 2**90}
    async with HTTPCheckpointer(base_url) as client:
        made = await client.save(state, "a/b", metadata={"k": 1})

        assert await Checkpointer(db).load("a/b", made) == state
        assert await client.load("a/b") == state
        assert (await Checkpointer(db).get_metadata("a/b"))["metadata"] == {"k": 1}


async def test_a_checkpoint_that_another_rests_on_is_not_deleted(
    base_url: str, db: Database
) -> None:
    native = Checkpointer(db)
    await native.save({"n": 1}, "t", "base")
    await native.save({"n": 2}, "t", "next", parent_id="base", rests_on_parent=True)

    async with HTTPCheckpointer(base_url) as client:
        assert await client.prune("t", keep_last=1) == 0
        with pytest.raises(Conflict, match="rests on"):
            await client.delete("t", "base")

    assert await native.load("t", "base") == {"n": 1}


async def test_history_continues_when_the_end_of_a_page_was_deleted(
    db: Database, base_url: str
) -> None:
    ids = [f"c{number}" for number in range(503)]
    checkpointer = Checkpointer(db)
    for name in ids:
        await checkpointer.save({}, "thread", name)
    async with HTTPCheckpointer(base_url) as client:
        found = []
        async for info in client.history("thread"):
            found.append(info.checkpoint_id)
            if info.checkpoint_id == "c3":  # the last of the first page of 500
                await client.delete("thread", "c3")

    assert found == ids[::-1]


# --- Loops, and without any ----------------------------------------------------------------------


def test_one_client_serves_several_loops(tmp_path: Any) -> None:
    with running(Database(f"sqlite:///{tmp_path}/agent.db")) as url:
        client = HTTPCheckpointer(url)

        async def work(number: int) -> Any:
            await client.save({"n": number}, "thread")
            try:
                return await client.load("thread")
            finally:
                await client.close()

        assert [asyncio.run(work(number)) for number in range(3)] == [{"n": n} for n in range(3)]


def test_the_synchronous_client_saves_and_loads(tmp_path: Any) -> None:
    with running(Database(f"sqlite:///{tmp_path}/agent.db")) as url, Blocking(url) as client:
        made = client.save({"n": 1}, "thread")

        assert client.load("thread") == {"n": 1}
        assert [info.checkpoint_id for info in client.history("thread")] == [made]
        assert client.capabilities.search


async def test_events_of_the_client_have_names_and_no_content(base_url: str) -> None:
    seen: list[events.Event] = []
    unsubscribe = events.subscribe(seen.append)
    with answering(behaving(lambda connection, request: None)) as url:
        async with HTTPCheckpointer(url, timeout=A_WHILE) as client:
            with pytest.raises(DatabaseUnreachable):
                await client.load("thread")
    unsubscribe()

    assert [event.name for event in seen] == ["http.retry", "http.retry", "checkpoint.load"]
    assert seen[-1].error == "DatabaseUnreachable"


# --- Servers that are not memalchemy's -----------------------------------------------------------


class Foreign:
    """A server with the documented endpoints and nothing else."""

    def __init__(self, listing: str, nowhere: bytes | None = None) -> None:
        self.states: dict[str, dict[str, bytes]] = {}
        self.listing = listing
        self.nowhere = nowhere or response(404, b'{"detail": "Not Found"}')

    def __call__(self, connection: socket.socket) -> None:
        head, _, body = request_of(connection).partition(b"\r\n\r\n")
        method, target, *_ = head.decode().split(" ")
        length = [line for line in head.decode().split("\r\n") if "content-length" in line.lower()]
        while length and len(body) < int(length[0].split(":")[1]):
            body += connection.recv(65536)
        connection.sendall(self.answer(method, target.split("?")[0], body))

    def answer(self, method: str, path: str, body: bytes) -> bytes:
        parts = path.strip("/").split("/")
        if parts[0] != "threads" or len(parts) < 3:
            return self.nowhere
        thread = self.states.setdefault(parts[1], {})
        if method == "POST":
            made = json.loads(body)["checkpoint_id"]
            thread[made] = body
            return response(200, json.dumps({"checkpoint_id": made}).encode())
        if len(parts) == 3 and method == "GET":
            ids: Any = list(thread)[::-1]
            if "objects" in self.listing:
                ids = [{"checkpoint_id": one} for one in ids]
            return response(
                200, json.dumps({"data": ids} if "data" in self.listing else ids).encode()
            )
        if method == "DELETE":
            return response(204, b"") if thread.pop(parts[3], None) else ABSENT
        return response(200, thread[parts[3]]) if parts[3] in thread else ABSENT


ABSENT = response(404, b'{"detail": "there is no such checkpoint"}')
PAGE_404 = response(404, b"<html><h1>404 Not Found</h1></html>", "text/html")


@pytest.mark.parametrize("nowhere", [None, PAGE_404], ids=["JSON 404", "HTML 404"])
@pytest.mark.parametrize("listing", ["ids", "objects", "data ids", "data objects"])
async def test_a_server_with_the_documented_endpoints_alone_is_enough(
    listing: str, nowhere: bytes | None
) -> None:
    with answering(Foreign(listing, nowhere)) as url:
        async with HTTPCheckpointer(url) as client:
            assert await client.load("a/b") is None
            assert await client.list_checkpoints("a/b") == []
            ids = [await client.save({"n": n, "set": {n}}, "a/b") for n in range(3)]
            assert await client.list_checkpoints("a/b", 2) == ids[:0:-1]
            assert await client.load("a/b") == {"n": 2, "set": {2}}
            assert await client.load("a/b", ids[0]) == {"n": 0, "set": {0}}
            assert await client.exists("a/b", ids[0])
            assert not await client.exists("a/b", "nobody")
            assert await client.delete("a/b", ids[2]) is True
            assert await client.delete("a/b", ids[2]) is False
            assert await client.load("a/b") == {"n": 1, "set": {1}}


async def test_an_operation_that_a_server_lacks_is_refused_without_a_request() -> None:
    with answering(Foreign("ids")) as url:
        async with HTTPCheckpointer(url) as client:
            assert client.capabilities.persistent_checkpoint_ids
            assert not client.capabilities.search
            for call in (
                client.search("word"),
                client.list_threads(),
                client.fork("thread"),
                client.prune(keep_last=1),
                client.save({}, "thread", ttl=60),
                client.save({}, "thread", expected_parent=None),
            ):
                with pytest.raises(CapabilityMissing, match="does not offer") as caught:
                    await call
                assert caught.value.capability
            assert isinstance(CapabilityMissing(""), NotImplementedError)
            assert await client.load("thread") is None


MAX_POSITION: dict[str, Callable[[HTTPCheckpointer], Any]] = READS | {
    "delete": lambda c: c.delete("thread"),
    "delete one": lambda c: c.delete("thread", "id"),
    "save": lambda c: c.save({}, "thread"),
    "search": lambda c: c.search("word"),
}


async def test_a_wrong_base_path_is_an_error_and_not_an_absence(base_url: str) -> None:
    client = HTTPCheckpointer(base_url + "/nope", timeout=A_WHILE)
    with pytest.raises(DatabaseUnreachable, match="404"):
        await client.connect()
    for call in MAX_POSITION.values():
        with pytest.raises(DatabaseUnreachable, match="404"):
            await call(client)
    await client.close()


@pytest.mark.parametrize("call", MAX_POSITION)
@pytest.mark.parametrize(
    "page",
    [
        PAGE_404,
        response(404, b""),
        response(404, b"404", "text/plain"),
        response(404, b'{"detail": "Not Found"}'),
        response(302, b"", "text/html", "Location: /login"),
    ],
    ids=["HTML", "empty", "a number", "JSON for every path", "a login page"],
)
async def test_answers_of_a_proxy_are_errors_and_not_absences(page: bytes, call: str) -> None:
    def proxy(connection: socket.socket) -> None:
        request_of(connection)
        connection.sendall(page)

    lacks = b"detail" in page and call in ("search", "metadata")
    wanted = CapabilityMissing if lacks else DatabaseUnreachable
    with answering(proxy) as url:
        client = HTTPCheckpointer(url, timeout=A_WHILE)
        with pytest.raises(wanted):
            await MAX_POSITION[call](client)
        await client.close()


async def test_capabilities_are_asked_again_after_answers_of_a_proxy(base_url: str) -> None:
    target = urlsplit(base_url)
    is_up = threading.Event()

    def proxy(connection: socket.socket) -> None:
        request = request_of(connection)
        if not is_up.is_set():
            connection.sendall(PAGE_404)
            return
        with socket.create_connection((target.hostname, target.port)) as server:
            server.sendall(request.replace(b"\r\n\r\n", b"\r\nConnection: close\r\n\r\n"))
            while answer := server.recv(65536):
                connection.sendall(answer)

    with answering(proxy) as url:
        client = HTTPCheckpointer(url, timeout=A_WHILE)
        with pytest.raises(DatabaseUnreachable):
            await client.load("thread")
        is_up.set()
        assert await client.load("thread") is None
        assert await client.list_threads() == []
        assert client.capabilities.search
        await client.close()


async def test_a_state_of_a_foreign_server_that_cannot_be_read_is_corrupt() -> None:
    with answering(saying(200, b'{"state": {"a": {"~u": "no uuid"}}}')) as url:
        client = HTTPCheckpointer(url)
        with pytest.raises(Corrupt):
            await client.load("thread", "id")
        await client.close()


async def test_capabilities_are_known_once_the_server_was_asked(
    base_url: str, db: Database
) -> None:
    client = HTTPCheckpointer(base_url)
    before = client.capabilities
    after = await client.connect()
    assert await client.health_check() is True
    await client.close()

    assert not before.search
    assert after == client.capabilities == Checkpointer(db).capabilities


@pytest.mark.parametrize("url", ["", "localhost:80", "ftp://x", "http://", "http://x/?a=1"])
def test_an_invalid_base_url_is_refused(url: str) -> None:
    with pytest.raises(UnknownURL):
        HTTPCheckpointer(url)


def test_arguments_that_make_no_sense_are_refused() -> None:
    with pytest.raises(ValueError, match="timeout"):
        HTTPCheckpointer("http://x", timeout=0)
    with pytest.raises(TypeError, match="token"):
        HTTPCheckpointer("http://x", auth=("a", "b"), token="c")


def test_http_libraries_are_imported_on_first_use() -> None:
    program = (
        "import sys, memalchemy, memalchemy.registry, memalchemy.cli.app, memalchemy.http\n"
        "from memalchemy import HTTPCheckpointer, get_checkpointer\n"
        "HTTPCheckpointer('http://x'); get_checkpointer('memory')\n"
        "print([name for name in ('httpx', 'starlette', 'uvicorn', 'h11') if name in sys.modules])"
    )
    shown = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, check=True
    )

    assert shown.stdout == "[]\n"


def test_the_client_needs_no_sql() -> None:
    program = (
        "import sys; from memalchemy import HTTPCheckpointer; HTTPCheckpointer('http://x')\n"
        "print([name for name in ('sqlalchemy', 'alembic', 'pydantic') if name in sys.modules])"
    )
    shown = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, check=True
    )

    assert shown.stdout == "[]\n"


async def test_a_large_state_does_not_stop_the_event_loop(
    base_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Neither the client's loop nor that of the server, which is in a thread of this process."""
    state = {"rows": [{"n": n, "text": f"row {n}"} for n in range(80_000)]}
    on_trees, on_documents = (
        off_loop.watch(monkeypatch, wire, *names, is_large=is_large)
        for names, is_large in (
            (("dumps", "encode_state_tree", "decode_state_tree"), lambda tree: is_heavy([tree])),
            (("loads",), lambda document: len(document) > LARGE_DOCUMENT),
        )
    )

    async with HTTPCheckpointer(base_url, timeout=A_WHILE) as client:
        await client.save(state, "thread")
        assert await client.load("thread") == state

    seen = on_trees + on_documents
    assert {name for name, _ in seen} >= {
        "dumps",
        "encode_state_tree",
        "decode_state_tree",
        "loads",
    }
    assert [name for name, in_the_loop in seen if in_the_loop] == []


def certificate_of_a_private_authority(directory: Path) -> tuple[Path, Path]:
    """Write a certificate for 127.0.0.1 that nobody has signed, and its key."""
    key = ec.generate_private_key(ec.SECP256R1())
    name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "127.0.0.1")])
    now = datetime.now(UTC)
    address = x509.IPAddress(ipaddress.ip_address("127.0.0.1"))
    made = (
        x509.CertificateBuilder(name, name, key.public_key(), x509.random_serial_number())
        .not_valid_before(now - timedelta(days=1))
        .not_valid_after(now + timedelta(days=1))
        .add_extension(x509.SubjectAlternativeName([address]), critical=False)
        .add_extension(x509.BasicConstraints(ca=True, path_length=None), critical=True)
        .sign(key, hashes.SHA256())
    )
    files = directory / "cert.pem", directory / "key.pem"
    files[0].write_bytes(made.public_bytes(Encoding.PEM))
    files[1].write_bytes(
        key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, serialization.NoEncryption())
    )
    return files


async def test_a_certificate_that_is_not_trusted_is_named_with_the_way_to_trust_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    certificate, key = certificate_of_a_private_authority(tmp_path)
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(certificate, key)

    async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readuntil(b"\r\n\r\n")
        body = b'{"threads": ["t"]}'
        head = b"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: %d\r\n\r\n"
        writer.write(head % len(body) + body)
        await writer.drain()
        writer.close()

    async with await asyncio.start_server(answer, "127.0.0.1", 0, ssl=context) as server:
        url = f"https://127.0.0.1:{server.sockets[0].getsockname()[1]}"
        async with HTTPCheckpointer(url) as client:
            with pytest.raises(DatabaseUnreachable, match=r"not trusted here.*SSL_CERT_FILE"):
                await client.list_threads()
        monkeypatch.setenv("SSL_CERT_FILE", str(certificate))
        async with HTTPCheckpointer(url) as client:
            with pytest.raises(CapabilityMissing):  # of the answer, which came
                await client.list_threads()
