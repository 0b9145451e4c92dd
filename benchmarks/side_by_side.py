"""A framework's own backend beside ours, on one conversation: bytes, saves and loads on its way.

Every save is a round: ours, ours without words to find, and theirs, in an order that changes. At
each length that is asked for the bytes are counted, and the newest state is loaded: by an object
that was opened for it and knows nothing of the thread, and again by the one that saved it. Knows no
framework: what one is called with is a `Backend`'s business.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any, Protocol

from benchmarks.filling import settle
from benchmarks.measure import (
    Finding,
    Seconds,
    Stopwatch,
    at_least,
    cpu_speed,
    in_order_of,
    megabytes,
    milliseconds,
    ratio,
    take_turns,
    under,
)
from benchmarks.servers import file_size, total_size
from benchmarks.workload import Message
from memalchemy.database.sqlite.readers import READERS

LENGTHS = (50, 200, 1_000)
PROMISED = 200
"""From here on ours is never slower."""
THREAD, OTHER = "grows", "warm"
WINDOW = 20
"""The last saves before a length count as the saves at that length."""
LOADS = 3
"""Loads per round: the one in the middle is the round's."""

Place = Path | str
"""A file that SQLite has, or will have, or the URL of a PostgreSQL database."""


class Backend(Protocol):
    """What keeps a framework's conversations, called as the framework calls it."""

    name: str
    place: Place

    async def open(self) -> None:
        """Connect, and make the tables if they are not there."""

    def again(self) -> Backend:
        """The same place, as a process that has saved nothing would open it."""

    async def close(self) -> None: ...

    async def save(self, thread_id: str, state: Any) -> None: ...

    async def load(self, thread_id: str) -> int:
        """Load the newest state; how many messages it has."""


@dataclass(frozen=True)
class Comparison:
    """What is measured on an engine. ``state`` makes what is saved at a length."""

    group: str
    engine: str
    ours: Backend
    silent: Backend
    theirs: Backend
    state: Callable[[int], Any]
    known: int
    """How many of the messages are real: longer conversations repeat them, and have no targets."""
    pace: int = 2
    """The messages that a save adds."""
    is_promised: bool = True

    def finding(
        self, what: str, length: int, ours: Sequence[float], theirs: Sequence[float]
    ) -> Finding:
        promised = at_least(1) if self.is_promised and length >= PROMISED else None
        target, note = under(length, self.known, promised)
        return Finding(
            self.group,
            f"{self.engine}: {what} at {length:,} messages, {self.theirs.name} to ours",
            ratio(theirs, ours),
            "x",
            target,
            milliseconds(ours),
            milliseconds(theirs),
            note,
            cpu_speed(ours, theirs) if self.engine == "SQLite" else None,
            better="at least",
        )

    def bytes_of(self, length: int, grown: dict[str, int]) -> list[Finding]:
        """How much theirs grew to how much ours did: the empty schemas are not counted."""
        kinds = (("ours", ""), ("silent", ", without words to find"))
        return [
            Finding(
                self.group,
                f"{self.engine}: bytes of {length:,} messages{what}, {self.theirs.name}'s to ours",
                grown["theirs"] / grown[which],
                "x",
                None,
                megabytes(grown[which]),
                megabytes(grown["theirs"]),
                better="at least",
            )
            for which, what in kinds
        ]


async def compare(one: Comparison, rounds: int) -> AsyncIterator[Finding]:
    sides = {"ours": one.ours, "silent": one.silent, "theirs": one.theirs}
    times: dict[str, list[Seconds]] = {name: [] for name in sides}
    for side in sides.values():
        await side.open()
        await side.save(OTHER, one.state(one.pace))
    empty = {name: size_of(side.place) for name, side in sides.items()}
    names = list(sides)
    for length in range(one.pace, LENGTHS[-1] + 1, one.pace):
        state = one.state(length)
        for name in in_order_of(length // one.pace, names):
            watch = Stopwatch()
            await sides[name].save(THREAD, state)
            times[name].append(watch.read())
        if length not in LENGTHS:
            continue
        grown = {name: size_of(side.place) - empty[name] for name, side in sides.items()}
        for finding in one.bytes_of(length, grown):
            yield finding
        yield one.finding("save", length, times["ours"][-WINDOW:], times["theirs"][-WINDOW:])
        for where in (one.ours.place, one.theirs.place):
            if isinstance(where, str):
                settle(where)
        for what, loading in (("first load", _cold), ("load again", _warm)):
            runs = {name: partial(loading, sides[name], length) for name in ("ours", "theirs")}
            found = await take_turns(runs, rounds)
            yield one.finding(what, length, found["ours"], found["theirs"])
    for side in sides.values():
        await side.close()


async def _cold(backend: Backend, length: int) -> Seconds:
    times = []
    for _ in range(LOADS):
        fresh = backend.again()
        await fresh.open()
        # On SQLite each of a few reader threads of ours connects when it first has work.
        for _ in range(2):
            await asyncio.gather(*(fresh.load(OTHER) for _ in range(READERS)))
        times.append(await _timed(fresh, length))
        await fresh.close()
    return sorted(times)[LOADS // 2]


async def _warm(backend: Backend, length: int) -> Seconds:
    return sorted([await _timed(backend, length) for _ in range(LOADS)])[LOADS // 2]


async def _timed(backend: Backend, length: int) -> Seconds:
    watch = Stopwatch()
    found = await backend.load(THREAD)
    took = watch.read()
    assert found == length, f"{backend.name} has {found} of {length} messages"
    return took


def size_of(place: Place) -> int:
    """Bytes of a database, or of the files of a directory."""
    if isinstance(place, str):
        return total_size(place)
    if place.is_dir():
        return sum(file.stat().st_size for file in place.rglob("*") if file.is_file())
    return file_size(place)


def url_of(place: Place) -> str:
    return f"sqlite:///{place}" if isinstance(place, Path) else place


def repeated(messages: list[Message], count: int) -> list[Message]:
    """*count* messages with text, the conversation from its beginning again where it is shorter."""
    told = [m for m in messages if isinstance(m.get("content"), str) and m["content"]]
    return [told[at % len(told)] for at in range(count)]
