"""What a rollback takes back leaves no trace, in no cache either."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from memalchemy import Checkpointer, Database


async def grow(checkpointer: Checkpointer, count: int, **more: Any) -> list[dict[str, Any]]:
    states = [{"log": list(range(n)), "text": "x" * n} for n in range(count)]
    for n, state in enumerate(states):
        await checkpointer.save(state, "thread", f"c{n}", **more)
    return states


@pytest.mark.parametrize("before", [1, 2, 3, 4])
@pytest.mark.parametrize("inside", [1, 2, 3, 4])
async def test_a_savepoint_that_is_rolled_back_in_a_transaction_that_commits(
    checkpointer: Checkpointer, reopen: Callable[[], Database], before: int, inside: int
) -> None:
    states = await grow(checkpointer, before)
    async with checkpointer.db.transaction() as tx:
        savepoint = await tx.begin_nested()
        for n in range(inside):
            await checkpointer.save({"ghost": n}, "thread", connection=tx)
        await savepoint.rollback()
    for n in range(6):
        await checkpointer.save({"after": n}, "thread", f"after{n}")

    async with reopen() as other:
        fresh = Checkpointer(other)
        for n, state in enumerate(states):
            assert await fresh.load("thread", f"c{n}") == state
        for n in range(6):
            assert await fresh.load("thread", f"after{n}") == {"after": n}


@pytest.mark.parametrize("inside", [1, 2, 3])
async def test_a_transaction_that_its_user_rolls_back_and_leaves_in_peace(
    checkpointer: Checkpointer, inside: int
) -> None:
    await grow(checkpointer, 2)
    async with checkpointer.db.transaction() as tx:
        for n in range(inside):
            await checkpointer.save({"ghost": n}, "thread", connection=tx)
        await tx.rollback()
    for n in range(4):
        await checkpointer.save({"after": n}, "thread", f"after{n}")
        assert await checkpointer.load("thread") == {"after": n}
    assert [i.checkpoint_id async for i in checkpointer.history("thread")] == [
        "after3",
        "after2",
        "after1",
        "after0",
        "c1",
        "c0",
    ]
