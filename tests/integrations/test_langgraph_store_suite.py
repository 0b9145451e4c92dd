"""LangGraph's own tests of its stores, from its sdists, on `MemalchemyStore`.

`langgraph_store_plugin` replaces the classes; `langgraph_store_selection` names the tests that
cannot pass, with reasons.
"""

from __future__ import annotations

import os
import re
from collections import Counter
from collections.abc import Callable
from pathlib import Path

import pytest
import suites
from langgraph_store_selection import VERSIONS

from servers import Postgres, migrated_database

Unpacked = Callable[[str], Path]


@pytest.fixture
def unpacked(tmp_path: Path) -> Unpacked:
    """Gives the sdist of a package, unpacked."""
    return lambda package: suites.unpacked(package, VERSIONS[package], tmp_path)


def run(sdist: Path, *files: str, **environment: str) -> tuple[Counter[str], str]:
    """Run LangGraph's tests; return the counts and pytest's output."""
    options = ["-o", "addopts=", "-o", "asyncio_mode=auto", *(f"tests/{f}.py" for f in files)]
    environment = {**os.environ, **environment}
    return suites.run(sdist, "langgraph_store_plugin", *options, environment=environment)


def test_langgraphs_tests_of_its_store_in_memory_pass(unpacked: Unpacked) -> None:
    counts, said = run(unpacked("langgraph-checkpoint"), "test_store")

    assert counts == {"passed": 83, "expected to fail": 1, "left out": 33}, said


def test_langgraphs_tests_of_its_sqlite_stores_pass(unpacked: Unpacked) -> None:
    counts, said = run(unpacked("langgraph-checkpoint-sqlite"), "test_store", "test_async_store")

    assert counts == {"passed": 131, "expected to fail": 7, "left out": 4}, said


@pytest.mark.alone  # theirs sleep until items expire, with margins of half a second
def test_langgraphs_tests_of_lifetimes_pass(unpacked: Unpacked) -> None:
    counts, said = run(unpacked("langgraph-checkpoint-sqlite"), "test_ttl")

    assert counts == {"passed": 10, "expected to fail": 1}, said


def test_langgraphs_tests_of_its_postgres_stores_pass(
    unpacked: Unpacked, postgres: Postgres
) -> None:
    sdist = unpacked("langgraph-checkpoint-postgres")
    settings = sdist / "tests" / "conftest.py"
    server = 'DEFAULT_URI = "postgres:///postgres?sslmode=disable"'
    settings.write_text(re.sub('^DEFAULT_URI = ".*"$', server, settings.read_text(), flags=re.M))
    reach = {"PGHOST": postgres.host, "PGPORT": str(postgres.port), "PGUSER": postgres.user}
    if postgres.password is not None:
        reach["PGPASSWORD"] = postgres.password

    with migrated_database(postgres) as name:
        url = postgres.url(name)
        counts, said = run(
            sdist, "test_store", "test_async_store", LANGGRAPH_SUITE_URL=url, **reach
        )

    assert counts == {"passed": 104, "expected to fail": 11, "left out": 184}, said
