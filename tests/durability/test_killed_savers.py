"""``kill -9`` in the middle of saves: what was acknowledged is there, in order, once."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import uuid
from itertools import pairwise
from pathlib import Path

from sqlalchemy import text
from workers import proof
from workers.mortal import TASKS
from workers.states import name_of, state_of

from memalchemy import Checkpointer, Database
from waiting import until

KILLS = int(os.environ.get("MEMALCHEMY_KILLS", "50"))
"""How many processes are killed on each database."""


def kill_processes_that_save(url: str, tenant: str) -> list[list[str]]:
    """For each killed process, the names of the saves it was told of, in that order."""
    done = subprocess.run(
        [sys.executable, "-m", "workers.mortal", url, tenant, str(KILLS), "7"],
        cwd=Path(__file__).parent,
        env=os.environ | {"OPENBLAS_NUM_THREADS": "1"},
        capture_output=True,
        text=True,
        timeout=60 + KILLS,
    )
    assert done.returncode == 0, done.stderr[-6000:]
    return [json.loads(line)["saved"] for line in done.stdout.splitlines()]


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


async def test_every_acknowledged_save_survives_its_process(place: str) -> None:
    tenant = f"t-{uuid.uuid4().hex[:16]}"

    acknowledged = kill_processes_that_save(place, tenant)

    assert len(acknowledged) == KILLS
    print(f"{sum(map(len, acknowledged))} saves acknowledged by {KILLS} killed processes")
    async with Database(place, tenant=tenant) as db:
        await until_the_dead_have_left(db)
        keep = Checkpointer(db)
        present: dict[str, int] = {}
        threads = {name: await proof.history(keep, name) for name in set(TASKS.values())}
        for thread, infos in threads.items():
            proof.is_one_line(infos)
            await proof.all_load(keep, thread, infos)
            present |= {info.checkpoint_id: info.seq for info in infos}
        assert len(present) == sum(map(len, threads.values()))
        known = {name for names in acknowledged for name in names}
        assert known - present.keys() == set()
        for kill, names in enumerate(acknowledged):
            for task in TASKS:
                saved = [name for name in names if name.startswith(f"{kill}{task}-")]
                # One more may be there: it was stored, and the process died before it was told.
                assert saved == [name_of(f"{kill}{task}", n + 1) for n in range(len(saved))]
                assert all(present[first] < present[second] for first, second in pairwise(saved))
                after_next = name_of(f"{kill}{task}", len(saved) + 2)
                assert after_next not in present
        assert len(present) - len(known) <= KILLS * len(TASKS)
        for thread in threads:
            latest = [
                max((present[n] for n in names if TASKS[n.split("-")[0][-1]] == thread), default=0)
                for names in acknowledged
            ]
            told = [seq for seq in latest if seq]
            assert told == sorted(told)
        await proof.nothing_is_left_over(db)

        await keep.save(state_of("later-1"), "one", "later-1")
        assert await keep.load("one") == state_of("later-1")
    if place.startswith("sqlite"):
        proof.file_is_sound(place)
