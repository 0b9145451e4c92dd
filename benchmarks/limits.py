"""Calls that must stay short however much is stored: absolute times, each with its limit.

A thread of 100,000 checkpoints and a million threads are copied within the database from some that
were saved, see `benchmarks.filling_logs`. The first call on a new SQLite file is measured in fresh
interpreters, as CPU time, after the import.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from itertools import cycle
from pathlib import Path
from statistics import median
from typing import Any

from benchmarks.corpus import DIMENSIONS, vectors
from benchmarks.filling import Item, settle
from benchmarks.filling_logs import COMMON_WORD, fill_thread, fill_threads, state_of
from benchmarks.footprint import fresh_python
from benchmarks.measure import Finding, Seconds, Stopwatch, at_most
from benchmarks.subjects.ours import Ours
from benchmarks.subjects.stores import OurStore
from benchmarks.workload import Message

CHECKPOINTS, KEPT = 100_000, 1_000
THREADS = 1_000_000
ITEMS, WITHIN = 10_000, 100
"""Items, and those of them that a range holds."""
EMBEDDED, DIVERSE = 5_000, 1_250
"""Items with vectors, and how many diverse ones are asked for: all that may be are compared."""
LONG, HERE = "long", ("limits",)
MANY, FEW = 10, 2
"""Calls of a round, of those that are short and those that may take longer."""

FIRST_CALL = """
import asyncio, json, sys, time
from memalchemy import Checkpointer, Database

async def first(path):
    began = time.process_time()
    async with Database(f"sqlite:///{path}") as db:
        await Checkpointer(db).save({"step": 1}, "thread")
        return time.process_time() - began

first_of_all = asyncio.run(first(sys.argv[1] + "-1"))
print(json.dumps([first_of_all, *(asyncio.run(first(f"{sys.argv[1]}-{n}")) for n in range(2, 7))]))
"""


async def measure(
    messages: list[Message], directory: Path, new_database: Callable[[], str], rounds: int
) -> AsyncIterator[Finding]:
    for finding in await _first_calls(directory, rounds):
        yield finding
    for engine in ("SQLite", "PostgreSQL"):

        def place(name: str, engine: str = engine) -> Path | str:
            return directory / f"limits-{name}.db" if engine == "SQLite" else new_database()

        async for finding in _long_thread(engine, place("long"), messages, rounds):
            yield finding
        yield await _many_threads(engine, place("threads"), rounds)
        async for finding in _items(engine, place("items"), rounds):
            yield finding


def _finding(
    name: str, times: Sequence[float], limit: float | None, *, unit: str = "ms"
) -> Finding:
    scale = 1000 if unit == "ms" else 1
    found = median(times) * scale
    cpus = [one.cpu * scale for one in times if isinstance(one, Seconds)]
    beside = f", CPU {median(cpus):,.2f} {unit}" if cpus else ""
    target = None if limit is None else at_most(limit)
    return Finding("limits", name, found, unit, target, f"{found:,.2f} {unit}{beside}", "-")


async def _timed(call: Callable[[], Awaitable[Any]], rounds: int, calls: int) -> list[Seconds]:
    """The times of a call, each a mean of some; the first ones, which prepare it, do not count."""
    times = []
    for _ in range(1 + rounds):
        watch = Stopwatch()
        for _ in range(calls):
            await call()
        times.append(watch.per(calls))
    return times[1:]


async def _first_calls(directory: Path, rounds: int) -> list[Finding]:
    firsts, laters = [], []
    for number in range(1 + rounds):
        place = str(directory / f"first-{number}.db")
        first, *later = await fresh_python("-c", FIRST_CALL, place)
        firsts.append(first)
        laters += later
    # The first interpreter of all compiles the modules.
    name = "save on a new SQLite file, CPU"
    return [
        _finding(f"first {name}, in a process", firsts[1:], 60),
        _finding(f"later {name}", laters[5:], 8),
    ]


async def _long_thread(
    engine: str, where: Path | str, messages: list[Message], rounds: int
) -> AsyncIterator[Finding]:
    ours = Ours(where)
    await ours.open()
    await fill_thread(ours, LONG, messages, CHECKPOINTS)
    here, thread = ours.checkpointer, f"{CHECKPOINTS:,} checkpoints, {engine}"
    await here.save(state_of(messages, CHECKPOINTS), LONG, metadata={"ticket": "one"})

    async def by_metadata() -> None:
        assert len(await here.query_by_metadata("ticket", "one")) == 1

    async def stats() -> None:
        assert (await here.get_storage_stats(LONG))["total_checkpoints"] == CHECKPOINTS + 1

    async def by_word() -> None:
        assert len(await here.search(COMMON_WORD)) == 10

    yield _finding(
        f"query_by_metadata among {thread}", await _timed(by_metadata, rounds, MANY), 0.3
    )
    yield _finding(f"get_storage_stats of {thread}", await _timed(stats, rounds, FEW), 5)
    yield _finding(f"search for a word in half of {thread}", await _timed(by_word, rounds, FEW), 10)
    watch = Stopwatch()
    pruned = await here.prune(LONG, keep_last=KEPT)
    took = [watch.read()]
    assert pruned == CHECKPOINTS + 1 - KEPT, f"{pruned:,} were deleted"
    yield _finding(f"prune all but {KEPT:,} of {thread}", took, 3, unit="s")
    assert await here.load(LONG) == state_of(messages, CHECKPOINTS)
    await ours.close()


async def _many_threads(engine: str, where: Path | str, rounds: int) -> Finding:
    ours = Ours(where)
    await ours.open()
    await fill_threads(ours, THREADS, whole=False)

    async def listed() -> None:
        assert len(await ours.checkpointer.list_threads(10)) == 10

    times = await _timed(listed, rounds, MANY)
    await ours.close()
    return _finding(f"list_threads(10) of {THREADS:,} threads, {engine}", times, 5)


async def _items(engine: str, where: Path | str, rounds: int) -> AsyncIterator[Finding]:
    ours = await OurStore(where).open()
    made = vectors(EMBEDDED, seed=9)
    items = [Item(HERE, f"k{at}", {"at": at}, made[at]) for at in range(EMBEDDED)]
    await ours.fill(items + [Item(HERE, f"k{at}", {"at": at}) for at in range(EMBEDDED, ITEMS)])
    if isinstance(where, str):
        settle(where)
    starts = cycle(range(0, ITEMS - WITHIN, 7 * WITHIN))

    async def in_range() -> None:
        start = next(starts)
        within = {"at": {"$gte": start, "$lt": start + WITHIN}}
        found = await ours.store.search(HERE, filter=within, limit=WITHIN)
        assert len(found) == WITHIN

    queries = cycle(vectors(10, seed=10))

    async def diverse() -> None:
        found = await ours.store.search(
            HERE, embedding=next(queries), mode="vector", limit=DIVERSE, mmr=0.5
        )
        assert len(found) == DIVERSE

    yield _finding(
        f"filter by a range, {WITHIN} of {ITEMS:,} items, {engine}",
        await _timed(in_range, rounds, MANY),
        15 if engine == "SQLite" else None,
    )
    yield _finding(
        f"search with mmr for {DIVERSE:,} of {EMBEDDED:,} items of {DIMENSIONS} numbers, {engine}",
        await _timed(diverse, rounds, 1),
        200,
    )
    await ours.close()
