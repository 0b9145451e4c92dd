"""Pytest plugin that runs lauren-ai's own tests on our stores.

The working directory is lauren-ai's sdist; see test_lauren_ai_suite.py. The names `SQLite…Store`
and `InMemory…Store` become our stores with the constructors of lauren-ai's: with the path of a
file, with a backend, or with nothing. If LAUREN_SUITE_URL is set, they use that database, each with
a tenant of its own.
"""

from __future__ import annotations

import asyncio
import os
import threading
import uuid
from collections.abc import AsyncIterator, Coroutine
from typing import Any

import lauren_ai
import lauren_ai._memory
import lauren_ai._memory._in_memory_user
import lauren_ai._memory._sqlite
import lauren_ai._memory._stores
import lauren_ai._memory._vector
import lauren_ai._module
import pytest_asyncio

from memalchemy import Database
from memalchemy.integrations.lauren_ai import (
    MemalchemyConversationStore,
    MemalchemyUserMemoryStore,
    MemalchemyVectorStore,
)

URL = os.environ.get("LAUREN_SUITE_URL")
_shared = None if URL is None else Database(URL)


def database(given: Any) -> Database:
    """A `Database` for what their stores are made with."""
    if isinstance(given, Database):
        return given
    path = given if isinstance(given, str) else given.database_path
    is_new = path == ":memory:"
    if _shared is not None:
        name = uuid.uuid4().hex if is_new else uuid.uuid5(uuid.NAMESPACE_URL, path).hex
        return _shared.for_tenant(name)
    return Database("sqlite://" if is_new else f"sqlite:///{path}")


class Backend:
    """Made as `SQLiteStoreBackend` is; what it opens is a `Database`."""

    @staticmethod
    async def connect(config: Any) -> Database:
        return await database(config).__aenter__()


class MadeAsTheirs:
    """Put before a store of ours."""

    def __init__(self, given: Any = ":memory:", **options: Any) -> None:
        super().__init__(database(given), **options)  # type: ignore[call-arg]


class Conversations(MadeAsTheirs, MemalchemyConversationStore):
    def __len__(self) -> int:
        return len(done(self.list_conversations()))


class Facts(MadeAsTheirs, MemalchemyUserMemoryStore):
    def __len__(self) -> int:
        return len(done(self.native.store.list_namespaces(self.native.namespace)))


class Documents(MadeAsTheirs, MemalchemyVectorStore):
    def __len__(self) -> int:
        return int(done(self.native.count()))


def done(work: Coroutine[Any, Any, Any]) -> Any:
    """Run *work* on an event loop of its own: lauren-ai's `len` is not a coroutine."""
    found: list[Any] = []
    thread = threading.Thread(target=lambda: found.append(asyncio.run(work)))
    thread.start()
    thread.join()
    return found[0]


for module in (
    lauren_ai,
    lauren_ai._memory,
    lauren_ai._module,
    lauren_ai._memory._sqlite,
    lauren_ai._memory._stores,
    lauren_ai._memory._vector,
    lauren_ai._memory._in_memory_user,
):
    for name, ours in {
        "SQLiteConversationStore": Conversations,
        "InMemoryConversationStore": Conversations,
        "SQLiteUserMemoryStore": Facts,
        "InMemoryUserMemoryStore": Facts,
        "SQLiteVectorStore": Documents,
        "InMemoryVectorStore": Documents,
        "SQLiteStoreBackend": Backend,
    }.items():
        if hasattr(module, name):
            setattr(module, name, ours)


@pytest_asyncio.fixture(autouse=True)
async def _no_connection_outlives_its_loop() -> AsyncIterator[None]:
    yield
    if _shared is not None:
        await _shared.close()
