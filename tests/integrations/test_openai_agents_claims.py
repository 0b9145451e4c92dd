"""A waiting run is given to one of all who approve it, in whatever processes they are."""

from __future__ import annotations

import asyncio
import random
from collections.abc import Callable
from typing import Any

import pytest
from agents import Agent, Runner, function_tool
from scripted_model import Scripted

from memalchemy import Conflict, Database
from memalchemy.integrations.openai_agents import MemalchemyRunStates

pytestmark = pytest.mark.usefixtures("lasting")


class Clerk:
    """An agent whose tool waits for an approval, and says how often it was executed."""

    def __init__(self) -> None:
        self.refunded: list[str] = []

        @function_tool(needs_approval=True)
        def refund(order: str) -> str:
            """Refund an order."""
            self.refunded.append(order)
            return f"{order} refunded"

        self._tool = refund

    def agent(self, *steps: Any) -> Agent[Any]:
        return Agent(name="Clerk", model=Scripted(*steps), tools=[self._tool])

    async def stop(self, runs: MemalchemyRunStates, run_id: str) -> None:
        """Store a run that waits for an approval."""
        asking = self.agent(("refund", '{"order": "A-17"}'))
        stopped = await Runner.run(asking, "Refund A-17")
        await runs.save(run_id, stopped.to_state(), {"asked": "ada"})

    async def approve(self, runs: MemalchemyRunStates, run_id: str) -> str:
        """Claim the run, approve and resume it, as one of several workers."""
        answering = self.agent("Done.")
        state = await runs.claim(run_id, answering)
        if state is None:
            return "none"
        state.approve(state.get_interruptions()[0])
        return str((await Runner.run(answering, state)).final_output)


@pytest.mark.parametrize("workers", [2, 3, 8])
async def test_of_several_approvals_of_a_run_one_executes_its_tool(
    db: Database, reopen: Callable[[], Database], workers: int
) -> None:
    clerk = Clerk()
    await clerk.stop(MemalchemyRunStates(db), "ticket")
    processes = [reopen() for _ in range(workers)]

    results = await asyncio.gather(
        *(clerk.approve(MemalchemyRunStates(one), "ticket") for one in processes),
        return_exceptions=True,
    )

    assert clerk.refunded == ["A-17"]
    assert results.count("Done.") == 1
    assert sum(isinstance(one, Conflict) and "claimed" in str(one) for one in results) == (
        workers - 1
    )
    for one in processes:
        await one.close()


@pytest.mark.parametrize("seed", range(12))
async def test_a_claim_is_what_any_order_of_calls_makes_of_it(
    db: Database, reopen: Callable[[], Database], seed: int
) -> None:
    clerk, order = Clerk(), random.Random(seed)
    other = reopen()
    processes = [MemalchemyRunStates(db), MemalchemyRunStates(other)]
    state = "absent"
    for _ in range(12):
        runs = order.choice(processes)
        step = order.choice(["save", "claim", "claim", "release", "delete", "load"])
        if step == "save":
            await clerk.stop(runs, "ticket")
            state = "waiting"
        elif step == "claim" and state == "claimed":
            with pytest.raises(Conflict, match="claimed already"):
                await runs.claim("ticket", clerk.agent())
        elif step == "claim":
            found = await runs.claim("ticket", clerk.agent())
            assert (found is not None) == (state == "waiting")
            state = "claimed" if state == "waiting" else state
        elif step == "release":
            assert await runs.release("ticket") is (state == "claimed")
            state = "waiting" if state == "claimed" else state
        elif step == "delete":
            assert await runs.delete("ticket") is (state != "absent")
            state = "absent"
        else:  # looking at a run is no claim
            assert (await runs.load("ticket", clerk.agent()) is not None) == (state != "absent")
        assert await runs.list() == ([] if state == "absent" else ["ticket"])
    await other.close()


async def test_a_claim_keeps_what_was_saved_with_the_run(db: Database) -> None:
    clerk, runs = Clerk(), MemalchemyRunStates(db)
    await clerk.stop(runs, "ticket")
    await runs.claim("ticket", clerk.agent())
    await runs.release("ticket")

    found = await runs.checkpointer.get_metadata("ticket")

    assert found is not None
    assert found["metadata"] == {"asked": "ada"}
