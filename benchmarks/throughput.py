"""Many savers at once, against the driver by hand; and many on one thread.

A save carries 20 KB that neither repeat nor compress much. With text search on it is 20 KB of prose
instead, and the driver by hand writes the very search text that we made.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator, Callable
from pathlib import Path
from typing import Any

from benchmarks.measure import Finding, at_least, per_second, ratio, take_turns
from benchmarks.subjects.ours import Ours
from benchmarks.subjects.raw import RawPostgres, RawSqlite
from benchmarks.workload import Message, blobs, prose
from memalchemy.codec.text import search_text

SAVERS = 64
SAVES = 8
"""Of each saver, in one round."""
SIZE = 20_000

Payload = tuple[dict[str, Any], bytes, str | None]


async def measure(
    messages: list[Message], directory: Path, new_database: Callable[[], str], rounds: int
) -> AsyncIterator[Finding]:
    for text in (False, True):
        payloads = _payloads(messages, text)
        for engine, target in (("SQLite", 1.8), ("PostgreSQL", 0.9)):
            where: Any = directory / f"many-{text}.db" if engine == "SQLite" else new_database()
            ours = Ours(where, index_text=text)
            await ours.open()
            raw: Any = RawSqlite(where) if engine == "SQLite" else RawPostgres(where)
            await raw.open()
            yield await _many(engine, ours, raw, payloads, target, rounds, text)
            await raw.close()
            await ours.close()
    yield await _one_thread(new_database(), rounds)


def _payloads(messages: list[Message], text: bool) -> list[Payload]:
    found: list[Payload] = []
    for number, blob in enumerate(blobs(SAVERS * SAVES, SIZE, 1)):
        content = prose(messages, SIZE, number) if text else blob
        words = search_text([content]) if text else None
        found.append(({"content": content}, content.encode(), words))
    return found


async def _many(
    engine: str,
    ours: Ours,
    raw: RawSqlite | RawPostgres,
    payloads: list[Payload],
    target: float,
    rounds: int,
    text: bool,
) -> Finding:
    async def run(save: Callable[[str, Payload], Any], whose: str) -> float:
        async def saver(number: int) -> None:
            for payload in payloads[number * SAVES : (number + 1) * SAVES]:
                await save(f"{whose}-{number}", payload)

        started = time.perf_counter()
        await asyncio.gather(*(saver(number) for number in range(SAVERS)))
        return SAVERS * SAVES / (time.perf_counter() - started)

    found = await take_turns(
        {
            "ours": lambda: run(lambda thread, p: ours.save(thread, p[0]), "ours"),
            "raw": lambda: run(lambda thread, p: raw.save(thread, p[1], p[2]), "raw"),
        },
        max(rounds, 7),
    )
    what = "20 KB of prose, text search on" if text else "20 KB"
    return Finding(
        "throughput",
        f"{SAVERS} threads at once, {what}, {engine}, against the driver by hand",
        ratio(found["ours"], found["raw"]),
        "x",
        at_least(target),
        per_second(found["ours"]),
        f"by hand {per_second(found['raw'])}",
    )


async def _one_thread(dsn: str, rounds: int, tasks: int = 16, saves: int = 40) -> Finding:
    """Tasks that save to the same thread; each save must be there afterwards."""
    ours = Ours(dsn)
    await ours.open()
    rates: list[float] = []
    for turn in range(max(rounds, 5)):
        thread = f"shared-{turn}"

        async def saver(number: int, thread: str = thread) -> list[str]:
            return [
                await ours.save(thread, {"step": step, "by": number, "note": f"step {step}"})
                for step in range(saves)
            ]

        started = time.perf_counter()
        saved = await asyncio.gather(*(saver(number) for number in range(tasks)))
        rates.append(tasks * saves / (time.perf_counter() - started))
        kept = await ours.checkpointer.list_checkpoints(thread, limit=tasks * saves + 1)
        assert sorted(kept) == sorted(i for ids in saved for i in ids), "a save was lost"
    await ours.close()
    rates.sort()
    return Finding(
        "throughput",
        f"{tasks} tasks on one thread, PostgreSQL, nothing lost",
        rates[len(rates) // 2],
        "saves/s",
        at_least(1000),
        per_second(rates),
        "-",
    )
