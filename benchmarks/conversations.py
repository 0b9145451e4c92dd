"""Conversations: what adding a turn writes, what loading them all takes, and a log that grows long.

A turn is a user's and an assistant's text of the workload. lazybridge's Memory keeps a history as
one value; what is counted is that value each time it is written, and of ours the payload and the
search text of each message. How much then goes through the operating system, pages, indexes and
write-ahead logs included, is counted by Linux for the process, and reported without a target: there
a small write takes a page or two, whatever is in it.

Loading gives messages on both sides: ours as `Message` objects, theirs as dicts. The first load of
a process reads and decodes all on both sides: before each, what ours holds of the conversation is
forgotten. After it ours asks what is new and makes the messages anew, and theirs reads all; by a
new `Conversation`, as an application makes one for each request, and by the same one again.
"""

from __future__ import annotations

import time
from collections.abc import AsyncIterator, Awaitable, Callable
from functools import partial
from pathlib import Path
from typing import Any

from benchmarks.filling import settle
from benchmarks.measure import (
    Finding,
    Seconds,
    Stopwatch,
    at_least,
    at_most,
    cpu_ratio,
    cpu_speed,
    megabytes,
    milliseconds,
    ratio,
    take_turns,
)
from benchmarks.subjects.histories import LazyBridge, OpenAISession
from benchmarks.workload import Message
from memalchemy import Conversation, Database, ThreadLog
from memalchemy.conversations._cache import drop_conversation
from memalchemy.space import measure as space_of

TURNS = 1_000
ENTRIES = 1_000
"""Messages of the conversation that is loaded."""
FEW, MANY = 100, 100_000
CALLS = 100
"""Appends of a round."""
AT_ONCE = 2_000


async def measure(
    messages: list[Message], directory: Path, new_database: Callable[[], str], rounds: int
) -> AsyncIterator[Finding]:
    turns = _turns(messages)
    async for finding in _written(turns, directory):
        yield finding
    for engine in ("SQLite", "PostgreSQL"):

        def place(name: str, engine: str = engine) -> Path | str:
            return directory / f"talk-{name}.db" if engine == "SQLite" else new_database()

        async for finding in _loading(engine, turns, place, rounds):
            yield finding
        yield await _appending(engine, turns, place, rounds)


def _turns(messages: list[Message]) -> list[tuple[str, str]]:
    texts = [text for m in messages if isinstance(text := m.get("content"), str) and text]
    count = len(texts)
    return [(texts[2 * n % count], texts[(2 * n + 1) % count]) for n in range(TURNS)]


def _written_by_process() -> int:
    """Bytes that this process has handed to the operating system, by Linux's own count."""
    for line in Path("/proc/self/io").read_text().splitlines():
        if line.startswith("wchar:"):
            return int(line.split()[1])
    raise AssertionError("no wchar in /proc/self/io")


async def _written(turns: list[tuple[str, str]], directory: Path) -> AsyncIterator[Finding]:
    theirs = LazyBridge(directory / "lazybridge.db")
    began, before = time.perf_counter(), _written_by_process()
    for user, assistant in turns:
        theirs.add(user, assistant)
    their_time, their_files = time.perf_counter() - began, _written_by_process() - before
    their_bytes = theirs.store.written
    theirs.close()

    async with Database(f"sqlite:///{directory}/ours-talk.db") as db:
        talk = Conversation(db, "talk")
        began, before = time.perf_counter(), _written_by_process()
        for user, assistant in turns:
            await talk.add(user, assistant)
        our_time, our_files = time.perf_counter() - began, _written_by_process() - before
        space = await space_of(db)
        our_bytes = sum(kind.bytes for kind in space.kinds)
        assert await talk.count() == 2 * TURNS
    yield Finding(
        "conversations",
        f"Conversation.add, {TURNS:,} turns: bytes written, to lazybridge's Memory",
        our_bytes / their_bytes,
        "x",
        at_most(1 / 50, timed=False),
        f"{megabytes(our_bytes)}, {our_time:.1f} s",
        f"{megabytes(their_bytes)}, {their_time:.1f} s",
    )
    yield Finding(
        "conversations",
        f"Conversation.add, {TURNS:,} turns: bytes through the operating system",
        our_files / their_files,
        "x",
        None,
        megabytes(our_files),
        megabytes(their_files),
        better="at most",
    )


async def _loading(
    engine: str,
    turns: list[tuple[str, str]],
    place: Callable[[str], Path | str],
    rounds: int,
) -> AsyncIterator[Finding]:
    records = [
        {"role": role, "content": text}
        for turn in turns[: ENTRIES // 2]
        for role, text in zip(("user", "assistant"), turn, strict=True)
    ]
    here, there = place("ours"), place("theirs")
    db = _database(here)
    await db.migrate()
    talk = Conversation(db, "talk")
    await talk.add(records)
    theirs = OpenAISession(there)
    await theirs.fill(records)
    for where in (here, there):
        if isinstance(where, str):
            settle(where)
    assert len(await talk.messages()) == len(await theirs.load()) == ENTRIES

    async def timed(load: Callable[[], Awaitable[Any]]) -> Seconds:
        watch = Stopwatch()
        for _ in range(5):
            await load()
        return watch.per(5)

    async def fresh() -> Any:
        return await Conversation(db, "talk").messages()

    async def first() -> Any:
        drop_conversation(talk.log, "talk")
        return await fresh()

    loads = {"again": talk.messages, "fresh": fresh, "first": first, "theirs": theirs.load}
    found = await take_turns({name: partial(timed, load) for name, load in loads.items()}, rounds)
    await theirs.close()
    await db.close()
    for which, what, target in (
        ("again", f"load {ENTRIES:,} entries again", None),
        ("fresh", f"load {ENTRIES:,} entries by a new object, read in this process", at_least(3)),
        ("first", f"first load of {ENTRIES:,} entries in a process", at_least(2)),
    ):
        yield Finding(
            "conversations",
            f"{engine}: {what}, OpenAI's SQLAlchemySession to ours",
            ratio(found["theirs"], found[which]),
            "x",
            target,
            milliseconds(found[which]),
            milliseconds(found["theirs"]),
            cpu=cpu_speed(found[which], found["theirs"]) if engine == "SQLite" else None,
            better="at least",
        )


async def _appending(
    engine: str,
    turns: list[tuple[str, str]],
    place: Callable[[str], Path | str],
    rounds: int,
) -> Finding:
    where = place("long")
    db = _database(where)
    await db.migrate()
    log = ThreadLog(db)
    texts = [text for turn in turns for text in turn]
    # In one database, so that both have the same tables and indexes to write to.
    for start in range(0, MANY, AT_ONCE):
        some = [texts[at % len(texts)][:200] for at in range(start, start + AT_ONCE)]
        await log.append("many", some)
    await log.append("few", [text[:200] for text in texts[:FEW]])
    if isinstance(where, str):
        settle(where)

    async def appends(thread_id: str) -> Seconds:
        watch = Stopwatch()
        for at in range(CALLS):
            await log.append(thread_id, texts[at % len(texts)][:200])
        return watch.per(CALLS)

    found = await take_turns(
        {"many": lambda: appends("many"), "few": lambda: appends("few")}, max(rounds, 5)
    )
    await db.close()
    return Finding(
        "conversations",
        f"{engine}: append at {MANY:,} entries, to one at {FEW}",
        ratio(found["many"], found["few"]),
        "x",
        at_most(1.2),
        milliseconds(found["many"]),
        milliseconds(found["few"]),
        cpu=cpu_ratio(found["many"], found["few"]) if engine == "SQLite" else None,
    )


def _database(where: Path | str) -> Database:
    return Database(f"sqlite:///{where}" if isinstance(where, Path) else where)
