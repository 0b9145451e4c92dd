"""The checks of `memalchemy.conformance`, which anybody can use, on memalchemy's own classes."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import pytest

import memalchemy
from memalchemy import Database
from memalchemy.conformance import (
    CHECKPOINTER_CHECKS,
    LOG_CHECKS,
    STORE_CHECKS,
    Check,
    Report,
    check_checkpointer,
    check_log,
    check_store,
)


@asynccontextmanager
async def made(name: str, db: Database) -> AsyncIterator[Any]:
    """Make an object of a class by its name of now: with --face sync other classes are there."""
    yield getattr(memalchemy, name)(db)


def assert_passed(report: Report) -> None:
    report.raise_for_failures()
    assert report.ok
    assert not report.skipped


@pytest.mark.parametrize("check", CHECKPOINTER_CHECKS, ids=str)
async def test_a_checkpointer_keeps_its_promises(check: Check, db: Database) -> None:
    assert_passed(await check_checkpointer(lambda: made("Checkpointer", db), checks=[check]))


@pytest.mark.parametrize("check", STORE_CHECKS, ids=str)
async def test_a_store_keeps_its_promises(check: Check, db: Database) -> None:
    assert_passed(await check_store(lambda: made("Store", db), checks=[check]))


@pytest.mark.parametrize("check", LOG_CHECKS, ids=str)
async def test_a_log_keeps_its_promises(check: Check, db: Database) -> None:
    assert_passed(await check_log(lambda: made("ThreadLog", db), checks=[check]))
