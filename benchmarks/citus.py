"""A cluster of Citus beside one PostgreSQL: what a call takes on each, and many savers at once.

    python -m benchmarks.citus postgresql://me@one/plain postgresql://me@coordinator/spread

Both databases are made ready: the schema is brought to this release's, and on the cluster the
tables are distributed. A save is compared with an INSERT by hand of as many bytes into a
distributed table, routed to one node; what else there is with the same call on the one server. The
two take turns in each round, on a connection each. At the end threads are saved to the cluster, and
what each takes of bytes and of processor time is printed, by node: the servers have to be on this
machine. Exit code 1 if a target was missed.
"""

from __future__ import annotations

import argparse
import asyncio
import os
import sys
import time
import uuid
from collections.abc import AsyncIterator, Awaitable, Callable
from dataclasses import dataclass
from functools import partial
from itertools import count
from typing import Any

import asyncpg
from sqlalchemy.engine import make_url

from benchmarks import report
from benchmarks.measure import (
    Finding,
    Stopwatch,
    Target,
    at_most,
    milliseconds,
    per_second,
    ratio,
    take_turns,
)
from benchmarks.server_time import postmaster_of, seconds_of
from memalchemy import Checkpointer, Database, Store, ThreadLog
from memalchemy.events import subscribe_statements
from memalchemy.maintenance import distribution, space

GROUP = "citus"
ROUNDS = 15
CALLS = 20
"""Calls of a round on each side."""
SAVERS = 64
SAVES = 8
"""Saves of each of those who save at once, in a round."""
MESSAGES = 20
LONGER = 100
"""The thread that is saved grows from so many messages by as many, and begins anew."""
SAVED_BYTES = 300
"""Bytes that are inserted by hand; a save of one message more is about as many."""
ITEMS = 500
"""Items of the namespace that is searched."""
NEIGHBOURS = 20
"""Namespaces beside it, below the same prefix, with as many items together."""
DIMENSIONS = 64
SPACE = ("notes", "main")
NAMED = "the-newest"
BY_HAND = "saved_by_hand"
COSTED, STEPS, AT_ONCE = 1_000, 20, 16
"""Threads that are saved for what they cost, the saves of each, and those who save at once."""


@dataclass
class Side:
    """One of the two databases, with what is called on it and a connection of the driver's."""

    db: Database
    checkpointer: Checkpointer
    store: Store
    log: ThreadLog
    driver: asyncpg.Connection[Any]
    numbers: count[int]

    async def save(self) -> None:
        await self.checkpointer.save(_state(next(self.numbers)), "thread")

    async def load(self) -> None:
        assert await self.checkpointer.load("thread") is not None

    async def load_named(self) -> None:
        assert await self.checkpointer.load("named", NAMED) is not None

    async def put(self) -> None:
        number = next(self.numbers)
        await self.store.put(("written",), f"k{number % 100}", _value(number))

    async def get(self) -> None:
        assert await self.store.get(SPACE, f"k{next(self.numbers) % ITEMS}") is not None

    async def append(self) -> None:
        await self.log.append("log", [{"role": "user", "content": _words(next(self.numbers))}])

    async def search_text(self) -> None:
        assert await self.store.search(SPACE, "parcel street", mode="text", limit=10)

    async def search_vector(self) -> None:
        assert await self.store.search(SPACE, embedding=_vector(next(self.numbers)), limit=10)

    async def search_text_below(self) -> None:
        assert await self.store.search(SPACE[:1], "parcel street", prefix=True)

    async def search_vector_below(self) -> None:
        number = next(self.numbers)
        assert await self.store.search(SPACE[:1], embedding=_vector(number), prefix=True)

    async def list_threads(self) -> None:
        assert await self.checkpointer.list_threads(limit=20)

    async def insert_by_hand(self) -> None:
        given = uuid.uuid4(), os.urandom(SAVED_BYTES)
        await self.driver.execute(f"INSERT INTO {BY_HAND} VALUES ($1, $2)", *given)


CALLED: dict[str, tuple[Callable[[Side], Awaitable[None]], Target | None]] = {
    "load": (Side.load, at_most(3)),
    "load of a checkpoint that is named": (Side.load_named, None),
    "put": (Side.put, at_most(3)),
    "get": (Side.get, at_most(3)),
    "append": (Side.append, at_most(3)),
    "text search in a namespace": (Side.search_text, at_most(3)),
    "vector search in a namespace": (Side.search_vector, at_most(3)),
    "save": (Side.save, None),
    "text search below a prefix": (Side.search_text_below, None),
    "vector search below a prefix": (Side.search_vector_below, None),
    "list threads": (Side.list_threads, None),
}
"""What is compared with the one server, and at how many times its time."""


def main() -> int:
    parser = argparse.ArgumentParser(
        "python -m benchmarks.citus",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("plain", help="the URL of an empty database of a PostgreSQL")
    parser.add_argument("cluster", help="the URL of an empty database of the coordinator")
    parser.add_argument("--parts", type=int, help="the number of shards of each group of tables")
    parser.add_argument("--rounds", type=int, default=ROUNDS)
    return asyncio.run(_measure(parser.parse_args()))


async def _measure(given: argparse.Namespace) -> int:
    print(f"load average {report.load_average()}")
    async with Database(given.cluster, migrate="off") as db:
        await db.migrate()
        spread = (await distribution.distribute(db, parts=given.parts)).distribution
    shards = {table.shards for table in spread.tables if table.column is not None}
    print(f"{spread.software}, {spread.nodes} nodes with shards, {shards} shards of each group")
    plain, cluster = [await _open(url) for url in (given.plain, given.cluster)]
    await cluster.driver.execute(f"SELECT create_distributed_table('{BY_HAND}', 'id')")
    missed = 0
    async for finding in _findings(plain, cluster, given.rounds):
        print(report.line(finding), flush=True)
        missed += not finding.is_met
    await _print_costs(cluster, given.cluster)
    for side in (plain, cluster):
        await side.driver.close()
        await side.db.close()
    print(f"load average {report.load_average()}")
    return 1 if missed else 0


async def _findings(plain: Side, cluster: Side, rounds: int) -> AsyncIterator[Finding]:
    runs = {"save": partial(_many, Side.save, cluster)}
    runs["its statements"] = partial(_many_statements, Side.save, cluster)
    runs["by hand"] = partial(_many, Side.insert_by_hand, cluster)
    saves, statements, by_hand = (await take_turns(runs, rounds)).values()
    yield _times("a save, to one routed INSERT by hand", saves, by_hand, at_most(4.5))
    yield _times("its statements alone, to the same", statements, by_hand, None)
    for name, (call, target) in CALLED.items():
        runs = {which: partial(_many, call, side) for which, side in _both(cluster, plain)}
        ours, theirs = (await take_turns(runs, rounds)).values()
        yield _times(f"{name}, to the same on one server", ours, theirs, target)
    runs = {which: partial(_save_at_once, side) for which, side in _both(cluster, plain)}
    ours, theirs = (await take_turns(runs, max(5, rounds // 3))).values()
    yield Finding(
        GROUP,
        f"saves a second of {SAVERS} at once, to those of one server",
        ratio(ours, theirs),
        "x",
        None,
        per_second(ours),
        per_second(theirs),
        better="at least",
    )


def _both(cluster: Side, plain: Side) -> tuple[tuple[str, Side], tuple[str, Side]]:
    return ("cluster", cluster), ("plain", plain)


def _times(name: str, ours: list[float], theirs: list[float], target: Target | None) -> Finding:
    value, times = ratio(ours, theirs), (milliseconds(ours), milliseconds(theirs))
    return Finding(GROUP, name, value, "x", target, *times, better="at most")


async def _many(call: Callable[[Side], Awaitable[None]], side: Side) -> float:
    await call(side)
    watch = Stopwatch()
    for _ in range(CALLS):
        await call(side)
    return watch.per(CALLS)


async def _many_statements(call: Callable[[Side], Awaitable[None]], side: Side) -> float:
    """Return the seconds that the statements of a call take, each from sending to its answer."""
    seconds: list[float] = []
    unsubscribe = subscribe_statements(lambda event: seconds.append(event.seconds))
    try:
        for _ in range(CALLS):
            await call(side)
    finally:
        unsubscribe()
    return sum(seconds) / CALLS


async def _save_at_once(side: Side) -> float:
    """Return the saves a second of many who save at once, each a thread of its own."""

    async def work(saver: int) -> None:
        for _ in range(SAVES):
            await side.checkpointer.save(_state(next(side.numbers)), f"saver-{saver}")

    started = time.perf_counter()
    await asyncio.gather(*map(work, range(SAVERS)))
    return SAVERS * SAVES / (time.perf_counter() - started)


async def _print_costs(cluster: Side, url: str) -> None:
    """Save threads, and print what one takes, and what each further save of it."""
    rows = await cluster.driver.fetch(
        "SELECT nodename, nodeport FROM pg_dist_node WHERE groupid <> 0 ORDER BY groupid"
    )
    workers = [
        make_url(url).set(host=row["nodename"], port=row["nodeport"]).render_as_string(False)
        for row in rows
    ]
    nodes = [postmaster_of(one) for one in (url, *workers)]

    async def save_all(step: int) -> None:
        async def save(saver: int) -> None:
            for n in range(saver, COSTED, AT_ONCE):
                await cluster.checkpointer.save(_state(step), f"costed-{n}")

        await asyncio.gather(*map(save, range(AT_ONCE)))

    before = await _bytes(cluster.db)
    await save_all(0)
    begun = await _bytes(cluster.db)
    used, client = [seconds_of(one) for one in nodes], time.process_time()
    for step in range(1, STEPS):
        await save_all(step)
    saves = COSTED * (STEPS - 1)
    used_here = 1000 * (time.process_time() - client) / saves
    now = [seconds_of(one) for one in nodes]
    coordinator, *others = [
        1000 * (after - earlier) / saves for after, earlier in zip(now, used, strict=True)
    ]
    grown = await _bytes(cluster.db)
    first, further = (begun - before) / COSTED, (grown - begun) / saves
    print(f"\n{COSTED} threads of {STEPS} saves:")
    print(f"  bytes of a thread with its first save of {MESSAGES} messages: {first:,.0f}")
    print(f"  bytes of each further save of a message: {further:,.0f}")
    print(f"  processor time of a save, ms: coordinator {coordinator:.2f}, ", end="")
    print(f"workers together {sum(others):.2f}, client {used_here:.2f}")


async def _bytes(db: Database) -> int:
    """Return the bytes of all tables and indexes on the nodes."""
    await space.reclaim(db)  # or rows that a vacuum would remove were counted
    return sum(piece.bytes for piece in (await space.measure(db)).pieces)


async def _open(url: str) -> Side:
    db = Database(url, migrate="upgrade")
    driver = await asyncpg.connect(url)
    side = Side(db, Checkpointer(db), Store(db), ThreadLog(db), driver, count())
    await driver.execute(f"CREATE TABLE {BY_HAND} (id uuid PRIMARY KEY, content bytea NOT NULL)")
    for n in range(ITEMS):
        places = SPACE, (SPACE[0], f"beside-{n % NEIGHBOURS}")
        for place in places:
            await side.store.put(place, f"k{n}", _value(n), embedding=_vector(n))
    for n in range(SAVERS):
        await side.checkpointer.save(_state(n), f"saver-{n}")
    for n in range(MESSAGES):
        await side.save()
        await side.checkpointer.save(_state(n), "named", NAMED if n == MESSAGES - 1 else None)
    await side.append()
    # As the database's own daemon would, a minute later.
    await driver.execute("VACUUM ANALYZE")
    return side


def _state(number: int) -> dict[str, Any]:
    """Return a state of a conversation, with one message more than that of the number before."""
    said = range(number - number % LONGER, number + MESSAGES)
    return {"messages": [{"role": "user", "content": _words(n)} for n in said], "step": number}


def _value(number: int) -> dict[str, Any]:
    return {"text": _words(number), "number": number}


def _words(number: int) -> str:
    return f"message {number}: where is parcel {number * 7919 % 1000} of street {number % 13}? " * 3


def _vector(number: int) -> list[float]:
    return [1.0 + (number * (at + 3) % 17) for at in range(DIMENSIONS)]


if __name__ == "__main__":
    sys.exit(main())
