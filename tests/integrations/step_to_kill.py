"""Process that records steps of a run until it is killed.

    python step_to_kill.py URL TENANT RUN

It prints the number of each step after its snapshot was saved, and its event after that.
"""

from __future__ import annotations

import asyncio
import os
import sys

from pydantic_ai_harness.step_persistence import ContinuableSnapshot, StepEvent
from pydantic_ai_messages import answer, user

from memalchemy import Database
from memalchemy.integrations.pydantic_ai_harness import MemalchemyStepStore


async def step_until_killed(url: str, tenant: str, run: str) -> None:
    async with Database(url, tenant=tenant) as db:
        store = MemalchemyStepStore(db, max_snapshots_per_run=5)
        messages = []
        for step in range(100_000):
            messages += [user(str(step)), answer(str(step))]
            await store.save_snapshot(
                ContinuableSnapshot(
                    run_id=run, step_index=step, messages=messages, idempotency_key=f"{step}:s"
                )
            )
            await store.append_event(
                StepEvent(
                    run_id=run, kind="run_started", step_index=step, idempotency_key=f"{step}:e"
                )
            )
            os.write(1, f"{step}\n".encode())


if __name__ == "__main__":
    asyncio.run(step_until_killed(*sys.argv[1:4]))
