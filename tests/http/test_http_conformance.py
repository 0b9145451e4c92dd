"""The checks of `memalchemy.conformance` on an `HTTPCheckpointer`."""

from __future__ import annotations

import pytest

from memalchemy.conformance import CHECKPOINTER_CHECKS, Check, check_checkpointer
from memalchemy.http import HTTPCheckpointer


@pytest.mark.parametrize("check", CHECKPOINTER_CHECKS, ids=str)
async def test_a_client_keeps_the_promises_of_a_checkpointer(
    check: Check, checkpointer: HTTPCheckpointer
) -> None:
    report = await check_checkpointer(lambda: checkpointer, checks=[check])

    report.raise_for_failures()
    assert report.ok
