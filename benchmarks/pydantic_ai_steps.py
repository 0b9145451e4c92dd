"""Step stores of the Pydantic AI harness: ours against its own for SQLite and PostgreSQL.

All are called as `StepPersistence` does: `save_snapshot` with the whole history after each turn,
which adds two messages, `append_event` and `record_tool_effect` with what happened, and
`latest_snapshot` to go on, on runs of two lengths. Ours indexes the words, theirs do not: bytes are
reported for ours with and without. Theirs for PostgreSQL is on a pool of asyncpg's.
"""

from __future__ import annotations

import time
from collections.abc import AsyncIterator, Callable
from datetime import UTC, datetime
from functools import partial
from itertools import count
from pathlib import Path
from typing import Any

import asyncpg
from pydantic_ai.messages import (
    ModelMessage,
    ModelRequest,
    ModelResponse,
    TextPart,
    UserPromptPart,
)
from pydantic_ai_harness.step_persistence import (
    ContinuableSnapshot,
    PostgresStepStore,
    SqliteStepStore,
    StepEvent,
    ToolEffectRecord,
)

from benchmarks.filling import settle
from benchmarks.measure import Finding, at_least, megabytes, milliseconds, ratio, take_turns
from benchmarks.servers import file_size, total_size
from benchmarks.workload import Message
from memalchemy import Database
from memalchemy.integrations.pydantic_ai_harness import MemalchemyStepStore

LENGTHS = (200, 1_000)
TURNS = 10
"""Turns that are saved in a round."""
SMALL_WRITES = 40
LOADS = 5
NOON = datetime(2026, 3, 1, 12, tzinfo=UTC)

TARGET = {"SQLite": at_least(1 / 1.2), "PostgreSQL": at_least(1)}


async def measure(
    messages: list[Message], directory: Path, new_database: Callable[[], str], rounds: int
) -> AsyncIterator[Finding]:
    texts = [text for m in messages if isinstance(text := m.get("content"), str) and text]
    history: list[ModelMessage] = [
        _message(at, texts[at % len(texts)]) for at in range(LENGTHS[-1] + 2 * TURNS)
    ]
    for engine in ("SQLite", "PostgreSQL"):

        def place(name: str, engine: str = engine) -> Path | str:
            return directory / f"steps-{name}.db" if engine == "SQLite" else new_database()

        async for finding in _of_engine(engine, history, place, rounds):
            yield finding


def _message(at: int, text: str) -> ModelMessage:
    if at % 2:
        return ModelResponse(parts=[TextPart(text)], timestamp=NOON, model_name="script")
    return ModelRequest(parts=[UserPromptPart(text, timestamp=NOON)], timestamp=NOON)


async def _of_engine(
    engine: str,
    history: list[ModelMessage],
    place: Callable[[str], Path | str],
    rounds: int,
) -> AsyncIterator[Finding]:
    places = {name: place(name) for name in ("ours", "silent", "theirs")}
    dbs = [Database(_url(places[name])) for name in ("ours", "silent")]
    for db in dbs:
        await db.migrate()
    pool: Any = None
    if isinstance(where := places["theirs"], Path):
        theirs: Any = SqliteStepStore(database=where)
    else:
        pool = await asyncpg.create_pool(where, min_size=1, max_size=4)
        theirs = PostgresStepStore(pool)
    sides: dict[str, Any] = {"ours": MemalchemyStepStore(dbs[0]), "theirs": theirs}
    silent = MemalchemyStepStore(dbs[1], index_text=False)
    for store in (*sides.values(), silent):
        await store.list_events(run_id="none")

    empty = {name: _bytes(where) for name, where in places.items()}
    for store in (*sides.values(), silent):
        for turn in range(100):
            await store.save_snapshot(_snapshot("filled", turn, history[: 2 * turn + 2]))
    grown = {name: _bytes(where) - empty[name] for name, where in places.items()}
    for which, what in (("ours", ""), ("silent", ", without words to find")):
        yield Finding(
            "pydantic_ai_steps",
            f"{engine}: bytes of 100 snapshots{what}, the harness' to ours",
            grown["theirs"] / grown[which],
            "x",
            None,
            megabytes(grown[which]),
            megabytes(grown["theirs"]),
        )
    for length in LENGTHS:
        for store in sides.values():
            await store.save_snapshot(_snapshot(f"load-{length}", 0, history[:length]))
    for where in places.values():
        if isinstance(where, str):
            settle(where)
    for length in LENGTHS:
        loads = {n: partial(_loading, store, length) for n, store in sides.items()}
        yield _finding(engine, f"load {length:,} messages", await take_turns(loads, rounds))
    numbers = count()
    for length in LENGTHS:
        saves = {n: partial(_saving, s, history, length, numbers) for n, s in sides.items()}
        yield _finding(
            engine, f"save a snapshot at {length:,} messages", await take_turns(saves, rounds)
        )
    for what, write in (("append an event", _appending), ("record an effect", _recording)):
        writes = {n: partial(write, store, numbers) for n, store in sides.items()}
        yield _finding(engine, what, await take_turns(writes, rounds))
    if pool is not None:
        await pool.close()
    for db in dbs:
        await db.close()


def _snapshot(run: str, step: int, messages: list[ModelMessage]) -> ContinuableSnapshot:
    return ContinuableSnapshot(
        run_id=run, step_index=step, messages=messages, idempotency_key=f"{step}:{step}:complete"
    )


async def _loading(store: Any, length: int) -> float:
    began = time.perf_counter()
    for _ in range(LOADS):
        found = await store.latest_snapshot(run_id=f"load-{length}")
    took = (time.perf_counter() - began) / LOADS
    assert len(found.messages) == length
    return took


async def _saving(store: Any, history: list[ModelMessage], length: int, numbers: Any) -> float:
    run = f"save-{next(numbers)}"
    await store.save_snapshot(_snapshot(run, 0, history[:length]))
    began = time.perf_counter()
    for turn in range(1, TURNS + 1):
        await store.save_snapshot(_snapshot(run, turn, history[: length + 2 * turn]))
    return (time.perf_counter() - began) / TURNS


async def _appending(store: Any, numbers: Any) -> float:
    run = f"events-{next(numbers)}"
    began = time.perf_counter()
    for at in range(SMALL_WRITES):
        await store.append_event(
            StepEvent(
                run_id=run, kind="run_started", step_index=at, idempotency_key=f"{at}:run_started:"
            )
        )
    return (time.perf_counter() - began) / SMALL_WRITES


async def _recording(store: Any, numbers: Any) -> float:
    run = f"effects-{next(numbers)}"
    began = time.perf_counter()
    for at in range(SMALL_WRITES):
        await store.record_tool_effect(
            ToolEffectRecord(
                run_id=run, tool_call_id=f"call-{at}", tool_name="look", status="started"
            )
        )
    return (time.perf_counter() - began) / SMALL_WRITES


def _finding(engine: str, what: str, found: dict[str, list[float]]) -> Finding:
    return Finding(
        "pydantic_ai_steps",
        f"{engine}: {what}, the harness' store to ours",
        ratio(found["theirs"], found["ours"]),
        "x",
        TARGET[engine],
        milliseconds(found["ours"]),
        milliseconds(found["theirs"]),
    )


def _url(where: Path | str) -> str:
    return f"sqlite:///{where}" if isinstance(where, Path) else where


def _bytes(where: Path | str) -> int:
    return file_size(where) if isinstance(where, Path) else total_size(where)
