"""``place``: a migrated database of the test's own that several processes can share.

``name`` and ``network``: a migrated database on the server, and a network on the way to it that
does as it is told.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Iterator
from pathlib import Path

import pytest
from proxy import Proxy, proxy

from memalchemy import Database
from servers import Postgres


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    """A file and a server: a database in memory has one process."""
    if "place" in metafunc.fixturenames:
        asked = metafunc.config.getoption("--databases").split(",")
        chosen = [name for name in asked if name in ("sqlite", "postgresql")]
        metafunc.parametrize("place", chosen or [asked[0]], indirect=True)


@pytest.fixture
def place(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[str]:
    """The database's URL."""
    if request.param.startswith("sqlite"):
        url = f"sqlite:///{tmp_path}/agent.db"
        asyncio.run(_migrate(url))
        yield url
        return
    server: Postgres = request.getfixturevalue("postgres")
    name = server.create_database()
    url = server.url(name, driver="psycopg" if request.param == "psycopg" else "")
    asyncio.run(_migrate(url))
    yield url
    server.drop_database(name)


@pytest.fixture(scope="module")
def name(postgres: Postgres) -> Iterator[str]:
    """A migrated database of this module's."""
    database = postgres.create_database()
    asyncio.run(_migrate(postgres.url(database)))
    yield database
    postgres.drop_database(database)


@pytest.fixture
async def network(postgres: Postgres) -> AsyncIterator[Proxy]:
    async with proxy(postgres) as front:
        yield front


async def _migrate(url: str) -> None:
    db = Database(url)
    await db.migrate()
    await db.close()
