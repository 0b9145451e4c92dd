"""Fixtures of the migration tests: databases without a schema, on a file and on a server."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TypeVar

import pytest
from sqlalchemy import Connection

from memalchemy import Database
from servers import Postgres

T = TypeVar("T")
KINDS = ("sqlite", "postgresql")


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    if "kind" in metafunc.fixturenames:
        chosen = metafunc.config.getoption("--databases").split(",")
        metafunc.parametrize("kind", [k for k in KINDS if k in chosen] or KINDS, scope="session")


@pytest.fixture
def fresh_url(kind: str, tmp_path: Path, request: pytest.FixtureRequest) -> Iterator[str]:
    """A database without a schema that several processes can open."""
    if kind == "sqlite":
        yield f"sqlite:///{tmp_path}/fresh.db"
        return
    server: Postgres = request.getfixturevalue("postgres")
    name = server.create_database()
    yield server.url(name)
    server.drop_database(name)


@pytest.fixture
def fresh_postgres(postgres: Postgres) -> Iterator[str]:
    """The name of a PostgreSQL database without a schema."""
    name = postgres.create_database()
    yield name
    postgres.drop_database(name)


@pytest.fixture
def on_connection() -> Callable[..., object]:
    """Run a function of a synchronous connection on a database, from a test without a loop."""

    def run(url: str, job: Callable[[Connection], T], schema: str | None = None) -> T:
        async def main() -> T:
            db = Database(url, schema=schema, migrate="off")
            try:
                return await db.run_sync(job)
            finally:
                await db.close()

        return asyncio.run(main())

    return run
