"""How operations grow on SQLite: with a thread's checkpoints, with threads, with a state's size.

All times are CPU time, all of which SQLite takes in this process: a neighbour on the machine does
not bend the curves. Long threads and many threads are copied within the database, see
`benchmarks.filling_logs`. A state's size is measured in a fresh interpreter for each, because the
peak of memory is a process's; the memory before is taken off.
"""

from __future__ import annotations

import asyncio
import json
import sys
from collections import defaultdict
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from pathlib import Path
from statistics import median
from typing import Any

from benchmarks.curves_report import Curve
from benchmarks.filling_logs import fill_thread, fill_threads, state_of
from benchmarks.footprint import fresh_python, peak_resident, resident
from benchmarks.measure import Stopwatch
from benchmarks.subjects.ours import Ours
from benchmarks.workload import Message

CHECKPOINTS = (10, 1_000, 100_000)
THREADS = (10, 1_000, 100_000, 1_000_000)
SIZES = (1_000, 10_000, 100_000, 1_000_000, 10_000_000, 50_000_000)
CALLS = 7
"""The middle one of these counts."""
THREAD, OTHER = "long", "other"
RARE_WORD = "zyzzyva"

Call = Callable[[], Awaitable[Any]]


async def measure(messages: Sequence[Message], directory: Path) -> AsyncIterator[Curve]:
    """Measure curve after curve; each group of them as soon as its last point is there."""
    groups = (
        ("checkpoints in a thread", CHECKPOINTS, _thread_of),
        ("threads", THREADS, _database_of),
        ("bytes of a state", SIZES, _state_of),
    )
    for along, counts, measuring in groups:
        points: defaultdict[tuple[str, str], list[tuple[int, float]]] = defaultdict(list)
        for count in counts:
            for name, found in (await measuring(messages, directory, count)).items():
                unit = "MB" if name == "peak memory" else "ms"
                points[name, unit].append((count, found))
        for (name, unit), found_points in points.items():
            yield Curve(along, name, unit, tuple(found_points))


async def _thread_of(messages: Sequence[Message], directory: Path, count: int) -> dict[str, float]:
    ours = Ours(directory / f"thread-{count}.db")
    await ours.open()
    await ours.save(OTHER, {"step": 0})
    await fill_thread(ours, THREAD, messages, count)
    here, steps = ours.checkpointer, iter(range(count + 1, count + 1 + 2 * CALLS))
    await here.save(
        {"note": f"a {RARE_WORD}"}, THREAD, "rare", metadata={"ticket": "one"}, parent_id=None
    )

    async def one(found: Awaitable[Sequence[Any]]) -> None:
        assert len(await found) == 1

    calls: dict[str, Call] = {
        "save": lambda: here.save(state_of(messages, next(steps)), THREAD),
        "list 20": lambda: here.list_checkpoints(THREAD, limit=20),
        "search for a rare word": lambda: one(here.search(RARE_WORD)),
        "query_by_metadata": lambda: one(here.query_by_metadata("ticket", "one")),
        "get_storage_stats": lambda: here.get_storage_stats(THREAD),
    }
    found = {name: await _milliseconds(call) for name, call in calls.items()}
    found["load the newest"] = await _loading(ours, THREAD)
    await ours.close()
    return found


async def _database_of(
    messages: Sequence[Message], directory: Path, count: int
) -> dict[str, float]:
    ours = Ours(directory / f"threads-{count}.db")
    await ours.open()
    await fill_threads(ours, count, whole=True)
    here, steps = ours.checkpointer, iter(range(2 * CALLS))
    found = {
        "save": await _milliseconds(lambda: here.save(state_of(messages, next(steps)), THREAD)),
        "list 20": await _milliseconds(lambda: here.list_threads(20)),
        "load the newest": await _loading(ours, THREAD, "thread-0"),
    }
    await ours.close()
    return found


async def _milliseconds(call: Call) -> float:
    """CPU milliseconds of a call, after a first one that prepares what it needs."""
    await call()
    times = []
    for _ in range(CALLS):
        watch = Stopwatch()
        await call()
        times.append(watch.read().cpu)
    return 1000 * median(times)


async def _loading(ours: Ours, thread_id: str, other: str = OTHER) -> float:
    """CPU milliseconds of a load by a database that knows nothing of the thread."""
    times = []
    for _ in range(CALLS):
        fresh = ours.again()
        await fresh.warm(other, None)
        watch = Stopwatch()
        assert await fresh.load(thread_id) is not None
        times.append(watch.read().cpu)
        await fresh.close()
    return 1000 * median(times)


async def _state_of(messages: Sequence[Message], directory: Path, count: int) -> dict[str, float]:
    given = directory / "messages.json"
    if not given.exists():
        given.write_text(json.dumps(messages))
    place = directory / f"state-{count}.db"
    found: dict[str, float] = await fresh_python(
        "-m", "benchmarks.curves", str(place), str(given), str(count)
    )
    return found


def sized_state(messages: Sequence[Message], size: int) -> dict[str, Any]:
    """A state of *size* bytes or somewhat more: messages, each with an id of its own."""
    chosen: list[Message] = []
    left = size
    while left > 0:
        made = messages[len(chosen) % len(messages)] | {"id": f"message-{len(chosen)}"}
        chosen.append(made)
        left -= len(json.dumps(made))
    return {"messages": chosen}


async def _serve(where: str, given: str, size: str) -> None:
    """In a process of its own: save a state of a size, save it changed, and load it again."""
    state = sized_state(json.loads(Path(given).read_text()), int(size))  # noqa: ASYNC240
    ours = Ours(Path(where))
    await ours.open()
    await ours.save(OTHER, {"step": 0})
    before = resident()
    watch = Stopwatch()
    await ours.save(THREAD, state | {"step": 0})
    first = watch.read().cpu
    times = []
    for step in range(1, 4):
        watch = Stopwatch()
        await ours.save(THREAD, state | {"step": step})
        times.append(watch.read().cpu)
    loading = await _loading(ours, THREAD)
    await ours.close()
    found = {
        "first save": 1000 * first,
        "save with a small change": 1000 * median(times),
        "load the newest": loading,
        # An allocator's own page or two are no less than this.
        "peak memory": max(0.1, (peak_resident() - before) / 1e6),
    }
    print(json.dumps(found))


if __name__ == "__main__":
    asyncio.run(_serve(*sys.argv[1:]))
