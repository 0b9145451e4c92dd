"""`retry_on_conflict`: a change is tried again while others are faster."""

from __future__ import annotations

import pytest

from memalchemy import Conflict, ThreadDeleted
from memalchemy._retry import ATTEMPTS, retry_on_conflict


@pytest.mark.parametrize("error", [Conflict("changed"), ThreadDeleted("deleted")])
async def test_a_change_is_tried_again_until_nobody_is_faster(error: Exception) -> None:
    errors = [error] * (ATTEMPTS - 1)

    async def attempt() -> str:
        if errors:
            raise errors.pop()
        return "written"

    assert await retry_on_conflict(attempt, "thread 't'") == "written"


async def test_a_change_that_others_are_always_faster_with_is_a_conflict() -> None:
    attempts = 0

    async def attempt() -> None:
        nonlocal attempts
        attempts += 1
        raise Conflict("changed")

    with pytest.raises(Conflict, match="others wrote to thread 't' 20 times") as raised:
        await retry_on_conflict(attempt, "thread 't'")
    assert attempts == ATTEMPTS
    assert isinstance(raised.value.__cause__, Conflict)


async def test_another_error_is_raised_at_once() -> None:
    async def attempt() -> None:
        raise LookupError

    with pytest.raises(LookupError):
        await retry_on_conflict(attempt, "thread 't'")
