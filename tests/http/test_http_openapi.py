"""The OpenAPI document: complete, and true of a real server as schemathesis uses it."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import httpx
import pytest

from httpserver import TOKEN, running
from memalchemy import Database
from memalchemy.http import Limits
from memalchemy.http.server._application import OPERATIONS

HERE = Path(__file__).parent
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
    assert unguarded == {"/health", "/health/live", "/health/ready"}
    assert TOKEN not in json.dumps(document)


def test_every_operation_behaves_as_documented(url: str, tmp_path: Path) -> None:
    asked = subprocess.run(
        [
            sys.executable,
            "-c",
            "from schemathesis.cli import schemathesis; schemathesis()",
            "--config-file",
            str(HERE / "schemathesis.toml"),
            "run",
            f"{url}/v1/openapi.json",
            "--header",
            f"Authorization: Bearer {TOKEN}",
            "--max-examples=3",
            "--generation-deterministic",
            "--no-color",
            "--phases=coverage,fuzzing",
        ],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        timeout=570,  # against a hang; a busy machine takes minutes
        check=False,
    )

    assert asked.returncode == 0, asked.stdout[-6000:] + asked.stderr[-2000:]
    assert f"Tested: {len(OPERATIONS)}" in asked.stdout
