"""The server: who may come in, how much, how often, how slowly; and what it says and logs."""

from __future__ import annotations

import asyncio
import hashlib
import json
import logging
import os
import re
import signal
import socket
import subprocess
import sys
from contextlib import closing
from pathlib import Path
from typing import Any

import httpx
import psycopg
import pytest
from starlette.applications import Starlette
from starlette.routing import Mount
from typer.testing import CliRunner

from httpserver import TOKEN, running
from memalchemy import Checkpointer, Database, DatabaseUnreachable, HTTPCheckpointer, Store
from memalchemy.cli.app import app as commands
from memalchemy.http import Tokens, app, serve
from memalchemy.http.readiness import Readiness
from memalchemy.http.tokens import Rates
from servers import Postgres, free_port

OTHER = "another-token-9876543210-of-the-tests"


def ask(method: str, url: str, **more: Any) -> httpx.Response:
    """A request by itself, without the certificates that no test needs."""
    return httpx.request(method, url, verify=False, **more)


def bearer(token: str) -> dict[str, str]:
    return {"Authorization": f"Bearer {token}"}


# --- Who may come in -----------------------------------------------------------------------------


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


def test_every_operation_of_a_tenant_asks_for_a_token(db: Database) -> None:
    with running(db, tokens={TOKEN: db.tenant}) as url:
        document = ask("GET", f"{url}/openapi.json").json()
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


async def test_without_tokens_it_refuses_to_be_reached_by_others(tmp_path: Path) -> None:
    db = Database(f"sqlite:///{tmp_path}/agent.db")

    for host in ("0.0.0.0", "::", "192.0.2.1", "agents.example"):
        with pytest.raises(ValueError, match="no tokens"):
            await serve(db, host=host, port=0)
    with running(db, host="0.0.0.0", insecure=True) as url:
        port = url.rsplit(":", 1)[1]
        assert ask("GET", f"http://127.0.0.1:{port}/threads").json() == {"threads": []}


def test_without_tokens_it_answers_to_the_names_of_this_machine_only(db: Database) -> None:
    with running(db) as url:
        port = url.rsplit(":", 1)[1]
        for name in ("localhost", "127.0.0.1", "[::1]"):
            assert ask("GET", f"{url}/threads", headers={"Host": f"{name}:{port}"}).is_success
        refused = ask("GET", f"{url}/threads", headers={"Host": f"evil.example:{port}"})

    assert refused.status_code == 421


def test_tokens_are_read_line_by_line() -> None:
    hashed = "sha256:" + "ab" * 32
    tokens = Tokens.parse(f"# ours\n{TOKEN}==acme\n\n {OTHER} = globex # theirs\n{hashed}=hidden")

    assert tokens.tenant_of(f"{TOKEN}=") == "acme"
    assert tokens.tenant_of(OTHER) == "globex"
    assert tokens.tenant_of(TOKEN) is None
    assert tokens.tenant_of(hashed) is None, "a hash is no token"
    assert TOKEN not in repr(tokens)
    assert len(Tokens.parse(f"{TOKEN}=acme,{OTHER}=globex")) == 2


def test_a_hash_of_a_token_is_as_good_as_the_token() -> None:
    digest = hashlib.sha256(TOKEN.encode()).hexdigest()

    assert Tokens.parse(f"sha256:{digest}=acme").tenant_of(TOKEN) == "acme"


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
def test_tokens_that_make_no_sense_are_refused_without_being_repeated(text: str, why: str) -> None:
    with pytest.raises(ValueError, match=why) as caught:
        Tokens.parse(text)

    assert TOKEN not in str(caught.value)


# --- How much, how often, how slowly -------------------------------------------------------------


def test_a_body_over_the_limit_is_refused_before_it_is_read(db: Database) -> None:
    with running(db, max_body=10_000) as url:
        body = json.dumps({"state": {"a": "x" * 20_000}})
        kind = {"Content-Type": "application/json"}
        told = ask("POST", f"{url}/threads/t/checkpoints", content=body, headers=kind)
        chunked = ask(
            "POST", f"{url}/threads/t/checkpoints", content=iter([body.encode()] * 3), headers=kind
        )
        port = int(url.rsplit(":", 1)[1])
        with closing(socket.create_connection(("127.0.0.1", port), timeout=5)) as liar:
            liar.sendall(
                b"POST /threads/t/checkpoints HTTP/1.1\r\nHost: localhost\r\n"
                b"Content-Type: application/json\r\nContent-Length: 99999999999\r\n\r\n{"
            )
            assert b" 413 " in liar.recv(100)
        assert ask("GET", f"{url}/threads").json() == {"threads": []}

    for answer in (told, chunked):
        assert answer.status_code == 413
        assert answer.json()["limit"] == 10_000


def test_a_tenant_that_comes_too_often_is_told_when_to_come_again(db: Database) -> None:
    tokens = {TOKEN: db.tenant, OTHER: f"{db.tenant}-other"}
    with running(db, tokens=tokens, rate=0.01, burst=3) as url:
        asked = [ask("GET", f"{url}/threads", headers=bearer(TOKEN)) for _ in range(5)]
        other = ask("GET", f"{url}/threads", headers=bearer(OTHER))
        health = ask("GET", f"{url}/health/ready", headers=bearer(TOKEN))

    assert [answer.status_code for answer in asked] == [200, 200, 200, 429, 429]
    assert 50 < int(asked[-1].headers["retry-after"]) <= 100
    assert other.status_code == health.status_code == 200


def test_a_bucket_fills_as_time_goes_by() -> None:
    now = [0.0]
    rates = Rates(2, 4, clock=lambda: now[0])

    assert [rates.take("a") for _ in range(5)] == [0, 0, 0, 0, 0.5]
    now[0] = 1.0
    assert [rates.take("a") for _ in range(3)] == [0, 0, 0.5]
    now[0] = 100.0
    assert [rates.take("a") for _ in range(5)] == [0, 0, 0, 0, 0.5]
    assert Rates(None).take("a") == 0


def test_a_body_that_comes_too_slowly_is_given_up(db: Database) -> None:
    with running(db, timeout=0.5) as url:
        port = int(url.rsplit(":", 1)[1])
        with closing(socket.create_connection(("127.0.0.1", port), timeout=10)) as slow:
            slow.sendall(
                b"POST /threads/t/checkpoints HTTP/1.1\r\nHost: localhost\r\n"
                b"Content-Type: application/json\r\nContent-Length: 1000\r\n\r\n{"
            )
            answer = slow.recv(100)
            while more := slow.recv(65536):  # and the connection is closed
                answer += more
        assert ask("GET", f"{url}/threads").json() == {"threads": []}

    assert b" 408 " in answer
    assert b"nothing was done" in answer


@pytest.mark.parametrize("sent", [b"", b"GET /threads HT", b"GET /threads HTTP/1.1\r\nA: b\r\n"])
def test_headers_that_do_not_come_are_not_waited_for_for_ever(
    db: Database, sent: bytes, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("memalchemy.http.serving.HEADER_SECONDS", 0.5)
    with running(db) as url:
        port = int(url.rsplit(":", 1)[1])
        with closing(socket.create_connection(("127.0.0.1", port), timeout=10)) as slow:
            slow.sendall(b"GET /health/live HTTP/1.1\r\nHost: localhost\r\n\r\n")
            answer = b""
            while not answer.endswith(b"}"):  # a second request may be slow as well
                answer += slow.recv(65536)
            slow.sendall(sent)
            assert slow.recv(65536) == b""
        assert ask("GET", f"{url}/health/live").is_success


def test_an_answer_that_takes_too_long_is_given_up_and_a_write_may_have_happened(
    postgres: Postgres, name: str
) -> None:
    lock = psycopg.connect(
        host=postgres.host,
        port=postgres.port,
        user=postgres.user,
        password=postgres.password,
        dbname=name,
    )
    with closing(lock), running(Database(postgres.url(name)), timeout=0.7) as url:
        lock.execute("LOCK TABLE threads IN ACCESS EXCLUSIVE MODE")
        written = ask("POST", f"{url}/threads/t/checkpoints", json={"state": {}}, timeout=10)
        read = ask("GET", f"{url}/threads/t", timeout=10)
        lock.rollback()

    assert written.status_code == read.status_code == 504
    assert written.json()["maybe_applied"] is True
    assert read.json()["maybe_applied"] is False


# --- What it says --------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("method", "path", "body", "status", "code"),
    [
        ("GET", "/nowhere", None, 404, "HTTP-404"),
        ("PATCH", "/threads", None, 405, "HTTP-405"),
        ("GET", "/threads/none", None, 404, "MA-NOT-FOUND"),
        ("GET", "/threads?limit=-1", None, 422, "MA-ARGUMENT"),
        ("GET", "/threads?limit=1&limit=2", None, 422, "MA-ARGUMENT"),
        ("GET", "/threads?limits=1", None, 422, "MA-ARGUMENT"),
        ("GET", "/threads/%ff", None, 400, "HTTP-400"),
        ("POST", "/threads/t/checkpoints", b"{", 400, "HTTP-400"),
        ("POST", "/threads/t/checkpoints", b'{"state": {"a": NaN}}', 400, "HTTP-400"),
        ("POST", "/threads/t/checkpoints", b"[" * 100_000, 400, "HTTP-400"),
        ("POST", "/threads/t/checkpoints", b"[]", 422, "MA-ARGUMENT"),
        ("POST", "/threads/t/checkpoints", b'{"state": []}', 422, "MA-ARGUMENT"),
        ("POST", "/threads/t/checkpoints", b'{"state": {}, "more": 1}', 422, "MA-ARGUMENT"),
        ("POST", "/threads/t/checkpoints", b'{"state": {}, "thread_id": "u"}', 422, "MA-ARGUMENT"),
        (
            "POST",
            "/threads/t/checkpoints",
            b'{"state": {"a": {"~d": "secret"}}}',
            422,
            "MA-NOT-SERIALISABLE",
        ),
        ("POST", "/forget", b"{}", 422, "MA-ARGUMENT"),
        ("GET", f"/threads/{'x' * 256}", None, 422, "MA-TOO-LARGE"),
        ("POST", "/store/a/search", b'{"query": "a", "mode": "vector"}', 422, "MA-ARGUMENT"),
        ("PUT", "/store/~/items/k", b'{"value": 1}', 422, "MA-ARGUMENT"),
    ],
)
def test_a_mistake_is_a_problem_with_a_code_and_no_echo(
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


def test_what_is_not_json_is_told_apart_by_its_type(base_url: str) -> None:
    for headers in ({"Content-Type": "text/plain"}, {}):
        answer = ask("POST", f"{base_url}/threads/t/checkpoints", content=b"{}", headers=headers)
        assert answer.status_code == 415
        assert "with Content-Type: application/json" in answer.json()["detail"]


def test_a_body_that_is_no_object_is_told_so_without_a_name_from_inside(base_url: str) -> None:
    answer = ask("PUT", f"{base_url}/store/a/items/k", json=5)

    assert answer.status_code == 422
    assert answer.json()["detail"] == "/: is not an object"


def test_a_conflict_says_what_is_there_now(base_url: str) -> None:
    place = f"{base_url}/threads/t/checkpoints"
    ask("POST", place, json={"state": {}, "checkpoint_id": "one"})
    conflict = ask("POST", place, json={"state": {}, "expected_parent": None})
    ask("DELETE", f"{base_url}/threads/t")
    gone = ask("POST", place, json={"state": {}, "parent_id": "one"})

    assert (conflict.status_code, conflict.json()["current"]) == (409, "one")
    assert (gone.status_code, gone.json()["code"]) == (410, "MA-THREAD-DELETED")


@pytest.mark.parametrize(
    "identifier", ["a/b", "..", ".", "ä 漢🎉", "%2F", "a?b#c", "~", "\x00", "\ud800"]
)
async def test_any_text_is_an_id_of_its_own(base_url: str, identifier: str) -> None:
    async with HTTPCheckpointer(base_url) as client:
        assert await client.save({"id": "this"}, identifier, identifier) == identifier
        await client.save({"id": "another"}, identifier + "x", identifier)

        assert await client.load(identifier) == {"id": "this"}
        assert await client.load(identifier, identifier) == {"id": "this"}
        assert await client.list_checkpoints(identifier) == [identifier]
        assert identifier in await client.list_threads()
        assert await client.delete(identifier, identifier) is True
        assert await client.load(identifier + "x", identifier) == {"id": "another"}


async def test_the_store_over_http_is_the_store(db: Database, base_url: str) -> None:
    place = f"{base_url}/store/users%2Fada"
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
    assert ask("GET", f"{base_url}/store?prefix=users").json() == {"namespaces": [["users", "ada"]]}
    assert ask("GET", f"{base_url}/store/users/count?below=true").json() == {"count": 2}
    store = Store(db)
    assert (await store.get(("users", "ada"), "a/b"))["when"].isoformat() == "2026-01-02"
    assert ask("DELETE", f"{place}/items/c?expected_version=9").status_code == 409
    assert ask("DELETE", f"{place}/items/c").json() == {"deleted": True}
    assert ask("DELETE", f"{place}/items/c").status_code == 404
    assert ask("DELETE", place).json() == {"count": 1}


async def test_a_database_that_is_away_is_503_and_nothing_of_its_address(
    caplog: pytest.LogCaptureFixture,
) -> None:
    away = f"postgresql://ada:hush@127.0.0.1:{free_port()}/agents"
    with running(Database(away, connect_timeout=2)) as url:
        answers = [
            ask("GET", url + path, timeout=20) for path in ("/threads", "/health", "/health/ready")
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


async def test_however_often_it_is_asked_whether_it_is_ready_the_database_is_asked_once(
    db: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    checks = []
    check = Database.check

    async def counted(self: Database) -> None:
        checks.append(self)
        await check(self)

    monkeypatch.setattr(Database, "check", counted)
    monkeypatch.setattr("memalchemy.http.readiness.KEPT", 60)
    with running(db, tokens={TOKEN: db.tenant}) as url:
        checks.clear()
        async with httpx.AsyncClient(base_url=url) as client:
            paths = ["/health/ready", "/health"] * 10
            answers = await asyncio.gather(*map(client.get, paths))
            answers.append(await client.get("/health"))

    assert {answer.text for answer in answers} == {'{"status":"ready"}'}
    assert len(checks) == 1


async def test_whether_it_is_ready_is_asked_again_after_a_second_whatever_the_answer_was() -> None:
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


async def test_one_who_gives_up_waiting_for_readiness_leaves_the_answer_to_the_others() -> None:
    may_answer = asyncio.Event()
    ready = Readiness(may_answer.wait)
    impatient, patient = asyncio.create_task(ready()), asyncio.create_task(ready())
    await asyncio.sleep(0)
    impatient.cancel()
    with pytest.raises(asyncio.CancelledError):
        await impatient
    may_answer.set()
    await patient


def test_the_log_has_a_line_for_each_request_without_ids_and_contents(
    db: Database, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO, "memalchemy.http.access")
    state = {"state": {"private": "private"}, "metadata": {"private": "private"}}
    with running(db) as url:
        place = f"{url}/threads/private-id/checkpoints"
        ask("POST", place, json=state)
        ask("GET", f"{place}?limit=private")
        ask("GET", f"{url}/private")

    lines = [record.getMessage() for record in caplog.records if "access" in record.name]
    assert [line.split(" ")[:3] for line in lines] == [
        ["POST", "/threads/{thread_id}/checkpoints", "201"],
        ["GET", "/threads/{thread_id}/checkpoints", "422"],
        ["GET", "-", "404"],
    ]
    assert "private" not in caplog.text


async def test_a_mistake_inside_is_a_500_that_quotes_nothing(
    base_url: str, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    async def broken(*args: Any, **kw: Any) -> Any:
        return {}["a private value"]

    monkeypatch.setattr(Checkpointer, "list_threads", broken)
    answer = ask("GET", f"{base_url}/threads")

    assert answer.status_code == 500
    assert "private" not in answer.text + caplog.text
    assert "KeyError at" in caplog.text


# --- Under another application, and as a process -------------------------------------------------


async def test_it_can_be_mounted_in_another_application(db: Database) -> None:
    whole = Starlette(routes=[Mount("/memory", app(db))])
    transport = httpx.ASGITransport(whole)
    async with httpx.AsyncClient(transport=transport, base_url="http://x/memory") as http:
        made = await http.post("/threads/a%2Fb/checkpoints", json={"state": {"n": 1}})
        assert made.status_code == 201
        assert (await http.get("/threads/a%2Fb")).json()["state"] == {"n": 1}
        assert (await http.get("/health/live")).is_success


def started(*arguments: str, **environment: str) -> tuple[subprocess.Popen[str], str]:
    """A `memalchemy serve` in a process of its own, and where it serves."""
    process = subprocess.Popen(
        [sys.executable, "-m", "memalchemy", *arguments, "serve", "--port", "0", "--json"],
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


def ended(process: subprocess.Popen[str], number: int = signal.SIGTERM) -> tuple[int, str]:
    process.send_signal(number)
    _, said = process.communicate(timeout=30)
    return process.returncode, said


async def test_the_command_serves_until_it_is_told_to_stop_and_ends_what_was_begun(
    tmp_path: Path,
) -> None:
    url = f"sqlite:///{tmp_path}/agent.db"
    async with Database(url):
        pass
    process, base = started("--db", url, MEMALCHEMY_TOKENS=f"{TOKEN}=acme,{OTHER}=globex")
    async with HTTPCheckpointer(base, token=TOKEN) as client:
        saves = [asyncio.create_task(client.save({"n": n}, f"t{n}")) for n in range(20)]
        await asyncio.wait(saves, return_when=asyncio.FIRST_COMPLETED)
        code, said = await asyncio.to_thread(ended, process)
        done = await asyncio.gather(*saves, return_exceptions=True)

    assert code == 0, said
    assert "Traceback" not in said
    async with Database(url, tenant="acme") as db:
        there = await Checkpointer(db).list_threads(1000)
        for number, result in enumerate(done):
            assert isinstance(result, str) == (f"t{number}" in there) or (
                isinstance(result, DatabaseUnreachable) and result.maybe_applied
            )


def test_the_command_refuses_what_makes_no_sense(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
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
