"""Memories of LazyBridge's agents: `MemalchemyStore` against LazyBridge's `Store`, on SQLite.

Both are called as `Memory` does: all turns of a session at each turn, and once to load them. Both
commit durably. Ours compresses and indexes the words, theirs is JSON without an index on them:
bytes and times are reported for ours with and without.
"""

from __future__ import annotations

import time
from collections.abc import AsyncIterator, Callable
from functools import partial
from itertools import count
from pathlib import Path
from typing import Any

from lazybridge.store import Store

from benchmarks.measure import Finding, megabytes, milliseconds, ratio, take_turns
from benchmarks.servers import file_size
from benchmarks.workload import Message
from memalchemy.integrations.lazybridge import MemalchemyStore

LENGTHS = (50, 200, 1_000)
"""Messages, two of them a turn."""
TURNS = 20
"""Turns that are added in a round."""
LOADS = 5


async def measure(
    messages: list[Message], directory: Path, new_database: Callable[[], str], rounds: int
) -> AsyncIterator[Finding]:
    texts = [text for m in messages if isinstance(text := m.get("content"), str) and text]
    said = [texts[at % len(texts)] for at in range(LENGTHS[-1] + 2 * TURNS)]
    turns = [
        {"user": user, "assistant": answer, "token_estimate": len(user + answer) // 4}
        for user, answer in zip(said[::2], said[1::2], strict=True)
    ]
    files = {name: directory / f"memories-{name}.db" for name in ("theirs", "ours", "silent")}
    stores: dict[str, Store] = {
        "theirs": Store(str(files["theirs"])),
        "ours": MemalchemyStore(files["ours"]),
        "silent": MemalchemyStore(files["silent"], index_text=False),
    }
    empty = {}
    for name, store in stores.items():
        store.write_memory("a", turns=turns[:1])
        empty[name] = file_size(files[name])
        for at in range(1, LENGTHS[-1] // 2):
            store.write_memory("a", turns=turns[: at + 1])
    grown = {name: file_size(file) - empty[name] for name, file in files.items()}
    for name, what in (("ours", ""), ("silent", ", without words to find")):
        yield Finding(
            "lazybridge_memories",
            f"bytes of {LENGTHS[-1]:,} messages{what}, to LazyBridge's Store",
            grown[name] / grown["theirs"],
            "x",
            None,
            megabytes(grown[name]),
            megabytes(grown["theirs"]),
        )
    numbers = count()
    for length in LENGTHS:
        for what, job in (("save a turn", _saving), ("load", _loading)):
            jobs = {
                name: partial(job, store, turns, length // 2, numbers)
                for name, store in stores.items()
            }
            found = await take_turns(jobs, rounds)
            for name, how in (("ours", ""), ("silent", " without words to find")):
                yield Finding(
                    "lazybridge_memories",
                    f"{what} at {length:,} messages{how}, LazyBridge's Store to ours",
                    ratio(found["theirs"], found[name]),
                    "x",
                    None,
                    milliseconds(found[name]),
                    milliseconds(found["theirs"]),
                )
    for store in stores.values():
        store.close()


async def _saving(store: Store, turns: list[dict[str, Any]], length: int, numbers: Any) -> float:
    session = f"save-{next(numbers)}"
    store.write_memory("a", turns=turns[:length], session_key=session)
    began = time.perf_counter()
    for more in range(TURNS):
        # Memory makes the turns anew each time.
        given = [dict(turn) for turn in turns[: length + more + 1]]
        store.write_memory("a", turns=given, session_key=session)
    took = (time.perf_counter() - began) / TURNS
    store.delete_memory("a", session_key=session)
    return took


async def _loading(store: Store, turns: list[dict[str, Any]], length: int, numbers: Any) -> float:
    session = f"load-{length}"
    if store.read_memory("a", session_key=session) is None:
        for at in range(0, length, 5):
            store.write_memory("a", turns=turns[: at + 5], session_key=session)
    began = time.perf_counter()
    for _ in range(LOADS):
        found = store.read_memory("a", session_key=session)
    took = (time.perf_counter() - began) / LOADS
    assert found is not None
    assert len(found["turns"]) >= length
    return took
