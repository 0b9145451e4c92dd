"""Pytest plugin that runs LangGraph's own tests of its savers on `MemalchemySaver`.

The working directory is an sdist of LangGraph's; see test_langgraph_saver_suite.py. The names
`PostgresSaver`, `SqliteSaver` and so on in its test modules become subclasses of `MemalchemySaver`
with the constructors of LangGraph's savers. Each database that the tests for PostgreSQL create is a
tenant of one database with our schema.
"""

from __future__ import annotations

import os
import re
import sys
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, contextmanager
from typing import Any

import langgraph.checkpoint.postgres
import langgraph.checkpoint.postgres.aio
import langgraph.checkpoint.sqlite
import langgraph.checkpoint.sqlite.aio
import pytest
from langgraph_saver_selection import LEFT_OUT, NOT_RUN, SAME, WHY_SAME
from sqlalchemy import NullPool
from suite_report import leave_out

from memalchemy import Database
from memalchemy.integrations.langgraph import MemalchemySaver

URL = os.environ.get("LANGGRAPH_SUITE_URL")
# Each test has an event loop of its own, and none of them closes the connections.
SERVER = Database(URL or "sqlite://", **({"poolclass": NullPool} if URL else {}))


def _database(given: Any) -> str | Database:
    """The database that a connection string means, or a connection of psycopg's."""
    if not isinstance(given, str):
        return SERVER.for_tenant(given.info.dbname)
    if given.startswith("postgres"):
        return SERVER.for_tenant(given.rsplit("/", 1)[1].split("?")[0])
    return "sqlite://" if given == ":memory:" else f"sqlite:///{given}"


class Plain(MemalchemySaver):
    """Made as the savers without ``await`` are."""

    def __init__(self, conn: Any, *, serde: Any = None) -> None:
        super().__init__(_database(conn), serde=serde)
        self.conn = conn

    @classmethod
    @contextmanager
    def from_conn_string(cls, conn_string: str) -> Iterator[Plain]:  # type: ignore[override]
        with cls(conn_string) as saver:
            yield saver

    def setup(self) -> None:
        """The schema is there, of all tenants."""


class Awaited(MemalchemySaver):
    """Made as the asynchronous savers are, whose ``setup`` is awaited."""

    def __init__(self, conn: Any, *, serde: Any = None) -> None:
        super().__init__(_database(conn), serde=serde)
        self.conn = conn

    @classmethod
    @asynccontextmanager
    async def from_conn_string(cls, conn_string: str) -> AsyncIterator[Awaited]:  # type: ignore[override]
        async with cls(conn_string) as saver:
            yield saver

    async def setup(self) -> None:  # type: ignore[override]
        """The schema is there, of all tenants."""


langgraph.checkpoint.sqlite.SqliteSaver = Plain  # type: ignore[misc,assignment]
langgraph.checkpoint.sqlite.aio.AsyncSqliteSaver = Awaited  # type: ignore[misc,assignment]
langgraph.checkpoint.postgres.PostgresSaver = Plain  # type: ignore[misc,assignment]
langgraph.checkpoint.postgres.aio.AsyncPostgresSaver = Awaited  # type: ignore[misc,assignment]


async def rows(saver: MemalchemySaver, thread_id: str) -> dict[str, list[Any]]:
    """Return the rows that LangGraph's tests of pruning read from its tables."""
    found: dict[str, list[Any]] = {"checkpoints": [], "writes": [], "blobs": []}
    async for one in saver.alist({"configurable": {"thread_id": thread_id}}):
        at = one.config["configurable"]
        place = at["checkpoint_ns"], at["checkpoint_id"]
        found["checkpoints"].append(place)
        for index, (task, *_) in enumerate(one.pending_writes or ()):
            found["writes"].append((*place, task, index))
        versions = one.checkpoint["channel_versions"]
        for channel in one.checkpoint["channel_values"]:
            found["blobs"].append((place[0], channel, versions[channel]))
    return {table: sorted(set(listed)) for table, listed in found.items()}


@pytest.fixture
def anyio_backend() -> str:
    return "asyncio"


def pytest_configure(config: pytest.Config) -> None:
    config.addinivalue_line("markers", "flaky(retries): theirs, and not used")


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    folder = os.path.basename(os.getcwd()).rsplit("-", 1)[0]
    package = folder.removeprefix("langgraph_checkpoint_")
    if prune := sys.modules.get("tests.test_prune"):
        prune._rows = rows  # type: ignore[attr-defined]

    def names_of(item: pytest.Item) -> list[str]:
        test = item.name.split("[")[0]
        return [f"{package}/{test}", f"{package}/{item.path.name}/{test}"]

    def reason_of(item: pytest.Item) -> str | None:
        if SAME & {*re.split("[^a-z_]+", item.name.partition("[")[2])}:
            return WHY_SAME
        return next((NOT_RUN[name] for name in names_of(item) if name in NOT_RUN), None)

    for item in items:
        if reasons := [LEFT_OUT[name] for name in names_of(item) if name in LEFT_OUT]:
            item.add_marker(pytest.mark.xfail(reason=reasons[0], strict=True))
    leave_out(items, reason_of)
