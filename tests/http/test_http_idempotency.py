"""Writes over HTTP that are done once however often they are sent, and conditional requests."""

from __future__ import annotations

import asyncio
import socket
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta
from typing import Any
from urllib.parse import urlsplit

import httpx
import pytest
from sqlalchemy import Connection, func, select, update

from httpserver import TOKEN, answering, request_of, running
from memalchemy import (
    Checkpointer,
    Conflict,
    Database,
    DatabaseUnreachable,
    HTTPCheckpointer,
    Store,
    ThreadLog,
)
from memalchemy.codec.encryption import generate_key
from memalchemy.inspection import Inspector
from memalchemy.maintenance import space, tenants
from memalchemy.rotation import rotate_keys
from memalchemy.schema import StoreItemRow
from memalchemy.space import measure
from memalchemy.store.jsonl import export_items
from servers import Postgres, give_rights, migrated_database

APPLICATION = "walled_app"

pytestmark = [pytest.mark.usefixtures("lasting"), pytest.mark.walled]


@contextmanager
def losing(url: str, answers: int, meanwhile: Callable[[], Any] | None = None) -> Iterator[str]:
    """Run a proxy in front of *url* that loses the first so many answers to writes.

    *meanwhile* is called after the server has answered and before the client knows.
    """
    target = urlsplit(url)
    lost = 0

    def behave(connection: socket.socket) -> None:
        nonlocal lost
        head, _, body = request_of(connection).partition(b"\r\n\r\n")
        lines = [line for line in head.split(b"\r\n") if not line.lower().startswith(b"connection")]
        length = [line for line in lines if line.lower().startswith(b"content-length")]
        while length and len(body) < int(length[0].split(b":")[1]):
            body += connection.recv(65536)
        answer = b""
        with socket.create_connection((target.hostname, target.port)) as server:
            server.sendall(b"\r\n".join([*lines, b"Connection: close", b"", b""]) + body)
            while more := server.recv(65536):
                answer += more
        if lost < answers and not lines[0].startswith(b"GET"):
            lost += 1
            if meanwhile is not None:
                meanwhile()
            return
        connection.sendall(answer)

    with answering(behave) as proxy:
        yield proxy
    assert lost == answers


@pytest.fixture
def client() -> Iterator[httpx.Client]:
    with httpx.Client(verify=False, timeout=60) as client:
        yield client


# --- The client ----------------------------------------------------------------------------------


async def test_a_save_whose_answer_is_lost_is_done_once(db: Database, base_url: str) -> None:
    native = Checkpointer(db)
    with losing(base_url, 2) as url:
        async with HTTPCheckpointer(url) as client:
            made = await client.save({"n": 1}, "thread")

    assert await native.list_checkpoints("thread") == [made]
    assert await native.load("thread") == {"n": 1}


@pytest.mark.parametrize("name", [None, "mine"])
async def test_a_repeated_save_does_not_become_the_newest_again(
    db: Database, base_url: str, name: str | None
) -> None:
    def others() -> None:
        httpx.put(f"{base_url}/v1/threads/thread/checkpoints/theirs", json={"state": {"n": 2}})

    native = Checkpointer(db)
    await native.save({"n": 0}, "thread", "mine")
    with losing(base_url, 1, others) as url:
        async with HTTPCheckpointer(url) as client:
            made = await client.save({"n": 1}, "thread", name)

    assert (await native.list_checkpoints("thread"))[:2] == ["theirs", made]
    assert await native.load("thread", made) == {"n": 1}


async def test_a_save_that_never_gets_an_answer_may_have_happened(base_url: str) -> None:
    with losing(base_url, 3) as url:
        async with HTTPCheckpointer(url) as client:
            with pytest.raises(DatabaseUnreachable) as lost:
                await client.save({"n": 1}, "thread")

    assert lost.value.maybe_applied


async def test_an_expected_parent_is_checked_once(db: Database, base_url: str) -> None:
    first = await Checkpointer(db).save({"n": 0}, "thread")
    with losing(base_url, 1) as url:
        async with HTTPCheckpointer(url) as client:
            second = await client.save({"n": 1}, "thread", expected_parent=first)
            with pytest.raises(Conflict) as conflict:
                await client.save({"n": 2}, "thread", expected_parent=first)

    assert conflict.value.current == second


async def test_other_writes_whose_answers_are_lost_are_done_once(
    db: Database, base_url: str
) -> None:
    native = Checkpointer(db)
    await native.save({"n": 1}, "thread", "one")
    await native.save({"n": 2}, "thread", "two")
    with losing(base_url, 1) as url:
        async with HTTPCheckpointer(url) as client:
            fork = await client.fork("thread")
    with losing(base_url, 1) as url:
        async with HTTPCheckpointer(url) as client:
            assert await client.copy_thread("thread", "copy") is True
    with losing(base_url, 1) as url:
        async with HTTPCheckpointer(url) as client:
            assert await client.delete("thread", "one") is True
            assert await client.delete("thread", "one") is False

    assert set(await native.list_threads()) == {"thread", fork, "copy"}
    assert await native.list_checkpoints("thread") == ["two"]


# --- Idempotency keys ----------------------------------------------------------------------------


def test_an_answer_is_given_again_by_another_server_on_the_same_database(
    db: Database, base_url: str, client: httpx.Client
) -> None:
    path, key = "/v1/threads/thread/checkpoints", {"Idempotency-Key": "k-1"}
    with running(db) as other:
        answers = [
            client.post(url + path, json={"state": {"n": 1}}, headers=key)
            for url in (base_url, other, base_url)
        ]
        different = client.post(other + path, json={"state": {"n": 2}}, headers=key)
        listed = client.get(base_url + path).json()

    assert {answer.status_code for answer in answers} == {201}
    assert [answer.json()["checkpoint_id"] for answer in answers] == listed["checkpoints"] * 3
    assert different.status_code == 422
    assert "another request" in different.json()["detail"]


async def test_requests_of_one_key_at_once_are_one_write(db: Database, base_url: str) -> None:
    async with httpx.AsyncClient(base_url=base_url, timeout=60, verify=False) as client:
        answers = await asyncio.gather(
            *(
                client.put(
                    "/v1/store/n/items/k", json={"value": 1}, headers={"Idempotency-Key": "once"}
                )
                for _ in range(8)
            )
        )

    assert [(one.status_code, one.json()) for one in answers] == [(200, {"version": 1})] * 8
    assert (await Store(db).get_item(("n",), "k")).version == 1


async def test_tenants_do_not_share_keys(db: Database, database: str) -> None:
    others = [db.for_tenant(f"{db.tenant}-{n}") for n in range(3)]
    tokens = {f"{TOKEN}-{n}": one.tenant for n, one in enumerate(others)}
    with running(db, tokens=tokens) as url:
        async with httpx.AsyncClient(base_url=url, timeout=60, verify=False) as client:

            async def write(token: str, key: str) -> tuple[int, Any]:
                answer = await client.post(
                    "/v1/threads/thread/checkpoints",
                    json={"state": {"of": tokens[token]}},
                    headers={"Authorization": f"Bearer {token}", "Idempotency-Key": key},
                )
                return answer.status_code, answer.json()

            asked = [(token, f"k-{n}") for n in range(4) for token in tokens]
            first = await asyncio.gather(*(write(*one) for one in asked))
            again = await asyncio.gather(*(write(*one) for one in asked))

    assert {status for status, _ in first} == {201}
    assert again == first
    assert len({answer["checkpoint_id"] for _, answer in first}) == len(asked)
    for one in others:
        native = Checkpointer(one)
        made = await native.list_checkpoints("thread", 100)
        assert len(made) == 4
        assert [await native.load("thread", name) for name in made] == [{"of": one.tenant}] * 4
    assert (await db.tenant_wall()).is_active == (database == "walled")


def test_a_write_of_a_server_that_was_running_finds_the_wall(
    postgres: Postgres, client: httpx.Client
) -> None:
    async def enforce(url: str) -> None:
        async with Database(url) as owner:
            await tenants.enforce(owner)

    with migrated_database(postgres) as name:
        give_rights(postgres, APPLICATION, name)
        tokens = {TOKEN: "acme", TOKEN * 2: "globex"}
        with running(Database(postgres.url(name, user=APPLICATION)), tokens=tokens) as url:
            for key in ("before", "after"):
                for token in tokens:
                    answer = client.put(
                        f"{url}/v1/store/n/items/{key}",
                        json={"value": tokens[token]},
                        headers={"Authorization": f"Bearer {token}", "Idempotency-Key": key},
                    )
                    assert answer.status_code == 200, answer.text
                if key == "before":
                    asyncio.run(enforce(postgres.url(name)))
        seen = postgres.execute("SELECT tenant, key FROM store_items WHERE namespace = '/n/'", name)

    assert sorted(seen) == [(t, key) for t in ("acme", "globex") for key in ("after", "before")]


def test_a_refused_write_may_be_sent_again_under_its_key(
    base_url: str, client: httpx.Client
) -> None:
    place, key = f"{base_url}/v1/threads/t/fork", {"Idempotency-Key": "k"}

    missing = client.post(place, json={"new_thread_id": "f"}, headers=key)
    client.put(f"{base_url}/v1/threads/t/checkpoints/c", json={"state": {}})
    forked = client.post(place, json={"new_thread_id": "f"}, headers=key)
    again = client.post(place, json={"new_thread_id": "f"}, headers=key)
    without = client.post(place, json={"new_thread_id": "f"})

    assert [missing.status_code, forked.status_code, again.status_code] == [404, 201, 201]
    assert without.status_code == 409


def test_invalid_keys_are_refused(base_url: str, client: httpx.Client) -> None:
    for key in ("", "a b", "x" * 129):
        answer = client.put(
            f"{base_url}/v1/store/n/items/k", json={"value": 1}, headers={"Idempotency-Key": key}
        )
        assert answer.status_code == 400, key
    answer = client.post(
        f"{base_url}/v1/prune", json={"keep_last": 1}, headers={"Idempotency-Key": "k"}
    )
    assert answer.status_code == 422
    assert client.get(f"{base_url}/v1/store/n/items/k").status_code == 404


async def test_stored_answers_are_not_items_of_the_tenant(db: Database, base_url: str) -> None:
    async def put() -> dict[str, Any]:
        headers = {"Idempotency-Key": "once"}
        async with httpx.AsyncClient(base_url=base_url, timeout=60, verify=False) as client:
            answer = await client.put("/v1/store/n/items/k", json={"value": 1}, headers=headers)
        return answer.json()

    assert await put() == {"version": 1}
    store, inspector = Store(db), Inspector(db)
    items = [item async for item in store.iter_items((), prefix=True)]
    exported = [record async for record in export_items(store, prefix=True)]
    shown = await inspector.items((), below=True, internal=True)

    assert [item.namespace for item in items] == [("n",)]
    assert [record["namespace"] for record in exported] == [["n"]]
    assert [item["namespace"] for item in shown["items"]] == [["n"]]
    assert await store.list_namespaces() == [("n",)]
    assert await store.count((), prefix=True) == 1
    assert (await measure(db)).items == 1
    assert len(await store.search((), prefix=True, filter={})) == 1
    assert await store.get(("~requests",), "once") is None
    assert await store.clear_namespace((), prefix=True) == 1
    assert await put() == {"version": 1}
    assert await store.count((), prefix=True) == 0, "the write was done again"


ERASURES: dict[str, Callable[[Database], Any]] = {
    "the thread": lambda db: Checkpointer(db).forget(thread_id="t"),
    "metadata": lambda db: Checkpointer(db).forget(metadata={"user": "ada"}),
    "the tenant": lambda db: Checkpointer(db).forget(tenant=db.tenant),
    "a namespace": lambda db: Store(db).forget_namespace(("users", "ada")),
}


@pytest.mark.parametrize("erasure", ERASURES)
async def test_an_erasure_leaves_no_stored_answer(
    db: Database, base_url: str, erasure: str
) -> None:
    log = "/v1/logs/log/t"
    async with httpx.AsyncClient(base_url=base_url, timeout=60, verify=False) as client:
        await client.post(f"{log}/entries", json={"entries": [{"value": "a secret"}]})

        async def pop() -> httpx.Response:
            return await client.post(f"{log}/pop", json={}, headers={"Idempotency-Key": "once"})

        first, again = await pop(), await pop()
        kept = await answers_kept(db)
        await ERASURES[erasure](db)
        await client.post(f"{log}/entries", json={"entries": [{"value": "more"}]})
        after = await pop()

    assert first.json() == again.json()
    assert first.json()["entry"]["value"] == "a secret"
    assert (kept, await answers_kept(db)) == (1, 0 if after.status_code == 409 else 1)
    if erasure != "the tenant":  # of a tenant nothing is left
        assert after.status_code == 409
        assert "has been erased" in after.json()["detail"]
        assert await ThreadLog(db).count("t") == 1, "nothing was removed again"


async def test_stored_answers_that_have_expired_are_counted_as_what_a_sweep_removes(
    db: Database, base_url: str
) -> None:
    headers = {"Authorization": f"Bearer {TOKEN}", "Idempotency-Key": "once"}
    async with httpx.AsyncClient(base_url=base_url, headers=headers) as client:
        kept = await client.put("/v1/store/n/items/k", json={"value": 1})
    assert kept.is_success
    assert (await space.measure(db)).expired == 0

    def expire(connection: Connection) -> None:
        mine = StoreItemRow.tenant == db.tenant, StoreItemRow.expires_at.is_not(None)
        past = datetime.now(UTC) - timedelta(seconds=1)
        connection.execute(update(StoreItemRow).where(*mine).values(expires_at=past))

    await db.run_sync(expire)

    assert (await space.measure(db)).expired == 2, "the answer, and the fingerprint of its request"
    assert await Store(db).sweep() == 2
    assert (await space.measure(db)).expired == 0


async def answers_kept(db: Database) -> int:
    def count(connection: Connection) -> int:
        mine = StoreItemRow.tenant == db.tenant, StoreItemRow.namespace == "/~answers/"
        query = select(func.count()).select_from(StoreItemRow).where(*mine)
        return connection.scalar(query) or 0

    return await db.run_sync(count)


@pytest.mark.own_keys
async def test_stored_answers_are_read_after_a_change_of_keys(
    db: Database, shared_url: str, client: httpx.Client
) -> None:
    old, new = generate_key(), generate_key()
    headers = {"Idempotency-Key": "once", "Content-Type": "application/json"}

    def put(keys: list[str]) -> httpx.Response:
        with running(Database(shared_url, tenant=db.tenant, keys=keys)) as url:
            return client.put(f"{url}/v1/store/n/items/k", json={"value": 1}, headers=headers)

    first = await asyncio.to_thread(put, [old])
    async with Database(shared_url, tenant=db.tenant, keys=[new, old]) as both:
        assert (await rotate_keys(both)).left == 0
    again = await asyncio.to_thread(put, [new])

    assert [first.json(), again.json()] == [{"version": 1}] * 2


# --- Entity tags ---------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("path", "first", "second"),
    [
        ("/v1/threads/t/checkpoints/c", {"state": {"n": 1}}, {"state": {"n": 2}}),
        ("/v1/store/n/items/k", {"value": 1}, {"value": 2}),
    ],
    ids=["a checkpoint", "an item"],
)
def test_writes_and_reads_are_conditional(
    base_url: str, client: httpx.Client, path: str, first: Any, second: Any
) -> None:
    place = base_url + path
    assert client.put(place, json=first, headers={"If-Match": "*"}).status_code == 412
    assert client.put(place, json=first, headers={"If-None-Match": "*"}).is_success
    old = client.get(place)
    same = client.get(place, headers={"If-None-Match": f'"other", {old.headers["etag"]}'})
    again = client.put(place, json=second, headers={"If-None-Match": "*"})
    changed = client.put(place, json=second, headers={"If-Match": old.headers["etag"]})
    stale = client.put(place, json=first, headers={"If-Match": old.headers["etag"]})
    new = client.get(place, headers={"If-None-Match": old.headers["etag"]})

    assert (same.status_code, same.content) == (304, b"")
    assert same.headers["etag"] == old.headers["etag"]
    assert again.status_code == 412
    assert changed.is_success
    assert (stale.status_code, stale.json()["code"]) == (412, "MA-CONFLICT")
    assert new.status_code == 200
    assert stale.json()["current"] == stale.headers["etag"] == new.headers["etag"]
    assert client.put(place, json=first, headers={"If-Match": "unquoted"}).status_code == 400


def test_the_tag_of_a_thread_is_that_of_its_newest_checkpoint(
    base_url: str, client: httpx.Client
) -> None:
    thread = f"{base_url}/v1/threads/t"
    client.put(f"{thread}/checkpoints/one", json={"state": {"n": 1}})
    first = client.get(thread)
    client.put(f"{thread}/checkpoints/two", json={"state": {"n": 2}})
    second = client.get(thread, headers={"If-None-Match": first.headers["etag"]})

    assert first.json()["checkpoint_id"] == "one"
    assert first.headers["etag"] == client.get(f"{thread}/checkpoints/one").headers["etag"]
    assert second.json() == {"thread_id": "t", "state": {"n": 2}, "checkpoint_id": "two"}


async def test_of_saves_that_make_one_checkpoint_at_once_one_succeeds(
    db: Database, base_url: str
) -> None:
    async with httpx.AsyncClient(base_url=base_url, timeout=60, verify=False) as client:
        answers = await asyncio.gather(
            *(
                client.put(
                    f"/v1/threads/t/checkpoints/{'c' if n % 2 else f'other-{n}'}",
                    json={"state": {"n": n}},
                    headers={"If-None-Match": "*"},
                )
                for n in range(12)
            )
        )

    statuses = sorted(one.status_code for one in answers)
    assert statuses == [201] * 7 + [412] * 5
    assert len(await Checkpointer(db).list_checkpoints("t", 100)) == 7


def test_an_item_is_deleted_only_as_it_was_seen(base_url: str, client: httpx.Client) -> None:
    place = f"{base_url}/v1/store/n/items/k"
    client.put(place, json={"value": 1})
    seen = client.get(place).headers["etag"]
    client.put(place, json={"value": 2})

    assert client.delete(place, headers={"If-Match": seen}).status_code == 412
    seen = client.get(place).headers["etag"]
    assert client.delete(place, headers={"If-Match": seen}).json() == {"deleted": True}
    assert client.delete(place, headers={"If-Match": seen}).status_code == 412


def test_a_server_may_require_conditions(db: Database, client: httpx.Client) -> None:
    with running(db, requires_conditions=True) as url:
        item = f"{url}/v1/store/n/items/k"
        checkpoint = f"{url}/v1/threads/t/checkpoints/c"
        bare = [
            client.put(item, json={"value": 1}),
            client.delete(item),
            client.put(checkpoint, json={"state": {}}),
        ]
        made = [
            client.put(item, json={"value": 1}, headers={"If-None-Match": "*"}),
            client.put(checkpoint, json={"state": {}}, headers={"If-None-Match": "*"}),
            client.put(item, json={"value": 1, "expected_version": 1}),
            client.delete(f"{item}?expected_version=2"),
        ]

    assert [one.status_code for one in bare] == [428] * 3
    assert all(one.is_success for one in made)
