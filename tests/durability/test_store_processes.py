"""Several processes on one store: of racers one wins, nothing is lost, and all see all."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import uuid
from pathlib import Path
from typing import Any

import pytest

from memalchemy import Database, Store

HERE = Path(__file__).parent
ENVIRONMENT = os.environ | {"OPENBLAS_NUM_THREADS": "1"}
SPACE = ("tally",)
PROCESSES, TASKS = 8, 2
"""Sixteen writers."""


@pytest.fixture
def tenant() -> str:
    return f"t-{uuid.uuid4().hex[:16]}"


def tally(url: str, tenant: str, role: str, times: int) -> list[dict[str, Any]]:
    """Let sixteen writers play a role together; everything they were told, in no order."""
    arguments = [url, tenant, str(PROCESSES), role, str(TASKS), str(times)]
    done = subprocess.run(
        [sys.executable, "-m", "workers.tally", *arguments],
        cwd=HERE,
        env=ENVIRONMENT,
        capture_output=True,
        text=True,
        timeout=120,
    )
    assert done.returncode == 0, done.stderr[-6000:]
    return [json.loads(line) for line in done.stdout.splitlines()]


async def test_sixteen_writers_that_count_together_lose_nothing(place: str, tenant: str) -> None:
    times = 6
    told = tally(place, tenant, "count", times)

    total = PROCESSES * TASKS * times
    assert sorted(fact["reached"] for fact in told) == list(range(1, total + 1))
    assert all(fact["reached"] == fact["version"] for fact in told)
    async with Database(place, tenant=tenant) as db:
        item = await Store(db).get_item(SPACE, "counter")
        assert item is not None
        assert (item.value, item.version) == (total, total)


async def test_of_sixteen_who_create_or_delete_an_item_one_succeeds(
    place: str, tenant: str
) -> None:
    items = 12
    told = tally(place, tenant, "create", items)

    winners = {fact["created"]: fact["task"] for fact in told if "created" in fact}
    losers = [fact for fact in told if "lost" in fact]
    assert len(told) == PROCESSES * TASKS * items
    assert sorted(winners) == list(range(items))
    assert len(losers) == len(told) - items
    assert all(fact["to"] == winners[fact["lost"]] for fact in losers)
    async with Database(place, tenant=tenant) as db:
        store = Store(db)
        for number, task in winners.items():
            item = await store.get_item(SPACE, f"item {number}")
            assert item is not None
            assert (item.value, item.version) == (task, 1)

        told = tally(place, tenant, "take", items)
        assert sorted(fact["taken"] for fact in told) == list(range(items))
        assert await store.list_keys(SPACE) == []


async def test_a_vector_is_found_as_soon_as_its_write_is_acknowledged(
    place: str, tenant: str
) -> None:
    times = 5
    async with Database(place, tenant=tenant) as db:
        store = Store(db)
        await store.put_with_embedding(SPACE, "first", "needle", [1.0, 0.0])
        # Cached before the others write, and read again after.
        assert len(await store.search_by_embedding(SPACE, [1.0, 0.0])) == 1

        told = tally(place, tenant, "add", times)

        keys = {fact["added"] for fact in told}
        assert len(keys) == PROCESSES * TASKS * times
        assert all(fact["seen"] for fact in told)
        near = await store.search_by_embedding(SPACE, [1.0, 0.0], 1000)
        assert {result.item.key for result in near} == keys | {"first"}
        hits = await store.search(SPACE, "needle", limit=1000)
        assert {hit.key for hit in hits} == keys | {"first"}
