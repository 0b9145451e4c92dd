"""Pytest plugin that runs LangGraph's own tests of its stores on `MemalchemyStore`.

The working directory is an sdist of LangGraph's; see test_langgraph_store_suite.py. The names
`PostgresStore`, `SqliteStore`, `InMemoryStore` and so on in its test modules become subclasses of
`MemalchemyStore` with the constructors of LangGraph's stores. Each database that the tests for
PostgreSQL create is a tenant of one database with our schema.
"""

from __future__ import annotations

import os
import re
import sys
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, contextmanager
from types import ModuleType
from typing import Any
from unittest import mock

import langgraph.store.memory
import langgraph.store.postgres
import langgraph.store.sqlite
import langgraph.store.sqlite.aio
import pytest
from langgraph_store_selection import LEFT_OUT, NOT_RUN
from sqlalchemy import NullPool
from suite_report import leave_out

from memalchemy import Database
from memalchemy.integrations.langgraph import MemalchemyStore

SAME = {"pipe", "pool", "halfvec"}
"""Parameters of tests that are of psycopg, or of a type of a column."""
WHY_SAME = "the same test with a pipeline or pool of psycopg, or another type of a column"
URL = os.environ.get("LANGGRAPH_SUITE_URL")
# Each test has an event loop of its own, and none of them closes the connections.
SERVER = Database(URL or "sqlite://", **({"poolclass": NullPool} if URL else {}))


class NoCursor:
    """Cursor for fixtures of LangGraph's own tables; it refuses statements of tests."""

    def execute(self, sql: str) -> None:
        assert sql == "DROP TABLE IF EXISTS store_migrations"


class Plain(MemalchemyStore):
    """Made as the stores without ``await`` are."""

    MIGRATIONS = ()

    def __init__(self, index: Any = None, ttl: Any = None, *, on: Any = "sqlite://") -> None:
        super().__init__(on, index=index, ttl=ttl)

    @classmethod
    @contextmanager
    def from_conn_string(
        cls, conn_string: str, *, index: Any = None, ttl: Any = None, **of_the_driver: Any
    ) -> Iterator[Plain]:
        with cls(index, ttl, on=_database(conn_string)) as store:
            yield store

    @contextmanager
    def _cursor(self) -> Iterator[NoCursor]:
        yield NoCursor()


class Awaited(MemalchemyStore):
    """Made as the asynchronous stores are, whose methods beside `BaseStore`'s have no ``a``."""

    MIGRATIONS = ()

    @classmethod
    @asynccontextmanager
    async def from_conn_string(
        cls, conn_string: str, *, index: Any = None, ttl: Any = None, **of_the_driver: Any
    ) -> AsyncIterator[Awaited]:
        async with cls(_database(conn_string), index=index, ttl=ttl) as store:
            yield store

    async def setup(self) -> None:  # type: ignore[override]
        await super().asetup()

    async def sweep_ttl(self) -> int:  # type: ignore[override]
        return await super().asweep_ttl()

    async def start_ttl_sweeper(self, minutes: float | None = None) -> Any:  # type: ignore[override]
        return super().start_ttl_sweeper(minutes)

    async def stop_ttl_sweeper(self, *_: float) -> bool:  # type: ignore[override]
        return await super().astop_ttl_sweeper()

    @asynccontextmanager
    async def _cursor(self) -> AsyncIterator[Any]:
        class Cursor(NoCursor):
            async def execute(self, sql: str) -> None:  # type: ignore[override]
                super().execute(sql)

        yield Cursor()


def _database(conn_string: str) -> str | Database:
    if conn_string.startswith("postgres"):
        return SERVER.for_tenant(conn_string.rsplit("/", 1)[1].split("?")[0])
    return "sqlite://" if conn_string == ":memory:" else f"sqlite:///{conn_string}"


langgraph.store.memory.InMemoryStore = Plain  # type: ignore[misc]
langgraph.store.sqlite.SqliteStore = Plain  # type: ignore[misc]
langgraph.store.postgres.PostgresStore = Plain  # type: ignore[misc]
langgraph.store.sqlite.AsyncSqliteStore = Awaited  # type: ignore[misc]
langgraph.store.sqlite.aio.AsyncSqliteStore = Awaited  # type: ignore[misc]
langgraph.store.postgres.AsyncPostgresStore = Awaited  # type: ignore[misc]

if "pytest_mock" not in sys.modules:  # for the annotations of tests that are not of a store
    module = ModuleType("pytest_mock")
    module.MockerFixture = object  # type: ignore[attr-defined]
    sys.modules["pytest_mock"] = module


class Mocker:
    """As much of pytest-mock as the tests of stores use."""

    def __init__(self) -> None:
        self.patches: list[Any] = []

    def spy(self, of: type, name: str) -> Any:
        patch = mock.patch.object(of, name, autospec=True, side_effect=getattr(of, name))
        self.patches.append(patch)
        return patch.start()


@pytest.fixture
def mocker() -> Iterator[Mocker]:
    made = Mocker()
    yield made
    for patch in made.patches:
        patch.stop()


def pytest_configure(config: pytest.Config) -> None:
    config.addinivalue_line("markers", "flaky(retries): theirs, and not used")


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    folder = os.path.basename(os.getcwd()).rsplit("-", 1)[0]
    package = folder.removeprefix("langgraph_checkpoint").strip("_") or "memory"

    def names_of(item: pytest.Item) -> list[str]:
        test = item.name.split("[")[0]
        return [f"{package}/{test}", f"{package}/{item.path.name}/{test}"]

    def reason_of(item: pytest.Item) -> str | None:
        if SAME & {*re.split("[^a-z]+", item.name.partition("[")[2])}:
            return WHY_SAME
        return NOT_RUN.get(names_of(item)[0])

    for item in items:
        if reasons := [LEFT_OUT[name] for name in names_of(item) if name in LEFT_OUT]:
            item.add_marker(pytest.mark.xfail(reason=reasons[0], strict=True))
    leave_out(items, reason_of)
