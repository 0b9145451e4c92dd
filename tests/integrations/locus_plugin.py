"""Pytest plugin that runs locus-sdk's own tests on our checkpointer and store.

``MemoryCheckpointer``, ``FileCheckpointer`` and ``InMemoryStore`` become our adapters, under the
names that the tests expect in a ``repr``. If LOCUS_SUITE_URL is set, they use that database, each
with a tenant of its own, because each of locus' begins empty; otherwise they are made without
arguments.
"""

from __future__ import annotations

import hashlib
import os
import tempfile
import uuid
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import locus.memory
import locus.memory.backends.file
import locus.memory.backends.memory
import locus.memory.store
import pytest
import pytest_asyncio
from cryptography.fernet import Fernet
from locus_selection import LEFT_OUT, WITHOUT_SEARCH

from memalchemy import Database, Retention
from memalchemy.integrations.locus import MemalchemyCheckpointer, MemalchemyStore

URL = os.environ.get("LOCUS_SUITE_URL")
_shared = None if URL is None else Database(URL)
_files = Path(tempfile.mkdtemp(prefix="locus-suite-"))
_encrypted = False


def _database(*readable: str) -> Database | None:
    if _encrypted:
        return Database("sqlite://", keys=[Fernet.generate_key()], readable=readable)
    return None if _shared is None else _shared.for_tenant(uuid.uuid4().hex)


class MemoryCheckpointer(MemalchemyCheckpointer):
    def __init__(self) -> None:
        super().__init__(_database())


class FileCheckpointer(MemalchemyCheckpointer):
    """In a SQLite file for each directory."""

    def __init__(
        self,
        base_dir: str | Path = ".locus_checkpoints",
        *,
        pretty: bool = True,
        max_checkpoints_per_thread: int | None = None,
    ) -> None:
        keep = max_checkpoints_per_thread
        retention = None if keep is None else Retention(keep_last=keep)
        name = hashlib.sha256(str(base_dir).encode()).hexdigest()
        super().__init__(f"sqlite:///{_files / name}.db", retention=retention)


class InMemoryStore(MemalchemyStore):
    def __init__(self) -> None:
        super().__init__(_database("text"))


for module in (locus.memory, locus.memory.store):
    module.InMemoryStore = InMemoryStore  # type: ignore[misc]
for module in (locus.memory.backends, locus.memory.backends.memory):
    module.MemoryCheckpointer = MemoryCheckpointer  # type: ignore[misc]
for module in (locus.memory.backends, locus.memory.backends.file):
    module.FileCheckpointer = FileCheckpointer  # type: ignore[misc]


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    for item in items:
        if reason := LEFT_OUT.get(item.nodeid):
            item.add_marker(pytest.mark.xfail(reason=reason, strict=True))


def pytest_runtest_setup(item: pytest.Item) -> None:
    global _encrypted
    _encrypted = item.nodeid in WITHOUT_SEARCH


@pytest_asyncio.fixture(autouse=True)
async def _no_connection_outlives_its_loop() -> AsyncIterator[Any]:
    yield
    if _shared is not None:
        await _shared.close()
