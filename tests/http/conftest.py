"""Fixtures: a real server with a database behind it, and a client of it."""

from __future__ import annotations

import uuid
from collections.abc import AsyncIterator, Iterator

import pytest

from httpserver import running
from memalchemy import Database
from memalchemy.http import HTTPCheckpointer

TENANTS = 200


@pytest.fixture(scope="module")
def token_server(shared_url: str) -> Iterator[tuple[str, Iterator[str]]]:
    """The URL of one server for the whole module, and tokens to it, each of another tenant."""
    tokens = {f"token-{uuid.uuid4().hex}": f"t-{uuid.uuid4().hex[:16]}" for _ in range(TENANTS)}
    with running(Database(shared_url), tokens=tokens) as url:
        yield url, iter(tokens)


@pytest.fixture
async def checkpointer(token_server: tuple[str, Iterator[str]]) -> AsyncIterator[HTTPCheckpointer]:
    """An `HTTPCheckpointer`, in place of the `Checkpointer` of the behavioural suite."""
    url, tokens = token_server
    async with HTTPCheckpointer(url, token=next(tokens)) as client:
        yield client


@pytest.fixture
def base_url(db: Database) -> Iterator[str]:
    """The URL of a server without tokens on *db*, whose tenant is the test's own."""
    with running(db) as url:
        yield url
