"""Chats of LlamaIndex: ours against its own `SQLAlchemyChatStore`, on the same engine.

Both are called as `Memory` does: `add_message` for each of the two messages of a turn,
`get_messages` for all of them. Both commit every message durably. Ours indexes the words, theirs
does not: bytes are reported for ours with and without.
"""

from __future__ import annotations

import time
from collections.abc import AsyncIterator, Callable
from functools import partial
from itertools import count
from pathlib import Path
from typing import Any

from llama_index.core.base.llms.types import ChatMessage
from llama_index.core.storage.chat_store.sql import SQLAlchemyChatStore

from benchmarks.filling import settle
from benchmarks.measure import Finding, at_least, megabytes, milliseconds, ratio, take_turns
from benchmarks.servers import file_size, total_size
from benchmarks.workload import Message
from memalchemy import Database
from memalchemy.integrations.llama_index import MemalchemyChatStore

LENGTHS = (200, 1_000)
TARGETS = {"SQLite": 1 / 1.2, "PostgreSQL": 1}
"""How many times as fast as theirs ours is at least."""
TURNS = 30
LOADS = 5


async def measure(
    messages: list[Message], directory: Path, new_database: Callable[[], str], rounds: int
) -> AsyncIterator[Finding]:
    texts = [text for m in messages if isinstance(text := m.get("content"), str) and text]
    chat = [
        ChatMessage(role=("user", "assistant")[at % 2], content=texts[at % len(texts)])
        for at in range(LENGTHS[-1])
    ]
    for engine in TARGETS:

        def place(name: str, engine: str = engine) -> Path | str:
            return directory / f"chats-{name}.db" if engine == "SQLite" else new_database()

        async for finding in _of_engine(engine, chat, place, rounds):
            yield finding


async def _of_engine(
    engine: str, chat: list[ChatMessage], place: Callable[[str], Path | str], rounds: int
) -> AsyncIterator[Finding]:
    here, silent, there = place("ours"), place("silent"), place("theirs")
    db, quiet = Database(_url(here)), Database(_url(silent))
    await db.migrate()
    await quiet.migrate()
    url = f"sqlite+aiosqlite:///{there}" if isinstance(there, Path) else str(there)
    theirs = SQLAlchemyChatStore(
        "messages", async_database_uri=url.replace("postgresql://", "postgresql+asyncpg://")
    )
    await theirs.get_messages("none")
    ours, wordless = MemalchemyChatStore(db), MemalchemyChatStore(quiet, index_text=False)

    empty = {"ours": _bytes(here), "silent": _bytes(silent), "theirs": _bytes(there)}
    for store in (ours, wordless, theirs):
        await _fill(store, "long", chat)
    grown = {n: _bytes(w) - empty[n] for n, w in zip(empty, (here, silent, there), strict=True)}
    for which, what in (("ours", ""), ("silent", ", without words to find")):
        yield Finding(
            "llama_index_chats",
            f"{engine}: bytes of {len(chat):,} messages{what}, SQLAlchemyChatStore's to ours",
            grown["theirs"] / grown[which],
            "x",
            None,
            megabytes(grown[which]),
            megabytes(grown["theirs"]),
        )
    sides: dict[str, Any] = {"ours": ours, "theirs": theirs}
    for length in LENGTHS:
        for store in sides.values():
            await _fill(store, f"load-{length}", chat[:length])
    for where in (here, there):
        if isinstance(where, str):
            settle(where)
    for length in LENGTHS:
        loads = {
            n: partial(_loading, store, f"load-{length}", length) for n, store in sides.items()
        }
        yield _finding(engine, "load", length, await take_turns(loads, rounds))
    numbers = count()
    for length in LENGTHS:
        saves = {
            n: partial(_saving, store, chat[:length], chat[:2], numbers)
            for n, store in sides.items()
        }
        yield _finding(engine, "save a turn", length, await take_turns(saves, rounds))
    engine_of_theirs: Any = theirs._async_engine
    await engine_of_theirs.dispose()
    await quiet.close()
    await db.close()


async def _fill(store: Any, key: str, chat: list[ChatMessage]) -> None:
    for at in range(0, len(chat), 2):
        await store.add_messages(key, chat[at : at + 2])


async def _loading(store: Any, key: str, length: int) -> float:
    began = time.perf_counter()
    for _ in range(LOADS):
        found = await store.get_messages(key)
    took = (time.perf_counter() - began) / LOADS
    assert len(found) == length
    return took


async def _saving(
    store: Any, chat: list[ChatMessage], turn: list[ChatMessage], numbers: Any
) -> float:
    key = f"save-{next(numbers)}"
    await store.add_messages(key, chat)
    began = time.perf_counter()
    for _ in range(TURNS):
        for message in turn:
            await store.add_message(key, message)
    return (time.perf_counter() - began) / TURNS


def _finding(engine: str, what: str, length: int, found: dict[str, list[float]]) -> Finding:
    return Finding(
        "llama_index_chats",
        f"{engine}: {what} at {length:,} messages, SQLAlchemyChatStore to ours",
        ratio(found["theirs"], found["ours"]),
        "x",
        at_least(TARGETS[engine]),
        milliseconds(found["ours"]),
        milliseconds(found["theirs"]),
    )


def _url(where: Path | str) -> str:
    return f"sqlite:///{where}" if isinstance(where, Path) else where


def _bytes(where: Path | str) -> int:
    return file_size(where) if isinstance(where, Path) else total_size(where)
