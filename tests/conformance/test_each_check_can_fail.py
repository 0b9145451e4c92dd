"""Each check finds an implementation that breaks its promise."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import broken_adapters
import broken_classes
import pytest

from memalchemy.conformance import (
    ADAPTER_CHECKS,
    CHECKPOINTER_CHECKS,
    LOG_CHECKS,
    STORE_CHECKS,
    Check,
    NotConforming,
    check_adapter,
    check_checkpointer,
    check_log,
    check_store,
)

CONTRACTS = {
    "checkpointer": (check_checkpointer, CHECKPOINTER_CHECKS, broken_classes.CHECKPOINTERS),
    "store": (check_store, STORE_CHECKS, broken_classes.STORES),
    "log": (check_log, LOG_CHECKS, broken_classes.LOGS),
}
EACH = [
    pytest.param(run, check, broken, id=f"{kind}-{check}")
    for kind, (run, checks, broken) in CONTRACTS.items()
    for check in checks
]


@pytest.mark.parametrize(("run", "check", "broken"), EACH)
async def test_a_broken_implementation_is_found(
    run: Callable[..., Any], check: Check, broken: dict[str, Any]
) -> None:
    report = await run(broken[check.name], checks=[check])

    assert [one.check for one in report.failed] == [check.name]
    with pytest.raises(NotConforming, match=check.name):
        report.raise_for_failures()


@pytest.mark.parametrize("check", ADAPTER_CHECKS, ids=str)
async def test_a_broken_adapter_is_found(check: Check) -> None:
    name = f"broken_adapters:BROKEN[{check}]"
    report = await check_adapter(name, checks=[check])

    assert [one.check for one in report.failed] == [check.name]


def test_there_is_a_broken_one_for_each_check_and_no_other() -> None:
    for _, checks, broken in CONTRACTS.values():
        assert {check.name for check in checks} == broken.keys()
    assert {check.name for check in ADAPTER_CHECKS} == broken_adapters.BROKEN.keys()


@pytest.mark.parametrize(
    "check",
    [*ADAPTER_CHECKS, *CHECKPOINTER_CHECKS, *STORE_CHECKS, *LOG_CHECKS],
    ids=lambda check: f"{check.source}-{check}",
)
def test_a_check_states_its_promise_and_where_it_is_written(check: Check) -> None:
    assert check.promise.endswith(".")
    assert "\n" not in check.promise
    assert check.source.startswith(("memalchemy.", "docs/"))
