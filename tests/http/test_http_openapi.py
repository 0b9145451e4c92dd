"""The OpenAPI document: complete, and true of a real server as schemathesis uses it."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import httpx
import pytest

from documented_operations import check_operations
from httpserver import TOKEN, running
from memalchemy import Database
from memalchemy.http import (
    HTTPCheckpointer,
    HTTPConversation,
    HTTPStore,
    HTTPThreadLog,
    Limits,
    blocking,
)
from memalchemy.http.server._application import OPERATIONS

DOCUMENTED = [
    ("POST", "/v1/threads/{thread_id}/checkpoints"),
    ("GET", "/v1/threads/{thread_id}/checkpoints/{checkpoint_id}"),
    ("GET", "/v1/threads/{thread_id}/checkpoints"),
    ("DELETE", "/v1/threads/{thread_id}/checkpoints/{checkpoint_id}"),
]


@pytest.fixture
def url(tmp_path: Path) -> Any:
    db = Database(f"sqlite:///{tmp_path}/agent.db")
    limits = Limits(unknown_tokens=100_000)  # schemathesis tries some
    with running(db, tokens={TOKEN: "acme"}, limits=limits) as url:
        yield url


def test_the_document_has_every_operation_and_no_other(url: str) -> None:
    document = httpx.get(f"{url}/v1/openapi.json").json()

    assert document["openapi"].startswith("3.1")
    there = {(m.upper(), path) for path, ms in document["paths"].items() for m in ms}
    assert there == {(operation.method, operation.path) for operation in OPERATIONS}
    assert there >= set(DOCUMENTED)
    names = [
        one["operationId"] for methods in document["paths"].values() for one in methods.values()
    ]
    assert len(names) == len(set(names))
    unguarded = {
        path
        for path, methods in document["paths"].items()
        for operation in methods.values()
        if "security" not in operation
    }
    assert unguarded == {"/health", "/v1/health", "/health/live", "/health/ready"}
    assert TOKEN not in json.dumps(document)


def test_the_document_describes_the_headers(url: str) -> None:
    document = httpx.get(f"{url}/v1/openapi.json").json()
    paths, headers = document["paths"], document["components"]["headers"]

    def sent(operation: Any) -> set[str]:
        return {one["name"] for one in operation["parameters"] if one["in"] == "header"}

    item = paths["/v1/store/{namespace}/items/{key}"]
    assert sent(item["get"]) == {"X-Request-Id", "Accept-Encoding", "If-None-Match"}
    assert sent(item["put"]) >= {"If-Match", "If-None-Match", "Idempotency-Key"}
    assert "gzip" in item["put"]["requestBody"]["description"]
    assert "ETag" in item["get"]["responses"]["200"]["headers"]
    assert "ETag" in item["get"]["responses"]["304"]["headers"]
    assert "ETag" in item["put"]["responses"]["412"]["headers"]
    assert headers["X-Request-Id"]["required"]
    for operation in (one for methods in paths.values() for one in methods.values()):
        for response in operation["responses"].values():
            names = set(response["headers"])
            assert "X-Request-Id" in names
            assert names <= set(headers)


OF_OTHERS = {"health", "health_below_version", "health_live", "health_ready"}
"""Operations for supervisors and load balancers; the first is that of `health_check`."""

METHODS = {
    HTTPCheckpointer: {
        "capabilities": "connect",
        "put_checkpoint": "save",
        "load_newest": "load",
        "delete_checkpoint": "delete",
        "delete_thread": "delete",
        "delete_checkpoints": "delete",
        "delete_some_checkpoints": "delete_checkpoints",
        "get_newest_metadata": "get_metadata",
        "list_all_logs": "list_logs",
        "list_namespaces": "namespaces",
    },
    HTTPStore: {"store_list": "list_items", "store_clear": "clear_namespace"},
    HTTPThreadLog: {"list_logs": "list_threads", "log_entries": "range"},
    HTTPConversation: {
        "conversation_messages": "history",
        "conversation_exchange": "active_tool_exchange",
        "conversation_begin_exchange": "begin_tool_exchange",
        "conversation_add_results": "add_tool_results",
        "conversation_commit_exchange": "commit_tool_exchange",
        "conversation_abort_exchange": "abort_tool_exchange",
    },
}
"""The methods of the clients for operations, where their names differ."""

PREFIXES = {
    HTTPCheckpointer: "",
    HTTPStore: "store_",
    HTTPThreadLog: "log_",
    HTTPConversation: "conversation_",
}


@pytest.mark.parametrize("name", sorted(one.name for one in OPERATIONS))
def test_every_operation_has_a_method_of_a_client(name: str) -> None:
    if name in OF_OTHERS:
        return
    found = [
        (client, names.get(name, name.removeprefix(PREFIXES[client])))
        for client, names in METHODS.items()
        if name in names or name.startswith(PREFIXES[client])
    ]
    client, method = next((one for one in found if name in METHODS[one[0]]), found[-1])

    assert callable(getattr(client, method))
    assert callable(getattr(getattr(blocking, client.__name__), method))


def test_every_operation_behaves_as_documented(url: str, tmp_path: Path) -> None:
    """With all that the schemas say; tests/fuzz does with what is random."""
    check_operations(url, tmp_path, phase="coverage")
