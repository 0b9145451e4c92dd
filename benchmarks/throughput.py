"""Many savers at once, against the driver by hand; and many on one thread.

A save carries 20 KB that neither repeat nor compress much. With text search on it is 20 KB of prose
instead, and the driver by hand writes the very search text that we made, made beforehand.

Each side has a database of its own, with our schema, so that neither pays for what the other left
in the write-ahead log. Each round has payloads that no round had before: a state that was saved
earlier would be a few bytes to us and 20 KB again by hand. Threads go on from round to round, as
threads do; a first round on both sides, which makes them, opens the connections and prepares the
statements, does not count.
"""

from __future__ import annotations

import asyncio
import time
from collections import defaultdict
from collections.abc import AsyncIterator, Callable
from pathlib import Path
from typing import Any

from benchmarks.measure import (
    Finding,
    Seconds,
    Stopwatch,
    at_least,
    cpu_speed,
    per_second,
    ratio,
    take_turns,
)
from benchmarks.subjects.ours import Ours
from benchmarks.subjects.raw import RawPostgres, RawSqlite
from benchmarks.workload import Message, blobs, prose
from memalchemy.codec.search_text import search_text

SAVERS = 64
SAVES = 8
"""Of each saver, in one round."""
SIZE = 20_000

Payload = tuple[dict[str, Any], bytes, str | None]


async def measure(
    messages: list[Message], directory: Path, new_database: Callable[[], str], rounds: int
) -> AsyncIterator[Finding]:
    for text in (False, True):
        for engine, target in (("SQLite", 1.8), ("PostgreSQL", 1.0)):
            places: list[Any] = [new_database(), new_database()]
            if engine == "SQLite":
                places = [directory / f"{whose}-{text}.db" for whose in ("many", "by-hand")]
            ours = Ours(places[0], index_text=text)
            await ours.open()
            tables = Ours(places[1])
            await tables.open()
            await tables.close()
            raw: Any = RawSqlite(places[1]) if engine == "SQLite" else RawPostgres(places[1])
            await raw.open()
            yield await _many(engine, ours, raw, messages, target, rounds, text)
            await raw.close()
            await ours.close()
    yield await _one_thread(new_database(), rounds)


def _payloads(messages: list[Message], text: bool, turn: int) -> list[Payload]:
    """A round's payloads; of prose, half as many."""
    saves = SAVES // 2 if text else SAVES
    found: list[Payload] = []
    for number, blob in enumerate(blobs(SAVERS * saves, SIZE, turn)):
        content = prose(messages, SIZE, turn * SAVERS * saves + number) if text else blob
        words = search_text([content]) if text else None
        found.append(({"content": content}, content.encode(), words))
    return found


async def _many(
    engine: str,
    ours: Ours,
    raw: RawSqlite | RawPostgres,
    messages: list[Message],
    target: float,
    rounds: int,
    text: bool,
) -> Finding:
    turns: defaultdict[str, int] = defaultdict(int)
    made: dict[int, list[Payload]] = {}

    async def run(save: Callable[[str, Payload], Any], whose: str) -> Seconds:
        turn = turns[whose]
        if turn not in made:
            made.clear()
            made[turn] = _payloads(messages, text, turn)
        payloads = made[turn]
        turns[whose] += 1

        async def saver(number: int) -> None:
            for payload in payloads[number::SAVERS]:
                await save(f"{whose}-{number}", payload)

        watch = Stopwatch()
        await asyncio.gather(*(saver(number) for number in range(SAVERS)))
        return watch.per(len(payloads))

    runs = {
        "ours": lambda: run(lambda thread, p: ours.save(thread, p[0]), "ours"),
        "raw": lambda: run(lambda thread, p: raw.save(thread, p[1], p[2]), "raw"),
    }
    await take_turns(runs, 1)
    found = await take_turns(runs, rounds if text else max(rounds, 7))
    what = "20 KB of prose, text search on" if text else "20 KB"
    return Finding(
        "throughput",
        f"{SAVERS} threads at once, {what}, {engine}, against the driver by hand",
        ratio(found["raw"], found["ours"]),
        "x",
        at_least(target),
        per_second([1 / one for one in found["ours"]]),
        f"by hand {per_second([1 / one for one in found['raw']])}",
        cpu=cpu_speed(found["ours"], found["raw"]) if engine == "SQLite" else None,
    )


async def _one_thread(dsn: str, rounds: int, tasks: int = 16, saves: int = 40) -> Finding:
    """Tasks that save to the same thread; each save must be there afterwards."""
    ours = Ours(dsn)
    await ours.open()
    rates: list[float] = []
    for turn in range(1 + max(rounds, 5)):
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
    rates = sorted(rates[1:])  # the first opens the connections
    return Finding(
        "throughput",
        f"{tasks} tasks on one thread, PostgreSQL, nothing lost",
        rates[len(rates) // 2],
        "saves/s",
        at_least(1000),
        per_second(rates),
        "-",
    )
