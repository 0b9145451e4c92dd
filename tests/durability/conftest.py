"""``place``: a migrated database of the test's own that several processes can share.

``network``: a network on the way to the server that does as it is told.
``direct``: a checkpointer of another process, which does not go through that network.
"""

from __future__ import annotations

import asyncio
import os
from collections.abc import AsyncIterator, Iterator
from pathlib import Path

import pytest
from proxy import Proxy, proxy

from memalchemy import Checkpointer, Database
from servers import Postgres


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    """A file and a server: a database in memory has one process."""
    if "place" in metafunc.fixturenames:
        asked = metafunc.config.getoption("--databases").split(",")
        chosen = [name for name in asked if name in ("sqlite", "postgresql", "oracle")]
        metafunc.parametrize("place", chosen or [asked[0]], indirect=True)


@pytest.fixture
def place(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[str]:
    """The database's URL."""
    if request.param.startswith("sqlite"):
        url = f"sqlite:///{tmp_path}/agent.db"
        asyncio.run(_migrate(url))
        yield url
        return
    if request.param == "oracle":  # one for all: each test has a tenant of its own
        url = os.environ["ORACLE_URL"]
        asyncio.run(_migrate(url))
        yield url
        return
    server: Postgres = request.getfixturevalue("postgres")
    name = server.create_database()
    url = server.url(name, driver="psycopg" if request.param == "psycopg" else "")
    asyncio.run(_migrate(url))
    yield url
    server.drop_database(name)


@pytest.fixture
async def network(postgres: Postgres) -> AsyncIterator[Proxy]:
    async with proxy(postgres) as front:
        yield front


@pytest.fixture
async def direct(db: Database, postgres: Postgres, name: str) -> AsyncIterator[Checkpointer]:
    """Another process, which reaches the server by another way and has nothing cached."""
    async with Database(postgres.url(name), tenant=db.tenant) as database:
        yield Checkpointer(database)


async def _migrate(url: str) -> None:
    db = Database(url)
    await db.migrate()
    await db.close()
