"""What a save and a load run of memalchemy's own: functions, files and calls, counted on SQLite.

Counts have no noise, so a bound on them fails when a path grows, on any machine. They are those of
a warm save: the 13th of a thread of 200 messages, each of which adds one. A coroutine or generator
that waits counts each time that it goes on. Python 3.11 counts comprehensions; later ones do not.

``python -m benchmarks.calls`` prints them, and ends with 1 if one is above its bound.
"""

from __future__ import annotations

import asyncio
import os
import sys
import tempfile
import threading
from collections import Counter
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from types import FrameType
from typing import Any, NamedTuple

import memalchemy
from benchmarks.measure import Finding, at_most
from benchmarks.workload import Message
from memalchemy import Checkpointer, Database
from memalchemy.signing import generate_key

SOURCES = os.path.dirname(memalchemy.__file__) + os.sep
MESSAGES, SAVES = 200, 12


class Calls(NamedTuple):
    """Functions of memalchemy's that ran, the files that they stand in, and calls of them."""

    functions: int
    files: int
    calls: int


@dataclass(frozen=True)
class CountedPath:
    """One operation that is counted, with the most that it may run."""

    name: str
    bound: Calls
    goal: Calls | None = None
    loads: bool = False
    text: bool = False
    signed: bool = False


PATHS = (
    CountedPath("save", Calls(103, 35, 148), Calls(60, 16, 80)),
    CountedPath("save, with text", Calls(110, 37, 162), Calls(70, 18, 90), text=True),
    CountedPath("save, signed", Calls(155, 48, 252), Calls(84, 23, 112), signed=True),
    CountedPath("load of a held state", Calls(83, 28, 96), Calls(30, 10, 40), loads=True),
)
"""The bounds are what was counted when they were set, and four calls: a coroutine that waits once
more on a busy machine counts once more. Who lowers a count lowers its bound.
"""


@contextmanager
def counting() -> Iterator[Counter[tuple[str, str]]]:
    """Count the calls of memalchemy's functions, in every thread that begins within the block."""
    found: Counter[tuple[str, str]] = Counter()

    def profile(frame: FrameType, event: str, _: Any) -> None:
        if event == "call" and frame.f_code.co_filename.startswith(SOURCES):
            found[frame.f_code.co_filename, frame.f_code.co_qualname] += 1

    threading.setprofile(profile)
    sys.setprofile(profile)
    try:
        yield found
    finally:
        threading.setprofile(None)
        sys.setprofile(None)


async def count(path: CountedPath, directory: Path) -> Calls:
    """Count what one operation of *path* runs, on a new database in *directory*."""
    keys = generate_key() if path.signed else None
    with counting() as found:
        async with Database(directory / f"{path.name}.db", signing_keys=keys) as db:
            agents = Checkpointer(db, index_text=path.text)
            state = [
                {"role": "user", "content": f"message {i} {'x' * 80}"} for i in range(MESSAGES)
            ]
            for number in range(SAVES):
                state = [*state, {"role": "user", "content": f"new {number}"}]
                await agents.save({"messages": state}, "thread")
            state = [*state, {"role": "user", "content": "last"}]
            if path.loads:
                await agents.load("thread")
            work: Callable[[], Awaitable[Any]] = (
                (lambda: agents.load("thread"))
                if path.loads
                else (lambda: agents.save({"messages": state}, "thread"))
            )
            found.clear()
            await work()
            counted = dict(found)
    return Calls(len(counted), len({file for file, _ in counted}), sum(counted.values()))


def _message(text: str) -> dict[str, str]:
    return {"role": "user", "content": text}


async def measure(
    messages: Sequence[Message], directory: Path, new_database: Callable[[], str], rounds: int
) -> AsyncIterator[Finding]:
    for path in PATHS:
        found = await count(path, directory)
        goal = "" if path.goal is None else f"; the goal is {path.goal.calls}"
        yield Finding(
            "calls",
            f"a {path.name}: calls of memalchemy's functions",
            found.calls,
            "calls",
            at_most(path.bound.calls),
            f"{found.calls} calls of {found.functions} functions in {found.files} files",
            f"at most {path.bound.calls} of {path.bound.functions} in {path.bound.files}{goal}",
        )


def main() -> int:
    within = True
    with tempfile.TemporaryDirectory() as place:
        for path in PATHS:
            found = asyncio.run(count(path, Path(place)))
            is_within = all(n <= most for n, most in zip(found, path.bound, strict=True))
            within = within and is_within
            print(f"{path.name}: {found}{'' if is_within else f', above {path.bound}'}")
    return 0 if within else 1


if __name__ == "__main__":
    sys.exit(main())
