"""LangChain's own tests: those of langchain-tests, and those of langchain-core's sdist, upon ours.

The standard tests of langchain-tests are subclassed as LangChain asks of every integration; none is
left out. The counts of langchain-core's are those of this release.
"""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import pytest
import suites
from langchain_core.documents import Document
from langchain_core.messages import AIMessage
from langchain_tests.integration_tests import VectorStoreIntegrationTests
from langchain_tests.integration_tests.base_store import BaseStoreAsyncTests, BaseStoreSyncTests
from langchain_tests.integration_tests.cache import AsyncCacheTestSuite, SyncCacheTestSuite

from memalchemy import Database
from memalchemy.integrations.langchain import (
    MemalchemyByteStore,
    MemalchemyCache,
    MemalchemyStore,
    MemalchemyVectorStore,
)

VERSION = "1.8.3"
SUITE = "langchain-tests"
"""The package of the tests that the classes below inherit."""

MODULES = {
    "indexing/test_in_memory_record_manager.py": 9,
    "indexing/test_indexing.py": 45,
    "runnables/test_history.py": 23,
    "chat_history/test_chat_history.py": 6,
    "language_models/chat_models/test_cache.py": 15,
    "language_models/llms/test_cache.py": 4,
}
"""Of each, how many pass; one of chat models' is expected to fail there, whatever the cache.

The tests of ``stores`` and ``vectorstores`` run the standard tests below on the classes in memory,
and what else they test is of these classes alone: a file that they write, a filter that is a
function.
"""


def test_langchain_cores_own_tests_pass(tmp_path: Path, shared_url: str, lasting: None) -> None:
    sdist = suites.unpacked("langchain-core", VERSION, tmp_path)
    modules = [f"tests/unit_tests/{name}" for name in MODULES]
    # Their conftest forbids blocking calls by a package that nothing else here needs.
    options = [*suites.AS_OURS, "-o", "filterwarnings=", "--noconftest"]
    environment = {**os.environ, "MEMALCHEMY_SUITE_URL": shared_url}
    counts, said = suites.run(
        sdist, "langchain_plugin", *options, *modules, environment=environment
    )

    assert counts == {"passed": sum(MODULES.values()), "expected to fail": 1}, said


class TestStore(BaseStoreSyncTests[Any]):
    @pytest.fixture
    def kv_store(self, db: Database) -> Any:
        return MemalchemyStore(db)

    @pytest.fixture
    def three_values(self) -> tuple[Any, Any, Any]:
        return {"a": [1, None]}, Document("text", id="1", metadata={"b": 2}), AIMessage("hello")


class TestAsyncStore(BaseStoreAsyncTests[Any]):
    @pytest.fixture
    async def kv_store(self, db: Database) -> Any:
        return MemalchemyStore(db)

    @pytest.fixture
    def three_values(self) -> tuple[Any, Any, Any]:
        return {"a": [1, None]}, Document("text", id="1", metadata={"b": 2}), AIMessage("hello")


class TestByteStore(BaseStoreSyncTests[bytes]):
    @pytest.fixture
    def kv_store(self, db: Database) -> Any:
        return MemalchemyByteStore(db)

    @pytest.fixture
    def three_values(self) -> tuple[bytes, bytes, bytes]:
        return b"", b"\x00\xff", b"text"


class TestAsyncByteStore(BaseStoreAsyncTests[bytes]):
    @pytest.fixture
    async def kv_store(self, db: Database) -> Any:
        return MemalchemyByteStore(db)

    @pytest.fixture
    def three_values(self) -> tuple[bytes, bytes, bytes]:
        return b"", b"\x00\xff", b"text"


class TestVectorStore(VectorStoreIntegrationTests):
    @pytest.fixture
    def vectorstore(self, db: Database) -> Any:
        return MemalchemyVectorStore(db, embedding=self.get_embeddings())


class TestCache(SyncCacheTestSuite):
    @pytest.fixture
    def cache(self, db: Database) -> Any:
        return MemalchemyCache(db)


class TestAsyncCache(AsyncCacheTestSuite):
    @pytest.fixture
    async def cache(self, db: Database) -> Any:
        return MemalchemyCache(db)
