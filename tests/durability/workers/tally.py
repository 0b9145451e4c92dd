"""Processes that write to one store side by side, forked warm and let go at one moment.

    python -m workers.tally URL TENANT PROCESSES ROLE TASKS TIMES

Each writes a line for everything that the store acknowledged to it. Roles of a store: ``count``
adds one to ``counter`` as often as it is told, ``create`` creates ``item 0``, ``item 1`` and on if
they are not there, ``take`` deletes them if they are at version 1, ``add`` puts vectors of its own.
Roles of a log: ``say`` appends pairs of entries, under keys that others use too, ``pop`` takes
entries until there are none.
"""

from __future__ import annotations

import asyncio
import json
import os
import sys
import traceback
from collections.abc import Awaitable, Callable
from typing import Any

from memalchemy import Conflict, Database, Store, ThreadLog

SPACE = ("tally",)


def tell(**facts: Any) -> None:
    """One line in one write: lines of several processes on one pipe stay whole."""
    os.write(1, (json.dumps(facts) + "\n").encode())


async def count(store: Store, task: str, times: int) -> None:
    for _ in range(times):
        there = await store.get_item(SPACE, "counter")
        while True:
            value, version = (0, None) if there is None else (there.value, there.version)
            try:
                made = await store.put(SPACE, "counter", value + 1, expected_version=version)
            except Conflict as lost:
                there = lost.current  # type: ignore[assignment]
            else:
                tell(reached=value + 1, version=made, task=task)
                break


async def create(store: Store, task: str, times: int) -> None:
    for number in range(times):
        try:
            made = await store.put(SPACE, f"item {number}", task, expected_version=None)
        except Conflict as lost:
            tell(lost=number, to=lost.current.value, task=task)  # type: ignore[attr-defined]
        else:
            tell(created=number, version=made, task=task)


async def take(store: Store, task: str, times: int) -> None:
    for number in range(times):
        try:
            taken = await store.delete(SPACE, f"item {number}", expected_version=1)
        except Conflict:
            continue
        if taken:
            tell(taken=number, task=task)


async def add(store: Store, task: str, times: int) -> None:
    for number in range(times):
        key = f"{task}/{number}"
        await store.put_with_embedding(SPACE, key, f"needle {key}", [1.0, float(number)])
        near = await store.search_by_embedding(SPACE, [1.0, float(number)], 1000)
        tell(added=key, seen=key in {result.item.key for result in near})


async def say(store: Store, task: str, times: int) -> None:
    log = ThreadLog(store.db)
    for number in range(times):
        own = await log.append("talk", [[task, number, 0], [task, number, 1]])
        shared = await log.append("talk", f"shared {number}", keys=f"shared {number}")
        tell(own=own, shared=shared, number=number, task=task)


async def pop(store: Store, task: str, times: int) -> None:
    log = ThreadLog(store.db)
    while (entry := await log.pop("talk")) is not None:
        tell(popped=entry.position, task=task)


ROLES: dict[str, Callable[[Store, str, int], Awaitable[None]]] = {
    "count": count,
    "create": create,
    "take": take,
    "add": add,
    "say": say,
    "pop": pop,
}


async def play(url: str, tenant: str, gate: int, process: int, role: str, *how: int) -> None:
    tasks, times = how
    async with Database(url, tenant=tenant) as db:
        store = Store(db)
        await asyncio.to_thread(os.read, gate, 1)  # ends when the parent closes its end
        await asyncio.gather(*(ROLES[role](store, f"{process}.{n}", times) for n in range(tasks)))


def main(url: str, tenant: str, processes: int, role: str, tasks: int, times: int) -> int:
    gate, opener = os.pipe()
    children = []
    for process in range(processes):
        pid = os.fork()
        if pid == 0:
            os.close(opener)
            status = 1
            try:
                asyncio.run(play(url, tenant, gate, process, role, tasks, times))
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
    url, tenant, processes, role, tasks, times = sys.argv[1:]
    sys.exit(main(url, tenant, int(processes), role, int(tasks), int(times)))
