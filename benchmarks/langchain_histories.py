"""Chat histories of LangChain: ours against langchain-community's `SQLChatMessageHistory`.

Both are called without ``await``, as ``chain.invoke`` does: `add_messages` with the two messages of
a turn, ``messages`` for all of them, each by a new object on a shared engine or `Database`. The
turns that are timed are those that follow the history in its thread. Both commit every turn
durably. Ours indexes the words, theirs does not: bytes and saves are reported for ours with and
without.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator, Callable
from functools import partial
from itertools import count
from pathlib import Path
from typing import Any

from langchain_community.chat_message_histories import SQLChatMessageHistory
from langchain_core.messages import AIMessage, BaseMessage, HumanMessage
from sqlalchemy import create_engine

from benchmarks.filling import settle
from benchmarks.measure import Finding, at_least, megabytes, milliseconds, ratio, take_turns
from benchmarks.servers import file_size, total_size
from benchmarks.workload import Message
from memalchemy import sync
from memalchemy.integrations.langchain import MemalchemyChatMessageHistory

LENGTHS = (200, 1_000)
TURNS = 40
"""Turns that are added in a round."""
LOADS = 5
TARGETS = {"SQLite": 1 / 1.2, "PostgreSQL": 1.0}


async def measure(
    messages: list[Message], directory: Path, new_database: Callable[[], str], rounds: int
) -> AsyncIterator[Finding]:
    texts = [text for m in messages if isinstance(text := m.get("content"), str) and text]
    talk = [_message(at, texts[at % len(texts)]) for at in range(LENGTHS[-1] + 2 * TURNS)]
    for engine in ("SQLite", "PostgreSQL"):

        def place(name: str, engine: str = engine) -> Path | str:
            return directory / f"histories-{name}.db" if engine == "SQLite" else new_database()

        async for finding in _of_engine(engine, talk, place, rounds):
            yield finding


def _message(at: int, text: str) -> BaseMessage:
    if at % 2 == 0:
        return HumanMessage(text)
    usage: Any = {"input_tokens": 100 + at, "output_tokens": 50, "total_tokens": 150 + at}
    return AIMessage(
        text,
        id=f"run-{at:08}",
        usage_metadata=usage,
        response_metadata={"model_name": "a-model", "finish_reason": "stop"},
    )


async def _of_engine(
    engine: str, talk: list[BaseMessage], place: Callable[[str], Path | str], rounds: int
) -> AsyncIterator[Finding]:
    here, silent, there = place("ours"), place("silent"), place("theirs")
    db, quiet = sync.Database(_url(here)), sync.Database(_url(silent))
    await asyncio.to_thread(db.migrate)
    await asyncio.to_thread(quiet.migrate)
    alchemy = create_engine(_url(there).replace("postgresql://", "postgresql+psycopg://"))

    def theirs(name: str) -> Any:
        return SQLChatMessageHistory(name, connection=alchemy)

    def ours(name: str, db: sync.Database = db, index_text: bool = True) -> Any:
        return MemalchemyChatMessageHistory(db, session_id=name, index_text=index_text)

    await asyncio.to_thread(lambda: theirs("first").messages)
    empty = {"ours": _bytes(here), "silent": _bytes(silent), "theirs": _bytes(there)}
    longest = talk[: LENGTHS[-1]]
    for history in (ours("long"), ours("long", quiet, False), theirs("long")):
        await asyncio.to_thread(_fill, history, longest)
    grown = {n: _bytes(w) - empty[n] for n, w in zip(empty, (here, silent, there), strict=True)}
    for which, what in (("ours", ""), ("silent", ", without words to find")):
        yield Finding(
            "langchain_histories",
            f"{engine}: bytes of {len(longest):,} messages{what}, SQLChatMessageHistory's to ours",
            grown["theirs"] / grown[which],
            "x",
            None,
            megabytes(grown[which]),
            megabytes(grown["theirs"]),
        )
    sides = {"ours": ours, "theirs": theirs}
    for length in LENGTHS:
        for make in sides.values():
            await asyncio.to_thread(_fill, make(f"load-{length}"), talk[:length])
    for where in (here, there):
        if isinstance(where, str):
            settle(where)
    for length in LENGTHS:
        loads = {n: partial(_loading, make, f"load-{length}", length) for n, make in sides.items()}
        yield _finding(engine, "load", length, await take_turns(loads, rounds))
    numbers = count()
    for length in LENGTHS:
        silent_side = {"silent": partial(ours, db=quiet, index_text=False)}
        saves = {
            n: partial(_saving, make, talk[: length + 2 * TURNS], length, numbers)
            for n, make in (sides | silent_side).items()
        }
        found = await take_turns(saves, rounds)
        yield _finding(engine, "save a turn", length, found)
        found["ours"] = found["silent"]
        yield _finding(engine, "save a turn without words to find", length, found)
    alchemy.dispose()
    await asyncio.to_thread(quiet.close)
    await asyncio.to_thread(db.close)


def _fill(history: Any, talk: list[BaseMessage]) -> None:
    for at in range(0, len(talk), 2):
        history.add_messages(talk[at : at + 2])


async def _loading(make: Callable[[str], Any], name: str, length: int) -> float:
    def load() -> float:
        histories = [make(name) for _ in range(LOADS)]
        began = time.perf_counter()
        for history in histories:
            found = history.messages
        took = (time.perf_counter() - began) / LOADS
        assert len(found) == length
        return took

    return await asyncio.to_thread(load)


async def _saving(
    make: Callable[[str], Any], talk: list[BaseMessage], length: int, numbers: Any
) -> float:
    """Seconds of a turn, of all that `talk` holds beyond its first `length` messages."""

    def save() -> float:
        history = make(f"save-{next(numbers)}")
        history.add_messages(talk[:length])
        turns = [talk[at : at + 2] for at in range(length, len(talk), 2)]
        began = time.perf_counter()
        for turn in turns:
            history.add_messages(turn)
        return (time.perf_counter() - began) / len(turns)

    return await asyncio.to_thread(save)


def _finding(engine: str, what: str, length: int, found: dict[str, list[float]]) -> Finding:
    return Finding(
        "langchain_histories",
        f"{engine}: {what} at {length:,} messages, SQLChatMessageHistory to ours",
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
