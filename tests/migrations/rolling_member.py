"""A pod of some release that saves and loads until its standard input ends.

    PYTHONPATH=CODE python rolling_member.py URL NAME

CODE is the release: this checkout's, an older one's, a later one's. Writes a line of JSON when it
is open, with where its code is and the revision it was made for, and one for each save that was
acknowledged. Whatever goes wrong ends it with a traceback and a code other than 0.
"""

from __future__ import annotations

import asyncio
import json
import sys
import threading
from itertools import count
from typing import Any

import memalchemy
from memalchemy import Checkpointer, Database, migrate

THREADS = ("one", "two")
ALL = "shared by all pods"


def tell(**facts: Any) -> None:
    sys.stdout.write(json.dumps(facts) + "\n")
    sys.stdout.flush()


def state_of(name: str) -> dict[str, Any]:
    """Longer with every save, so that saves are deltas."""
    number = int(name.rsplit(" ", 1)[1])
    return {"who": name, "messages": [f"message {n} of {name[0]}" for n in range(number % 60)]}


async def save_and_load(keep: Checkpointer, pod: str, thread: str, over: asyncio.Event) -> None:
    for number in count(1):
        if over.is_set():
            return
        name = f"{pod} {thread} {number}"
        where = ALL if number % 5 == 0 else f"{pod} {thread}"
        await keep.save(state_of(name), where, name, {"pod": pod, "number": number})
        tell(saved=name, thread=where)
        if await keep.load(where, name) != state_of(name):
            raise AssertionError(f"{name} did not load as it was saved")
        if number % 10 == 0:
            first = f"{pod} {thread} 1"
            found = await keep.query_by_metadata("number", number)
            if name not in {hit["checkpoint_id"] for hit in found}:
                raise AssertionError(f"{name} was not found by its metadata")
            if not await keep.search("message", limit=1):
                raise AssertionError("no message was found")
            if await keep.load(f"{pod} {thread}", first) != state_of(first):
                raise AssertionError(f"{first} is not what it was")


def when_told(loop: asyncio.AbstractEventLoop, over: asyncio.Event) -> None:
    sys.stdin.read()
    loop.call_soon_threadsafe(over.set)


async def main(url: str, pod: str) -> None:
    over = asyncio.Event()
    # A daemon: a pod that fails does not wait for its input to end.
    listening = (asyncio.get_running_loop(), over)
    threading.Thread(target=when_told, args=listening, daemon=True).start()
    async with Database(url, migrate="check") as db:
        tell(open=memalchemy.__file__, head=migrate.head())
        async with asyncio.TaskGroup() as tasks:
            for thread in THREADS:
                tasks.create_task(save_and_load(Checkpointer(db), pod, thread, over))


if __name__ == "__main__":
    asyncio.run(main(*sys.argv[1:]))
