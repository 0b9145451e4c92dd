"""A server that is stopped and started again under load loses nothing that it acknowledged."""

from __future__ import annotations

import asyncio
import signal
import socket
from collections.abc import Awaitable, Callable
from contextlib import AsyncExitStack, ExitStack
from dataclasses import dataclass, field
from functools import partial
from typing import Any
from urllib.parse import urlsplit

import pytest

from httpserver import ended, started
from memalchemy import (
    Checkpointer,
    Database,
    DatabaseUnreachable,
    HTTPCheckpointer,
    Store,
    ThreadLog,
)
from memalchemy.http import HTTPStore, HTTPThreadLog
from servers import free_port
from waiting import A_WHILE, until

pytestmark = pytest.mark.usefixtures("lasting")

WRITERS = 16
"""Writers with a client each: half of them name their checkpoints, a quarter leaves it to the
client, and a quarter appends entries with keys to a log."""


@dataclass
class Load:
    """The counts of one run under load."""

    acknowledged: int = 0
    refused: int = 0
    """Writes of which the client says that they did not happen."""
    doubtful: int = 0
    """Writes of which the client says that they may have happened."""
    exits: list[tuple[int, str]] = field(default_factory=list)
    """The exit code and the standard error of each server."""


async def restarts_under_load(db: Database, url: str, restarts: int) -> Load:
    """Stop and start a server under load, and check that the database holds what was written."""
    load, stop, port = Load(), asyncio.Event(), free_port()

    async def begin() -> Any:
        arguments = ("--db", url, "--tenant", db.tenant)
        # The grace is for a busy machine: what is cut off would leave a traceback.
        process, base = await asyncio.to_thread(started, *arguments, port=port, grace=25)
        assert base == f"http://127.0.0.1:{port}"
        return process

    async def until_acknowledged(write: Callable[[], Awaitable[Any]]) -> int:
        """Repeat a write until it is acknowledged; return how many times it may have happened."""
        doubtful = 0
        while True:
            try:
                await write()
            except DatabaseUnreachable as error:
                doubtful += error.maybe_applied
                load.doubtful += error.maybe_applied
                load.refused += not error.maybe_applied
                await asyncio.sleep(0.3)
            else:
                load.acknowledged += 1
                return doubtful

    async def names(client: HTTPCheckpointer, thread_id: str) -> None:
        made: list[str] = []
        while not stop.is_set():
            made.insert(0, f"c{len(made)}")
            await until_acknowledged(partial(client.save, {"n": len(made)}, thread_id, made[0]))
        checkpointer = Checkpointer(db)
        assert await checkpointer.list_checkpoints(thread_id, 100_000) == made
        assert await checkpointer.load(thread_id) == {"n": len(made)}

    async def leaves_names(client: HTTPCheckpointer, thread_id: str) -> None:
        made: list[str] = []
        doubtful = 0

        async def save() -> None:
            made.append(await client.save({"n": len(made)}, thread_id))

        while not stop.is_set():
            doubtful += await until_acknowledged(save)
        there = await Checkpointer(db).list_checkpoints(thread_id, 100_000)
        assert set(made) <= set(there)
        assert len(there) - len(made) <= doubtful
        assert len(set(made)) == len(made)

    async def appends(log: HTTPThreadLog, thread_id: str) -> None:
        n = 0
        while not stop.is_set():
            n += 1
            await until_acknowledged(partial(log.append, thread_id, n, keys=f"k{n}"))
        entries = await ThreadLog(db).range(thread_id)
        assert [entry.value for entry in entries] == list(range(1, n + 1))

    process = await begin()
    async with AsyncExitStack() as clients:
        tasks = []
        for number in range(WRITERS):
            base, thread_id = f"http://127.0.0.1:{port}", f"t{number}"
            if number % 4 == 3:
                log = await clients.enter_async_context(HTTPThreadLog(base))
                tasks.append(asyncio.create_task(appends(log, thread_id)))
            else:
                client = await clients.enter_async_context(HTTPCheckpointer(base))
                writer = leaves_names if number % 4 == 2 else names
                tasks.append(asyncio.create_task(writer(client, thread_id)))

        async def until_more(of: Callable[[], int], more: int) -> None:
            enough = of() + more
            await until(lambda: of() >= enough or any(task.done() for task in tasks))

        for _ in range(restarts):
            await until_more(lambda: load.acknowledged, 4 * WRITERS)
            away = asyncio.create_task(until_more(lambda: load.refused + load.doubtful, 1))
            load.exits.append(await asyncio.to_thread(ended, process, signal.SIGTERM))
            await away
            process = await begin()
        await until_more(lambda: load.acknowledged, 4 * WRITERS)
        stop.set()
        try:
            await asyncio.gather(*tasks)
        finally:
            load.exits.append(await asyncio.to_thread(ended, process, signal.SIGTERM))
    return load


async def test_restarts_under_load_lose_no_acknowledged_write_and_double_none(
    db: Database, shared_url: str
) -> None:
    load = await restarts_under_load(db, shared_url, restarts=1)

    assert load.acknowledged > WRITERS
    assert load.refused + load.doubtful > 0, "no write met a server that was away"
    for code, said in load.exits:
        assert code == 0, said[-2000:]
        assert "Traceback" not in said


# --- Requests that do not end --------------------------------------------------------------------

GRACE = 1
SPACE = ("n",)


def send(base: str, head: str, body: bytes, *, length: int = 0, buffer: int = 0) -> socket.socket:
    """Send a request on a connection of its own, and do not read its answer."""
    target = urlsplit(base)
    connection = socket.socket()
    if buffer:
        connection.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, buffer)
    connection.connect((target.hostname, target.port))
    lines = (head, "Host: 127.0.0.1", "Content-Type: application/json")
    lines += (f"Content-Length: {length or len(body)}", "", "")
    connection.sendall("\r\n".join(lines).encode() + body)
    return connection


async def test_requests_that_do_not_end_keep_no_server_from_stopping(
    db: Database, shared_url: str
) -> None:
    arguments = ("--db", shared_url, "--tenant", db.tenant)
    await Checkpointer(db).save({"text": "x" * 4_000_000}, "long")
    store = Store(db)
    await store.put(SPACE, "locked", "before")

    # Nothing but the grace ends a request before `ended` gives up.
    process, base = await asyncio.to_thread(started, *arguments, grace=GRACE, timeout=10 * A_WHILE)
    async with HTTPStore(base) as client:
        await client.put(SPACE, "acknowledged", 1)
    put = "PUT /v1/store/n/items/{} HTTP/1.1"
    with ExitStack() as connections:
        async with db.transaction() as tx:
            await store.hold([(SPACE, "locked")], tx)
            body = b'{"value": "after"}'
            for connection in (
                send(base, put.format("slow"), b"{", length=1000),
                send(base, put.format("locked"), body),
                send(base, put.format("locked") + "\r\nIdempotency-Key: once", body),
                send(base, "GET /v1/threads/long HTTP/1.1", b"", buffer=4096),
            ):
                connections.enter_context(connection)
            # The answer to the last has begun, and the others came before.
            await asyncio.to_thread(connection.recv, 1, socket.MSG_PEEK)
            code, said = await asyncio.to_thread(ended, process, signal.SIGTERM)

    assert code == 0, said
    assert await store.get(SPACE, "acknowledged") == 1
    assert await store.get(SPACE, "slow") is None
