"""The HTTP server: tokens, hosts, rates, timeouts, problem documents, health, the access log."""

from __future__ import annotations

import asyncio
import hashlib
import json
import logging
import os
import re
import signal
import socket
from contextlib import closing
from pathlib import Path
from typing import Any

import httpx
import psycopg
import pytest
from starlette.applications import Starlette
from starlette.authentication import AuthCredentials, AuthenticationBackend, SimpleUser
from starlette.middleware import Middleware
from starlette.middleware.authentication import AuthenticationMiddleware
from starlette.requests import HTTPConnection
from starlette.routing import Mount
from typer.testing import CliRunner

from httpserver import TOKEN, ended, running, started
from memalchemy import (
    Checkpointer,
    Database,
    DatabaseUnreachable,
    HTTPCheckpointer,
    KeyMissing,
    Store,
)
from memalchemy.cli.app import app as commands
from memalchemy.codec.secret_keys import generate_key
from memalchemy.http import Grant, Limits, Tokens, app, serve
from memalchemy.http.server._limits import RateLimiter
from memalchemy.http.server._readiness import Readiness
from servers import Postgres, free_port
from waiting import A_WHILE

OTHER = "another-token-9876543210-of-the-tests"


def ask(method: str, url: str, **more: Any) -> httpx.Response:
    """Send one request; *verify* is off because reading certificates takes a moment."""
    return httpx.request(method, url, verify=False, **more)


def bearer(token: str) -> dict[str, str]:
    return {"Authorization": f"Bearer {token}"}


# --- Tokens and hosts ----------------------------------------------------------------------------


@pytest.mark.usefixtures("lasting")
async def test_tenants_see_nothing_of_each_other(db: Database) -> None:
    other = f"{db.tenant}-other"
    with running(db, tokens={TOKEN: db.tenant, OTHER: other}) as url:
        async with (
            HTTPCheckpointer(url, token=TOKEN) as ours,
            HTTPCheckpointer(url, token=OTHER) as theirs,
        ):
            made = await ours.save({"word": "secret"}, "thread", metadata={"k": 1})
            await theirs.save({"n": 2}, "thread")

            assert await theirs.load("thread", made) is None
            assert await theirs.search("secret") == []
            assert await theirs.query_by_metadata("k", 1) == []
            assert await theirs.delete("thread") is True
            assert await ours.load("thread") == {"word": "secret"}
            assert await theirs.list_threads() == []
    assert await Checkpointer(db.for_tenant(other)).load("thread") is None
    assert await Checkpointer(db).load("thread", made) == {"word": "secret"}


def test_every_operation_on_a_tenant_needs_a_token(db: Database) -> None:
    limits = Limits(unknown_tokens=1000)
    with running(db, tokens={TOKEN: db.tenant}, limits=limits) as url:
        document = ask("GET", f"{url}/v1/openapi.json").json()
        for path, methods in document["paths"].items():
            for method, operation in methods.items():
                place = url + re.sub(r"{\w+}", "x", path)
                for headers in ({}, bearer("wrong" * 9), {"Authorization": f"Basic {TOKEN}"}):
                    answer = ask(method.upper(), place, headers=headers)
                    wanted = 401 if "security" in operation else 200
                    assert answer.status_code == wanted, (method, path)
                    if wanted == 401:
                        assert answer.headers["www-authenticate"].startswith("Bearer")
                        assert answer.json()["code"] == "HTTP-401"


async def test_a_server_without_tokens_listens_on_local_addresses_only(tmp_path: Path) -> None:
    db = Database(f"sqlite:///{tmp_path}/agent.db")

    for host in ("0.0.0.0", "::", "192.0.2.1", "agents.example"):
        with pytest.raises(ValueError, match="no tokens"):
            await serve(db, host=host, port=0)
    with running(db, host="0.0.0.0", insecure=True) as url:
        port = url.rsplit(":", 1)[1]
        assert ask("GET", f"http://127.0.0.1:{port}/v1/threads").json() == {"threads": []}


def test_a_server_without_tokens_answers_to_local_host_names_only(db: Database) -> None:
    with running(db) as url:
        port = url.rsplit(":", 1)[1]
        for name in ("localhost", "LocalHost", "127.0.0.1", "[::1]"):
            assert ask("GET", f"{url}/v1/threads", headers={"Host": f"{name}:{port}"}).is_success
        refused = ask("GET", f"{url}/v1/threads", headers={"Host": f"evil.example:{port}"})

    assert refused.status_code == 421


def test_tokens_are_parsed_from_lines_and_commas() -> None:
    hashed = "sha256:" + "ab" * 32
    tokens = Tokens.parse(f"# ours\n{TOKEN}==acme\n\n {OTHER} = globex # theirs\n{hashed}=hidden")

    assert tokens.grant_of(f"{TOKEN}=") == Grant("acme")
    assert tokens.grant_of(OTHER) == Grant("globex")
    assert tokens.grant_of(TOKEN) is None
    assert tokens.grant_of(hashed) is None, "a hash is no token"
    assert TOKEN not in repr(tokens)
    assert len(Tokens.parse(f"{TOKEN}=acme,{OTHER}=globex")) == 2


def test_a_token_can_be_given_as_its_hash() -> None:
    digest = hashlib.sha256(TOKEN.encode()).hexdigest()

    assert Tokens.parse(f"sha256:{digest}=acme").grant_of(TOKEN) == Grant("acme")


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("", "no tokens"),
        ("# nothing", "no tokens"),
        ("just-a-token-without-a-tenant", "entry 1"),
        ("short=acme", "16 characters"),
        (f"{TOKEN}=", "entry 1"),
        (f"{TOKEN}=a\n{TOKEN}=b", "second tenant"),
        (f"{TOKEN}=~", "tenant"),
    ],
)
def test_invalid_tokens_are_refused_without_being_quoted(text: str, why: str) -> None:
    with pytest.raises(ValueError, match=why) as caught:
        Tokens.parse(text)

    assert TOKEN not in str(caught.value)


# --- Bodies, rates, timeouts ---------------------------------------------------------------------


def test_a_body_over_the_limit_is_refused_before_it_is_read(db: Database) -> None:
    with running(db, max_body=10_000) as url:
        body = json.dumps({"state": {"a": "x" * 20_000}})
        kind = {"Content-Type": "application/json"}
        told = ask("POST", f"{url}/v1/threads/t/checkpoints", content=body, headers=kind)
        chunked = ask(
            "POST",
            f"{url}/v1/threads/t/checkpoints",
            content=iter([body.encode()] * 3),
            headers=kind,
        )
        port = int(url.rsplit(":", 1)[1])
        with closing(socket.create_connection(("127.0.0.1", port), timeout=A_WHILE)) as liar:
            liar.sendall(
                b"POST /v1/threads/t/checkpoints HTTP/1.1\r\nHost: localhost\r\n"
                b"Content-Type: application/json\r\nContent-Length: 99999999999\r\n\r\n{"
            )
            assert b" 413 " in liar.recv(100)
        assert ask("GET", f"{url}/v1/threads").json() == {"threads": []}

    for answer in (told, chunked):
        assert answer.status_code == 413
        assert answer.json()["limit"] == 10_000


def test_a_tenant_over_its_rate_gets_429_with_retry_after(db: Database) -> None:
    tokens = {TOKEN: db.tenant, OTHER: f"{db.tenant}-other"}
    with running(db, tokens=tokens, rate=0.01, burst=3) as url:
        asked = [ask("GET", f"{url}/v1/threads", headers=bearer(TOKEN)) for _ in range(5)]
        other = ask("GET", f"{url}/v1/threads", headers=bearer(OTHER))
        health = ask("GET", f"{url}/health/ready", headers=bearer(TOKEN))

    assert [answer.status_code for answer in asked] == [200, 200, 200, 429, 429]
    assert 50 < int(asked[-1].headers["retry-after"]) <= 100
    assert other.status_code == health.status_code == 200


def test_the_rate_limiter_refills_over_time() -> None:
    now = [0.0]
    rates = RateLimiter(2, 4, clock=lambda: now[0])

    assert [rates.take("a") for _ in range(5)] == [0, 0, 0, 0, 0.5]
    now[0] = 1.0
    assert [rates.take("a") for _ in range(3)] == [0, 0, 0.5]
    now[0] = 100.0
    assert [rates.take("a") for _ in range(5)] == [0, 0, 0, 0, 0.5]
    assert RateLimiter(None).take("a") == 0


def test_a_body_that_does_not_come_in_time_gets_408(db: Database) -> None:
    with running(db, timeout=0.2) as url:
        port = int(url.rsplit(":", 1)[1])
        with closing(socket.create_connection(("127.0.0.1", port), timeout=A_WHILE)) as slow:
            slow.sendall(
                b"POST /v1/threads/t/checkpoints HTTP/1.1\r\nHost: localhost\r\n"
                b"Content-Type: application/json\r\nContent-Length: 1000\r\n\r\n{"
            )
            answer = slow.recv(100)
            while more := slow.recv(65536):  # and the connection is closed
                answer += more
    with running(db) as url:
        assert ask("GET", f"{url}/v1/threads").json() == {"threads": []}

    assert b" 408 " in answer
    assert b"nothing was done" in answer


def test_an_answer_over_the_timeout_gets_504_and_a_write_may_have_happened(
    postgres: Postgres, name: str
) -> None:
    lock = psycopg.connect(
        host=postgres.host,
        port=postgres.port,
        user=postgres.user,
        password=postgres.password,
        dbname=name,
    )
    with closing(lock), running(Database(postgres.url(name)), timeout=0.2) as url:
        lock.execute("LOCK TABLE threads IN ACCESS EXCLUSIVE MODE")
        written = ask("POST", f"{url}/v1/threads/t/checkpoints", json={"state": {}})
        deleted = ask("DELETE", f"{url}/v1/threads/t")
        read = ask("GET", f"{url}/v1/threads/t")
        lock.rollback()

    assert written.status_code == deleted.status_code == read.status_code == 504
    assert written.json()["maybe_applied"] is deleted.json()["maybe_applied"] is True
    assert read.json()["maybe_applied"] is False


# --- Answers -------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("method", "path", "body", "status", "code"),
    [
        ("GET", "/nowhere", None, 404, "HTTP-404"),
        ("PATCH", "/v1/threads", None, 405, "HTTP-405"),
        ("GET", "/v1/threads/none", None, 404, "MA-NOT-FOUND"),
        ("GET", "/v1/threads?limit=-1", None, 422, "MA-ARGUMENT"),
        ("GET", "/v1/threads?limit=1&limit=2", None, 422, "MA-ARGUMENT"),
        ("GET", "/v1/threads?limits=1", None, 422, "MA-ARGUMENT"),
        ("GET", "/v1/threads/%ff", None, 400, "HTTP-400"),
        ("POST", "/v1/threads/t/checkpoints", b"{", 400, "HTTP-400"),
        ("POST", "/v1/threads/t/checkpoints", b'{"state": {"a": NaN}}', 400, "HTTP-400"),
        ("POST", "/v1/threads/t/checkpoints", b'{"state": {"a": 1e400}}', 400, "HTTP-400"),
        ("POST", "/v1/threads/t/checkpoints", b"[" * 100_000, 400, "HTTP-400"),
        ("POST", "/v1/threads/t/checkpoints", b"[]", 422, "MA-ARGUMENT"),
        ("POST", "/v1/threads/t/checkpoints", b'{"state": []}', 422, "MA-ARGUMENT"),
        ("POST", "/v1/threads/t/checkpoints", b'{"state": {}, "more": 1}', 422, "MA-ARGUMENT"),
        (
            "POST",
            "/v1/threads/t/checkpoints",
            b'{"state": {}, "thread_id": "u"}',
            422,
            "MA-ARGUMENT",
        ),
        (
            "POST",
            "/v1/threads/t/checkpoints",
            b'{"state": {"a": {"~d": "secret"}}}',
            422,
            "MA-NOT-SERIALISABLE",
        ),
        ("POST", "/v1/threads/t/checkpoints", b'{"state": {}, "ttl": 1e-9}', 422, "MA-ARGUMENT"),
        (
            "POST",
            "/v1/threads/t/checkpoints",
            b'{"state": {}, "checkpoint_id": "a", "parent_id": "a"}',
            422,
            "MA-ARGUMENT",
        ),
        ("POST", "/v1/threads/t/copy", b'{"dest_thread_id": "t"}', 422, "MA-ARGUMENT"),
        ("POST", "/v1/prune", b"{}", 422, "MA-ARGUMENT"),
        ("POST", "/v1/prune", b'{"older_than": 1e-9}', 422, "MA-ARGUMENT"),
        ("POST", "/v1/forget", b"{}", 422, "MA-ARGUMENT"),
        ("POST", "/v1/forget", b'{"metadata": {}}', 422, "MA-ARGUMENT"),
        ("POST", "/v1/forget", b'{"thread_id": "t", "metadata": {"a": 1}}', 422, "MA-ARGUMENT"),
        (
            "POST",
            "/v1/checkpoints/data",
            b'{"path": "a", "value": {"~d": "secret"}}',
            422,
            "MA-NOT-SERIALISABLE",
        ),
        ("GET", f"/v1/threads/{'x' * 256}", None, 422, "MA-TOO-LARGE"),
        ("POST", "/v1/store/a/search", b'{"query": "a", "mode": "vector"}', 422, "MA-ARGUMENT"),
        ("PUT", "/v1/store/~/items/k", b'{"value": 1}', 422, "MA-ARGUMENT"),
        ("PUT", "/v1/store//items/k", b'{"value": 1}', 422, "MA-ARGUMENT"),
        ("PUT", "/v1/store/%ED%A0%80/items/k", b'{"value": 1}', 422, "MA-ARGUMENT"),
        ("PUT", f"/v1/store/{'x' * 600}/items/k", b'{"value": 1}', 422, "MA-TOO-LARGE"),
        ("PUT", "/v1/store/a/items/k", b'{"value": 1, "ttl": 1e-9}', 422, "MA-ARGUMENT"),
        ("PUT", "/v1/store/a/items/k", b'{"value": 1, "embedding": [0, 0]}', 422, "MA-ARGUMENT"),
        ("PUT", "/v1/store/a/items/k", b'{"value": 1, "embedding": [1e39]}', 422, "MA-ARGUMENT"),
        ("GET", "/v1/store?prefix=~", None, 422, "MA-ARGUMENT"),
        ("POST", "/v1/store/a/search", b'{"filter": {"a": {"$no": 1}}}', 422, "MA-ARGUMENT"),
        ("POST", "/v1/store/a/search", b'{"filter": {"/~2": 1}}', 422, "MA-ARGUMENT"),
        ("POST", "/v1/store/a/search", b'{"query": "a", "alpha": 0.5}', 422, "MA-ARGUMENT"),
        ("POST", "/v1/store/a/search", b'{"query": "a", "mmr": 0.5}', 422, "MA-ARGUMENT"),
        ("POST", "/v1/store/a/search", b'{"query": "a", "embedding": [1]}', 422, "MA-ARGUMENT"),
        (
            "POST",
            "/v1/store/a/search",
            b'{"mode": "vector", "embedding": [1], "model": "%s"}' % (b"x" * 200),
            422,
            "MA-ARGUMENT",
        ),
    ],
)
def test_an_invalid_request_gets_a_problem_document_that_quotes_no_value(
    base_url: str, method: str, path: str, body: bytes | None, status: int, code: str
) -> None:
    kind = {"Content-Type": "application/json"}
    answer = ask(method, base_url + path, content=body, headers=kind)

    assert answer.status_code == status, answer.text
    assert answer.headers["content-type"] == "application/problem+json"
    problem = answer.json()
    assert (problem["status"], problem["code"]) == (status, code)
    assert problem["detail"]
    assert "secret" not in answer.text


def test_a_body_without_the_content_type_of_json_gets_415(base_url: str) -> None:
    for headers in ({"Content-Type": "text/plain"}, {}):
        answer = ask("POST", f"{base_url}/v1/threads/t/checkpoints", content=b"{}", headers=headers)
        assert answer.status_code == 415
        assert "with Content-Type: application/json" in answer.json()["detail"]


def test_head_is_get_without_a_body_and_405_lists_the_methods_of_a_path(base_url: str) -> None:
    head = ask("HEAD", f"{base_url}/v1/threads")
    wrong = ask("PATCH", f"{base_url}/v1/threads/t/checkpoints", json={})

    assert (head.status_code, head.content) == (200, b"")
    assert wrong.status_code == 405
    allowed = {method.strip() for method in wrong.headers["allow"].split(",")}
    assert allowed == {"GET", "HEAD", "POST", "DELETE"}


def test_a_body_that_is_no_object_is_refused_without_internal_class_names(base_url: str) -> None:
    answer = ask("PUT", f"{base_url}/v1/store/a/items/k", json=5)

    assert answer.status_code == 422
    assert answer.json()["detail"] == "/: is not an object"


def test_a_conflict_names_the_current_checkpoint(base_url: str) -> None:
    place = f"{base_url}/v1/threads/t/checkpoints"
    ask("POST", place, json={"state": {}, "checkpoint_id": "one"})
    conflict = ask("POST", place, json={"state": {}, "expected_parent": None})
    ask("DELETE", f"{base_url}/v1/threads/t")
    gone = ask("POST", place, json={"state": {}, "parent_id": "one"})

    assert (conflict.status_code, conflict.json()["current"]) == (409, "one")
    assert (gone.status_code, gone.json()["code"]) == (410, "MA-THREAD-DELETED")


@pytest.mark.parametrize(
    "identifier", ["a/b", "..", ".", "ä 漢🎉", "%2F", "a?b#c", "~", "\x00", "\ud800"]
)
async def test_any_text_can_be_an_id(base_url: str, identifier: str) -> None:
    async with HTTPCheckpointer(base_url) as client:
        assert await client.save({"id": "this"}, identifier, identifier) == identifier
        await client.save({"id": "another"}, identifier + "x", identifier)

        assert await client.load(identifier) == {"id": "this"}
        assert await client.load(identifier, identifier) == {"id": "this"}
        assert await client.list_checkpoints(identifier) == [identifier]
        assert identifier in await client.list_threads()
        assert await client.delete(identifier, identifier) is True
        assert await client.load(identifier + "x", identifier) == {"id": "another"}


async def test_items_of_the_store_are_written_read_and_searched_over_http(
    db: Database, base_url: str
) -> None:
    place = f"{base_url}/v1/store/users%2Fada"
    item = {"value": {"likes": "tea", "when": {"~d": "2026-01-02"}}, "metadata": {"k": 1}}
    assert ask("PUT", f"{place}/items/a%2Fb", json=item).json() == {"version": 1}
    assert ask("PUT", f"{place}/items/a%2Fb", json=item).json() == {"version": 2}
    assert ask("PUT", f"{place}/items/c", json={"value": None, "ttl": 60}).is_success
    found = ask("GET", f"{place}/items/a%2Fb").json()
    assert (found["value"], found["version"], found["key"]) == (item["value"], 2, "a/b")
    assert ask("GET", f"{place}/items/none").status_code == 404
    stale = ask("PUT", f"{place}/items/c", json={"value": 1, "expected_version": 7})
    assert (stale.status_code, stale.json()["current"]["version"]) == (409, 1)
    assert (
        ask("PUT", f"{place}/items/c", json={"value": 1, "expected_version": None}).status_code
        == 409
    )
    assert ask("GET", f"{place}/keys").json() == {"keys": ["a/b", "c"]}
    assert [i["key"] for i in ask("GET", f"{place}/items?order=key").json()["items"]] == [
        "a/b",
        "c",
    ]
    hits = ask("POST", f"{place}/search", json={"query": "TEA", "filter": {"k": 1}}).json()["hits"]
    assert [(hit["key"], hit["score"]) for hit in hits] == [("a/b", 1.0)]
    assert ask("GET", f"{base_url}/v1/store?prefix=users").json() == {
        "namespaces": [["users", "ada"]]
    }
    assert ask("GET", f"{base_url}/v1/store/users/count?below=true").json() == {"count": 2}
    store = Store(db)
    assert (await store.get(("users", "ada"), "a/b"))["when"].isoformat() == "2026-01-02"
    assert ask("DELETE", f"{place}/items/c?expected_version=9").status_code == 409
    assert ask("DELETE", f"{place}/items/c").json() == {"deleted": True}
    assert ask("DELETE", f"{place}/items/c").status_code == 404
    assert ask("DELETE", place).json() == {"count": 1}


async def test_an_unreachable_database_gets_503_without_its_address(
    caplog: pytest.LogCaptureFixture,
) -> None:
    away = f"postgresql://ada:hush@127.0.0.1:{free_port()}/agents"
    with running(Database(away, connect_timeout=A_WHILE)) as url:
        answers = [
            ask("GET", url + path)
            for path in ("/v1/threads", "/health", "/v1/health", "/health/ready")
        ]
        assert ask("GET", f"{url}/health/live").json() == {"status": "live"}
        async with HTTPCheckpointer(url) as client:
            with pytest.raises(DatabaseUnreachable):
                await client.save({}, "thread")
            assert await client.health_check() is False

    for answer in answers:
        assert answer.status_code == 503
        assert answer.json()["code"] == "MA-UNREACHABLE"
        assert not re.search("ada|hush|agents|127", answer.text)
    assert "cannot reach postgresql" in caplog.text
    assert "hush" not in caplog.text


async def test_readiness_is_503_while_a_table_is_missing_or_the_server_refuses_connections(
    postgres: Postgres, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("memalchemy.http.server._readiness.CACHE_SECONDS", 0)
    name = postgres.create_database()
    db = Database(postgres.url(name))
    await db.migrate()
    await db.close()

    def ready(url: str) -> int:
        return ask("GET", f"{url}/health/ready").status_code

    with running(Database(postgres.url(name))) as url:
        assert ready(url) == 200
        postgres.execute("ALTER TABLE threads RENAME TO gone", name)
        assert ready(url) == 503
        postgres.execute("ALTER TABLE gone RENAME TO threads", name)
        assert ready(url) == 200
    postgres.execute(f"ALTER DATABASE {name} ALLOW_CONNECTIONS false")
    with running(Database(postgres.url(name))) as url:
        assert ready(url) == 503
        assert ask("GET", f"{url}/v1/threads").status_code == 503
    postgres.drop_database(name)


async def test_readiness_checks_the_database_once_for_many_requests(
    db: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    checks = []
    check = Database.check

    async def counted(self: Database) -> None:
        checks.append(self)
        await check(self)

    monkeypatch.setattr(Database, "check", counted)
    monkeypatch.setattr("memalchemy.http.server._readiness.CACHE_SECONDS", 60)
    with running(db, tokens={TOKEN: db.tenant}) as url:
        checks.clear()
        async with httpx.AsyncClient(base_url=url) as client:
            paths = ["/health/ready", "/health"] * 10
            answers = await asyncio.gather(*map(client.get, paths))
            answers.append(await client.get("/health"))

    assert {answer.text for answer in answers} == {'{"status":"ready"}'}
    assert len(checks) == 1


async def test_readiness_is_checked_again_after_a_second() -> None:
    now, answers = 0.0, [None, DatabaseUnreachable("away"), None]
    asked = 0

    async def check() -> None:
        nonlocal asked
        asked += 1
        answer = answers[asked - 1]
        if answer is not None:
            raise answer

    ready = Readiness(check, clock=lambda: now)
    await ready()
    now = 0.9
    await ready()
    assert asked == 1
    now = 1.1
    for _ in range(3):
        with pytest.raises(DatabaseUnreachable, match="away"):
            await ready()
    assert asked == 2
    now = 2.2
    await ready()
    assert asked == 3


async def test_a_cancelled_readiness_request_leaves_the_check_to_the_others() -> None:
    may_answer = asyncio.Event()
    ready = Readiness(may_answer.wait)
    impatient, patient = asyncio.create_task(ready()), asyncio.create_task(ready())
    await asyncio.sleep(0)
    impatient.cancel()
    with pytest.raises(asyncio.CancelledError):
        await impatient
    may_answer.set()
    await patient


def test_the_access_log_has_a_line_for_each_request_without_ids_or_contents(
    db: Database, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO, "memalchemy.http.access")
    state = {"state": {"private": "private"}, "metadata": {"private": "private"}}
    with running(db) as url:
        place = f"{url}/v1/threads/private-id/checkpoints"
        ask("POST", place, json=state)
        ask("GET", f"{place}?limit=private")
        ask("GET", f"{url}/private")

    lines = [record.getMessage() for record in caplog.records if "access" in record.name]
    assert [line.split(" ")[:3] for line in lines] == [
        ["POST", "/v1/threads/{thread_id}/checkpoints", "201"],
        ["GET", "/v1/threads/{thread_id}/checkpoints", "422"],
        ["GET", "-", "404"],
    ]
    assert "private" not in caplog.text


@pytest.mark.parametrize(
    "error", [KeyError("private"), ValueError("private"), TypeError("private")], ids=repr
)
async def test_a_defect_of_the_server_gets_500_and_quotes_no_value(
    base_url: str,
    error: Exception,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
) -> None:
    async def broken(*args: Any, **kw: Any) -> Any:
        raise error

    monkeypatch.setattr(Checkpointer, "list_with_metadata", broken)
    answer = ask("GET", f"{base_url}/v1/checkpoints")

    assert (answer.status_code, answer.json()["code"]) == (500, "HTTP-500")
    assert "private" not in answer.text + caplog.text
    assert f"{type(error).__name__} at" in caplog.text


# --- Under another application, and as a process -------------------------------------------------


async def test_the_application_can_be_mounted_in_another(db: Database) -> None:
    whole = Starlette(routes=[Mount("/memory", app(db))])
    transport = httpx.ASGITransport(whole)
    async with httpx.AsyncClient(transport=transport, base_url="http://x/memory") as http:
        made = await http.post("/v1/threads/a%2Fb/checkpoints", json={"state": {"n": 1}})
        assert made.status_code == 201
        assert (await http.get("/v1/threads/a%2Fb")).json()["state"] == {"n": 1}
        assert (await http.get("/health/live")).is_success
        assert (await http.get("/nowhere")).json()["code"] == "HTTP-404"


async def test_the_user_of_an_outer_application_is_no_tenant(db: Database) -> None:
    class Backend(AuthenticationBackend):
        async def authenticate(self, conn: HTTPConnection) -> tuple[AuthCredentials, SimpleUser]:
            return AuthCredentials(), SimpleUser("somebody")

    whole = Starlette(
        routes=[Mount("/memory", app(db, tokens={TOKEN: db.tenant}))],
        middleware=[Middleware(AuthenticationMiddleware, backend=Backend())],
    )
    async with httpx.AsyncClient(
        transport=httpx.ASGITransport(whole), base_url="http://x/memory"
    ) as http:
        assert (await http.get("/v1/threads")).status_code == 401
        assert (await http.get("/health/live")).is_success
        assert (await http.get("/v1/threads", headers=bearer(TOKEN))).json() == {"threads": []}


async def test_ids_are_read_from_the_decoded_path_where_a_server_has_no_other(db: Database) -> None:
    """ASGI does not require ``raw_path``. A slash in an id cannot be told from others then."""
    whole = app(db)

    async def without_raw_path(scope: Any, receive: Any, send: Any) -> None:
        await whole({k: v for k, v in scope.items() if k != "raw_path"}, receive, send)

    transport = httpx.ASGITransport(without_raw_path)
    async with httpx.AsyncClient(transport=transport, base_url="http://x") as http:
        saved = await http.post("/v1/threads/%25 ä/checkpoints", json={"state": {"n": 1}})
        assert saved.status_code == 201
    assert await Checkpointer(db).load("% ä") == {"n": 1}


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
async def test_serve_finishes_running_requests_after_a_signal(
    tmp_path: Path, number: signal.Signals
) -> None:
    url = f"sqlite:///{tmp_path}/agent.db"
    async with Database(url):
        pass
    process, base = started("--db", url, MEMALCHEMY_TOKENS=f"{TOKEN}=acme,{OTHER}=globex")
    async with HTTPCheckpointer(base, token=TOKEN) as client:
        saves = [asyncio.create_task(client.save({"n": n}, f"t{n}")) for n in range(20)]
        await asyncio.wait(saves, return_when=asyncio.FIRST_COMPLETED)
        code, said = await asyncio.to_thread(ended, process, number)
        done = await asyncio.gather(*saves, return_exceptions=True)

    assert code == 0, said
    assert "Traceback" not in said
    async with Database(url, tenant="acme") as db:
        there = await Checkpointer(db).list_threads(1000)
        for number, result in enumerate(done):
            assert isinstance(result, str) == (f"t{number}" in there) or (
                isinstance(result, DatabaseUnreachable) and result.maybe_applied
            )


async def test_serve_leaves_the_signal_handlers_of_its_process_as_they_were(
    tmp_path: Path,
) -> None:
    numbers = (signal.SIGINT, signal.SIGTERM)
    before = [signal.getsignal(number) for number in numbers]
    async with Database(f"sqlite:///{tmp_path}/agent.db") as db:
        await serve(db, port=0, started=lambda url: os.kill(os.getpid(), signal.SIGTERM))

    assert [signal.getsignal(number) for number in numbers] == before


def test_serve_refuses_invalid_options(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("MEMALCHEMY_TOKENS", raising=False)

    def call(*arguments: str) -> Any:
        return CliRunner().invoke(commands, arguments, catch_exceptions=False)

    url = f"sqlite:///{tmp_path}/agent.db"
    assert call("--db", url, "upgrade").exit_code == 0
    (tmp_path / "tokens").write_text("short=acme\n")
    for arguments, why in (
        (["--host", "0.0.0.0"], "no tokens"),
        (["--token-file", str(tmp_path / "none")], "cannot read"),
        (["--token-file", str(tmp_path / "tokens")], "16 characters"),
        (["--host", "192.0.2.1", "--insecure"], "cannot listen"),
    ):
        refused = call("--db", url, "serve", "--port", "0", *arguments)
        assert refused.exit_code == 2, refused.stderr
        assert why in refused.stderr
        assert "Traceback" not in refused.stderr


@pytest.mark.usefixtures("lasting")
@pytest.mark.own_signing_keys
async def test_a_server_without_the_tenants_key_says_so_and_is_not_asked_again(
    database_url: str, caplog: pytest.LogCaptureFixture
) -> None:
    async with Database(database_url, migrate="upgrade", signing_keys=[generate_key()]) as db:
        await Checkpointer(db).save({}, "thread")

    with running(Database(database_url)) as url:
        async with HTTPCheckpointer(url) as client:
            with pytest.raises(KeyMissing, match="this server lacks a key of the tenant"):
                await client.save({}, "other")

    assert caplog.text.count("MA-KEY-MISSING") == 1, "it was sent once"
    assert "is signed" in caplog.text
