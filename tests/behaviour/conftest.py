"""The behavioural suite also proves the registry: see `golden.watch`."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

import memalchemy
from golden.watch import Watch
from memalchemy import Database, Store


@pytest.fixture(autouse=True)
def every_statement_is_registered() -> Iterator[None]:
    with Watch() as watch:
        yield
    assert not watch.complaints, "\n".join(watch.complaints)


@pytest.fixture
def store(db: Database) -> Store:
    # By its name of now: with --face sync another class is put there after this file is read.
    return memalchemy.Store(db)
