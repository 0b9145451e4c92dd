"""Processes that save until they are killed, one after another.

    python -m workers.mortal URL TENANT KILLS SEED

For each it writes a line with the names of the saves that were acknowledged to it. Children are
forked warm: a cold start would take longer than everything else.
"""

from __future__ import annotations

import asyncio
import json
import os
import random
import select
import signal
import sys
import time
import traceback
from itertools import count

from memalchemy import Checkpointer, Database
from workers.states import name_of, state_of

TASKS = {"a": "one", "b": "one", "c": "two"}
"""Which thread each task of a process saves on: two meet in one commit, and on one thread."""


async def save_until_killed(url: str, tenant: str, kill: int, acknowledged: int) -> None:
    async with Database(url, tenant=tenant) as db:
        keep = Checkpointer(db)

        async def save(task: str, thread: str) -> None:
            for number in count(1):
                name = name_of(f"{kill}{task}", number)
                await keep.save(state_of(name), thread, name)
                os.write(acknowledged, f"{name}\n".encode())

        await asyncio.gather(*(save(task, thread) for task, thread in TASKS.items()))


def one_life(url: str, tenant: str, kill: int, chance: random.Random) -> list[str]:
    told, acknowledged = os.pipe()
    pid = os.fork()
    if pid == 0:
        try:
            asyncio.run(save_until_killed(url, tenant, kill, acknowledged))
        except BaseException:  # noqa: BLE001 - printed; a child never returns from here
            traceback.print_exc()
        finally:
            sys.stderr.flush()
            os._exit(1)
    os.close(acknowledged)
    if kill % 5 == 0:
        time.sleep(chance.uniform(0, 0.1))  # also while it opens the database
    else:
        select.select([told], [], [], 60)
        time.sleep(chance.uniform(0, 0.04))
    os.kill(pid, signal.SIGKILL)
    _, status = os.waitpid(pid, 0)
    if os.waitstatus_to_exitcode(status) != -signal.SIGKILL:
        raise SystemExit(f"process {kill} ended by itself")
    with os.fdopen(told) as lines:
        return lines.read().split()


def main(url: str, tenant: str, kills: int, seed: int) -> None:
    chance = random.Random(seed)
    for kill in range(kills):
        print(json.dumps({"kill": kill, "saved": one_life(url, tenant, kill, chance)}), flush=True)


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2], int(sys.argv[3]), int(sys.argv[4]))
