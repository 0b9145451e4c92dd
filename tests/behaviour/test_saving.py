"""Saving and loading."""

from __future__ import annotations

from memalchemy import Checkpointer


async def test_a_saved_state_loads_back_equal(checkpointer: Checkpointer) -> None:
    state = {"messages": [{"role": "user", "content": "hello"}], "step": 1}

    checkpoint_id = await checkpointer.save(state, "thread")

    assert await checkpointer.load("thread") == state
    assert await checkpointer.load("thread", checkpoint_id) == state
