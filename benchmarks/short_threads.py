"""The same messages as many short threads: bytes and saves beside LangGraph's savers.

A step is stored as its difference from an earlier one, so a long thread is where that saves most.
Here the conversation of the other groups is cut into threads of a few lengths, and `compare` takes
threads of a user's file as they are. One thread is saved after another, each after every message.
Each save is a round: ours, ours without text search, and LangGraph's, in an order that changes. At
the end the bytes are counted, those of an empty database included, which has a line of its own. No
line has a target: they are there to show when the difference is small, and where ours is slower.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Sequence
from pathlib import Path
from tempfile import TemporaryDirectory

from benchmarks.measure import (
    Finding,
    Seconds,
    Stopwatch,
    cpu_ratio,
    in_order_of,
    megabytes,
    milliseconds,
    ratio,
)
from benchmarks.subjects import Subject
from benchmarks.subjects.langgraph import LangGraph
from benchmarks.subjects.ours import Ours
from benchmarks.workload import Message, state_at

LENGTHS = (10, 30, 200)
"""Messages of a thread."""
CUT = 1_200
"""So many messages of the conversation are used: a whole number of threads of each length."""

GROUP = "short_threads"

Thread = Sequence[Message]


async def measure(
    messages: Sequence[Message], directory: Path, new_database: Callable[[], str], rounds: int
) -> AsyncIterator[Finding]:
    known: set[str] = set()
    for length in LENGTHS:
        threads = cut(messages[:CUT], length)
        if not threads:
            continue
        name = f"threads of {length} messages"
        async for finding in compare(threads, name, directory, new_database):
            if finding.name not in known:  # an empty database is the same each time
                known.add(finding.name)
                yield finding


def cut(messages: Sequence[Message], length: int) -> list[Thread]:
    """The threads of *length* messages that *messages* are enough for."""
    whole = len(messages) // length
    return [messages[length * number : length * (number + 1)] for number in range(whole)]


async def compare(
    threads: Sequence[Thread],
    name: str,
    directory: Path,
    new_database: Callable[[], str],
) -> AsyncIterator[Finding]:
    """Save *threads*, which findings call *name*."""
    with TemporaryDirectory(dir=directory) as below:
        files = Path(below)
        for engine, subjects in {
            "SQLite": (
                Ours(files / "ours.db"),
                Ours(files / "silent.db", index_text=False),
                LangGraph(files / "theirs.db"),
            ),
            "PostgreSQL": (
                Ours(new_database()),
                Ours(new_database(), index_text=False),
                LangGraph(new_database()),
            ),
        }.items():
            for finding in await _compare_on(engine, subjects, threads, name):
                yield finding


async def _compare_on(
    engine: str,
    subjects: tuple[Ours, Ours, LangGraph],
    threads: Sequence[Thread],
    name: str,
) -> list[Finding]:
    for subject in subjects:
        await subject.open()
    empty = [subject.size() for subject in subjects]
    ours, silent, theirs = await _save_in_turns(subjects, threads)
    peer = subjects[-1].name
    sizes = [subject.size() for subject in subjects]
    for subject in subjects:
        await subject.close()
    findings = [_sizes("an empty database", peer, empty[0], empty[-1])]
    for place, how in enumerate(("on", "off")):
        what = f", text search {how}"
        findings.append(_sizes(name, peer, sizes[place], sizes[-1], what))
    for times, how in ((ours, "on"), (silent, "off")):
        findings.append(
            Finding(
                GROUP,
                f"{name}: save, {engine}, text search {how}",
                ratio(times, theirs),
                "x",
                None,
                milliseconds(times),
                f"{peer} {milliseconds(theirs)}",
                cpu=cpu_ratio(times, theirs) if engine == "SQLite" else None,
                better="at most",
            )
        )
    return findings


def _sizes(name: str, peer: str, ours: int, theirs: int, what: str = "") -> Finding:
    return Finding(
        GROUP,
        f"{name}: {peer}'s bytes to ours{what}",
        theirs / ours,
        "x",
        None,
        megabytes(ours),
        f"{peer} {megabytes(theirs)}",
        better="at least",
    )


async def _save_in_turns(
    subjects: Sequence[Subject], threads: Sequence[Thread]
) -> list[list[Seconds]]:
    """The times of all saves of each subject, in the same order."""
    times: list[list[Seconds]] = [[] for _ in subjects]
    pairs = list(zip(subjects, times, strict=True))
    turn = 0
    for number, thread in enumerate(threads):
        for step in range(1, len(thread) + 1):
            state = state_at(list(thread), step)
            turn += 1
            for subject, taken in in_order_of(turn, pairs):
                watch = Stopwatch()
                await subject.save(f"thread-{number}", state)
                taken.append(watch.read())
    return times
