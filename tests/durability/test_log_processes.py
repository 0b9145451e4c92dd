"""Several processes on one log: nothing is lost, nothing is there twice, each pop is somebody's."""

from __future__ import annotations

import uuid
from collections import defaultdict

import pytest
from test_store_processes import PROCESSES, TASKS, tally

from memalchemy import Database, ThreadLog

TIMES = 6


@pytest.fixture
def tenant() -> str:
    return f"t-{uuid.uuid4().hex[:16]}"


async def test_sixteen_writers_lose_nothing_and_sixteen_readers_pop_each_once(
    place: str, tenant: str
) -> None:
    told = tally(place, tenant, "say", TIMES)

    async with Database(place, tenant=tenant) as db:
        there = {entry.position: entry for entry in await ThreadLog(db).range("talk")}
        assert len(there) == PROCESSES * TASKS * TIMES * 2 + TIMES
        shared: dict[int, set[int]] = defaultdict(set)
        for fact in told:
            first, second = fact["own"]
            assert second == first + 1
            assert there[first].value == [fact["task"], fact["number"], 0]
            assert there[second].value == [fact["task"], fact["number"], 1]
            shared[fact["number"]].update(fact["shared"])
        assert all(len(positions) == 1 for positions in shared.values())

        popped = [fact["popped"] for fact in tally(place, tenant, "pop", 1)]

        assert sorted(popped) == sorted(there)
        assert await ThreadLog(db).count("talk") == 0
