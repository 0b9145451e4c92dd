"""No error of the synchronous face or of the HTTP client shows a secret, nor does its cause."""

from __future__ import annotations

import socket
from collections.abc import Callable, Iterator
from typing import Any

import pytest

import memalchemy.sync
from httpserver import TOKEN, answering, request_of, response, running
from memalchemy import Checkpointer, Database, HTTPCheckpointer, MemalchemyError, Store
from memalchemy.codec.encryption import generate_key
from memalchemy.http.blocking import HTTPCheckpointer as Blocking
from servers import free_port
from waiting import A_WHILE

PASSWORD = "hunter2hunter2"
SAID = "zebrasecret"
KEY = generate_key()


def chain(error: BaseException | None) -> Iterator[BaseException]:
    """Yield an error, its cause, the cause of that, and so on."""
    while error is not None:
        yield error
        error = error.__cause__ or error.__context__


def told(error: BaseException) -> str:
    ours = error.__dict__ if isinstance(error, MemalchemyError) else {}
    return f"{ours}\n" + "\n".join(f"{one!r} {one} {one.args}" for one in chain(error))


def assert_silent(error: BaseException) -> None:
    for secret in (PASSWORD, SAID, KEY, TOKEN):
        assert secret not in told(error)


def refusing(status: int) -> Callable[[socket.socket], None]:
    """Return the behaviour of a server that answers every request with *status*."""

    def behave(connection: socket.socket) -> None:
        request_of(connection)
        body = b'{"detail": "no", "title": "no", "status": %d}' % status
        connection.sendall(response(status, body))

    return behave


@pytest.mark.parametrize("status", [400, 401, 403, 404, 409, 413, 422, 500, 503])
def test_client_errors_show_no_secrets_whatever_the_server_answers(status: int) -> None:
    with answering(refusing(status)) as url:
        address = url.replace("://", f"://ada:{PASSWORD}@")
        for make in (
            lambda: Blocking(url, auth=("ada", PASSWORD), timeout=A_WHILE),
            lambda: Blocking(url, token=TOKEN, timeout=A_WHILE),
            lambda: Blocking(url, headers={"X-Secret": PASSWORD}, timeout=A_WHILE),
            lambda: Blocking(address, timeout=A_WHILE),
        ):
            with pytest.raises((MemalchemyError, ValueError)) as refused, make() as client:
                client.save({"said": SAID}, "t")
            assert_silent(refused.value)


async def test_client_errors_show_no_secrets_without_a_server() -> None:
    url = f"http://ada:{PASSWORD}@127.0.0.1:{free_port()}"
    with pytest.raises((MemalchemyError, ValueError)) as refused:
        async with HTTPCheckpointer(url, timeout=A_WHILE) as client:
            await client.save({"said": SAID}, "t")
    assert_silent(refused.value)
    with pytest.raises(MemalchemyError) as gone:
        async with HTTPCheckpointer(f"http://127.0.0.1:{free_port()}", token=TOKEN) as client:
            await client.save({"said": SAID}, "t")
    assert_silent(gone.value)


@pytest.mark.parametrize(
    "url",
    [
        "postgresql://ada:{p}@127.0.0.1:{port}/agents",
        "postgresql+psycopg://ada:{p}@127.0.0.1:{port}/agents",
        "postgresql://127.0.0.1:{port}/agents?user=ada&password={p}",
        "sqlite:////nowhere/{p}@agent.db?x={p}",
        "nothing://ada:{p}@host/agents",
    ],
)
def test_errors_of_the_synchronous_face_show_no_password_of_a_url(url: str) -> None:
    given = url.format(p=PASSWORD, port=free_port())
    if url.startswith("sqlite"):
        given = given.replace(f"{PASSWORD}@", "")  # a file's name is no secret
    with (
        pytest.raises((MemalchemyError, TypeError, ValueError)) as refused,
        memalchemy.sync.Database(given, connect_timeout=1) as db,
    ):
        memalchemy.sync.Checkpointer(db).save({"said": SAID}, "t")
    assert_silent(refused.value)


def _edit(db: Any, statement: str) -> None:
    db.run_sync(lambda connection: connection.exec_driver_sql(statement))


@pytest.mark.parametrize(
    "statement",
    [
        f"UPDATE deltas SET payload = '{SAID}'",
        f"UPDATE deltas SET payload = x'00' || CAST('{SAID}' AS BLOB)",
        "UPDATE deltas SET depth = 'x'",
        f"UPDATE checkpoints SET created_at = '{SAID}'",
        f"UPDATE store_items SET value = '{SAID}'",
        f"UPDATE store_items SET meta = '[\"{SAID}\"]'",
    ],
)
def test_errors_of_the_synchronous_face_show_no_stored_data(tmp_path: Any, statement: str) -> None:
    with memalchemy.sync.Database(f"sqlite:///{tmp_path}/agent.db", keys=[KEY]) as db:
        agent, store = memalchemy.sync.Checkpointer(db), memalchemy.sync.Store(db)
        agent.save({"said": SAID}, "t", "c", {"n": 1})
        store.put(("n",), "k", {"said": SAID})
        _edit(db, statement)
        agent._async._cache.drop_tenant("default")
        refused = []
        for read in (
            lambda: agent.load("t"),
            lambda: list(agent.history("t")),
            lambda: store.get_item(("n",), "k"),
            lambda: store.list_items(("n",)),
        ):
            try:
                read()
            except MemalchemyError as error:
                refused.append(error)
    assert refused
    for error in refused:
        assert_silent(error)


async def test_errors_show_no_encryption_keys(tmp_path: Any) -> None:
    url = f"sqlite:///{tmp_path}/agent.db"
    async with Database(url, keys=[KEY]) as db:
        await Store(db).put(("n",), "k", {"said": SAID})
    async with Database(url, keys=[generate_key()]) as db:
        for call in (Store(db).get(("n",), "k"), Checkpointer(db).save({"said": SAID}, "t")):
            with pytest.raises(MemalchemyError) as refused:
                await call
            assert_silent(refused.value)


async def test_a_token_reaches_no_data_of_other_tenants(tmp_path: Any) -> None:
    db = Database(f"sqlite:///{tmp_path}/agent.db")
    theirs = Checkpointer(db.for_tenant("theirs"))
    await theirs.save({"said": SAID}, "secret", "c", {"n": 1})
    await db.close()
    with running(db, tokens={TOKEN: "mine"}) as url:
        async with HTTPCheckpointer(url, token=TOKEN) as client:
            assert await client.load("secret") is None
            assert await client.list_threads() == []
            assert await client.search(SAID) == []
            assert await client.query_by_metadata("n", 1) == []
            assert await client.forget(metadata={"n": 1}) == 0
            assert not await client.delete("secret")
            assert await client.vacuum(0) == 0
            with pytest.raises(MemalchemyError):
                await client.fork("secret", "c", new_thread_id="mine now")
    assert await theirs.load("secret") == {"said": SAID}
    await db.close()
