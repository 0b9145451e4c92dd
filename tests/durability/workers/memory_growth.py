"""A process that uses one database after another, and says what it holds after some and after more.

    python -m workers.memory_growth KIND URL FEW MORE

It writes two lines of JSON, each with the objects of the process by type, the memory blocks of the
interpreter, and the threads, open files and resident bytes. A SQLite URL names a directory.
"""

from __future__ import annotations

import asyncio
import gc
import itertools
import json
import os
import resource
import subprocess
import sys
import threading
import time
from collections import Counter
from collections.abc import Callable, Coroutine
from functools import partial
from pathlib import Path
from typing import Any

from sqlalchemy.ext.asyncio import create_async_engine

from memalchemy import Checkpointer, Database, Store, ThreadLog, sync
from memalchemy.codec.encryption import generate_key

HERE = Path(__file__).parent
KEY = generate_key()
NUMBERS = itertools.count()
PLACE = f"m{os.getpid()}"


def growth(kind: str, url: str, few: int, more: int) -> tuple[dict[str, Any], dict[str, Any]]:
    """Start the process; return what it holds after *few* databases and after as many *more*."""
    done = subprocess.run(
        [sys.executable, "-m", "workers.memory_growth", kind, url, str(few), str(more)],
        cwd=HERE.parent,
        # glibc gives many threads heaps of their own, and keeps what is free in them.
        env=os.environ | {"OPENBLAS_NUM_THREADS": "1", "MALLOC_ARENA_MAX": "1"},
        capture_output=True,
        text=True,
        timeout=120 + 2 * more,
    )
    assert done.returncode == 0, done.stderr[-6000:]
    first, second = map(json.loads, done.stdout.splitlines())
    return first, second


async def use(db: Database) -> None:
    """Call what applications call most, in transactions and outside of them."""
    checkpointer, store, log = Checkpointer(db), Store(db), ThreadLog(db)
    await checkpointer.save({"say": "kettle"}, "thread")
    await checkpointer.load("thread")
    await store.put(("place",), "key", {"say": "kettle"})
    await log.append("thread", {"say": "kettle"})
    await log.read("thread")
    if not db.keyring.encrypts:
        await checkpointer.search("kettle")
        await store.search(("place",), query="kettle")
    async with db.transaction() as tx:
        await checkpointer.save({"say": "pot"}, "thread", connection=tx)


def use_without_await(db: Any) -> None:
    """Do as `use` through the classes of `memalchemy.sync`."""
    checkpointer, store, log = sync.Checkpointer(db), sync.Store(db), sync.ThreadLog(db)
    checkpointer.save({"say": "kettle"}, "thread")
    checkpointer.load("thread")
    store.put(("place",), "key", {"say": "kettle"})
    log.append("thread", {"say": "kettle"})
    log.read("thread")
    checkpointer.search("kettle")
    store.search(("place",), query="kettle")
    with db.transaction() as tx:
        checkpointer.save({"say": "pot"}, "thread", connection=tx)


async def closed(url: str, **options: Any) -> None:
    async with Database(url, **options) as db:
        await use(db)


async def dropped(url: str) -> None:
    """Use a database that nobody closes."""
    await use(Database(url))


async def of_tenants(url: str) -> None:
    async with Database(url) as db:
        for number in range(3):
            await use(db.for_tenant(f"tenant-{number}"))


async def migrated(url: str) -> None:
    """Make a schema of its own, with every table in it."""
    await closed(url, schema=f"{PLACE}_{next(NUMBERS)}", migrate="upgrade")


async def on_engine(url: str) -> None:
    """Use an engine of the host's, which the host disposes of."""
    engine = create_async_engine(
        url.replace("sqlite:", "sqlite+aiosqlite:").replace("postgresql:", "postgresql+asyncpg:")
    )
    db = Database(engine)
    await db.migrate()
    await use(db)
    await db.close()
    await engine.dispose()


def closed_without_await(url: str) -> None:
    with sync.Database(url) as db:
        use_without_await(db)


def dropped_without_await(url: str) -> None:
    use_without_await(sync.Database(url))


KINDS: dict[str, Callable[[str], Coroutine[Any, Any, None]]] = {
    "closed": closed,
    "loops": closed,
    "encrypted": partial(closed, keys=KEY),
    "signed": partial(closed, signing_keys=KEY),
    "tenants": of_tenants,
    "dropped": dropped,
    "migrated": migrated,
    "engine": on_engine,
}
WITHOUT_AWAIT: dict[str, Callable[[str], None]] = {
    "sync": closed_without_await,
    "sync-dropped": dropped_without_await,
}


def use_databases(kind: str, url: str, count: int) -> None:
    """Use so many databases; those of ``loops`` and of the synchronous classes have no common loop.

    In memory and on a server the databases have one URL.
    """
    if kind in WITHOUT_AWAIT:
        for _ in range(count):
            with_file(url, WITHOUT_AWAIT[kind])
        return

    async def use_all(count: int) -> None:
        for number in range(1, count + 1):
            await with_file(url, KINDS[kind])
            if number % 10 == 0:
                gc.collect()  # or a server has too many connections of dropped databases

    for part in [1] * count if kind == "loops" else [count]:
        asyncio.run(use_all(part))


def with_file(url: str, then: Callable[[str], Any]) -> Any:
    """Call *then* with the URL of a new file, if *url* is that of a directory."""
    if not url.startswith("sqlite:///"):
        return then(url)
    return then(f"{url}/{next(NUMBERS)}.db")


def settle() -> None:
    """Wait for the threads of dropped databases, and collect what is garbage."""
    until = time.monotonic() + 60
    while time.monotonic() < until:  # timed: the test counts the threads that are left
        gc.collect()
        if threading.active_count() == 1:
            break
        time.sleep(0.01)
    gc.collect()


def held() -> dict[str, Any]:
    """Count what the process holds."""
    blocks = sys.getallocatedblocks()
    names = Counter(f"{type(one).__module__}.{type(one).__qualname__}" for one in gc.get_objects())
    pages = int(Path("/proc/self/statm").read_text().split()[1])
    return {
        "objects": names,
        "blocks": blocks,
        "threads": threading.active_count(),
        "files": len(os.listdir("/proc/self/fd")),
        "resident": pages * resource.getpagesize(),
    }


def main(kind: str, url: str, few: int, more: int) -> None:
    json.dumps(held())  # the first count leaves entries in the caches of abstract base classes
    for count in (few, more):
        use_databases(kind, url, count)
        settle()
        print(json.dumps(held()), flush=True)


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2], int(sys.argv[3]), int(sys.argv[4]))
