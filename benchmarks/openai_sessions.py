"""Sessions of the OpenAI Agents SDK: ours against its own `SQLAlchemySession`, on the same engine.

Both are called as a runner does: `add_items` with the two items of a turn, `get_items` for all of
them, on sessions of three lengths. Both commit every turn durably. The first load is that of a new
session object; one that loads again asks ours for what is new only. Ours indexes the words, theirs
does not: bytes are reported for ours with and without.
"""

from __future__ import annotations

import time
from collections.abc import AsyncIterator, Callable
from functools import partial
from itertools import count
from pathlib import Path
from typing import Any, Protocol

from agents.extensions.memory import SQLAlchemySession

from benchmarks.filling import settle
from benchmarks.measure import Finding, at_least, megabytes, milliseconds, ratio, take_turns
from benchmarks.servers import file_size, total_size
from benchmarks.workload import Message
from memalchemy import Database
from memalchemy.integrations.openai_agents import MemalchemySession

LENGTHS = (50, 200, 1_000)
PROMISED = 200
"""From here on ours is never slower."""
TURNS = 40
"""Turns that are added in a round."""
LOADS = 5


class Session(Protocol):
    async def add_items(self, items: list[Any]) -> None: ...
    async def get_items(self) -> list[Any]: ...


async def measure(
    messages: list[Message], directory: Path, new_database: Callable[[], str], rounds: int
) -> AsyncIterator[Finding]:
    texts = [text for m in messages if isinstance(text := m.get("content"), str) and text]
    items = [
        {"role": ("user", "assistant")[at % 2], "content": texts[at % len(texts)]}
        for at in range(LENGTHS[-1])
    ]
    for engine in ("SQLite", "PostgreSQL"):

        def place(name: str, engine: str = engine) -> Path | str:
            return directory / f"sessions-{name}.db" if engine == "SQLite" else new_database()

        async for finding in _of_engine(engine, items, place, rounds):
            yield finding


async def _of_engine(
    engine: str, items: list[Any], place: Callable[[str], Path | str], rounds: int
) -> AsyncIterator[Finding]:
    here, silent, there = place("ours"), place("silent"), place("theirs")
    db, quiet = Database(_url(here)), Database(_url(silent))
    await db.migrate()
    await quiet.migrate()
    url = f"sqlite+aiosqlite:///{there}" if isinstance(there, Path) else str(there)
    first = SQLAlchemySession.from_url(
        "0", url=url.replace("postgresql://", "postgresql+asyncpg://"), create_tables=True
    )
    await first.get_items()

    def theirs(name: str) -> Session:
        return SQLAlchemySession(name, engine=first.engine)

    def ours(name: str, db: Database = db, index_text: bool = True) -> Session:
        return MemalchemySession(name, db, index_text=index_text)

    empty = {"ours": _bytes(here), "silent": _bytes(silent), "theirs": _bytes(there)}
    await _fill(ours("long"), items)
    await _fill(ours("long", quiet, False), items)
    await _fill(theirs("long"), items)
    grown = {n: _bytes(w) - empty[n] for n, w in zip(empty, (here, silent, there), strict=True)}
    for which, what in (("ours", ""), ("silent", ", without words to find")):
        yield Finding(
            "openai_sessions",
            f"{engine}: bytes of {len(items):,} messages{what}, SQLAlchemySession's to ours",
            grown["theirs"] / grown[which],
            "x",
            None,
            megabytes(grown[which]),
            megabytes(grown["theirs"]),
        )
    for length in LENGTHS:
        name = f"load-{length}"
        await _fill(ours(name), items[:length])
        await _fill(theirs(name), items[:length])
    for where in (here, there):
        if isinstance(where, str):
            settle(where)
    sides = {"ours": ours, "theirs": theirs}
    for length in LENGTHS:
        loads = {n: partial(_loading, make, f"load-{length}", length) for n, make in sides.items()}
        again = {n: partial(load, again=True) for n, load in loads.items()}
        yield _finding(engine, "load again", length, await take_turns(again, rounds))
        yield _finding(engine, "first load", length, await take_turns(loads, rounds))
    numbers = count()
    for length in LENGTHS:
        saves = {
            n: partial(_saving, make, items[:length], items[:2], numbers)
            for n, make in sides.items()
        }
        yield _finding(engine, "save a turn", length, await take_turns(saves, rounds))
    await first.engine.dispose()
    await quiet.close()
    await db.close()


async def _fill(session: Session, items: list[Any]) -> None:
    for at in range(0, len(items), 2):
        await session.add_items(items[at : at + 2])


async def _loading(
    make: Callable[[str], Session], name: str, length: int, again: bool = False
) -> float:
    one = make(name)
    if again:
        await one.get_items()
    sessions = [one] * LOADS if again else [make(name) for _ in range(LOADS)]
    began = time.perf_counter()
    for session in sessions:
        found = await session.get_items()
    took = (time.perf_counter() - began) / LOADS
    assert len(found) == length
    return took


async def _saving(
    make: Callable[[str], Session], items: list[Any], turn: list[Any], numbers: Any
) -> float:
    session = make(f"save-{next(numbers)}")
    await session.add_items(items)
    began = time.perf_counter()
    for _ in range(TURNS):
        await session.add_items(turn)
    return (time.perf_counter() - began) / TURNS


def _finding(engine: str, what: str, length: int, found: dict[str, list[float]]) -> Finding:
    return Finding(
        "openai_sessions",
        f"{engine}: {what} at {length:,} messages, SQLAlchemySession to ours",
        ratio(found["theirs"], found["ours"]),
        "x",
        at_least(1) if length >= PROMISED else None,
        milliseconds(found["ours"]),
        milliseconds(found["theirs"]),
    )


def _url(where: Path | str) -> str:
    return f"sqlite:///{where}" if isinstance(where, Path) else where


def _bytes(where: Path | str) -> int:
    return file_size(where) if isinstance(where, Path) else total_size(where)
