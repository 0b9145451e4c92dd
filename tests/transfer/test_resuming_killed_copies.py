"""``kill -9`` in the middle of a copy: it goes on, nothing is lost and nothing is there twice."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from typing import Any

from contents import everything
from sqlalchemy import func, select

from memalchemy import Checkpointer, Database
from memalchemy.schema import CheckpointRow, ThreadRow
from memalchemy.transfer import copy
from waiting import A_WHILE

COPIER = """
import asyncio, os, signal, sys
from memalchemy import Database
from memalchemy.maintenance.copying import database_copy
from memalchemy.transfer import copy

database_copy.PAGE = 20
stop, told = int(sys.argv[3]), 0

def progress(report):
    global told
    told += 1
    if told == stop:
        os.kill(os.getpid(), signal.SIGKILL)

async def main():
    async with Database(sys.argv[1], tenant="acme") as a, Database(sys.argv[2], tenant="acme") as b:
        await copy(a, b, progress=progress)

asyncio.run(main())
"""
THREADS, STEPS = 50, 3


async def test_a_killed_copy_goes_on_and_ends_equal(
    source: Database, target: Database, urls: list[str]
) -> None:
    agent = Checkpointer(source)
    for thread in range(THREADS):
        for step in range(STEPS):
            await agent.save({"m": [f"{thread} {n}" for n in range(step)]}, f"{thread:04}")
    found: list[int] = []

    # While looking; in the first transaction; and in the second, with the first one committed.
    for stop in (2, 30, 150):
        kill_a_copy(*urls, stop)
        heads = await count(target, ThreadRow)
        assert await count(target, CheckpointRow) == heads * STEPS  # whole logs or none
        found.append(heads)

    assert found[0] == found[1] == 0
    assert found[2] == 20
    report = await copy(source, target)
    assert (report.unchanged, report.new) == (found[2], THREADS - found[2])
    assert await everything(target) == await everything(source)


def kill_a_copy(source: str, target: str, stop: int) -> None:
    died = subprocess.run(
        [sys.executable, "-c", COPIER, source, target, str(stop)],
        env=os.environ | {"OPENBLAS_NUM_THREADS": "1"},
        capture_output=True,
        text=True,
        timeout=2 * A_WHILE,
    )
    assert died.returncode == -signal.SIGKILL, died.stderr


async def count(db: Database, kind: Any) -> int:
    query = select(func.count()).select_from(kind)
    return await db.run_sync(lambda connection: connection.scalar(query) or 0)
