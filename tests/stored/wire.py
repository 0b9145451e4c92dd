"""What clients and servers of a release say to each other, recorded and played again.

`session` calls most methods of the clients. `recording` notes each request and its answer;
`playing` answers a client with them, without a server.
"""

from __future__ import annotations

import json
from collections import defaultdict, deque
from collections.abc import AsyncIterator, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import fields, is_dataclass
from typing import Any
from unittest import mock

import httpx
from typer.testing import CliRunner

from memalchemy import MemalchemyError
from memalchemy.cli.app import app
from memalchemy.http import HTTPCheckpointer, HTTPConversation, HTTPStore, HTTPThreadLog
from memalchemy.state import Message
from stored.contents import BESIDE, NOON, TENANT, VALUE, readable

SENT = ("content-type", "idempotency-key", "if-match", "if-none-match")
"""The headers of a request that say what it asks for."""
VOLATILE = ("_at", "time", "etag", "score", "size", "bytes", "ratio", "id", "version", "uptime")
"""Endings of the names of what another run tells otherwise."""
STEADY = ("thread_id", "checkpoint_id", "parent_id", "tool_call_id")


async def session(url: str) -> dict[str, Any]:
    """Return what the calls of the clients give, by their names."""
    told: dict[str, Any] = {}

    async def call(name: str, made: Any) -> None:
        assert name not in told
        try:
            result = [one async for one in made] if isinstance(made, AsyncIterator) else await made
        except MemalchemyError as error:
            result = f"{type(error).__name__} {error.code}"
        told[name] = plain(result)

    async with HTTPCheckpointer(url) as agent:
        await call("capabilities", agent.connect())
        await call("save", agent.save({"n": 1, "said": "heron"}, "t", "one", {"colour": "red"}))
        await call("save on", agent.save({"n": 2}, "t", "two", parent_id="one", occurred_at=NOON))
        await call("save values", agent.save(VALUE, "values", "every", ttl=10**9))
        await call("conflict", agent.save({}, "t", "three", expected_parent="one"))
        await call("load", agent.load("t"))
        await call("load one", agent.load("t", "one"))
        await call("load values", agent.load("values"))
        await call("load nothing", agent.load("nobody"))
        await call("exists", agent.exists("t", "one"))
        await call("checkpoints", agent.list_checkpoints("t"))
        await call("history", agent.history("t"))
        await call("metadata", agent.get_metadata("t", "one"))
        await call("thread metadata", agent.set_thread_metadata("t", {"title": "Birds"}))
        await call("threads", agent.list_threads())
        await call("count", agent.count_threads("*"))
        await call("logs", agent.list_logs("t"))
        await call("namespaces", agent.namespaces("t"))
        await call("newest", agent.list_with_metadata())
        await call("diff", agent.diff("t", "one", "two"))
        await call("search", agent.search("heron"))
        await call("by metadata", agent.query_by_metadata("colour", "red", data=True))
        await call("by data", agent.search_data("n", 1))
        await call("fork", agent.fork("t", "one", new_thread_id="forked"))
        await call("copy", agent.copy_thread("t", "copied"))
        await call("stats", agent.get_storage_stats("t"))
        await call("rewrite", agent.rewrite("t"))
        await call("prune", agent.prune("t", keep_last=1))
        await call("vacuum", agent.vacuum())
        await call("delete some", agent.delete_checkpoints("copied", ["one"]))
        await call("delete", agent.delete("forked"))
        await call("forget", agent.forget(thread_id="copied"))

    async with HTTPThreadLog(url) as log:
        await call("append", log.append("l", ["one heron", VALUE], keys=["k", None]))
        await call("append once", log.append("l", ["again"], keys=["k"]))
        await call("entries", log.range("l"))
        await call("tail", log.tail("l", 1))
        await call("all entries", log.iter_entries("l"))
        await call("log count", log.count("l"))
        await call("log version", log.version("l"))
        await call("log threads", log.list_threads())
        await call("log threads count", log.count_threads())
        await call("find entries", log.search("heron"))
        await call("find key", log.find("k"))
        await call("read threads", log.read_threads(["l"]))
        await call("last written", log.last_written(["l"]))
        await call("edit", log.edit("l", 2, "edited"))
        await call("log fork", log.fork("l", 1, new_thread_id="l2"))
        await call("replace", log.replace_suffix("l", 1, ["two", "three"]))
        await call("remove", log.remove("l", [3]))
        await call("pop", log.pop("l"))
        await call("log clear", log.clear("l"))
        await call("log delete", log.delete("l2"))

    async with HTTPConversation(url, "talk") as talk:
        asked = {"role": "user", "content": "What is a heron?"}
        calls = [{"id": "call-1", "name": "look_up", "arguments": {"word": "heron"}}]
        answer = {"role": "tool", "tool_call_id": "call-1", "content": "A bird."}
        await call("add", talk.add(asked, keys=["first"], occurred_at=NOON))
        asks = {"role": "assistant", "content": None, "tool_calls": calls}
        await call("begin", talk.begin_tool_exchange(asks))
        await call("exchange", talk.active_tool_exchange())
        await call("results", talk.add_tool_results(answer))
        await call("commit", talk.commit_tool_exchange())
        await call("begin another", talk.begin_tool_exchange(asks))
        await call("abort", talk.abort_tool_exchange())
        await call("messages", talk.history())
        await call("message count", talk.count())
        await call("find messages", talk.search("heron"))
        await call("summary", talk.set_summary("Herons.", summarized=1))
        await call("snapshot", talk.snapshot())
        await call("restore", talk.restore([asked]))
        await call("amend", talk.amend_last("What is a stork?"))
        await call("clear", talk.clear())
        await call("delete conversation", talk.delete())

    async with HTTPStore(url) as store:
        users = ("users", "ada/b")
        await call("put", store.put(users, "k", {"likes": "herons"}, {"n": 1}, embedding=[1, 0.5]))
        await call("put values", store.put(users, "values", VALUE, ttl=10**9))
        await call("put conflict", store.put(users, "k", 1, expected_version=7))
        await call("batch", store.put_batch([(users, "b1", 1), (users, "b2", [2])]))
        await call("get", store.get(users, "k"))
        await call("get item", store.get_item(users, "values"))
        await call("get nothing", store.get(users, "nothing", "default"))
        await call("get some", store.get_batch([(users, "b1"), (users, "no")]))
        await call("items", store.list_items(users))
        await call("keys", store.list_keys(users))
        await call("store namespaces", store.list_namespaces())
        await call("store count", store.count(users))
        await call("words", store.search(users, "herons"))
        await call("filter", store.search(users, filter={"likes": {"$contains": "heron"}}))
        await call("near", store.search_by_embedding(users, [1, 0.4]))
        await call("vector", store.get_embedding(users, "k"))
        await call("vectors", store.get_embeddings([(users, "k")]))
        await call("put vector", store.put_embedding(users, "b1", [0, 1]))
        await call("change item", store.change(users, "b1", lambda item: {"n": 2}))
        await call("refresh", store.refresh([(users, "values")]))
        await call("delete item", store.delete(users, "b2"))
        await call("delete matching", store.delete_matching(users, {"n": 2}))
        await call("delete batch", store.delete_batch([(users, "values")]))
        await call("sweep", store.sweep())
        await call("clear namespace", store.clear_namespace(users))
        await call("forget namespace", store.forget_namespace(("users",)))
    return told


def plain(value: Any) -> Any:
    """Return what a client returns as JSON."""
    if isinstance(value, Message):
        return {"role": str(value.role), "content": value.content}
    if is_dataclass(value) and not isinstance(value, type):
        return {one.name: plain(getattr(value, one.name)) for one in fields(value)}
    if isinstance(value, list):
        return [plain(one) for one in value]
    if isinstance(value, Mapping):
        return {str(name): plain(one) for name, one in value.items()}
    return readable(value)


@contextmanager
def recording() -> Iterator[list[dict[str, Any]]]:
    """Note what the clients of this process send, and what they are answered."""
    noted: list[dict[str, Any]] = []
    send = httpx.AsyncClient.send

    async def note(self: Any, request: httpx.Request, **options: Any) -> httpx.Response:
        response = await send(self, request, **options)
        noted.append(
            {
                "method": request.method,
                "path": request.url.raw_path.decode(),
                "headers": {
                    name: request.headers[name] for name in SENT if name in request.headers
                },
                "body": json.loads(request.content) if request.content else None,
                "status": response.status_code,
                "answer": json.loads(await response.aread()),
            }
        )
        return response

    with mock.patch.object(httpx.AsyncClient, "send", note):
        yield noted


@contextmanager
def playing(noted: list[dict[str, Any]]) -> Iterator[None]:
    """Answer the clients of this process as they were answered once."""
    answers: dict[tuple[str, str], deque[Any]] = defaultdict(deque)
    for one in noted:
        answers[one["method"], one["path"].partition("?")[0]].append(one)

    async def answer(self: Any, request: httpx.Request, **_: Any) -> httpx.Response:
        waiting = answers[request.method, request.url.raw_path.decode().partition("?")[0]]
        assert waiting, f"{request.method} {request.url.path} was not asked"
        one = waiting.popleft() if len(waiting) > 1 else waiting[0]
        return httpx.Response(one["status"], json=one["answer"], request=request)

    with mock.patch.object(httpx.AsyncClient, "send", answer):
        yield


def lost(was: Any, now: Any, place: str = "answer", *, exactly: bool = False) -> list[str]:
    """Return a sentence for each thing of *was* that *now* has not, or has otherwise.

    Fields may be added. What another run tells otherwise, such as a time, only has to be there,
    unless *exactly* is said.
    """
    if isinstance(was, dict):
        if not isinstance(now, dict):
            return [f"{place} is no object any more"]
        gone = [f"{place}.{name} is gone" for name in was if name not in now]
        return gone + [
            fault
            for name, one in was.items()
            if name in now
            for fault in lost(one, now[name], f"{place}.{name}", exactly=exactly)
        ]
    if isinstance(was, list):
        if isinstance(now, dict) and now.keys() == {"tuple"}:  # clients of 0.1.0 gave lists
            now = now["tuple"]
        if not isinstance(now, list) or len(was) != len(now):
            return [f"{place} has other elements"]
        pairs = zip(was, now, strict=True)
        return [
            fault
            for at, (one, other) in enumerate(pairs)
            for fault in lost(one, other, f"{place}[{at}]", exactly=exactly)
        ]
    if not exactly and _is_volatile(place.rpartition(".")[2]):
        return [] if type(was) is type(now) else [f"{place} is of another type"]
    return [] if was == now and type(was) is type(now) else [f"{place} was {was!r}, is {now!r}"]


def _is_volatile(name: str) -> bool:
    name = name.partition("[")[0]
    return name.endswith(VOLATILE) and name not in STEADY


def exported_lines(url: str) -> dict[str, str]:
    """Return what `memalchemy store export` and `memalchemy export` print of a stored database."""
    commands = {"items": ("store", "export", "--vectors"), "records": ("export", "--all")}
    printed = dict.fromkeys(commands, "")
    for name, command in commands.items():
        for tenant in (TENANT, BESIDE):
            ended = CliRunner().invoke(app, [*command, "--db", url, "--tenant", tenant])
            assert ended.exit_code == 0, ended.output
            printed[name] += ended.stdout
    return printed


def lost_fields(was: Any, now: Any, place: str = "answer") -> list[str]:
    """Return a sentence for each field of *was* that *now* has not, or of another type."""
    if isinstance(was, dict) and isinstance(now, dict):
        gone = [f"{place}.{name} is gone" for name in was if name not in now]
        there = [name for name in was if name in now]
        pairs = [(was[name], now[name], f"{place}.{name}") for name in there]
    elif isinstance(was, list) and isinstance(now, list):
        gone = [f"{place} has fewer elements"] if len(now) < len(was) else []
        pairs = [(a, b, f"{place}[]") for a, b in zip(was, now, strict=False)]
    else:
        same = None in (was, now) or _kind(was) == _kind(now)
        return [] if same else [f"{place} is of another type"]
    return [*dict.fromkeys(gone + [fault for pair in pairs for fault in lost_fields(*pair)])]


def _kind(value: Any) -> type:
    return float if type(value) is int else type(value)
