"""A process that does what it is told, one line of JSON at a time, and answers with one.

    python -m workers.turns URL TENANT

Commands: ``["save", thread, name]``, ``["load", thread, name]``, ``["delete", thread, name]``,
``["delete", thread]``. Its caches live from command to command.
"""

from __future__ import annotations

import asyncio
import json
import sys

from memalchemy import Checkpointer, Database
from workers.states import state_of


async def main(url: str, tenant: str) -> None:
    async with Database(url, tenant=tenant) as db:
        keep = Checkpointer(db)
        while line := await asyncio.to_thread(sys.stdin.readline):
            what, thread, *names = json.loads(line)
            if what == "save":
                answer = await keep.save(state_of(names[0]), thread, names[0])
            else:
                answer = await getattr(keep, what)(thread, *names)
            print(json.dumps(answer), flush=True)


if __name__ == "__main__":
    asyncio.run(main(*sys.argv[1:]))
