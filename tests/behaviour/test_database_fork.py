"""A process that forks after it has used its `Database`, as servers that preload do."""

from __future__ import annotations

import asyncio
import subprocess
import sys

import pytest

from memalchemy import Checkpointer, Database

PARENT_AND_CHILD = """
import asyncio, os, sys
from memalchemy import Checkpointer, Database

url, tenant = sys.argv[1:]
db = Database(url, tenant=tenant)
checkpointer = Checkpointer(db)

async def use(who, rounds):
    for n in range(rounds):
        await checkpointer.save({"who": who, "n": n}, "shared")
        await checkpointer.save({"who": who, "n": n}, who, f"{who}-{n}")
    assert await checkpointer.load(who) == {"who": who, "n": rounds - 1}
    assert len(await checkpointer.list_checkpoints(who, 100)) == rounds

async def all_of_it(who, rounds):
    await use(who, rounds)
    await db.close()

asyncio.run(use("before", 3))
child = os.fork()
if child == 0:
    try:
        assert asyncio.run(checkpointer.load("before")) == {"who": "before", "n": 2}
        asyncio.run(all_of_it("child", 20))
    except BaseException:
        import traceback
        traceback.print_exc()
        os._exit(1)
    os._exit(0)
asyncio.run(all_of_it("parent", 20))
_, status = os.waitpid(child, 0)
sys.exit(os.waitstatus_to_exitcode(status))
"""


def run(script: str, url: str, tenant: str) -> None:
    done = subprocess.run(
        [sys.executable, "-c", script, url, tenant],
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert done.returncode == 0, done.stderr


async def test_parent_and_child_both_save_and_load_after_a_fork(
    db: Database, shared_url: str
) -> None:
    if shared_url == "sqlite://":
        pytest.skip("a database in memory is one process's own")

    await asyncio.to_thread(run, PARENT_AND_CHILD, shared_url, db.tenant)

    infos = [info async for info in Checkpointer(db).history("shared")]
    assert len(infos) == 43
    assert [i.parent_id for i in infos] == [i.checkpoint_id for i in infos[1:]] + [None]


def test_a_child_has_a_database_in_memory_of_its_own() -> None:
    inherited = 'asyncio.run(checkpointer.load("before")) == {"who": "before", "n": 2}'
    assert inherited in PARENT_AND_CHILD
    run(
        PARENT_AND_CHILD.replace(inherited, 'asyncio.run(checkpointer.load("before")) is None'),
        "sqlite://",
        "tenant",
    )
