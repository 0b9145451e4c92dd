"""Two processes take turns on one thread, each with a Database, or a saver, of its own.

A process never saved the step before its own, so whatever it remembers of the thread is one step
old. The time is that of the save alone, taken inside the process that saves. LangGraph's is told
the parent's id and the channels' versions beforehand, outside of the time, as a graph that had
loaded the thread would know them; ours is told nothing.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import sys
from collections.abc import AsyncIterator, Callable, Sequence
from pathlib import Path
from typing import Any

from benchmarks.measure import (
    Finding,
    Seconds,
    Stopwatch,
    at_most,
    cpu_ratio,
    milliseconds,
    ratio,
    under,
)
from benchmarks.subjects.langgraph import LangGraph
from benchmarks.subjects.ours import Ours
from benchmarks.workload import Message, state_at

THREAD = "shared"
LENGTH = 200
WINDOW = 40
"""The last saves count, twenty of each process."""

SUBJECTS = {"ours": Ours, "theirs": LangGraph}
MOST = {"SQLite": 1.3, "PostgreSQL": 1.5}


async def measure(
    messages: Sequence[Message], directory: Path, new_database: Callable[[], str], rounds: int
) -> AsyncIterator[Finding]:
    length = min(LENGTH, len(messages))
    given = directory / "turns.json"
    given.write_text(json.dumps(messages[:length]))
    for engine in ("SQLite", "PostgreSQL"):
        places = {
            name: f"{directory / f'turns-{name}.db'}" if engine == "SQLite" else new_database()
            for name in SUBJECTS
        }
        yield await _on(engine, places, given, length, max(WINDOW, 2 * rounds))


async def _on(
    engine: str, places: dict[str, str], given: Path, length: int, window: int
) -> Finding:
    times: dict[str, list[Seconds]] = {name: [] for name in places}
    last: dict[str, dict[str, Any]] = {name: {} for name in places}
    async with contextlib.AsyncExitStack() as stack:
        pairs = {
            name: [await stack.enter_async_context(_process(name, where, given)) for _ in "12"]
            for name, where in places.items()
        }
        for step in range(1, length + 1):
            for name in sorted(pairs, reverse=step % 2 == 0):
                process = pairs[name][step % 2]
                last[name] = await process.save(step, last[name])
                times[name].append(Seconds(*last[name]["seconds"]))
    for name, where in places.items():
        await _check(name, where, given, length)
    ours, theirs = times["ours"][-window:], times["theirs"][-window:]
    target, note = under(LENGTH, length, at_most(MOST[engine]))
    peer = "AsyncSqliteSaver" if engine == "SQLite" else "AsyncPostgresSaver"
    return Finding(
        "turns",
        f"save when two processes take turns on one thread, at {length} messages, {engine}",
        ratio(ours, theirs),
        "x",
        target,
        milliseconds(ours),
        f"{peer} {milliseconds(theirs)}",
        note,
        cpu_ratio(ours, theirs) if engine == "SQLite" else None,
    )


async def _check(name: str, where: str, given: Path, length: int) -> None:
    """What the two have saved is whole: the newest state is the last step's."""
    subject = SUBJECTS[name](_place(where)).again()
    await subject.open()
    messages = json.loads(given.read_text())  # noqa: ASYNC240 - nobody else waits
    assert await subject.load(THREAD) == state_at(messages, length), "a save was lost"
    await subject.close()


class _Process:
    """The near end of one process."""

    def __init__(self, process: asyncio.subprocess.Process) -> None:
        self._process = process

    async def save(self, step: int, last: dict[str, Any]) -> dict[str, Any]:
        return await self._ask({"step": step, "last": last})

    async def _ask(self, order: dict[str, Any]) -> dict[str, Any]:
        to, back = self._process.stdin, self._process.stdout
        assert to
        assert back
        to.write(json.dumps(order).encode() + b"\n")
        await to.drain()
        answer = await back.readline()
        assert answer, "the other process ended; its error is above"
        found: dict[str, Any] = json.loads(answer)
        return found


@contextlib.asynccontextmanager
async def _process(name: str, where: str, given: Path) -> AsyncIterator[_Process]:
    process = await asyncio.create_subprocess_exec(
        sys.executable,
        "-m",
        "benchmarks.turns",
        name,
        where,
        str(given),
        stdin=asyncio.subprocess.PIPE,
        stdout=asyncio.subprocess.PIPE,
    )
    assert process.stdin
    assert process.stdout
    try:
        # One after the other: the first makes the tables.
        assert await process.stdout.readline(), "the other process did not start; see above"
        yield _Process(process)
    finally:
        process.stdin.close()
        await process.wait()


def _place(where: str) -> Path | str:
    return where if "://" in where else Path(where)


async def _serve(name: str, where: str, given: str) -> None:
    """The far end: save what each line of the input says, answer how long it took."""
    messages = json.loads(Path(given).read_text())  # noqa: ASYNC240 - nobody else waits
    subject = SUBJECTS[name](_place(where))
    await subject.open()
    print("{}", flush=True)
    while line := await asyncio.to_thread(sys.stdin.readline):
        order = json.loads(line)
        state, last = state_at(messages, order["step"]), order["last"]
        if isinstance(subject, LangGraph) and last:
            subject.knows(THREAD, last["versions"], last["id"])
        watch = Stopwatch()
        saved = await subject.save(THREAD, state)
        took = watch.read()
        answer = {"seconds": (took, took.cpu), "id": saved}
        if isinstance(subject, LangGraph):
            answer["versions"] = subject.versions(THREAD)
        print(json.dumps(answer), flush=True)
    await subject.close()


if __name__ == "__main__":
    asyncio.run(_serve(*sys.argv[1:]))
