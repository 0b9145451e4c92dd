"""The table of operations, the endpoints of the server, and the calls of the clients agree.

Each public method of each client is called with its required arguments, with each of the others,
and with all. The server is a stand-in that answers with an example of what the operation declares.
"""

from __future__ import annotations

import inspect
import json
import re
import typing
from collections.abc import AsyncIterator, Iterator
from datetime import UTC, datetime
from types import UnionType
from typing import Any
from urllib.parse import parse_qsl, urlsplit

import httpx
import pytest
from pydantic import BaseModel

from memalchemy import MemalchemyError, NewItem
from memalchemy.contracts import CheckpointerCapabilities, StoreItem
from memalchemy.errors import NotFound
from memalchemy.http import (
    HTTPCheckpointer,
    HTTPConversation,
    HTTPStore,
    HTTPThreadLog,
    Limits,
    operations,
)
from memalchemy.http.operations import OPERATIONS, Operation
from memalchemy.http.server import _schemas as schemas
from memalchemy.http.server._application import ENDPOINTS

TIME = datetime(2026, 1, 2, 3, 4, 5, tzinfo=UTC)
MESSAGE = {"role": "user", "content": "Hello"}
CALLS = {"id": "1", "type": "function", "function": {"name": "f", "arguments": "{}"}}
NAMES = [(("users", "a/b~c"), "k/1")]

GIVEN: dict[str, Any] = {
    "a": "x",
    "after": 1,
    "all_conversations": True,
    "all_namespaces": True,
    "alpha": 0.5,
    "among": 5,
    "b": "y",
    "before": {HTTPCheckpointer: "id", HTTPThreadLog: 9},
    "below": True,
    "checkpoint_id": "an/id",
    "checkpoint_ids": ["one", "two"],
    "content": "text",
    "data": True,
    "default": 1,
    "dest_thread_id": "copy",
    "dry_run": True,
    "embedding": [1.0, 2],
    "entries": [{"n": TIME}, "two"],
    "expected_parent": "id",
    "expected_version": 3,
    "field": "title",
    "filter": {"m": {"$gt": 1}},
    "function": lambda stored: {"n": 1},
    "if_exists": "skip",
    "items": [NewItem(("users",), "k", {1}, {"m": 1}, embedding=[1.0], ttl=5), (("a",), "b", 1)],
    "keep_every": 2,
    "keep_last": 3,
    "keep_vectors": True,
    "key": "k/1",
    "keys": {HTTPStore: NAMES, HTTPThreadLog: ["k1", None], HTTPConversation: ["k1"]},
    "limit": 7,
    "match": "all",
    "message": MESSAGE | {"role": "assistant", "tool_calls": [CALLS]},
    "messages": [MESSAGE],
    "metadata": {"m": 1},
    "metadata_filter": {"m": 1},
    "mmr": 0.5,
    "mode": "hybrid",
    "model": "small",
    "namespace": ("users", "a/b~c"),
    "new_keys": True,
    "new_thread_id": "copy",
    "newest": True,
    "newest_first": True,
    "occurred_at": TIME,
    "offset": 2,
    "older_than": 60,
    "older_than_days": 2.5,
    "order": "key",
    "parent_id": "id",
    "part": 1,
    "path": "/n",
    "pattern": "a*",
    "position": 4,
    "positions": [1, 2],
    "prefix": {"list_keys": "k", "iter_keys": "k", "list_namespaces": ("users",), HTTPStore: True},
    "query": "words",
    "query_embedding": [1.0, 2],
    "results": [{"role": "tool", "content": "r", "tool_call_id": "1"}],
    "since": TIME,
    "snapshot": {"messages": []},
    "source_thread_id": "t",
    "state": {"n": {1}},
    "summarized": 2,
    "text": "so far",
    "thread_id": "a/thread",
    "thread_ids": ["a", "b"],
    "threshold": 0.5,
    "ttl": 60,
    "until": TIME,
    "value": {"query_by_metadata": "red", "search_data": b"x", HTTPStore: {TIME}, HTTPThreadLog: 1},
}
"""Arguments by the names of parameters; where these mean several things, by method or class."""

LONE = {"after", "limit", "keys"}
"""Parameters that are not given together with all others: some exclude each other."""

UNCALLED = {
    "delete_thread": "it does what delete_checkpoints does, which servers of others have, too",
    "health_below_version": "it is for supervisors whose address ends with /v1",
    "health_live": "it is for supervisors",
    "health_ready": "it is for supervisors; /health says the same",
}
"""Operations that no client calls, with the reasons."""

UNSENT = {
    "list_checkpoints cursor": "the client asks for one page: servers of others have no cursors",
    "list_threads cursor": "the client asks for one page",
    "list_with_metadata cursor": "the client asks for one page",
    "conversation_messages before": "a client reads all beyond a position, or the newest",
    "conversation_messages since": "a client reads all beyond a position, or the newest",
    "conversation_messages until": "a client reads all beyond a position, or the newest",
    "save expected_parent": "a server of somebody else's does not take it",
    "save occurred_at": "a server of somebody else's does not take it",
    "save parent_id": "a server of somebody else's does not take it",
    "save ttl": "a server of somebody else's does not take it",
}
"""Parameters and fields that no client sends, with the reasons."""


def methods() -> Iterator[Any]:
    """Yield each client with each of its public methods that ask the server."""
    for client in (HTTPCheckpointer, HTTPStore, HTTPThreadLog, HTTPConversation):
        for name, method in inspect.getmembers(client, inspect.isfunction):
            is_async = inspect.iscoroutinefunction(method) or inspect.isasyncgenfunction(method)
            if is_async and not name.startswith("_") and name != "close":
                yield pytest.param(client, name, id=f"{client.__name__}.{name}")


METHODS = list(methods())


def argument(client: type, method: str, name: str) -> Any:
    found = GIVEN[name]
    if not isinstance(found, dict):
        return found
    return found.get(method, found.get(client, found))


def calls_of(client: type, method: str) -> Iterator[tuple[list[Any], dict[str, Any]]]:
    """Yield arguments: those that are required, each of the others with them, and all."""
    parameters = list(inspect.signature(getattr(client, method)).parameters.values())[1:]
    required = {one.name for one in parameters if one.default is one.empty}
    optional = [one.name for one in parameters if one.name not in required]
    sets = [required, *({*required, one} for one in optional), {*required, *optional} - LONE]
    for names in sets:
        given: list[Any] = []
        named: dict[str, Any] = {}
        for one in parameters:
            if one.name in names or one.name in required:
                value = argument(client, method, one.name)
                if one.kind is one.VAR_POSITIONAL:
                    given += value
                elif one.kind is one.KEYWORD_ONLY or one.name in optional:
                    named[one.name] = value
                else:
                    given.append(value)
        yield given, named


def example(annotation: Any) -> Any:
    """Return JSON that a schema, or the type of one of its fields, allows."""
    origin, inside = typing.get_origin(annotation), typing.get_args(annotation)
    if origin is typing.Annotated:
        return example(inside[0])
    if origin in (typing.Union, UnionType):
        return example(inside[0])
    if origin is typing.Literal:
        return inside[0]
    if origin is list:
        return [example(inside[0])]
    if origin is dict:
        return {"/a": example(inside[1])} if inside[1] is not Any else dict(MESSAGE)
    if isinstance(annotation, type) and issubclass(annotation, BaseModel):
        return {
            name: example(field.annotation)
            for name, field in annotation.model_fields.items()
            if field.is_required()
        }
    if annotation is datetime:
        return TIME.isoformat()
    return {str: "text", int: 1, float: 0.5, bool: True}.get(annotation, 1)


class Recorder:
    """A stand-in for a server: it notes requests, and answers with examples."""

    def __init__(self) -> None:
        self.sent: list[tuple[Operation, httpx.Request]] = []
        self.absent: Any = None
        """The JSON of a 404 for every request but that for the capabilities."""
        self.offer: Any = {
            "server": "memalchemy",
            "version": "1",
            "checkpointer": {name: True for name in CheckpointerCapabilities.__dataclass_fields__},
            "calls": [one.name for one in OPERATIONS],
            "max_body_bytes": 1_000_000,
            "encodings": [],
        }
        """Its capabilities; ``None`` for a server of somebody else's."""

    async def request(
        self, client: httpx.AsyncClient, method: str, url: str, *, content: Any, headers: Any
    ) -> httpx.Response:
        request = httpx.Request(method, url, content=content, headers=headers)
        operation = operation_of(request)
        self.sent.append((operation, request))
        if operation is operations.capabilities:
            if self.offer is None:
                return httpx.Response(404, json={"detail": "Not Found"})
            return httpx.Response(200, json=self.offer)
        if self.absent is not None:
            return httpx.Response(404, json=self.absent)
        if request.method == "GET" and "if-none-match" in request.headers:
            return httpx.Response(304)
        schema = getattr(schemas, operation.answer)
        answer = example(schema)
        if issubclass(schema, schemas.Page) and "cursor" not in query_of(request):
            answer["next"] = "cursor"
        return httpx.Response(operation.status, json=answer)


def operation_of(request: httpx.Request) -> Operation:
    """Return the operation to whose method and path a request goes."""
    path = request.url.raw_path.decode().split("?")[0]
    whole = path if path.startswith("/v1/") or path == "/health" else f"/v1{path}"
    (found,) = (
        one
        for one in OPERATIONS
        if one.method == request.method and re.fullmatch(re.sub(r"{\w+}", "[^/]+", one.path), whole)
    )
    return found


def query_of(request: httpx.Request) -> dict[str, str]:
    return dict(parse_qsl(urlsplit(str(request.url)).query, keep_blank_values=True))


@pytest.fixture
def server(monkeypatch: pytest.MonkeyPatch) -> Recorder:
    recorder = Recorder()

    async def request(self: httpx.AsyncClient, method: str, url: str, **options: Any) -> Any:
        return await recorder.request(self, method, url, **options)

    monkeypatch.setattr(httpx.AsyncClient, "request", request)
    return recorder


async def call(client: type, method: str, given: list[Any], named: dict[str, Any]) -> Any:
    """Call a method of a new client, which does not know its server yet."""
    object_ = client("http://server", *(["a/thread"] if client is HTTPConversation else []))
    try:
        result = getattr(object_, method)(*given, **named)
        return [one async for one in result] if isinstance(result, AsyncIterator) else await result
    finally:
        await object_.close()


def test_every_operation_of_the_table_has_an_endpoint() -> None:
    assert [one.operation for one in ENDPOINTS] == list(OPERATIONS)
    assert len({one.name for one in OPERATIONS}) == len(OPERATIONS)
    assert len({(one.method, one.path) for one in OPERATIONS}) == len(OPERATIONS)
    assert all(getattr(operations, one.name) is one for one in OPERATIONS)


@pytest.mark.parametrize("endpoint", ENDPOINTS, ids=lambda one: one.operation.name)
def test_the_function_of_an_operation_takes_what_the_operation_declares(endpoint: Any) -> None:
    operation = endpoint.operation
    hints = typing.get_type_hints(endpoint.function)

    taken = list(inspect.signature(endpoint.function).parameters)
    declared = [name for name in ("query", "body") if getattr(operation, name) is not None]
    declared += ["conditions"] if operation.conditional else []
    assert taken == ["context", *operation.parameters, *declared]
    assert hints.get("query") is endpoint.query
    assert hints.get("body") is endpoint.body
    assert endpoint.summary


@pytest.mark.parametrize("is_ours", [True, False], ids=["memalchemy", "of others"])
@pytest.mark.parametrize(("client", "method"), METHODS)
async def test_a_call_sends_what_its_operation_declares(
    client: type, method: str, is_ours: bool, server: Recorder
) -> None:
    if not is_ours:
        server.offer = None
    for given, named in calls_of(client, method):
        try:
            await call(client, method, given, named)
        except MemalchemyError:
            if is_ours:  # which answers as the operation declares
                raise

    assert server.sent
    for operation, request in server.sent:
        endpoint = next(one for one in ENDPOINTS if one.operation is operation)
        query, body = query_of(request), request.content
        if endpoint.query is not None:
            endpoint.query.model_validate(query, context=Limits())
        assert endpoint.query is not None or not query
        assert (endpoint.body is None) == (not body)
        if endpoint.body is not None:
            endpoint.body.model_validate(json.loads(body), context=Limits())


@pytest.mark.parametrize(("client", "method"), METHODS)
async def test_a_write_may_be_repeated_from_the_first_call_on(
    client: type, method: str, server: Recorder
) -> None:
    for given, named in calls_of(client, method):
        await call(client, method, given, named)

    for operation, request in server.sent:
        is_safe = "idempotency-key" in request.headers or "if-none-match" in request.headers
        assert is_safe or not operation.keyed, f"{operation.name} is sent without a key"
        assert "idempotency-key" not in request.headers or operation.keyed
        assert "if-none-match" not in request.headers or operation.conditional


@pytest.mark.parametrize(("client", "method"), METHODS)
@pytest.mark.parametrize("is_ours", [True, False], ids=["memalchemy", "of others"])
async def test_a_404_is_an_absence_only_where_the_operation_declares_it(
    client: type, method: str, is_ours: bool, server: Recorder
) -> None:
    # `health_check` is false then, and servers of others have no list of an unknown thread.
    server.absent = {"code": NotFound.code, "detail": "it is not there"}
    if not is_ours:
        server.offer, server.absent = None, {"detail": "nothing is here"}
    for given, named in calls_of(client, method):
        server.sent.clear()
        try:
            await call(client, method, given, named)
        except MemalchemyError:
            continue
        asked = [one for one, _ in server.sent if one is not operations.capabilities]
        undeclared = {one.name for one in asked if 404 not in one.problems}
        assert undeclared <= {"health", "list_checkpoints"}, "a 404 went unnoticed"


async def test_the_clients_call_every_operation_with_every_parameter_and_field(
    server: Recorder,
) -> None:
    for offer in (server.offer, None):
        server.offer = offer
        for client, method in (one.values for one in METHODS):
            for given, named in calls_of(client, method):
                try:
                    await call(client, method, given, named)
                except MemalchemyError:
                    if offer is not None:
                        raise
    await call(HTTPConversation, "restore", [[MESSAGE]], {})
    await call(HTTPThreadLog, "replace_suffix", ["t", 1, []], {"expected_version": 1})
    item = StoreItem(("users",), "k", 1, {}, TIME, TIME, 1, None)
    await call(HTTPStore, "put", [("users",), "k", 1], {"expected_version": item})
    await call(HTTPStore, "delete", [("users",), "k"], {"expected_version": item})

    called = {operation.name for operation, _ in server.sent}
    assert {one.name for one in OPERATIONS} - called == UNCALLED.keys()
    sent: set[str] = set()
    for operation, request in server.sent:
        names = {*query_of(request), *(json.loads(request.content) if request.content else ())}
        sent |= {f"{operation.name} {name}" for name in names}
    declared = {
        f"{one.name} {field}"
        for one in OPERATIONS
        if one.name in called
        for schema in (one.query, one.body)
        if schema is not None
        for field in getattr(schemas, schema).model_fields
    }
    assert sent <= declared
    assert declared - sent == UNSENT.keys()
