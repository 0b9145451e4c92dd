"""The limits of the HTTP server, and requests that browsers send for pages of other sites."""

from __future__ import annotations

import asyncio
import json
import re
import subprocess
import sys
import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing, suppress
from pathlib import Path
from typing import Any

import httpx
import psycopg
import pytest
from hypothesis import given
from hypothesis import strategies as st

import off_loop
from httpserver import TOKEN, running
from memalchemy import Checkpointer, Database, DatabaseUnreachable, HTTPCheckpointer, Store, events
from memalchemy.codec.values import is_heavy
from memalchemy.http import Limits, wire
from memalchemy.http.server import _limits
from memalchemy.http.server._limits import has_more_values
from servers import Postgres
from waiting import A_WHILE, wait_until

OTHER = "another-token-9876543210-of-the-tests"
JSON = {"Content-Type": "application/json"}
MIB = 1024 * 1024


@pytest.fixture
def db(tmp_path: Path) -> Database:
    """A SQLite file, whichever databases the run is for: limits do not depend on one."""
    return Database(f"sqlite:///{tmp_path}/agent.db")


def ask(method: str, url: str, **more: Any) -> httpx.Response:
    return httpx.request(method, url, verify=False, timeout=120, **more)


def bearer(token: str) -> dict[str, str]:
    return {"Authorization": f"Bearer {token}"}


# --- One body ------------------------------------------------------------------------------------


def values_in(tree: Any) -> int:
    if isinstance(tree, dict):
        return 1 + sum(map(values_in, tree.values()))
    if isinstance(tree, list):
        return 1 + sum(map(values_in, tree))
    return 1


TEXTS = st.text(st.sampled_from('a,[]{}:"\\é\n'), max_size=6)
TREES = st.recursive(
    st.none() | st.integers() | TEXTS,
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(TEXTS, inner, max_size=4),
)


@given(TREES)
def test_values_are_counted_without_parsing_them(tree: Any) -> None:
    document = json.dumps(tree, ensure_ascii=False).encode()
    empty = len(
        re.findall(rb"[\[{]\s*[\]}]", document)
    )  # an empty container counts as one with a value
    count = values_in(tree)

    assert has_more_values(document, count - 1) or count == 1
    assert not has_more_values(document, count + empty)


@pytest.mark.parametrize(
    "document",
    [b'"' * (4 * MIB), b'""' * MIB, b'"' + b'\\"' * MIB, b'"' + b"\\" * (MIB + 1), b"[" * MIB],
    ids=["quotes", "texts", "escapes", "backslashes", "brackets"],
)
def test_no_part_of_a_malformed_document_is_looked_at_again_and_again(document: bytes) -> None:
    """A string is found at each quotation mark that is in none. Where one were not, its end would
    have been looked for in all of the rest, at each mark anew: that takes hours.
    """
    assert b'"' not in _limits._TOKENS.sub(b"", document[:5000])
    assert not has_more_values(document, 1000 * MIB)
    tokens = _limits._TOKENS.findall(document, 0, 5000)
    assert has_more_values(document, 1000) == (len(tokens) > 1000)


MEMORY = """
import asyncio, re, sys
from memalchemy import Database
from memalchemy.http import serve

def started(url):
    print(url, flush=True)

async def main():
    stop = asyncio.Event()
    asyncio.get_running_loop().add_reader(sys.stdin, stop.set)
    await serve(Database(sys.argv[1]), port=0, started=started, stop=stop, grace=1)
    # The peak of this process; getrusage counts its parent's at the fork, too.
    print(int(re.search(r"VmHWM:\\s+(\\d+) kB", open("/proc/self/status").read())[1]) // 1024)

asyncio.run(main())
"""


def test_a_body_of_millions_of_values_is_refused_without_parsing_it(tmp_path: Path) -> None:
    body = b'{"state":{"a":[' + b"{}," * (31 * MIB // 3) + b"{}]}}"
    server = subprocess.Popen(
        [sys.executable, "-c", MEMORY, f"sqlite:///{tmp_path}/agent.db"],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )
    assert server.stdout is not None
    url = server.stdout.readline().strip()

    answer = ask("POST", f"{url}/v1/threads/t/checkpoints", content=body, headers=JSON)
    said, _ = server.communicate("stop\n", timeout=2 * A_WHILE)

    assert (answer.status_code, answer.json()["code"]) == (413, "MA-TOO-LARGE")
    assert answer.json()["limit"] == 1_000_000
    assert int(said) < 100 + 4 * 31, "MiB: the process, and the body four times"


def test_a_long_text_is_one_value(db: Database) -> None:
    body = {"state": {"text": ', [{"' * 300_000, "escaped": '\\",' * 300_000}}
    with running(db, limits=Limits(values=10)) as url:
        saved = ask("POST", f"{url}/v1/threads/t/checkpoints", json=body)
        loaded = ask("GET", f"{url}/v1/threads/t")

    assert saved.status_code == 201
    assert loaded.json()["state"] == body["state"]


@pytest.mark.parametrize("text", ['{"a":' * 100_000, "[" * 500_000, '{"state":' + "[" * 5000])
def test_a_body_that_is_nested_too_deep_is_refused(db: Database, text: str) -> None:
    with running(db) as url:
        answer = ask("POST", f"{url}/v1/threads/t/checkpoints", content=text, headers=JSON)
        assert ask("GET", f"{url}/v1/threads").json() == {"threads": []}

    assert (answer.status_code, answer.json()["code"]) == (400, "HTTP-400")


# --- One answer ----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("method", "path", "body"),
    [
        ("GET", "/v1/threads?limit=11", None),
        ("GET", "/v1/checkpoints?limit=11", None),
        ("GET", "/v1/threads/t/checkpoints?limit=11", None),
        ("GET", "/v1/store?limit=11", None),
        ("GET", "/v1/store/n/items?limit=11", None),
        ("GET", "/v1/store/n/keys?limit=11", None),
        ("POST", "/v1/store/n/search", {"query": "a", "limit": 11}),
        ("POST", "/v1/store/n/search", {"query": "a", "limit": 1, "offset": 11}),
        ("POST", "/v1/checkpoints/search", {"query": "a", "limit": 11}),
        ("POST", "/v1/checkpoints/query", {"key": "a", "value": 1, "limit": 11}),
    ],
)
def test_a_list_longer_than_the_servers_limit_is_refused(
    db: Database, method: str, path: str, body: Any
) -> None:
    with running(db, limits=Limits(results=10)) as url:
        over = ask(method, f"{url}{path}", json=body)
        within = ask(method, url + path.replace("11", "10"), json=body and _at_ten(body))

    assert (over.status_code, over.json()["code"]) == (422, "MA-ARGUMENT")
    assert "at most 10" in over.json()["detail"]
    assert within.status_code == 200


def _at_ten(body: dict[str, Any]) -> dict[str, Any]:
    return {key: 10 if value == 11 else value for key, value in body.items()}


def test_the_openapi_document_has_the_limit_of_this_server(db: Database) -> None:
    with running(db, limits=Limits(results=77)) as url:
        text = ask("GET", f"{url}/v1/openapi.json").text

    assert '"maximum":77' in text
    assert '"maximum":100000' not in text


async def test_an_answer_over_the_limit_is_refused_with_advice(db: Database) -> None:
    store = Store(db)
    for n in range(10):
        await store.put(("n",), f"k{n}", "x" * 10_000)
    await Checkpointer(db).save({"text": "y" * 60_000}, "large")
    with running(db, limits=Limits(answer_bytes=50_000)) as url:
        all_ = await asyncio.to_thread(ask, "GET", f"{url}/v1/store/n/items")
        four = await asyncio.to_thread(ask, "GET", f"{url}/v1/store/n/items?limit=4")
        state = await asyncio.to_thread(ask, "GET", f"{url}/v1/threads/large")

    for refused in (all_, state):
        assert (refused.status_code, refused.json()["code"]) == (422, "MA-TOO-LARGE")
        assert refused.json()["limit"] == 50_000
    assert "limit" in all_.json()["detail"]
    assert len(four.json()["items"]) == 4


# --- Many requests -------------------------------------------------------------------------------


@pytest.fixture
def locked(postgres: Postgres, name: str) -> Iterator[psycopg.Connection]:
    """A transaction that makes every save wait, until it is rolled back."""
    lock = psycopg.connect(
        host=postgres.host,
        port=postgres.port,
        user=postgres.user,
        password=postgres.password,
        dbname=name,
    )
    with closing(lock):
        lock.execute("LOCK TABLE deltas IN ACCESS EXCLUSIVE MODE")
        yield lock


def test_each_tenant_has_its_own_limit_of_requests_at_once(
    postgres: Postgres, name: str, locked: psycopg.Connection
) -> None:
    tokens = {TOKEN: "acme", OTHER: "globex"}
    db = Database(postgres.url(name))
    with (
        ThreadPoolExecutor(4) as pool,
        running(db, tokens=tokens, limits=Limits(tenant_requests=3), timeout=2 * A_WHILE) as url,
    ):
        path = f"{url}/v1/threads/t/checkpoints"

        def save(token: str) -> httpx.Response:
            return ask("POST", path, json={"state": {}}, headers=bearer(token))

        # The list below may take the place of a save that has not arrived yet.
        waiting = [pool.submit(until, lambda: save(TOKEN), 201) for _ in range(3)]
        refused = until(lambda: ask("GET", f"{url}/v1/threads", headers=bearer(TOKEN)), 429)
        other = ask("GET", f"{url}/v1/threads", headers=bearer(OTHER))
        health = ask("GET", f"{url}/health/ready")
        assert not any(future.done() for future in waiting)

        locked.rollback()
        done = [future.result() for future in waiting]
        after = ask("GET", f"{url}/v1/threads", headers=bearer(TOKEN))

    assert int(refused.headers["retry-after"]) >= 1
    assert refused.json()["code"] == "HTTP-429"
    assert other.status_code == health.status_code == after.status_code == 200
    assert {answer.status_code for answer in done} == {201}


def until(answer: Any, status: int) -> httpx.Response:
    """Repeat a request until its answer has *status*."""
    answers: list[httpx.Response] = []

    def has_status() -> bool:
        answers[:] = [answer()]
        return answers[0].status_code == status

    wait_until(has_status)
    return answers[0]


def test_bodies_of_all_requests_share_a_limit_that_finished_requests_free(db: Database) -> None:
    with running(db, limits=Limits(pending_bytes=100_000), timeout=2 * A_WHILE) as url:
        begun = threading.Event()
        finish = threading.Event()

        def slowly() -> Iterator[bytes]:
            yield b'{"state": {"a": "' + b"x" * 80_000
            begun.set()
            finish.wait(A_WHILE)
            yield b'"}}'

        def save(body: Any, thread: str) -> httpx.Response:
            return ask("POST", f"{url}/v1/threads/{thread}/checkpoints", content=body, headers=JSON)

        small = b'{"state": {"a": "' + b"y" * 50_000 + b'"}}'
        with ThreadPoolExecutor(1) as pool:
            first = pool.submit(save, slowly(), "first")
            assert begun.wait(A_WHILE)
            told = until(lambda: save(small, "second"), 503)
            chunked = until(lambda: save(iter([small]), "third"), 503)
            tiny = save(b'{"state": {}}', "fourth")
            finish.set()
            assert first.result().status_code == 201
        after = save(small, "second")
        threads = ask("GET", f"{url}/v1/threads").json()["threads"]

    for refused in (told, chunked):
        assert refused.json()["maybe_applied"] is False
        assert int(refused.headers["retry-after"]) >= 1
    assert tiny.status_code == after.status_code == 201
    assert sorted(threads) == ["first", "fourth", "second"]


async def test_the_client_repeats_a_read_that_got_429(
    postgres: Postgres, name: str, locked: psycopg.Connection
) -> None:
    db = Database(postgres.url(name))
    with running(db, limits=Limits(tenant_requests=1), timeout=2 * A_WHILE) as url:
        async with HTTPCheckpointer(url) as client:
            await client.list_threads()  # from now on the client knows the capabilities

            async def save_when_free() -> str:
                """The requests that look for a 429 may hold the only place when it arrives."""
                while True:
                    with suppress(DatabaseUnreachable):
                        return await client.save({"n": 1}, "t")

            save = asyncio.create_task(save_when_free())
            await asyncio.to_thread(until, lambda: ask("GET", f"{url}/v1/threads"), 429)
            refused = asyncio.Event()
            unsubscribe = events.subscribe(
                lambda event: refused.set() if event.name == "http.retry" else None
            )
            reading = asyncio.create_task(client.list_threads())
            await asyncio.wait_for(refused.wait(), A_WHILE)
            unsubscribe()
            await asyncio.to_thread(locked.rollback)
            await save
            assert await reading == ["t"]


async def test_heavy_answers_do_not_hold_up_other_tenants(
    db: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    """They are encoded in threads: on the event loop each would hold up all others."""
    many = [{"a": n} for n in range(20_000)]
    for n in range(2):
        await Store(db).put(("n",), f"k{n}", many)
    items = off_loop.watch(
        monkeypatch, wire, "encode_item", is_large=lambda item: len(item.value) == len(many)
    )
    trees = off_loop.watch(monkeypatch, wire, "dumps", is_large=lambda tree: is_heavy([tree]))

    with running(db) as url:
        answers = [ask("GET", f"{url}/v1/store/n/items{one}") for one in ("", "/k1")]

    assert len(answers[0].json()["items"]) == 2
    assert answers[1].json()["value"] == many
    assert len(items) == 3
    assert trees
    assert [name for name, in_the_loop in items + trees if in_the_loop] == []


@pytest.mark.parametrize(
    "wrong", [{"values": 0}, {"results": -1}, {"results": 100_001}, {"tenant_requests": 1.5}]
)
def test_invalid_limits_are_refused(wrong: dict[str, Any]) -> None:
    with pytest.raises(ValueError, match=next(iter(wrong))):
        Limits(**wrong)


# --- Pages of other sites ------------------------------------------------------------------------

WRITES = [
    ("POST", "/v1/threads/t/rewrite"),
    ("POST", "/v1/threads/t/fork"),
    ("POST", "/v1/prune"),
    ("DELETE", "/v1/threads/t"),
    ("DELETE", "/v1/store/n"),
    ("PUT", "/v1/store/n/items/k"),
]


@pytest.mark.parametrize(("method", "path"), WRITES)
@pytest.mark.parametrize(
    "headers",
    [
        {"Origin": "https://evil.example"},
        {"Origin": "null"},
        {"Origin": "http://localhost:1"},
        {"Sec-Fetch-Site": "cross-site"},
        {"Sec-Fetch-Site": "same-site", "Origin": "http://127.0.0.1"},
    ],
    ids=lambda headers: "-".join(headers.values()),
)
@pytest.mark.parametrize("tokens", [None, {TOKEN: "acme"}], ids=["open", "tokens"])
def test_writes_from_a_page_of_another_origin_get_403(
    db: Database, method: str, path: str, headers: dict[str, str], tokens: Any
) -> None:
    with running(db, tokens=tokens) as url:
        answer = ask(method, f"{url}{path}", headers=headers | bearer(TOKEN))

    assert answer.status_code == 403
    assert answer.headers["content-type"] == "application/problem+json"
    assert answer.json()["code"] == "HTTP-403"
    assert "origin" in answer.json()["detail"]


async def test_a_refused_write_changes_nothing(db: Database) -> None:
    await Checkpointer(db).save({"n": 1}, "t")
    with running(db) as url:
        evil = {"Origin": "https://evil.example"}
        answer = await asyncio.to_thread(ask, "DELETE", f"{url}/v1/threads/t", headers=evil)
        there = await asyncio.to_thread(ask, "GET", f"{url}/v1/threads/t", headers=evil)

    assert answer.status_code == 403
    assert there.json()["state"] == {"n": 1}, "what a page may not read, its browser keeps from it"


@pytest.mark.parametrize(
    "kind", ["text/plain", "text/plain;charset=UTF-8", "application/x-www-form-urlencoded"]
)
def test_bodies_of_form_types_get_415(db: Database, kind: str) -> None:
    with running(db) as url:
        for method, path in WRITES:
            for body in (b"{}", b""):
                answer = ask(method, f"{url}{path}", content=body, headers={"Content-Type": kind})
                assert answer.status_code == 415, (method, path)


def test_own_pages_programs_and_allowed_origins_may_write(db: Database) -> None:
    with running(db, origins=["https://app.example"]) as url:
        saved = ask("POST", f"{url}/v1/threads/t/checkpoints", json={"state": {}})
        for headers in (
            {},
            {"Origin": url},
            {"Origin": url, "Sec-Fetch-Site": "same-origin"},
            {"Origin": "https://public.example", "Sec-Fetch-Site": "same-origin"},
            {"Sec-Fetch-Site": "none"},
            {"Origin": "https://app.example", "Sec-Fetch-Site": "cross-site"},
        ):
            answer = ask("POST", f"{url}/v1/threads/t/rewrite", headers=headers)
            assert answer.status_code == 200, (headers, answer.text)

    assert saved.status_code == 201
