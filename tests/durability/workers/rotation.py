"""A process that saves and puts under keys, for as long as another rotates them.

    python -m workers.rotation URL TENANT KEYS

*KEYS* are between commas, the first encrypts. Writes a line for everything that was acknowledged,
until it can read one from stdin.
"""

from __future__ import annotations

import asyncio
import json
import sys
import threading
from typing import Any

from memalchemy import Checkpointer, Database, Store

LONG = {"long": "x" * 2000, "more": list(range(300))}


def tell(**facts: Any) -> None:
    print(json.dumps(facts), flush=True)


async def work(url: str, tenant: str, keys: list[str]) -> None:
    done = threading.Event()
    threading.Thread(target=lambda: (sys.stdin.readline(), done.set()), daemon=True).start()
    async with Database(url, tenant=tenant, keys=keys) as db:
        agent, store = Checkpointer(db, max_chain_depth=64), Store(db)
        n = 0
        while not done.is_set():
            for thread in ("a", "b"):
                await agent.save(LONG | {"n": n}, thread, f"{thread}{n}")
            await store.put(("tally",), "counter", n)
            tell(saved=n)
            n += 1


if __name__ == "__main__":
    asyncio.run(work(sys.argv[1], sys.argv[2], sys.argv[3].split(",")))
