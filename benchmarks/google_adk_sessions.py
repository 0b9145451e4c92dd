"""Sessions of Google's ADK: our service against its own `DatabaseSessionService`.

Both are called as a runner does: `append_event` with the events of a turn on a session that was
loaded, of which every fifth changes the session's state, and `get_session` with all events. Both
commit every event durably. Ours indexes the words, theirs does not: bytes are reported for ours
with and without.
"""

from __future__ import annotations

import time
from collections.abc import AsyncIterator, Callable
from functools import partial
from itertools import count
from pathlib import Path
from typing import Any

from google.adk.events import Event, EventActions
from google.adk.sessions import BaseSessionService, DatabaseSessionService
from google.genai import types

from benchmarks.filling import settle
from benchmarks.measure import Finding, at_least, megabytes, milliseconds, ratio, take_turns
from benchmarks.servers import file_size, total_size
from benchmarks.workload import Message
from memalchemy import Database
from memalchemy.integrations.google_adk import MemalchemySessionService

LENGTHS = (200, 1_000)
EVENTS = 20
"""Events that are appended in a round."""
LOADS = 3
PROMISED = {"SQLite": 1 / 1.2, "PostgreSQL": 1}
OWNER: dict[str, Any] = {"app_name": "bench", "user_id": "ada"}


async def measure(
    messages: list[Message], directory: Path, new_database: Callable[[], str], rounds: int
) -> AsyncIterator[Finding]:
    texts = [text for m in messages if isinstance(text := m.get("content"), str) and text]
    for engine in PROMISED:

        def place(name: str, engine: str = engine) -> Path | str:
            return directory / f"adk-{name}.db" if engine == "SQLite" else new_database()

        async for finding in _of_engine(engine, texts, place, rounds):
            yield finding


async def _of_engine(
    engine: str, texts: list[str], place: Callable[[str], Path | str], rounds: int
) -> AsyncIterator[Finding]:
    here, silent, there = place("ours"), place("silent"), place("theirs")
    db, quiet = Database(_url(here)), Database(_url(silent))
    await db.migrate()
    await quiet.migrate()
    url = f"sqlite+aiosqlite:///{there}" if isinstance(there, Path) else str(there)
    theirs = DatabaseSessionService(url.replace("postgresql://", "postgresql+asyncpg://"))
    await theirs.prepare_tables()
    ours = MemalchemySessionService(db)
    longest = LENGTHS[-1]

    empty = {"ours": _bytes(here), "silent": _bytes(silent), "theirs": _bytes(there)}
    await _fill(ours, "long", texts, longest)
    await _fill(MemalchemySessionService(quiet, index_text=False), "long", texts, longest)
    await _fill(theirs, "long", texts, longest)
    grown = {n: _bytes(w) - empty[n] for n, w in zip(empty, (here, silent, there), strict=True)}
    for which, what in (("ours", ""), ("silent", ", without words to find")):
        yield Finding(
            "google_adk_sessions",
            f"{engine}: bytes of {longest:,} events{what}, DatabaseSessionService's to ours",
            grown["theirs"] / grown[which],
            "x",
            None,
            megabytes(grown[which]),
            megabytes(grown["theirs"]),
        )
    sides: dict[str, BaseSessionService] = {"ours": ours, "theirs": theirs}
    for length in LENGTHS:
        for side in sides.values():
            await _fill(side, f"load-{length}", texts, length)
    for where in (here, there):
        if isinstance(where, str):
            settle(where)
    for length in LENGTHS:
        loads = {name: partial(_load, side, length) for name, side in sides.items()}
        yield _finding(engine, "get_session", length, await take_turns(loads, rounds))
    numbers = count()
    for length in LENGTHS:
        appends = {
            name: partial(_append, side, f"load-{length}", texts, numbers)
            for name, side in sides.items()
        }
        yield _finding(engine, "append_event", length, await take_turns(appends, rounds))
    await theirs.close()
    await quiet.close()
    await db.close()


def _event(texts: list[str], number: int) -> Event:
    author, role = (("ada", "user"), ("guide", "model"))[number % 2]
    delta = {"step": number} if number % 5 == 0 else {}
    return Event(
        author=author,
        invocation_id=f"e-{number // 2}",
        content=types.Content(role=role, parts=[types.Part(text=texts[number % len(texts)])]),
        actions=EventActions(state_delta=delta),
    )


async def _fill(service: BaseSessionService, name: str, texts: list[str], length: int) -> None:
    session = await service.create_session(
        **OWNER, session_id=name, state={"app:city": "Oslo", "user:name": "Ada", "topic": "tours"}
    )
    for number in range(length):
        await service.append_event(session, _event(texts, number))


async def _load(service: BaseSessionService, length: int) -> float:
    began = time.perf_counter()
    for _ in range(LOADS):
        found = await service.get_session(**OWNER, session_id=f"load-{length}")
    took = (time.perf_counter() - began) / LOADS
    assert found is not None
    assert len(found.events) == length
    return took


async def _append(service: BaseSessionService, name: str, texts: list[str], numbers: Any) -> float:
    session = await service.get_session(**OWNER, session_id=name)
    assert session is not None
    events = [_event(texts, next(numbers)) for _ in range(EVENTS)]
    began = time.perf_counter()
    for event in events:
        await service.append_event(session, event)
    return (time.perf_counter() - began) / EVENTS


def _finding(engine: str, what: str, length: int, found: dict[str, list[float]]) -> Finding:
    return Finding(
        "google_adk_sessions",
        f"{engine}: {what} at {length:,} events, DatabaseSessionService to ours",
        ratio(found["theirs"], found["ours"]),
        "x",
        at_least(PROMISED[engine]),
        milliseconds(found["ours"]),
        milliseconds(found["theirs"]),
    )


def _url(where: Path | str) -> str:
    return f"sqlite:///{where}" if isinstance(where, Path) else where


def _bytes(where: Path | str) -> int:
    return file_size(where) if isinstance(where, Path) else total_size(where)
