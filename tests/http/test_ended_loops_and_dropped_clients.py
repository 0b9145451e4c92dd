"""Connections of event loops that have ended and of clients that were dropped, and their callers.

The cyclic garbage collector is off: nobody waits for it. Warnings are errors.
"""

from __future__ import annotations

import asyncio
import contextlib
import gc
import os
import random
import socket
import subprocess
import sys
import threading
from collections.abc import Awaitable, Callable, Iterator
from contextvars import copy_context
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import pytest

from callers_in_contexts import REFUSED, in_a_run, in_a_run_of_a_task, is_free
from ended_loops import drop_in_last_step
from garbage import no_collector
from httpserver import running
from memalchemy import Database, MemalchemyError, http
from memalchemy.http import blocking
from memalchemy.http.operations import Operation
from public_calls import arguments, methods_of
from waiting import A_WHILE, steps, until, wait_until

ROUNDS = 100
CALLS = 5
"""Calls at once, each on a connection: what one pool has here."""

NOTHING = Operation("nothing", "GET", "/v1/nothing", tag="", answer="")

COLLECTOR = "garbage collector is trying to clean up"

SOCKETS = Path("/proc/self/fd")
pytestmark = [
    pytest.mark.skipif(not SOCKETS.exists(), reason="sockets are counted in Linux's /proc"),
    pytest.mark.usefixtures("frozen_heap"),
]


@pytest.fixture(scope="module")
def base_url(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """The URL of a server; which database is behind it, its clients do not see."""
    file = tmp_path_factory.mktemp("server") / "agent.db"
    with running(Database(f"sqlite:///{file}")) as url:
        yield url


def held(url: str) -> int:
    """Return the number of this process's sockets that are connected to the server."""
    server, found = urlsplit(url).port, 0
    for name in os.listdir(SOCKETS):
        with contextlib.suppress(OSError):  # closed meanwhile, or not connected
            if os.readlink(SOCKETS / name).startswith("socket:"):
                with socket.socket(fileno=os.dup(int(name))) as one:
                    found += one.family == socket.AF_INET and one.getpeername()[1] == server
    return found


NAMES = [name for name in blocking.__all__ if name.startswith("HTTP")]
THREADED = {"HTTPConversation"}
"""The clients of one thread, which they are given."""


def make(module: Any, name: str, url: str) -> Any:
    return getattr(module, name)(url, *(("t",) if name in THREADED else ()))


CALL: dict[str, tuple[str, tuple[Any, ...]]] = {
    "HTTPCheckpointer": ("load", ("t",)),
    "HTTPConversation": ("history", ()),
    "HTTPStore": ("get", (("a",), "k")),
    "HTTPThreadLog": ("count", ("t",)),
}
"""A call of each client that asks its server each time."""


def ask(client: Any) -> Any:
    method, given = CALL[type(client).__name__]
    return getattr(client, method)(*given)


@pytest.fixture
def silent_without_collector(caplog: pytest.LogCaptureFixture) -> Iterator[None]:
    with no_collector():
        yield
    assert COLLECTOR not in caplog.text


async def use(client: Any) -> None:
    await asyncio.gather(*(ask(client) for _ in range(CALLS)))
    assert 0 < held(client.base_url) <= CALLS


async def use_and_fail(client: Any) -> None:
    """One call, and one that the server refuses."""
    await ask(client)
    with pytest.raises(MemalchemyError):
        await client._server.call(NOTHING())


async def leave_something_undone(client: Any) -> None:
    """End while another task is in the middle of a request."""
    await ask(client)
    running = asyncio.create_task(ask(client))
    await asyncio.sleep(0)
    assert not running.done()


async def use_and_cancel(client: Any) -> None:
    """Calls that are cancelled after as many steps of the loop as one has, more or less."""
    for count in range(12):
        running = asyncio.create_task(ask(client))
        await steps(count)
        running.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            await running


USES = [use, use_and_fail, use_and_cancel, leave_something_undone]
Use = Callable[[Any], Awaitable[None]]


def run(work: Any) -> None:
    asyncio.run(work)


def run_in_a_thread(work: Any) -> None:
    thread = threading.Thread(target=run, args=(work,))
    thread.start()
    thread.join(A_WHILE)
    assert not thread.is_alive()


def run_in_a_loop_that_is_only_closed(work: Any) -> None:
    """Without the steps of `asyncio.run` before the end."""
    loop = asyncio.new_event_loop()
    try:
        loop.run_until_complete(work)
        for task in asyncio.all_tasks(loop):
            task.cancel()
            with contextlib.suppress(asyncio.CancelledError):
                loop.run_until_complete(task)
    finally:
        loop.close()


LOOPS = [run, run_in_a_thread, run_in_a_loop_that_is_only_closed]


def named(function: Any) -> str:
    return str(function.__name__)


@pytest.mark.usefixtures("silent_without_collector")
@pytest.mark.parametrize("how", LOOPS, ids=named)
@pytest.mark.parametrize("work", USES, ids=named)
@pytest.mark.parametrize("name", NAMES)
def test_ended_loops_leave_no_more_than_one_pool(
    base_url: str, name: str, work: Use, how: Callable[[Any], None]
) -> None:
    """One client of a module, and a loop for each job."""
    client = make(http, name, base_url)
    for _ in range(ROUNDS if work is use and how is run else ROUNDS // 10):
        how(work(client))
        wait_until(lambda: held(base_url) <= CALLS, "ended loops keep what they have opened")
    del client
    wait_until(lambda: held(base_url) == 0, "a dropped client keeps what it has opened")


@pytest.mark.usefixtures("silent_without_collector")
@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("steps", [0, 1])
def test_loops_that_nobody_closes_leave_no_more_than_one_pool(
    base_url: str, name: str, steps: int
) -> None:
    """Each takes so many steps before it is closed in the end."""
    client = make(http, name, base_url)
    loops = []
    for _ in range(ROUNDS // 10):
        loop = asyncio.new_event_loop()
        loop.run_until_complete(use(client))
        loops.append(loop)
        wait_until(lambda: held(base_url) <= CALLS)

    for loop in loops:  # each goes on with new connections
        loop.run_until_complete(use(client))
        wait_until(lambda: held(base_url) <= CALLS)
    del client
    wait_until(lambda: held(base_url) == 0)
    for loop in loops:
        for _ in range(steps):
            loop.run_until_complete(asyncio.sleep(0))
        loop.close()
    del loop, loops
    gc.collect()


@pytest.mark.usefixtures("silent_without_collector")
@pytest.mark.parametrize("work", USES[:3], ids=named)
@pytest.mark.parametrize("name", NAMES)
def test_dropped_clients_leave_nothing(base_url: str, name: str, work: Use) -> None:
    """A client for each request of a service, in one loop."""

    async def main() -> None:
        for _ in range(ROUNDS if work is use else ROUNDS // 10):
            await work(make(http, name, base_url))
            await until(lambda: held(base_url) == 0, "a dropped client is open")

    asyncio.run(main())


@pytest.mark.usefixtures("silent_without_collector")
@pytest.mark.parametrize("name", NAMES)
def test_a_client_that_is_dropped_in_the_last_step_of_its_loop_leaves_nothing(
    base_url: str, name: str
) -> None:
    for _ in range(5):
        given = [make(http, name, base_url)]
        loop = asyncio.new_event_loop()
        loop.run_until_complete(use(given[0]))
        drop_in_last_step(loop, given)
        del loop
        wait_until(lambda: held(base_url) == 0)


@pytest.mark.usefixtures("silent_without_collector")
@pytest.mark.parametrize("name", NAMES)
def test_a_client_that_is_dropped_beside_its_running_loop_leaves_nothing(
    base_url: str, name: str
) -> None:
    for _ in range(ROUNDS // 10):
        client = make(http, name, base_url)
        is_used, ends = threading.Event(), threading.Event()

        async def main(given: list[Any], used: threading.Event, end: threading.Event) -> None:
            await use(given.pop())
            used.set()
            await asyncio.to_thread(end.wait)

        thread = threading.Thread(target=asyncio.run, args=(main([client], is_used, ends),))
        thread.start()
        assert is_used.wait(A_WHILE)
        del client
        wait_until(lambda: held(base_url) == 0)
        ends.set()
        thread.join(A_WHILE)


@pytest.mark.usefixtures("silent_without_collector")
@pytest.mark.parametrize("name", NAMES)
def test_dropped_blocking_clients_leave_nothing(base_url: str, name: str) -> None:
    for _ in range(ROUNDS):
        client = make(blocking, name, base_url)
        ask(client)
        assert held(base_url) == 1
        del client
        wait_until(lambda: held(base_url) == 0)


@pytest.mark.usefixtures("silent_without_collector")
@pytest.mark.parametrize("name", NAMES)
def test_the_ended_loops_of_a_blocking_client_leave_nothing(base_url: str, name: str) -> None:
    client = make(blocking, name, base_url)
    for _ in range(ROUNDS):
        with client:
            ask(client)
            assert held(base_url) == 1
        wait_until(lambda: held(base_url) == 0)
    assert client.base_url == base_url


PROGRAM = """
import asyncio, sys
from memalchemy import http
from memalchemy.http import blocking
from memalchemy.http.operations import Operation
kind, given = sys.argv[1], sys.argv[2:]
client = getattr(http, kind)(*given)
for _ in range(3):
    asyncio.run(getattr(http, kind)(*given).connect())
asyncio.run(client.connect())
loop = asyncio.new_event_loop()
loop.run_until_complete(getattr(http, kind)(*given).connect())
other = getattr(http, kind)(*given)
loop.run_until_complete(other.connect())
loop.close()
waiting = getattr(blocking, kind)(*given)
waiting.connect()
"""


@pytest.mark.parametrize("name", NAMES)
def test_a_process_that_closes_nothing_ends_without_a_word(base_url: str, name: str) -> None:
    given = [base_url, *(["t"] if name in THREADED else [])]
    done = subprocess.run(
        [sys.executable, "-W", "always", "-c", PROGRAM, name, *given],
        capture_output=True,
        text=True,
        timeout=2 * A_WHILE,
    )
    assert done.returncode == 0, done.stderr
    assert done.stderr == ""


USUAL: dict[str, Any] = {
    "thread_id": "t",
    "thread_ids": ["t"],
    "state": {"messages": ["hello"]},
    "metadata": {"step": 1},
    "namespace": ("users", "ada"),
    "prefix": (),
    "value": {"text": "some words"},
    "values": [1, 2],
    "entries": [1, "two"],
    "limit": 10,
    "filter": None,
    "embedding": [1.0, 2.0],
    "position": 1,
    "positions": [1],
    "writes": [("channel", 1)],
    "messages": [{"role": "user", "content": "hello"}],
}
"""Arguments by parameters' names. What a call refuses must be let go as well."""


def argument(name: str, _: random.Random) -> Any:
    return USUAL.get(name, "x")


REFUSED_BY_CLIENTS = (*REFUSED, AttributeError)


METHODS = [
    (name, method)
    for name in NAMES
    for method in methods_of(make(http, name, "http://127.0.0.1:9"))
]


class KeepingLoop(asyncio.SelectorEventLoop):
    """A loop whose connections keep the context in which they were opened, as uvloop's do."""

    async def create_connection(self, *args: Any, **options: Any) -> Any:
        transport, protocol = await super().create_connection(*args, **options)
        transport.context = copy_context()  # type: ignore[attr-defined]
        return transport, protocol


@pytest.mark.parametrize("kind", [asyncio.SelectorEventLoop, KeepingLoop], ids=named)
@pytest.mark.parametrize("name", NAMES)
def test_a_caller_with_await_is_let_go(
    base_url: str, name: str, kind: Callable[[], asyncio.AbstractEventLoop]
) -> None:
    """Each method is the first call of a client, so it opens what later calls use."""

    async def main() -> None:
        for method in (method for kind, method in METHODS if kind == name):
            client = make(http, name, base_url)
            call = getattr(client, method)
            given, kw = arguments(call, random.Random(method), argument)
            run = await in_a_run_of_a_task(
                lambda call=call, a=given, kw=kw: call(*a, **kw), REFUSED_BY_CLIENTS
            )
            await until(lambda run=run: is_free(run), f"{name}.{method} keeps its caller")
            await ask(client)
            await client.close()

    with asyncio.Runner(loop_factory=kind) as runner:
        runner.run(main())


@pytest.mark.parametrize("name", NAMES)
def test_a_caller_without_await_is_let_go(base_url: str, name: str) -> None:
    for method in (method for kind, method in METHODS if kind == name):
        client = make(blocking, name, base_url)
        given, kw = arguments(
            getattr(make(http, name, base_url), method), random.Random(method), argument
        )
        call = getattr(client, method)
        run = in_a_run(lambda call=call, a=given, kw=kw: call(*a, **kw), REFUSED_BY_CLIENTS)
        wait_until(lambda run=run: is_free(run), f"{name}.{method} keeps its caller")
        ask(client)
        client.close()
