"""The checks of `memalchemy.conformance`, which anybody can use, on memalchemy's own classes."""

from __future__ import annotations

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


def assert_passed(report: Report) -> None:
    report.raise_for_failures()
    assert report.ok
    assert not report.skipped


@pytest.mark.parametrize("check", CHECKPOINTER_CHECKS, ids=str)
async def test_a_checkpointer_keeps_its_promises(check: Check, db: Database) -> None:
    # Classes by their names of now: with --face sync others are put there.
    assert_passed(await check_checkpointer(lambda: memalchemy.Checkpointer(db), checks=[check]))


@pytest.mark.parametrize("check", STORE_CHECKS, ids=str)
async def test_a_store_keeps_its_promises(check: Check, db: Database) -> None:
    assert_passed(await check_store(lambda: memalchemy.Store(db), checks=[check]))


@pytest.mark.parametrize("check", LOG_CHECKS, ids=str)
async def test_a_log_keeps_its_promises(check: Check, db: Database) -> None:
    assert_passed(await check_log(lambda: memalchemy.ThreadLog(db), checks=[check]))
