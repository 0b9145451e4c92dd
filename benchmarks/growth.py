"""One thread grows to the end of the workload under every subject, side by side.

Every step is a round: each subject saves it once, in an order that rotates, so that what one leaves
to the disk (LangGraph's file gets 300 times ours) slows all of them alike. On the way, at a few
lengths, all of them load the newest state. At the end the bytes are counted.

A load is cold: the subject is opened anew for each, on connections and objects that know nothing of
the thread. Connecting, checking the schema and preparing the statements happen before, by loading
another, tiny thread. The operating system has the pages in its memory, for both sides.
"""

from __future__ import annotations

import time
from collections import defaultdict
from collections.abc import AsyncIterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from statistics import median
from typing import Any

import orjson

from benchmarks.measure import (
    Finding,
    Run,
    at_least,
    at_most,
    megabytes,
    milliseconds,
    ratio,
    take_turns,
    under,
)
from benchmarks.subjects import Subject
from benchmarks.subjects.langgraph import LangGraph
from benchmarks.subjects.locus import LocusDelta, LocusPostgres
from benchmarks.subjects.ours import Ours
from benchmarks.workload import FULL, Message, state_at

THREAD = "grows"
OTHER = "warm"
LOADED_AT = (50, 200)
SAVED_AT = (100, 200)
WINDOW = 20
"""The last saves before a length count as the saves at that length."""
LOADS = 3
"""Loads per round: the one in the middle is the round's."""


@dataclass
class Timed:
    """One subject with the time, and the CPU time of the process, of each of its saves."""

    subject: Subject
    walls: list[float] = field(default_factory=list)
    cpus: list[float] = field(default_factory=list)
    ids: list[str] = field(default_factory=list)
    other: str = ""
    """The checkpoint of the other, tiny thread."""

    async def save(self, state: dict[str, Any]) -> None:
        wall, cpu = time.perf_counter(), time.process_time()
        saved = await self.subject.save(THREAD, state)
        self.cpus.append(time.process_time() - cpu)
        self.walls.append(time.perf_counter() - wall)
        self.ids.append(saved)

    def around(self, step: int) -> list[float]:
        return self.walls[step - WINDOW : step]

    def loading(self, checkpoint_id: str | None = None) -> Run:
        async def run() -> float:
            return sorted([await self._load(checkpoint_id) for _ in range(LOADS)])[LOADS // 2]

        return run

    async def _load(self, checkpoint_id: str | None) -> float:
        subject = self.subject.again()
        await subject.open()
        try:
            await subject.warm(OTHER, checkpoint_id and self.other)
            started = time.perf_counter()
            assert await subject.load(THREAD, checkpoint_id) is not None
            return time.perf_counter() - started
        finally:
            await subject.close()


class Side:
    """One engine: ours with and without text search, and LangGraph's."""

    def __init__(self, engine: str, ours: Ours, plain: Ours, peer: LangGraph) -> None:
        self.engine = engine
        self.ours, self.plain, self.peer = Timed(ours), Timed(plain), Timed(peer)

    @property
    def all(self) -> tuple[Timed, ...]:
        return self.ours, self.plain, self.peer


async def measure(
    messages: Sequence[Message], directory: Path, new_database: Any, rounds: int
) -> AsyncIterator[Finding]:
    sides = [
        Side(
            "SQLite",
            Ours(directory / "ours.db"),
            Ours(directory / "plain.db", index_text=False),
            LangGraph(directory / "langgraph.db"),
        ),
        Side(
            "PostgreSQL",
            Ours(new_database()),
            Ours(new_database(), index_text=False),
            LangGraph(new_database()),
        ),
    ]
    locus = Timed(LocusPostgres(new_database()))
    delta = Timed(LocusDelta())
    everyone = [*(timed for side in sides for timed in side.all), locus]
    for timed in [*everyone, delta]:
        await timed.subject.open()
        timed.other = await timed.subject.save(OTHER, {"messages": [], "iteration": 0})
    whole = len(messages)
    lengths = [n for n in LOADED_AT if n < whole] + [whole]
    dumps: dict[int, float] = {}
    for step in range(1, whole + 1):
        state = state_at(list(messages), step)
        first = step % len(everyone)
        for timed in everyone[first:] + everyone[:first]:
            await timed.save(state)
        if step <= 200:
            await delta.save(state)
            if step == min(200, whole):
                for finding in await _against_locus(sides[0].ours, delta, step):
                    yield finding
        if step > whole - WINDOW or 100 - WINDOW < step <= 100:
            dumps[step] = _dumps(state)
        if step in lengths:
            for side in sides:
                yield await _newest(side, step, whole, rounds)
    for side in sides:
        for finding in _saves(side, whole):
            yield finding
        if whole >= 2 * 100:
            yield _cpu(side, whole, dumps)
        yield await _older(side, rounds)
        for finding in _sizes(side, whole):
            yield finding
    yield _beside(sides[1].ours, locus, whole)
    for timed in [*everyone, delta]:
        await timed.subject.close()


def _dumps(state: dict[str, Any]) -> float:
    started = time.process_time()
    orjson.dumps(state)
    return time.process_time() - started


async def _newest(side: Side, step: int, whole: int, rounds: int) -> Finding:
    found = await take_turns(
        {"ours": side.ours.loading(), "theirs": side.peer.loading()}, max(rounds, 7)
    )
    goal = {50: at_most(1.5), 200: at_most(1.0)}.get(step)
    target, note = (goal, "") if goal else under(FULL, whole, at_most(1.0))
    return Finding(
        "load",
        f"load the newest of {step:,} messages, cold, {side.engine}",
        ratio(found["ours"], found["theirs"]),
        "x",
        target,
        milliseconds(found["ours"]),
        f"{side.peer.subject.name} {milliseconds(found['theirs'])}",
        note,
    )


async def _older(side: Side, rounds: int) -> Finding:
    """The slowest of some older checkpoints against the newest."""
    ids = side.ours.ids
    places = {n: ids[len(ids) * n // 100] for n in (10, 30, 50, 70, 90, 97)}
    runs = {f"at {n} %": side.ours.loading(chosen) for n, chosen in places.items()}
    found = await take_turns({"newest": side.ours.loading(), **runs}, rounds)
    worst = max(runs, key=lambda name: ratio(found[name], found["newest"]))
    return Finding(
        "load",
        f"load an older checkpoint against the newest, worst of {len(runs)}, {side.engine}",
        ratio(found[worst], found["newest"]),
        "x",
        at_most(1.5),
        f"{milliseconds(found[worst])} {worst}",
        f"newest {milliseconds(found['newest'])}",
    )


def _saves(side: Side, whole: int) -> list[Finding]:
    findings = []
    for step in [n for n in SAVED_AT if n < whole] + [whole]:
        goals = {100: None, 200: at_most(1.3 if side.engine == "SQLite" else 0.7)}
        goal = goals.get(step, at_most(1.0))
        target, note = under(FULL, whole, goal) if step == whole else (goal, "")
        findings.append(
            Finding(
                "save",
                f"save at {step:,} messages, {side.engine}",
                ratio(side.ours.around(step), side.peer.around(step)),
                "x",
                target,
                milliseconds(side.ours.around(step)),
                f"{side.peer.subject.name} {milliseconds(side.peer.around(step))}",
                note,
            )
        )
    return findings


def _cpu(side: Side, whole: int, dumps: dict[int, float]) -> Finding:
    """CPU of a save beyond serialising the state, at the end against the hundredth step."""
    beyond: dict[int, list[float]] = defaultdict(list)
    for step, serialising in dumps.items():
        end = 100 if step <= 100 else whole
        beyond[end].append(side.ours.cpus[step - 1] - serialising)
    early, late = beyond[100], beyond[whole]
    target, note = under(FULL, whole, at_most(2.0))
    return Finding(
        "growth",
        f"CPU of a save beyond serialising, at {whole:,} against 100 messages, {side.engine}",
        median(late) / median(early),
        "x",
        target,
        milliseconds(late),
        f"at 100: {milliseconds(early)}",
        note,
    )


def _sizes(side: Side, whole: int) -> list[Finding]:
    theirs = side.peer.subject.size()
    with_text, without = (150, 200) if side.engine == "SQLite" else (40, 70)
    found = (("on", side.ours, with_text), ("off", side.plain, without))
    targets = [under(FULL, whole, at_least(least, timed=False)) for _, _, least in found]
    return [
        Finding(
            "size",
            f"{side.peer.subject.name}'s bytes to ours, text search {how}",
            theirs / timed.subject.size(),
            "x",
            target,
            megabytes(timed.subject.size()),
            f"{side.peer.subject.name} {megabytes(theirs)}",
            note,
        )
        for (how, timed, _), (target, note) in zip(found, targets, strict=True)
    ]


async def _against_locus(ours: Timed, delta: Timed, step: int) -> list[Finding]:
    """Payload bytes to payload bytes, as `get_storage_stats` of both says; and our whole file.

    It keeps its deltas in a dict, without rows, keys or indexes: our file, which has them and is
    130 KB before the first save, is no measure of its deltas.
    """
    subject = ours.subject
    assert isinstance(subject, Ours)
    stored = (await subject.checkpointer.get_storage_stats(THREAD))["compressed_size"]
    theirs, whole_file = delta.subject.size(), subject.size()
    target, note = under(200, step, at_least(25, timed=False))
    return [
        Finding(
            "size",
            f"locus DeltaCheckpointer's compressed payloads to ours, at {step} steps",
            theirs / stored,
            "x",
            target,
            megabytes(stored),
            f"its {megabytes(theirs)}",
            note,
        ),
        Finding(
            "size",
            f"the same to our whole SQLite file, text index included, at {step} steps",
            theirs / whole_file,
            "x",
            None,
            megabytes(whole_file),
            f"its payloads alone {megabytes(theirs)}",
        ),
    ]


def _beside(ours: Timed, locus: Timed, whole: int) -> Finding:
    return Finding(
        "save",
        f"save at {whole:,} messages, PostgreSQL, against locus",
        ratio(ours.around(whole), locus.around(whole)),
        "x",
        None,
        milliseconds(ours.around(whole)),
        f"{locus.subject.name} {milliseconds(locus.around(whole))}",
    )
