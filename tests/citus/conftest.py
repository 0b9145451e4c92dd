"""Tests on a real Citus cluster, which `nox -s citus` starts: see cluster.py."""

from __future__ import annotations

import os
from collections.abc import Iterator

import pytest

from memalchemy import Database
from memalchemy.maintenance.distribution import distribute
from servers import CITUS_URL, Citus


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Leave out what needs a cluster where there is none; the end of the run says so."""
    if CITUS_URL not in os.environ:
        left_out = [item for item in items if "citus" in getattr(item, "fixturenames", ())]
        config.hook.pytest_deselected(items=left_out)
        items[:] = [item for item in items if item not in left_out]


@pytest.fixture(scope="session")
def cluster(citus: Citus) -> Citus:
    return citus


@pytest.fixture
def name(cluster: Citus) -> Iterator[str]:
    """An empty database of the test's own on every node."""
    made = cluster.create_database()
    yield made
    cluster.drop_database(made)


@pytest.fixture
async def distributed_url(cluster: Citus, name: str) -> str:
    """The URL of a database of the test's own whose empty tables are distributed."""
    async with Database(cluster.url(name), migrate="off") as making:
        await making.migrate()
        await distribute(making)
    return cluster.url(name)
