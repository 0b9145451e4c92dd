"""Lists over HTTP are read in pages, with opaque cursors."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import httpx
import pytest

from memalchemy import Checkpointer, Database, HTTPCheckpointer, Store

pytestmark = pytest.mark.usefixtures("lasting")


@pytest.fixture
def get(base_url: str) -> Iterator[Callable[..., Any]]:
    with httpx.Client(base_url=f"{base_url}/v1", verify=False, timeout=60) as client:
        yield lambda path, **query: client.get(path, params=query)


def pages(get: Callable[..., Any], path: str, name: str, **query: Any) -> list[list[Any]]:
    found = []
    while True:
        answer = get(path, **query)
        assert answer.status_code == 200, answer.text
        tree = answer.json()
        found.append(tree[name])
        if "next" not in tree:
            return found
        query["cursor"] = tree["next"]
        assert len(found) < 50


async def test_every_list_is_read_whole_page_by_page(db: Database, get: Callable[..., Any]) -> None:
    checkpointer, store = Checkpointer(db), Store(db)
    for n in range(5):
        await checkpointer.save({"n": n}, f"t{n}", f"c{n}")
        await checkpointer.save({"n": n}, "long", f"l{n}")
        await store.put(("a", f"n{n}"), "k", n)
        await store.put(("b",), f"k{n}", n)
    newest = [info["checkpoint_id"] for info in await checkpointer.list_with_metadata(100)]

    def sizes_and_all(*args: Any, **query: Any) -> tuple[list[int], list[Any]]:
        found = pages(get, *args, limit=2, **query)
        return [len(page) for page in found], [one for page in found for one in page]

    threads = await checkpointer.list_threads()
    assert sizes_and_all("/threads", "threads") == ([2, 2, 2], threads)
    assert sizes_and_all("/threads", "threads", pattern="t*")[0] == [2, 2, 1]
    assert sizes_and_all("/threads", "threads", offset=1)[1][:2] == threads[1:3]
    ids = ["l4", "l3", "l2", "l1", "l0"]
    assert sizes_and_all("/threads/long/checkpoints", "checkpoints") == ([2, 2, 1], ids)
    history = sizes_and_all("/threads/long/history", "checkpoints")[1]
    assert [info["checkpoint_id"] for info in history] == ids
    sizes, infos = sizes_and_all("/checkpoints", "checkpoints")
    assert (sizes, [info["checkpoint_id"] for info in infos]) == ([2] * 5, newest)
    keys = [f"k{n}" for n in range(5)]
    assert sizes_and_all("/store/b/keys", "keys") == ([2, 2, 1], keys)
    items = sizes_and_all("/store/b/items", "items", order="key")
    assert (items[0], [item["key"] for item in items[1]]) == ([2, 2, 1], keys)
    items = sizes_and_all("/store/b/items", "items")
    assert [item["key"] for item in items[1]] == keys[::-1]
    items = sizes_and_all("/store/a/items", "items", below=True, order="key")
    assert [item["namespace"][1] for item in items[1]] == [f"n{n}" for n in range(5)]
    sizes, logs = sizes_and_all("/logs", "logs")
    assert (sizes, [log["thread_id"] for log in logs]) == ([2, 2, 2], threads)
    assert sizes_and_all("/logs", "logs", pattern="t*")[0] == [2, 2, 1]
    for n in range(4):
        await Checkpointer(db, namespace=("below", f"n{n}")).save({}, "long")
    sizes, logs = sizes_and_all("/logs", "logs", thread_id="long", below=True)
    below = [["below", f"n{n}"] for n in range(4)]
    assert (sizes, [log["namespace"] for log in logs]) == ([2, 2, 1], [*below[::-1], []])
    sizes, namespaces = sizes_and_all("/threads/long/namespaces", "namespaces")
    assert (sizes, namespaces) == ([2, 2, 1], [[], *below])
    sizes, namespaces = sizes_and_all("/store", "namespaces")
    assert (sizes, namespaces) == ([2] * 3, [["a", f"n{n}"] for n in range(5)] + [["b"]])


async def test_pages_go_on_where_they_ended_while_others_write(
    db: Database, get: Callable[..., Any]
) -> None:
    checkpointer = Checkpointer(db)
    for n in range(6):
        await checkpointer.save({"n": n}, "t", f"c{n}")
        await checkpointer.save({"n": n}, f"t{n}")
    history = get("/threads/t/history", limit=2).json()
    threads = get("/threads", limit=2, pattern="t?").json()
    newest = get("/checkpoints", limit=3).json()
    await checkpointer.delete("t", "c4")  # the last of the page
    await checkpointer.save({"n": 9}, "t", "c9")
    await checkpointer.save({"n": 9}, "t9")

    after = get("/threads/t/history", limit=9, cursor=history["next"]).json()["checkpoints"]
    assert [info["checkpoint_id"] for info in after] == ["c3", "c2", "c1", "c0"]
    after = get("/threads", limit=9, pattern="t?", cursor=threads["next"]).json()["threads"]
    assert threads["threads"] + after == ["t5", "t4", "t3", "t2", "t1", "t0"]
    after = get("/checkpoints", limit=2, cursor=newest["next"]).json()["checkpoints"]
    assert [info["thread_id"] for info in newest["checkpoints"]] == ["t5", "t", "t4"]
    assert [info["thread_id"] for info in after] == ["t3", "t"]
    for name in ("c5", "c9"):
        await checkpointer.delete("t", name)
    second = get("/threads/t/history", limit=2).json()
    for info in second["checkpoints"]:
        await checkpointer.delete("t", info["checkpoint_id"])
    after = get("/threads/t/history", limit=9, cursor=second["next"]).json()["checkpoints"]
    assert [info["checkpoint_id"] for info in after] == ["c1", "c0"], "no anchor is left"


async def test_a_client_reads_a_long_history_in_pages(
    db: Database, base_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("memalchemy.http.client._checkpointer.PAGE", 2)
    ids = [await Checkpointer(db).save({"n": n}, "t") for n in range(5)]
    async with HTTPCheckpointer(base_url) as client:
        assert [i.checkpoint_id async for i in client.history("t")] == ids[::-1]
        assert [i.checkpoint_id async for i in client.history("t", limit=3)] == ids[:1:-1]
        some = [i.checkpoint_id async for i in client.history("t", before=ids[3])]
        assert some == ids[2::-1]


async def test_a_client_reads_logs_and_namespaces_in_pages(
    db: Database, base_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("memalchemy.http.client._remote.PAGE", 2)
    for n in range(5):
        await Checkpointer(db, namespace=(f"n{n}",)).save({"n": n}, "t")
    native = Checkpointer(db)
    async with HTTPCheckpointer(base_url) as client:
        assert await client.list_logs(below=True) == await native.list_logs(below=True)
        some = await client.list_logs(below=True, limit=3)
        assert some == await native.list_logs(below=True, limit=3)
        assert len(some) == 3
        assert await client.namespaces("t") == [(f"n{n}",) for n in range(5)]


async def test_logs_that_are_deleted_meanwhile_end_no_list(
    db: Database, get: Callable[..., Any]
) -> None:
    checkpointer = Checkpointer(db)
    for n in range(5):
        await checkpointer.save({"n": n}, f"t{n}")
    first = get("/logs", limit=2).json()
    await checkpointer.delete("t3")  # the last of the page
    await checkpointer.save({"n": 9}, "t9")

    after = get("/logs", limit=9, cursor=first["next"]).json()
    assert [log["thread_id"] for log in after["logs"]] == ["t2", "t1", "t0"]
    assert "next" not in after


@pytest.mark.parametrize("cursor", ["", "x", "ä", "W10", "bnVsbA", "e30", "A" * 20_000])
def test_cursors_that_are_none_are_refused(get: Callable[..., Any], cursor: str) -> None:
    lists = ("/threads", "/threads/t/history", "/checkpoints", "/store", "/store/n/items")
    for path in (*lists, "/logs", "/threads/t/namespaces"):
        answer = get(path, cursor=cursor)
        assert (answer.status_code, answer.json()["code"]) == (422, "MA-ARGUMENT"), path


async def test_a_cursor_is_of_one_list(db: Database, get: Callable[..., Any]) -> None:
    for n in range(2):
        await Checkpointer(db).save({}, f"t{n}")
    cursor = get("/threads", limit=1).json()["next"]

    assert get("/checkpoints", cursor=cursor).status_code == 422
    assert get("/threads", cursor=cursor).status_code == 200
