"""Fixtures: a database behind a real server, and its client."""

from __future__ import annotations

import uuid
from collections.abc import AsyncIterator, Iterator

import pytest

from httpserver import running
from memalchemy import Database
from memalchemy.http import HTTPCheckpointer

TENANTS = 200


@pytest.fixture(scope="module")
def doors(shared_url: str) -> Iterator[tuple[str, Iterator[str]]]:
    """A server of the module's, and tokens to it: each is of a tenant of its own."""
    tokens = {f"token-{uuid.uuid4().hex}": f"t-{uuid.uuid4().hex[:16]}" for _ in range(TENANTS)}
    with running(Database(shared_url), tokens=tokens) as url:
        yield url, iter(tokens)


@pytest.fixture
async def checkpointer(doors: tuple[str, Iterator[str]]) -> AsyncIterator[HTTPCheckpointer]:
    """In place of the checkpointer of the behavioural suite."""
    url, tokens = doors
    async with HTTPCheckpointer(url, token=next(tokens)) as client:
        yield client


@pytest.fixture
def base_url(db: Database) -> Iterator[str]:
    """A server on *db*, whose tenant is the test's own, without tokens."""
    with running(db) as url:
        yield url
