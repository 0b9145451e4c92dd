"""What tokens are good for, until when, and unknown ones."""

from __future__ import annotations

import logging
import os
import re
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import httpx
import pytest

from clocks import Clock
from httpserver import TOKEN, running
from memalchemy import AuthenticationFailed, Database, HTTPCheckpointer
from memalchemy.http import Grant, Limits, Tokens
from memalchemy.http.server import _tokens
from memalchemy.http.server._limits import FailureLimiter
from waiting import wait_until

OTHER = "another-token-9876543210-of-the-tests"


@pytest.fixture
def db(tmp_path: Path) -> Database:
    """A SQLite file, whichever databases the run is for: tokens do not depend on one."""
    return Database(f"sqlite:///{tmp_path}/agent.db")


def ask(method: str, url: str, token: str = TOKEN, **more: Any) -> httpx.Response:
    headers = {"Authorization": f"Bearer {token}"}
    return httpx.request(method, url, headers=headers, verify=False, timeout=60, **more)


# --- Scopes --------------------------------------------------------------------------------------


@pytest.mark.parametrize("scope", ["read", "write", "admin"])
def test_a_token_is_good_for_the_operations_of_its_scopes_alone(db: Database, scope: Any) -> None:
    grants = {TOKEN: Grant(db.tenant, frozenset({scope}))}
    with running(db, tokens=grants, inspector=True) as url:
        document = ask("GET", f"{url}/v1/openapi.json").json()
        for path, methods in document["paths"].items():
            for method, operation in methods.items():
                needed = operation.get("security", [{"token": []}])[0]["token"]
                place = url + re.sub(r"{\w+}", "x", path)
                answer = ask(method.upper(), place)
                is_refused = answer.status_code == 403
                assert is_refused == bool(set(needed) - {scope}), (method, path)
        inspector = ask("GET", f"{url}/inspector/api/threads")
        needs = {
            operation["operationId"]: operation["security"][0]["token"]
            for methods in document["paths"].values()
            for operation in methods.values()
            if "security" in operation
        }

    assert inspector.status_code == (200 if scope == "read" else 403)
    assert needs["load"] == needs["search"] == needs["store_search"] == ["read"]
    assert needs["save"] == needs["delete_thread"] == needs["store_put"] == ["write"]
    assert needs["prune"] == needs["forget"] == ["admin"]
    assert needs["capabilities"] == []


async def test_a_client_with_a_token_to_read_cannot_save(db: Database) -> None:
    grants = {TOKEN: Grant(db.tenant, frozenset({"read"})), OTHER: db.tenant}
    with running(db, tokens=grants) as url:
        async with (
            HTTPCheckpointer(url, token=OTHER) as writer,
            HTTPCheckpointer(url, token=TOKEN) as reader,
        ):
            await writer.save({"n": 1}, "thread")
            assert await reader.load("thread") == {"n": 1}
            with pytest.raises(AuthenticationFailed, match="403"):
                await reader.save({"n": 2}, "thread")
            assert await writer.load("thread") == {"n": 1}


def test_a_token_that_only_writes_is_shown_no_content(db: Database) -> None:
    writer = Grant(db.tenant, scopes=frozenset({"write"}))
    with running(db, tokens={TOKEN: writer, OTHER: db.tenant}) as url:
        log = f"{url}/v1/logs/log/t"
        assert ask("POST", f"{log}/entries", json={"entries": [{"value": 1}]}).status_code == 201
        assert ask("POST", f"{log}/pop", json={}).status_code == 403
        assert ask("POST", f"{log}/pop", OTHER, json={}).json()["entry"]["value"] == 1
        exchange = f"{url}/v1/conversations/conversation/t/exchange"
        assert ask("DELETE", exchange).status_code == 403
        assert ask("POST", f"{exchange}/results", json={"results": []}).status_code == 403


def test_a_token_for_some_namespaces_reaches_nothing_else(db: Database) -> None:
    grant = Grant(db.tenant, namespaces=(("users", "ada"),))
    with running(db, tokens={TOKEN: grant, OTHER: db.tenant}) as url:

        def status(method: str, path: str, token: str = TOKEN, **more: Any) -> int:
            return ask(method, f"{url}/v1{path}", token, **more).status_code

        for place in ("users%2Fada", "users%2Fada%2Fnotes", "users%2Fadam", "users"):
            path = f"/store/{place}/items/k"
            assert status("PUT", path, OTHER, json={"value": place}) == 200
            wanted = 200 if "ada" in place.split("%2F") else 403
            assert status("GET", path) == wanted, place
            assert status("PUT", path, json={"value": 1}) == wanted, place
            assert status("POST", f"/store/{place}/search", json={"query": "x"}) == wanted, place
            assert status("DELETE", path) == wanted, place
        listed = ask("GET", f"{url}/v1/store?prefix=users%2Fada")

        def name(*namespace: str) -> dict[str, Any]:
            return {"namespace": list(namespace), "key": "k"}

        def item(*namespace: str) -> dict[str, Any]:
            return {**name(*namespace), "value": 1}

        ours, theirs, log = ("users", "ada"), ("users", "eve"), "/logs/users%2Fada/t"
        assert status("POST", "/items", json={"items": [item(*ours)]}) == 200
        assert status("POST", "/items/get", json={"keys": [name(*ours)]}) == 200
        assert status("POST", f"{log}/entries", json={"entries": [{"value": 1}]}) == 201
        assert status("POST", f"{log}/fork", json={"namespace": [*ours, "copy"]}) == 201
        refused = [
            status("GET", "/store"),
            status("GET", "/store?prefix=users"),
            status("GET", "/store/%2F/items?below=true"),
            status("GET", "/threads"),
            status("POST", "/threads/t/checkpoints", json={"state": {}}),
            status("POST", "/forget", json={"thread_id": "t"}),
            status("POST", "/items", json={"items": [item(*ours), item(*theirs)]}),
            status("POST", "/items/get", json={"keys": [name(*ours), name(*theirs)]}),
            status("POST", "/items/delete", json={"keys": [name(*theirs)]}),
            status("POST", "/items/refresh", json={"keys": [name(*theirs)]}),
            status("POST", "/items/embeddings", json={"keys": [name(*theirs)]}),
            status("POST", f"{log}/fork", json={"namespace": ["users"]}),
            status("POST", "/sweep"),
            status("GET", "/logs"),
            ask("GET", f"{url}/inspector/api/items").status_code,
        ]

    assert listed.status_code == 200
    assert refused == [403] * 14 + [404]


# --- Expiry and files ----------------------------------------------------------------------------


def test_entries_name_scopes_namespaces_and_an_end() -> None:
    tokens = Tokens.parse(
        f"{TOKEN} = acme read write namespace=users/ada namespace=shared expires=2030-01-31T12:00Z"
        f"\n{OTHER}=globex admin expires=2030-02-01"
    )

    assert tokens.grant_of(TOKEN) == Grant(
        "acme",
        frozenset({"read", "write"}),
        (("users", "ada"), ("shared",)),
        datetime(2030, 1, 31, 12, tzinfo=UTC),
    )
    assert tokens.grant_of(OTHER) == Grant(
        "globex", frozenset({"admin"}), None, datetime(2030, 2, 1, tzinfo=UTC)
    )


@pytest.mark.parametrize(
    "options", ["reed", "scope=read", "namespace=", "namespace=~", "expires=soon", "read=1"]
)
def test_invalid_options_of_an_entry_are_refused(options: str) -> None:
    with pytest.raises(ValueError, match="entry 1") as caught:
        Tokens.parse(f"{TOKEN}=acme {options}")

    assert TOKEN not in str(caught.value)


def test_invalid_grants_are_refused() -> None:
    for wrong in (
        lambda: Grant("acme", frozenset()),
        lambda: Grant("acme", frozenset({"all"})),  # type: ignore[arg-type]
        lambda: Grant("~"),
        lambda: Grant("acme", expires_at=datetime(2030, 1, 1)),
    ):
        with pytest.raises(ValueError):  # noqa: PT011 - each has a message of its own
            wrong()


def test_a_token_that_has_expired_is_refused(db: Database, clock: Clock) -> None:
    ends = clock.now + timedelta(minutes=5)
    with running(db, tokens={TOKEN: Grant(db.tenant, expires_at=ends)}) as url:
        before = ask("GET", f"{url}/v1/threads")
        clock.now = ends
        after = ask("GET", f"{url}/v1/threads")

    assert before.status_code == 200
    assert (after.status_code, after.json()["detail"]) == (401, "this token has expired")


def test_a_token_file_is_read_again_when_it_has_changed(
    db: Database,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
) -> None:
    monkeypatch.setattr(_tokens, "RELOAD_SECONDS", 0.05)
    file = tmp_path / "tokens"
    file.write_text(f"{TOKEN}=acme\n")
    limits = Limits(unknown_tokens=100_000)
    with running(db, tokens=Tokens.from_file(file), limits=limits) as url:

        def status(token: str) -> int:
            return ask("GET", f"{url}/v1/threads", token).status_code

        assert (status(TOKEN), status(OTHER)) == (200, 401)
        file.write_text(f"{OTHER}=acme\n")
        wait_until(lambda: (status(TOKEN), status(OTHER)) == (401, 200))
        with caplog.at_level(logging.ERROR, "memalchemy.http"):
            file.write_text("short=acme\n")
            wait_until(lambda: status(OTHER) == 200 and "16 characters" in caplog.text)
            file.unlink()
            wait_until(lambda: status(OTHER) == 200 and "No such file" in caplog.text)
        file.write_text(f"{TOKEN}=acme\n")
        wait_until(lambda: (status(TOKEN), status(OTHER)) == (200, 401))

    assert OTHER not in caplog.text


class Seconds:
    """The seconds that both clocks of the tokens' module say; a file is written *now*."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.now = 1_000_000.0
        monkeypatch.setattr(_tokens.time, "monotonic", lambda: self.now)
        monkeypatch.setattr(_tokens.time, "time", lambda: self.now)

    def write(self, file: Path, text: str, *, ahead: float = 0) -> None:
        file.write_text(text)
        os.utime(file, (self.now + ahead, self.now + ahead))


@pytest.fixture
def seconds(monkeypatch: pytest.MonkeyPatch) -> Seconds:
    return Seconds(monkeypatch)


def test_the_first_request_after_a_quiet_time_is_decided_by_the_new_file(
    tmp_path: Path, seconds: Seconds
) -> None:
    file = tmp_path / "tokens"
    seconds.write(file, f"{TOKEN}=acme\n")
    tokens = Tokens.from_file(file)

    seconds.now += 60
    seconds.write(file, f"{OTHER}=acme\n")
    seconds.now += 20

    assert tokens.grant_of(TOKEN) is None
    assert tokens.grant_of(OTHER) == Grant("acme")


def test_two_seconds_after_a_change_no_busy_server_goes_by_the_old_file(
    tmp_path: Path, seconds: Seconds
) -> None:
    file = tmp_path / "tokens"
    for pause in (0.1, 0.3, 0.7, 0.99):
        seconds.write(file, f"{TOKEN}=acme\n")
        tokens = Tokens.from_file(file)
        seconds.now += pause
        seconds.write(file, f"{OTHER}=acme\n")
        changed = seconds.now
        while seconds.now < changed + 2:
            tokens.grant_of(TOKEN)
            seconds.now += pause
        assert tokens.grant_of(TOKEN) is None, pause


def test_a_half_written_token_file_is_not_read(tmp_path: Path, seconds: Seconds) -> None:
    file = tmp_path / "tokens"
    seconds.write(file, f"{TOKEN}=acme\n")
    tokens = Tokens.from_file(file)

    seconds.now += 10
    seconds.write(file, f"{TOKEN}=globex\n{OTHER}=ac")
    assert tokens.grant_of(OTHER) is None
    seconds.now += 0.5
    seconds.write(file, f"{TOKEN}=globex\n{OTHER}=acme\n")
    seconds.now += 0.5
    assert tokens.grant_of(OTHER) is None
    seconds.now += 1
    assert tokens.grant_of(OTHER) == Grant("acme")


def test_a_file_of_a_clock_that_is_ahead_is_read_at_the_second_look(
    tmp_path: Path, seconds: Seconds
) -> None:
    file = tmp_path / "tokens"
    seconds.write(file, f"{TOKEN}=acme\n")
    tokens = Tokens.from_file(file)

    seconds.now += 10
    seconds.write(file, f"{OTHER}=acme\n", ahead=3600)
    assert tokens.grant_of(OTHER) is None
    seconds.now += 1
    assert tokens.grant_of(OTHER) == Grant("acme")


def test_a_file_that_could_not_be_read_is_read_when_it_can_be(
    tmp_path: Path, seconds: Seconds, caplog: pytest.LogCaptureFixture
) -> None:
    file, aside = tmp_path / "tokens", tmp_path / "aside"
    seconds.write(file, f"{TOKEN}=acme\n")
    tokens = Tokens.from_file(file)
    file.unlink()
    file.symlink_to(tmp_path)  # root may read any file, and nobody a directory
    for _ in range(3):
        seconds.now += 10
        assert tokens.grant_of(TOKEN) == Grant("acme")
    assert caplog.text.count("Is a directory") == 1

    seconds.write(aside, f"{OTHER}=acme\n")
    file.unlink()
    aside.rename(file)
    seconds.now += 10
    assert tokens.grant_of(TOKEN) is None


def test_a_malformed_token_file_is_logged_without_a_request(
    db: Database,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
) -> None:
    monkeypatch.setattr(_tokens, "RELOAD_SECONDS", 0.05)
    file = tmp_path / "tokens"
    file.write_text(f"{TOKEN}=acme\n")
    with running(db, tokens=Tokens.from_file(file)):
        file.write_text(f"{TOKEN}=acme\n{OTHER}\n")
        wait_until(lambda: "entry 2 of the tokens is not token=tenant" in caplog.text)

    assert OTHER not in caplog.text


# --- Unknown tokens ------------------------------------------------------------------------------


def test_unknown_tokens_of_one_address_are_throttled(db: Database) -> None:
    with running(db, tokens={TOKEN: "acme", OTHER: "acme"}, limits=Limits(unknown_tokens=3)) as url:
        threads = f"{url}/v1/threads"
        first = ask("GET", threads)
        guesses = [ask("GET", threads, f"guess-{n}-0123456789") for n in range(5)]
        known, right = ask("GET", threads), ask("GET", threads, OTHER)
        without = httpx.get(threads)

    assert first.status_code == 200
    assert [guess.status_code for guess in guesses] == [401, 401, 401, 429, 429]
    assert 1 <= int(guesses[-1].headers["retry-after"]) <= 20
    assert known.status_code == 200, "the address was known by this token"
    assert right.status_code == 429, "a guess is not told from a token"
    assert without.status_code == 401


def test_failures_are_counted_by_address_and_forgotten_with_time() -> None:
    now = 0.0
    failures = FailureLimiter(2, lambda: now)

    def fails(address: str, token: str = "wrong") -> bool:
        """Return whether the attempt was let in."""
        if failures.wait_of(address, token):
            return False
        failures.note_unknown(address)
        return True

    assert [fails("192.0.2.1") for _ in range(3)] == [True, True, False]
    assert fails("192.0.2.2")
    assert [fails(f"2001:db8::{n}") for n in range(3)] == [True, True, False]
    assert fails("2001:db8:0:1::1")
    now = 30.0
    assert [fails("192.0.2.1") for _ in range(2)] == [True, False]
