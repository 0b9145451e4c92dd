"""Our classes keep every promise that `memalchemy.conformance` checks for third parties."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable
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
    check_checkpointer,
    check_log,
    check_store,
)

CANCELLATION = (
    "a_cancelled_save_is_whole_or_absent",
    "a_cancelled_put_is_whole_or_absent",
    "a_cancelled_append_is_whole_or_absent",
)
"""Checks of what is cancelled while it is awaited: a call of the synchronous classes never is."""


@pytest.mark.parametrize(
    ("name", "run", "checks"),
    [
        ("Checkpointer", check_checkpointer, CHECKPOINTER_CHECKS),
        ("Store", check_store, STORE_CHECKS),
        ("ThreadLog", check_log, LOG_CHECKS),
    ],
    ids=["checkpointer", "store", "log"],
)
async def test_a_class_keeps_every_promise_of_its_contract(
    db: Database,
    name: str,
    run: Callable[..., Any],
    checks: list[Check],
    pytestconfig: pytest.Config,
) -> None:
    made = 0

    @asynccontextmanager
    async def make() -> AsyncIterator[Any]:
        nonlocal made
        made += 1
        apart = db.for_tenant(f"{db.tenant}-{made}")
        yield getattr(memalchemy, name)(apart)
        await memalchemy.Checkpointer(apart).forget(tenant=apart.tenant)

    synchronous = pytestconfig.getoption("--face") == "sync"
    chosen = [one for one in checks if not (synchronous and one.name in CANCELLATION)]
    report = await run(make, checks=chosen)

    report.raise_for_failures()
    assert report.ok
    assert not report.skipped
    assert made == len(chosen) >= 20
