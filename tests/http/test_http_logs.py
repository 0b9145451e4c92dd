"""Logs and conversations over HTTP."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import UTC, datetime
from typing import Any

import httpx
import pytest

from memalchemy import Conversation, Database, ThreadLog

pytestmark = pytest.mark.usefixtures("lasting")


@pytest.fixture
def client(base_url: str) -> Iterator[httpx.Client]:
    with httpx.Client(base_url=f"{base_url}/v1", verify=False, timeout=60) as client:
        yield client


def entries_of(client: httpx.Client, path: str, name: str = "entries", **query: Any) -> list[Any]:
    found = []
    while True:
        tree = client.get(path, params=query).json()
        found += tree[name]
        if "next" not in tree:
            return found
        query["cursor"] = tree["next"]


async def test_entries_are_appended_read_edited_and_removed(db: Database, client: Any) -> None:
    path = "/logs/log/a%2Fb/entries"
    given = [{"value": {"n": n}, "key": f"k{n}"} for n in range(4)] + [{"value": {"~b": "AA=="}}]
    appended = client.post(path, json={"entries": given})
    again = client.post(path, json={"entries": given[:1]})
    refused = client.post(path, json={"entries": given[:1], "new_keys": True})

    assert (appended.status_code, appended.json()) == (201, {"positions": [1, 2, 3, 4, 5]})
    assert again.json() == {"positions": [1]}
    assert refused.status_code == 409
    log = ThreadLog(db)
    assert [entry.value for entry in await log.tail("a/b")] == [{"n": n} for n in range(4)] + [
        b"\0"
    ]
    forward = entries_of(client, path, limit=2)
    assert [entry["position"] for entry in forward] == [1, 2, 3, 4, 5]
    assert forward[4]["value"] == {"~b": "AA=="}
    backward = entries_of(client, path, limit=2, newest_first=True)
    assert backward == forward[::-1]
    assert entries_of(client, path, limit=1, after=3) == forward[3:]

    version = client.get("/logs/log/a%2Fb").json()["version"]
    edit = {"value": "new", "expected_version": version}
    assert client.put(f"{path}/2", json=edit).json() == {"edited": True}
    assert client.put(f"{path}/2", json=edit).status_code == 409
    assert client.put(f"{path}/99", json={"value": 1}).status_code == 404
    assert client.post("/logs/log/a%2Fb/remove", json={"positions": [3, 99]}).json() == {"count": 1}
    assert client.put(f"{path}/x", json={"value": 1}).status_code == 422
    assert [entry.value for entry in await log.range("a/b", limit=2)] == [{"n": 0}, "new"]
    assert client.get("/logs/log/a%2Fb/count").json() == {"count": 4}
    assert client.delete(path).json() == {"count": 4}
    assert client.delete("/logs/log/a%2Fb").json() == {"deleted": True}
    assert client.delete("/logs/log/a%2Fb").status_code == 404


async def test_an_append_is_done_once_under_its_key(db: Database, client: Any) -> None:
    body, key = {"entries": [{"value": 1}]}, {"Idempotency-Key": "once"}

    answers = [client.post("/logs/log/t/entries", json=body, headers=key) for _ in range(3)]

    assert [one.json() for one in answers] == [{"positions": [1]}] * 3
    assert await ThreadLog(db).count("t") == 1


async def test_logs_are_listed_and_searched_by_namespace(db: Database, client: Any) -> None:
    for n in range(3):
        await ThreadLog(db, namespace=("app", "log")).append(f"t{n}", f"a needle {n}")
    await ThreadLog(db).append("other", "a needle")

    threads = entries_of(client, "/logs/app%2Flog", "threads", limit=2)
    found = client.post("/logs/app%2Flog/search", json={"query": "needle", "limit": 9}).json()
    one = client.post("/logs/app%2Flog/search", json={"query": "needle", "thread_id": "t1"}).json()

    assert threads == ["t2", "t1", "t0"]
    assert {hit["thread_id"] for hit in found["entries"]} == {"t0", "t1", "t2"}
    assert [(hit["thread_id"], hit["value"]) for hit in one["entries"]] == [("t1", "a needle 1")]


async def test_a_conversation_is_added_to_and_read(db: Database, client: Any) -> None:
    path = "/conversations/conversation/t/messages"
    said = datetime(2026, 1, 2, tzinfo=UTC)
    messages = [
        {"message": {"role": "user", "content": "Hello"}, "key": "m1"},
        {"message": {"role": "assistant", "content": "Hi"}, "occurred_at": said.isoformat()},
    ]
    added = client.post(path, json={"messages": messages})
    again = client.post(path, json={"messages": messages[:1]})
    wrong = client.post(path, json={"messages": [{"message": {"content": "who?"}}]})

    assert (added.status_code, added.json()) == (201, {"positions": [1, 2]})
    assert again.json() == {"positions": [1]}
    assert (wrong.status_code, wrong.json()["code"]) == (422, "MA-ARGUMENT")
    conversation = Conversation(db, "t")
    assert [message.content for message in await conversation.history()] == ["Hello", "Hi"]
    found = entries_of(client, path, "messages", limit=1)
    assert [one["message"] for one in found] == [one["message"] for one in messages]
    assert datetime.fromisoformat(found[1]["occurred_at"]) == said
    assert client.delete(path).json() == {"count": 2}
    assert await conversation.history() == []
    assert client.delete("/conversations/conversation/t").json() == {"deleted": True}
    assert client.delete("/conversations/conversation/t").status_code == 404
