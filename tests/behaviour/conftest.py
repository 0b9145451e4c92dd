"""The behavioural suite also proves the registry: see `golden.watch`."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import memalchemy
from golden.watch import Watch
from memalchemy import Database, Store


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """A host's engine cannot reach a database in memory that is not its own."""
    apart = [item for item in items if _is_apart(getattr(item, "callspec", None))]
    config.hook.pytest_deselected(items=apart)
    items[:] = [item for item in items if item not in apart]


def _is_apart(callspec: Any) -> bool:
    given = {} if callspec is None else callspec.params
    return given.get("database") == "sqlite-memory" and given.get("way", "ours") != "ours"


@pytest.fixture(autouse=True)
def every_statement_is_registered() -> Iterator[None]:
    with Watch() as watch:
        yield
    assert not watch.complaints, "\n".join(watch.complaints)


@pytest.fixture
def store(db: Database) -> Store:
    # By its name of now: with --face sync another class is put there after this file is read.
    return memalchemy.Store(db)


@pytest.fixture(params=["file", "memory"])
def own_url(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    """A SQLite database that the test opens itself: a file, and one in memory."""
    return "sqlite://" if request.param == "memory" else f"sqlite:///{tmp_path}/agent.db"
