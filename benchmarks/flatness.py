"""What looking costs where much is stored: listings and opening touch no payload.

Ours alone: the same call where there is much against where there is little.

``list_threads`` has two measures. Ten thousand threads against as many with payloads fifty times
larger: heads and payloads stand apart, so there must be no difference. And ten thousand against a
hundred: heads have no index on their time, because every save would have to change it and
PostgreSQL's HOT updates would end, so a listing sorts all the heads of its scope. That work grows a
hundredfold here; with the call's fixed cost it may come to a quarter of that, 25 times, and no
more, which is milliseconds.

Threads are made by copying the rows of one that was saved: ten thousand saves would measure nothing
more. PostgreSQL is told to gather statistics, as its own daemon would a minute later.
"""

from __future__ import annotations

import contextlib
import random
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from datetime import timedelta
from pathlib import Path
from typing import Any

import psycopg
from sqlalchemy import Connection, insert, select

from benchmarks.measure import (
    Finding,
    Run,
    Seconds,
    Stopwatch,
    at_most,
    cpu_ratio,
    mean,
    milliseconds,
    ratio,
    take_turns,
    under,
)
from benchmarks.subjects.ours import Ours
from benchmarks.workload import FULL, Message, blobs, state_at
from memalchemy.keys import log_key
from memalchemy.log import truncate_to_second
from memalchemy.schema import CheckpointRow, DeltaRow, ThreadRow

LONG, SHORT = "long", "short"
FEW = 50
MANY_THREADS, FEW_THREADS = 10_000, 100
SMALL = 100
"""Bytes of a small payload."""
TIMES = 50
CALLS = 10
"""Calls per round."""

Places = Callable[[str], Any]


async def measure(
    messages: Sequence[Message], directory: Path, new_database: Callable[[], str], rounds: int
) -> AsyncIterator[Finding]:
    def file(name: str) -> Path:
        return directory / f"flat-{name}.db"

    places: dict[str, Places] = {"SQLite": file, "PostgreSQL": lambda _: new_database()}
    for engine, place in places.items():
        async with contextlib.AsyncExitStack() as stack:

            async def new(
                name: str, place: Places = place, stack: contextlib.AsyncExitStack = stack
            ) -> Ours:
                ours = Ours(place(name))
                await ours.open()
                stack.push_async_callback(ours.close)
                return ours

            full, empty = await new("full"), await new("empty")
            await _fill(full, LONG, messages, len(messages))
            await _fill(full, SHORT, messages, min(FEW, len(messages) // 2))
            yield await _checkpoints(engine, full, len(messages), rounds)
            yield await _opening(engine, full, empty, len(messages), rounds)
            small, large, few = await new("small"), await new("large"), await new("few")
            await _threads(small, MANY_THREADS, SMALL)
            await _threads(large, MANY_THREADS, SMALL * TIMES)
            await _threads(few, FEW_THREADS, SMALL)
            yield await _payloads(engine, small, large, rounds)
            yield await _heads(engine, small, few, rounds)


async def _fill(ours: Ours, thread: str, messages: Sequence[Message], steps: int) -> None:
    for step in range(1, steps + 1):
        await ours.save(thread, state_at(list(messages), step))


def _calling(call: Callable[[], Awaitable[list[str]]], count: int) -> Run:
    """The mean time of some calls, each of which must find *count*."""

    async def run() -> Seconds:
        watch = Stopwatch()
        for _ in range(CALLS):
            assert len(await call()) == count
        return watch.per(CALLS)

    return run


def _finding(
    name: str, found: dict[str, list[float]], limit: float, much: str, little: str, length: int
) -> Finding:
    target, note = under(FULL, length, at_most(limit))
    return Finding(
        "flat",
        name,
        ratio(found["much"], found["little"]),
        "x",
        target,
        f"{milliseconds(found['much'])} with {much}",
        f"{milliseconds(found['little'])} with {little}",
        note,
        cpu_ratio(found["much"], found["little"]) if name.endswith("SQLite") else None,
    )


async def _checkpoints(engine: str, ours: Ours, length: int, rounds: int) -> Finding:
    few = min(FEW, length // 2)
    listed = ours.checkpointer.list_checkpoints
    found = await take_turns(
        {
            "much": _calling(lambda: listed(LONG, limit=10), 10),
            "little": _calling(lambda: listed(SHORT, limit=10), 10),
        },
        max(rounds, 15),
    )
    name = f"list_checkpoints of a thread of {length:,} against one of {few}, {engine}"
    return _finding(name, found, 1.5, f"{length:,}", f"{few}", length)


async def _opening(engine: str, full: Ours, empty: Ours, length: int, rounds: int) -> Finding:
    def opening(ours: Ours, count: int) -> Run:
        async def run() -> Seconds:
            times = []
            for _ in range(3):
                watch = Stopwatch()
                again = ours.again()
                assert len(await again.checkpointer.list_checkpoints(LONG, limit=10)) == count
                times.append(watch.read())
                await again.close()
            return mean(times)

        return run

    found = await take_turns(
        {"much": opening(full, 10), "little": opening(empty, 0)}, max(rounds, 15)
    )
    name = f"open and list with {length:,} checkpoints against an empty database, {engine}"
    return _finding(name, found, 1.5, f"{length:,}", "none", length)


async def _payloads(engine: str, small: Ours, large: Ours, rounds: int) -> Finding:
    found = await take_turns(
        {
            "much": _calling(large.checkpointer.list_threads, 100),
            "little": _calling(small.checkpointer.list_threads, 100),
        },
        max(rounds, 15),
    )
    name = f"list_threads, {MANY_THREADS:,} threads with payloads {TIMES} times larger, {engine}"
    return _finding(name, found, 1.2, f"{SMALL * TIMES:,} bytes", f"{SMALL} bytes", FULL)


async def _heads(engine: str, many: Ours, few: Ours, rounds: int) -> Finding:
    found = await take_turns(
        {
            "much": _calling(many.checkpointer.list_threads, 100),
            "little": _calling(few.checkpointer.list_threads, 100),
        },
        max(rounds, 15),
    )
    name = f"list_threads with {MANY_THREADS:,} threads against {FEW_THREADS}, {engine}"
    return _finding(name, found, 25.0, f"{MANY_THREADS:,}", f"{FEW_THREADS}", FULL)


async def _threads(ours: Ours, count: int, size: int) -> None:
    """*count* threads of one checkpoint each, saved at different times, none in their order."""
    (blob,) = blobs(1, size, 1)
    await ours.save("thread-0", {"content": blob})
    await ours.db.run_sync(lambda connection: _copy(connection, count))
    if isinstance(ours.place, str):
        with psycopg.connect(ours.place, autocommit=True) as connection:
            connection.execute("VACUUM ANALYZE")


def _copy(connection: Connection, count: int) -> None:
    chosen = random.Random(count)
    later = [timedelta(seconds=number) for number in range(1, count)]
    chosen.shuffle(later)
    threads = [f"thread-{number}" for number in range(1, count)]
    for model in (ThreadRow, CheckpointRow, DeltaRow):
        table = model.__table__
        (row,) = connection.execute(select(table)).mappings()
        copies = [dict(row) | {"log_id": log_key(row["tenant"], one, "/")} for one in threads]
        if model is ThreadRow:
            for copy, thread, earlier in zip(copies, threads, later, strict=True):
                updated = row["updated_at"] - earlier
                copy |= {"thread_id": thread, "updated_at": updated}
                copy["active_at"] = truncate_to_second(updated)
        connection.execute(insert(table), copies)  # type: ignore[arg-type]
