"""Processes that save and delete side by side, forked warm and let go at one moment.

    python -m workers.crowd URL TENANT '[["save", {"worker": "a", "threads": ["t"], "saves": 50}]]'

Each process writes a line for everything that the database acknowledged to it. It signs what it
saves with the key in ``CROWD_SIGNING_KEY``, if there is one.
"""

from __future__ import annotations

import asyncio
import json
import os
import random
import signal
import sys
import time
import traceback
from collections.abc import Awaitable, Callable
from itertools import count
from typing import Any

from memalchemy import Checkpointer, Database
from memalchemy.contracts import Progress
from workers.states import name_of, state_of


def tell(**facts: Any) -> None:
    """One line in one write: lines of several processes on one pipe stay whole."""
    os.write(1, (json.dumps(facts) + "\n").encode())


async def save(keep: Checkpointer, *, worker: str, threads: list[str], saves: int) -> None:
    for number in range(1, saves + 1):
        thread, name = threads[number % len(threads)], name_of(worker, number)
        await keep.save(state_of(name), thread, name)
        tell(saved=name, thread=thread)


async def save_for(
    keep: Checkpointer, *, worker: str, thread: str, seconds: float, least: int = 0
) -> None:
    """Save for some seconds, and *least* checkpoints at least."""
    end = time.monotonic() + seconds
    number = 0
    while time.monotonic() < end or number < least:  # timed: it says how much is tried
        number += 1
        name = name_of(worker, number)
        await keep.save(state_of(name), thread, name, {"worker": worker, "number": number})
        tell(saved=name)


async def delete_for(keep: Checkpointer, *, seed: int, thread: str, seconds: float) -> None:
    chance = random.Random(seed)
    end = time.monotonic() + seconds
    gone = 0
    for round_ in count(1):
        if time.monotonic() > end and gone:  # timed: it says how much is tried
            return
        # Bases of saves under way are among the newest.
        names = await keep.list_checkpoints(thread, limit=chance.choice((8, 60)))
        for name in chance.sample(names, min(len(names), 5)):
            if chance.random() < 0.2:
                state = await keep.load(thread, name)
                if state is not None and state != state_of(name):
                    tell(wrong=name)
            if await keep.delete(thread, name):
                gone += 1
                tell(deleted=name)
        if round_ % 8 == 0:
            tell(pruned=await keep.prune(thread, keep_every=3, keep_last=40))


async def prune_for(keep: Checkpointer, *, seconds: float, rules: dict[str, int]) -> None:
    """Prune all threads, again and again, until there was something to go at least."""
    end = time.monotonic() + seconds
    gone = 0
    while time.monotonic() < end or not gone:  # timed: it says how much is tried
        gone += (pruned := await keep.prune(**rules, all_namespaces=True))
        tell(pruned=pruned)


async def prune_once(keep: Checkpointer, *, rules: dict[str, int], die_after: int) -> None:
    """Prune all threads; a process that is killed when so many have gone says nothing."""

    def watch(progress: Progress) -> None:
        if progress.removed >= die_after:
            os.kill(os.getpid(), signal.SIGKILL)

    await keep.prune(**rules, progress=watch)
    raise AssertionError("it came to its end")


ROLES: dict[str, Callable[..., Awaitable[None]]] = {
    "save": save,
    "save_for": save_for,
    "delete_for": delete_for,
    "prune_for": prune_for,
    "prune_once": prune_once,
}


async def play(url: str, tenant: str, gate: int, role: str, arguments: dict[str, Any]) -> None:
    key = os.environ.get("CROWD_SIGNING_KEY")
    async with Database(url, tenant=tenant, signing_keys=key) as db:
        await asyncio.to_thread(os.read, gate, 1)  # ends when the parent closes its end
        await ROLES[role](Checkpointer(db), **arguments)


def main(url: str, tenant: str, parts: list[tuple[str, dict[str, Any]]]) -> int:
    gate, opener = os.pipe()
    children = []
    for role, arguments in parts:
        pid = os.fork()
        if pid == 0:
            os.close(opener)
            status = 1
            try:
                asyncio.run(play(url, tenant, gate, role, arguments))
                status = 0
            except BaseException:  # noqa: BLE001 - printed; a child never returns from here
                traceback.print_exc()
            finally:
                sys.stderr.flush()
                os._exit(status)
        children.append(pid)
    os.close(gate)
    os.close(opener)
    return max(os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) != 0 for pid in children)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1], sys.argv[2], json.loads(sys.argv[3])))
