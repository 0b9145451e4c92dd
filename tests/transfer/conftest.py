"""Two databases to copy between, of different kinds; all statements watched."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterator
from pathlib import Path

import pytest

from golden.watch import Watch
from memalchemy import Database
from servers import Postgres

PAIRS = (("sqlite", "postgresql"), ("psycopg", "sqlite"))


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    if "pair" in metafunc.fixturenames:
        asked = metafunc.config.getoption("--databases").split(",")
        chosen = [pair for pair in PAIRS if set(pair) <= set(asked)]
        metafunc.parametrize("pair", chosen or [(asked[0], asked[0])], ids="-".join)


@pytest.fixture(autouse=True)
def every_statement_is_registered() -> Iterator[None]:
    with Watch() as watch:
        yield
    assert not watch.complaints, "\n".join(watch.complaints)


@pytest.fixture
def urls(
    pair: tuple[str, str], tmp_path: Path, request: pytest.FixtureRequest
) -> Iterator[list[str]]:
    """The URLs of two databases of the test's own, without a schema."""
    made: list[str] = []
    names: list[str] = []
    for number, kind in enumerate(pair):
        if kind == "sqlite":
            made.append(f"sqlite:///{tmp_path}/{number}.db")
            continue
        server: Postgres = request.getfixturevalue("postgres")
        names.append(server.create_database())
        made.append(server.url(names[-1], driver="psycopg" if kind == "psycopg" else ""))
    yield made
    for name in names:
        server.drop_database(name)


@pytest.fixture
async def source(urls: list[str]) -> AsyncIterator[Database]:
    db = Database(urls[0], tenant="acme")
    await db.migrate()
    async with db:
        yield db


@pytest.fixture
async def target(urls: list[str]) -> AsyncIterator[Database]:
    db = Database(urls[1], tenant="acme")
    await db.migrate()
    async with db:
        yield db
        assert (await db.health())["checked_out"] == 0
