"""Calls that must stay short however much is stored: absolute times, each with its limit.

A thread of 100,000 checkpoints and a million threads are copied within the database from some that
were saved, see `benchmarks.filling_logs`. The first call on a new SQLite file is measured in fresh
interpreters, as CPU time, after the import.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from contextlib import closing
from functools import partial
from itertools import cycle
from pathlib import Path
from statistics import median
from typing import Any
from uuid import UUID

from benchmarks.by_hand import by_hand, connect
from benchmarks.corpus import DIMENSIONS, vectors
from benchmarks.filling import Item, settle
from benchmarks.filling_logs import COMMON_WORD, fill_thread, fill_threads, state_of
from benchmarks.footprint import fresh_python
from benchmarks.measure import Finding, Seconds, Stopwatch, at_most, with_floor
from benchmarks.subjects.ours import Ours
from benchmarks.subjects.stores import OurStore
from benchmarks.workload import Message
from memalchemy.keys import log_key
from memalchemy.log.bulk_delete import MAX_ROWS

CHECKPOINTS, KEPT = 100_000, 1_000
PRUNED = CHECKPOINTS + 1 - KEPT
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

STATS = """
    SELECT count(*), sum(raw_size), sum(stored_size),
        (SELECT count(*) FROM deltas WHERE log_id = {0} AND base_seq IS NOT NULL)
    FROM checkpoints WHERE log_id = {0}
"""
"""The sums of `get_storage_stats` by hand."""
BY_METADATA = """
    SELECT * FROM checkpoints
    WHERE tenant = $1 AND meta <> '{}' AND meta @> $2::jsonb
    ORDER BY created_at DESC, seq DESC LIMIT 100
"""
"""`query_by_metadata` by hand on PostgreSQL, with the same index."""


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
    name: str,
    times: Sequence[float],
    limit: float | None,
    floors: Sequence[float] = (),
    *,
    unit: str = "ms",
) -> Finding:
    scale = 1000 if unit == "ms" else 1
    found = median(times) * scale
    cpus = [one.cpu * scale for one in times if isinstance(one, Seconds)]
    beside = f", CPU {median(cpus):,.2f} {unit}" if cpus else ""
    target = None if limit is None else at_most(limit)
    finding = Finding("limits", name, found, unit, target, f"{found:,.2f} {unit}{beside}", "-")
    return with_floor(finding, median(floors) * scale) if floors else finding


async def _timed(
    call: Callable[[], Awaitable[Any]],
    rounds: int,
    calls: int,
    floor: Callable[[], Awaitable[Any]] | None = None,
) -> tuple[list[Seconds], list[Seconds]]:
    """The times of a call, each a mean of some, and those of its *floor*, in turns.

    The first ones, which prepare it, do not count.
    """
    times: tuple[list[Seconds], list[Seconds]] = ([], [])
    for _ in range(1 + rounds):
        for one, found in zip((call, floor), times, strict=True):
            if one is not None:
                watch = Stopwatch()
                for _ in range(calls):
                    await one()
                found.append(watch.per(calls))
    return times[0][1:], times[1][1:]


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

    key = log_key(ours.db.tenant, LONG, "/")
    async with by_hand(where) as fetch:
        sums = partial(fetch, STATS.format("?"), key.bytes, key.bytes)
        found = None
        if isinstance(where, str):
            sums = partial(fetch, STATS.format("$1"), key)
            found = partial(fetch, BY_METADATA, ours.db.tenant, '{"ticket": "one"}')
        for name, call, calls, limit, floor in (
            ("query_by_metadata among", by_metadata, MANY, 0.3, found),
            ("get_storage_stats of", stats, FEW, 5, sums),
            ("search for a word in half of", by_word, FEW, 10, None),
        ):
            times, floors = await _timed(call, rounds, calls, floor)
            yield _finding(f"{name} {thread}", times, limit, floors)
    floors = [_pruned_by_hand(where, key)] if isinstance(where, Path) else []
    watch = Stopwatch()
    pruned = await here.prune(LONG, keep_last=KEPT)
    took = [watch.read()]
    assert pruned == PRUNED, f"{pruned:,} were deleted"
    yield _finding(f"prune all but {KEPT:,} of {thread}", took, 3, floors, unit="s")
    assert await here.load(LONG) == state_of(messages, CHECKPOINTS)
    await ours.close()


def _pruned_by_hand(file: Path, key: UUID) -> Seconds:
    """Delete the same rows of a copy by their positions, as many in each transaction as ours."""
    copy = file.with_suffix(".copy")
    with closing(connect(file)) as source, closing(connect(copy)) as connection:
        source.backup(connection)
        watch = Stopwatch()
        for high in range(PRUNED, 0, -MAX_ROWS):
            connection.execute("BEGIN IMMEDIATE")
            for table in ("checkpoints", "deltas"):
                connection.execute(
                    f"DELETE FROM {table} WHERE log_id = ? AND seq > ? AND seq <= ?",
                    (key.bytes, high - MAX_ROWS, high),
                )
            connection.execute("COMMIT")
        took = watch.read()
        ((left,),) = connection.execute("SELECT count(*) FROM checkpoints").fetchall()
    assert left == KEPT, f"{left:,} are left"
    copy.unlink()
    return took


async def _many_threads(engine: str, where: Path | str, rounds: int) -> Finding:
    ours = Ours(where)
    await ours.open()
    await fill_threads(ours, THREADS, whole=False)

    async def listed() -> None:
        assert len(await ours.checkpointer.list_threads(10)) == 10

    times, _ = await _timed(listed, rounds, MANY)
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
        (await _timed(in_range, rounds, MANY))[0],
        15 if engine == "SQLite" else None,
    )
    yield _finding(
        f"search with mmr for {DIVERSE:,} of {EMBEDDED:,} items of {DIMENSIONS} numbers, {engine}",
        (await _timed(diverse, rounds, 1))[0],
        200,
    )
    await ours.close()
