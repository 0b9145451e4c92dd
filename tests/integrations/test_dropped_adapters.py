"""An object for each request that nobody closes: what all of them hold is what one database has.

The cyclic garbage collector is off: nobody waits for it.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import threading
from collections.abc import AsyncIterator, Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from subjects import INSTALLED

from garbage import no_collector
from memalchemy import Store
from memalchemy.integrations import _base
from servers import Postgres, migrated_database
from waiting import until

ADAPTERS: dict[type[Any], Callable[..., Any]] = {
    cls: make for module in INSTALLED.values() for cls, make in module.ADAPTERS.items()
}
HERE = ("test", "dropped")
POOL = 15
"""Connections that SQLAlchemy's pool opens at most, without options."""
FILES = 40
"""Threads and open files of one SQLite database, and of one that is just ending."""


def name_of(cls: type) -> str:
    return f"{cls.__module__.split('.')[2]}.{cls.__name__}"


@dataclass
class Place:
    """Where the adapters put their data, and what the process holds there."""

    url: str
    server: Postgres | None

    def held(self) -> int:
        """Return the number of connections to the server, or of threads and open files."""
        if self.server is None:
            threads = [one for one in threading.enumerate() if one.name.startswith("memalchemy")]
            return len(threads) + sum("dropped.db" in name for name in open_files())
        name = self.url.partition("?")[0].rpartition("/")[2]
        query = f"SELECT count(*) FROM pg_stat_activity WHERE datname = '{name}'"
        return int(self.server.execute(query)[0][0])

    @property
    def most(self) -> int:
        return FILES if self.server is None else POOL


def open_files() -> list[str]:
    found = []
    for number in os.listdir("/proc/self/fd"):
        with contextlib.suppress(OSError):
            found.append(os.readlink(f"/proc/self/fd/{number}"))
    return found


@pytest.fixture(params=["sqlite", "asyncpg", "psycopg"])
def place(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Place]:
    if request.param == "sqlite":
        yield Place(f"sqlite:///{tmp_path}/dropped.db", None)
        return
    server: Postgres = request.getfixturevalue("postgres")
    with migrated_database(server) as name:
        yield Place(server.url(name, driver=request.param), server)


@pytest.fixture(autouse=True)
async def silent_without_collector(caplog: pytest.LogCaptureFixture) -> AsyncIterator[None]:
    """Warnings are errors here, those of objects that are collected in the end too."""
    _base._kept.clear()
    with no_collector():
        yield
        _base._kept.clear()
        await asyncio.sleep(0)
    assert "garbage collector is trying to clean up" not in caplog.text


async def use(adapter: Any) -> None:
    await Store(adapter.db).put(HERE, "key", "value")


async def use_without_await(adapter: Any) -> None:
    await asyncio.to_thread(lambda: adapter.wait(use(adapter)))


@pytest.mark.parametrize("work", [use, use_without_await], ids=["await", "wait"])
@pytest.mark.parametrize("cls", ADAPTERS, ids=name_of)
async def test_dropped_adapters_hold_no_more_than_one_pool(
    cls: type, work: Callable[[Any], Any], place: Place
) -> None:
    make = ADAPTERS[cls]
    rounds = 200 if cls.shares_databases else 8  # type: ignore[attr-defined]
    for _ in range(rounds):
        await work(make(place.url))
        await until(lambda: place.held() <= place.most, "dropped adapters hold what they opened")


@pytest.mark.parametrize("work", [use, use_without_await], ids=["await", "wait"])
@pytest.mark.parametrize(
    "cls",
    [cls for cls in ADAPTERS if cls.shares_databases],  # type: ignore[attr-defined]
    ids=name_of,
)
async def test_adapters_of_one_url_find_the_database_of_those_before(
    cls: type, work: Callable[[Any], Any], place: Place
) -> None:
    databases = set()
    # Databases of other tests may be kept for a while, with their threads.
    before = threads_of_faces()
    threads = set()
    for _ in range(10):
        adapter = ADAPTERS[cls](place.url)
        await work(adapter)
        databases.add(id(adapter.db.identity))
        threads |= threads_of_faces() - before
        del adapter

    assert len(databases) == 1
    assert len(threads) <= 1


def threads_of_faces() -> set[threading.Thread]:
    return {one for one in threading.enumerate() if one.name == "memalchemy-sync"}


async def test_a_bounded_number_of_databases_outlives_its_adapters(tmp_path: Path) -> None:
    (cls, make) = next((cls, make) for cls, make in ADAPTERS.items() if cls.shares_databases)
    for number in range(3 * _base.KEPT):
        adapter = make(f"sqlite:///{tmp_path}/dropped.db.{number}")
        await use(adapter)
        del adapter
    at_most = _base.KEPT

    def files() -> set[str]:
        return {name for name in open_files() if name.rpartition(".db.")[2].isdecimal()}

    await until(lambda: len(files()) <= at_most, f"{cls} keeps every database")
    assert len(files()) == at_most
