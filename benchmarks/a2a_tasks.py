"""Tasks of A2A: our `MemalchemyTaskStore` against `DatabaseTaskStore`, on the same servers.

Both are called as the SDK's task manager does: `save` with the whole task after each turn of two
messages, `get` for all of it, with tasks of two lengths. Both commit every save durably. Ours
indexes the words, theirs does not: bytes are reported for ours with and without.
"""

from __future__ import annotations

import time
from collections.abc import AsyncIterator, Callable
from functools import partial
from itertools import count
from pathlib import Path

from a2a.server.context import ServerCallContext
from a2a.server.tasks import DatabaseTaskStore, TaskStore
from a2a.types import Message, Part, Role, Task, TaskState
from sqlalchemy.ext.asyncio import create_async_engine

from benchmarks.filling import settle
from benchmarks.measure import (
    Finding,
    at_least,
    megabytes,
    milliseconds,
    ratio,
    take_turns,
)
from benchmarks.servers import file_size, total_size
from benchmarks.workload import Message as Given
from memalchemy import Database
from memalchemy.integrations.a2a import MemalchemyTaskStore

LENGTHS = (200, 1_000)
SQLITE_AT_LEAST = 1 / 1.2
"""On SQLite ours takes at most 1.2 times as long; on PostgreSQL it is never slower."""
TURNS = 20
"""Turns that are added in a round."""
LOADS = 5
CALL = ServerCallContext()


async def measure(
    messages: list[Given], directory: Path, new_database: Callable[[], str], rounds: int
) -> AsyncIterator[Finding]:
    texts = [text for m in messages if isinstance(text := m.get("content"), str) and text]
    history = [
        Message(
            message_id=f"message-{at}",
            role=(Role.ROLE_USER, Role.ROLE_AGENT)[at % 2],
            parts=[Part(text=texts[at % len(texts)])],
        )
        for at in range(LENGTHS[-1] + 2 * TURNS)
    ]
    for engine in ("SQLite", "PostgreSQL"):

        def place(name: str, engine: str = engine) -> Path | str:
            return directory / f"tasks-{name}.db" if engine == "SQLite" else new_database()

        async for finding in _of_engine(engine, history, place, rounds):
            yield finding


async def _of_engine(
    engine: str, history: list[Message], place: Callable[[str], Path | str], rounds: int
) -> AsyncIterator[Finding]:
    places = {name: place(name) for name in ("ours", "silent", "theirs")}
    db, quiet = Database(_url(places["ours"])), Database(_url(places["silent"]))
    await db.migrate()
    await quiet.migrate()
    url = _url(places["theirs"]).replace("sqlite://", "sqlite+aiosqlite://")
    own = create_async_engine(url.replace("postgresql://", "postgresql+asyncpg://"))
    theirs = DatabaseTaskStore(own)
    await theirs.initialize()
    sides: dict[str, TaskStore] = {"ours": MemalchemyTaskStore(db), "theirs": theirs}
    silent = MemalchemyTaskStore(quiet, index_text=False)

    empty = {name: _bytes(where) for name, where in places.items()}
    longest = LENGTHS[-1]
    for store in (*sides.values(), silent):
        await _grow(store, "bytes", history, 0, longest, step=longest // 50)
    grown = {name: _bytes(where) - empty[name] for name, where in places.items()}
    for which, what in (("ours", ""), ("silent", ", without words to find")):
        yield Finding(
            "a2a_tasks",
            f"{engine}: bytes of a task saved 50 times on the way to {longest:,} messages{what}, "
            "DatabaseTaskStore's to ours",
            grown["theirs"] / grown[which],
            "x",
            None,
            megabytes(grown[which]),
            megabytes(grown["theirs"]),
        )
    for length in LENGTHS:
        for store in sides.values():
            await _grow(store, f"load-{length}", history, 0, length, step=length)
    for where in (places["ours"], places["theirs"]):
        if isinstance(where, str):
            settle(where)
    target = SQLITE_AT_LEAST if engine == "SQLite" else 1
    for length in LENGTHS:
        loads = {name: partial(_loading, store, length) for name, store in sides.items()}
        yield _finding(engine, "load", length, await take_turns(loads, rounds), target)
    numbers = count()
    for length in LENGTHS:
        saves = {
            name: partial(_saving, store, history, length, numbers) for name, store in sides.items()
        }
        yield _finding(engine, "save a turn", length, await take_turns(saves, rounds), target)
    await own.dispose()
    await quiet.close()
    await db.close()


async def _grow(
    store: TaskStore, name: str, history: list[Message], start: int, end: int, step: int
) -> None:
    """Save a task again and again, each time with *step* messages more."""
    task = Task(id=name, context_id="context", history=history[:start])
    for at in range(start, end, step):
        task.history.extend(history[at : at + step])
        task.status.state = TaskState.TASK_STATE_WORKING
        task.status.timestamp.GetCurrentTime()
        await store.save(task, CALL)


async def _loading(store: TaskStore, length: int) -> float:
    began = time.perf_counter()
    for _ in range(LOADS):
        found = await store.get(f"load-{length}", CALL)
    took = (time.perf_counter() - began) / LOADS
    assert found is not None
    assert len(found.history) == length
    return took


async def _saving(
    store: TaskStore, history: list[Message], length: int, numbers: count[int]
) -> float:
    name = f"save-{next(numbers)}"
    await _grow(store, name, history, 0, length, step=length)
    began = time.perf_counter()
    await _grow(store, name, history, length, length + 2 * TURNS, step=2)
    return (time.perf_counter() - began) / TURNS


def _finding(
    engine: str, what: str, length: int, found: dict[str, list[float]], target: float
) -> Finding:
    return Finding(
        "a2a_tasks",
        f"{engine}: {what} at {length:,} messages, DatabaseTaskStore to ours",
        ratio(found["theirs"], found["ours"]),
        "x",
        at_least(target),
        milliseconds(found["ours"]),
        milliseconds(found["theirs"]),
    )


def _url(where: Path | str) -> str:
    return f"sqlite:///{where}" if isinstance(where, Path) else where


def _bytes(where: Path | str) -> int:
    return file_size(where) if isinstance(where, Path) else total_size(where)
