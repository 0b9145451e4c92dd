"""Pruning everything while others save, and killed in the middle: no survivor is damaged."""

from __future__ import annotations

import asyncio
import json
import os
import subprocess
import sys
import uuid
from pathlib import Path
from typing import Any

import pytest
from sqlalchemy import text
from workers import proof
from workers.states import name_of, state_of

from memalchemy import Checkpointer, Database
from memalchemy.contracts import Progress
from waiting import until

HERE = Path(__file__).parent
SECONDS = 3.0
THREADS = [f"thread {number}" for number in range(4)]


@pytest.fixture
def tenant() -> str:
    return f"t-{uuid.uuid4().hex[:16]}"


def crowd(
    url: str, tenant: str, parts: list[tuple[str, dict[str, Any]]]
) -> tuple[int, list[dict[str, Any]]]:
    """Run processes together: how that ended, and everything they were told."""
    done = subprocess.run(
        [sys.executable, "-m", "workers.crowd", url, tenant, json.dumps(parts)],
        cwd=HERE,
        env=os.environ | {"OPENBLAS_NUM_THREADS": "1"},
        capture_output=True,
        text=True,
        timeout=120,
    )
    print(done.stderr[-6000:])
    return done.returncode, [json.loads(line) for line in done.stdout.splitlines()]


async def test_what_a_pruner_of_everything_leaves_of_what_savers_save_is_whole(
    place: str, tenant: str
) -> None:
    rules = {"keep_last": 20, "keep_every": 3}
    # Of each thread more than the newest 20 that stay, however slow the machine is.
    how = {"seconds": SECONDS, "least": 40}
    savers: list[tuple[str, dict[str, Any]]] = [
        ("save_for", {"worker": f"w{i}", "thread": THREADS[i % 4]} | how) for i in range(5)
    ]
    pruners = [("prune_for", {"seconds": SECONDS, "rules": rules})] * 2

    status, told = crowd(place, tenant, savers + pruners)

    assert status == 0
    saved = {fact["saved"] for fact in told if "saved" in fact}
    pruned = sum(fact.get("pruned", 0) for fact in told)
    assert pruned
    async with Database(place, tenant=tenant) as db:
        keep = Checkpointer(db)
        left = set()
        for thread in THREADS:
            infos = await proof.history(keep, thread)
            await proof.all_load(keep, thread, infos)
            newest = max(info.seq for info in infos)
            # Nothing went that a rule keeps.
            seqs = {info.seq for info in infos}
            assert {seq for seq in range(1, newest + 1) if seq % 3 == 0} <= seqs
            assert set(range(max(1, newest - 19), newest + 1)) <= seqs
            left |= {info.checkpoint_id for info in infos}
        assert left <= saved
        assert len(left) == len(saved) - pruned
        await keep.prune(**rules)
        for thread in THREADS:
            await proof.all_load(keep, thread, await proof.history(keep, thread))
        await proof.nothing_is_left_over(db)
    if place.startswith("sqlite"):
        proof.file_is_sound(place)


async def until_the_dead_have_left(db: Database) -> None:
    """A server may still be busy with the last statement of a client that is gone."""
    if db.dialect.single_writer:
        return
    others = text(
        "SELECT count(*) FROM pg_stat_activity WHERE backend_type = 'client backend'"
        " AND datname = current_database() AND pid <> pg_backend_pid()"
    )

    async def have_left() -> bool:
        return not await db.run_sync(lambda c: c.scalar(others))

    await until(have_left)


async def test_a_pruning_that_was_killed_goes_on_where_it_was(place: str, tenant: str) -> None:
    many, each = 250, 4
    async with Database(place, tenant=tenant, **_quick(place)) as db:
        keep = Checkpointer(db)
        for start in range(0, many, 50):
            await asyncio.gather(*(fill(keep, n, each) for n in range(start, start + 50)))
    rules = {"keep_last": 1}

    status, told = crowd(place, tenant, [("prune_once", {"rules": rules, "die_after": 300})])

    assert (status, told) == (1, [])
    async with Database(place, tenant=tenant) as db:
        await until_the_dead_have_left(db)
        keep = Checkpointer(db)
        left = {}
        for number in range(many):
            infos = await proof.history(keep, f"t{number}")
            left[number] = len(infos)
            await proof.all_load(keep, f"t{number}", infos)
        total = sum(left.values())
        assert many < total <= many * each - 300
        # A thread is done or as it was: these are small, so each went in one transaction.
        assert set(left.values()) == {1, each}
        seen: list[Progress] = []
        assert await keep.prune(**rules, progress=seen.append) == total - many
        assert (seen[-1].done, seen[-1].busy) == (many, 0)
        for number in range(many):
            infos = await proof.history(keep, f"t{number}")
            assert [info.checkpoint_id for info in infos] == [name_of(f"w{number}", each)]
            await proof.all_load(keep, f"t{number}", infos)
        await proof.nothing_is_left_over(db)


def _quick(place: str) -> dict[str, Any]:
    return {"durability": "normal"} if place.startswith("sqlite") else {}


async def fill(keep: Checkpointer, number: int, each: int) -> None:
    for step in range(1, each + 1):
        name = name_of(f"w{number}", step)
        await keep.save(state_of(name), f"t{number}", name)
