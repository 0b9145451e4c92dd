"""One thread grows to the end of the workload under every subject, side by side.

Every step is a round: each subject saves it once, in an order that rotates. On the way, at a few
lengths, all of them load the newest state. At the end the bytes are counted.
"""

from __future__ import annotations

import time
from collections import defaultdict
from collections.abc import AsyncIterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import orjson

from benchmarks.measure import (
    Finding,
    Run,
    Target,
    at_most,
    megabytes,
    milliseconds,
    ratio,
    take_turns,
)
from benchmarks.subjects import Subject
from benchmarks.subjects.langgraph import LangGraph
from benchmarks.subjects.locus import LocusDelta, LocusPostgres
from benchmarks.subjects.ours import Ours
from benchmarks.workload import Message, state_at

THREAD = "grows"
LOADED_AT = (50, 200)
SAVED_AT = (100, 200)
WINDOW = 20
"""The last saves before a length count as the saves at that length."""
LOADS = 5
"""Loads per round: their mean is the round's."""


@dataclass
class Timed:
    """One subject with the time, and the CPU time of the process, of each of its saves."""

    subject: Subject
    walls: list[float] = field(default_factory=list)
    cpus: list[float] = field(default_factory=list)
    ids: list[str] = field(default_factory=list)

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
            started = time.perf_counter()
            for _ in range(LOADS):
                assert await self.subject.load(THREAD, checkpoint_id) is not None
            return (time.perf_counter() - started) / LOADS

        return run


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
            if step == 200:
                yield _against_locus(sides[0].ours, delta)
        if step > whole - WINDOW or 100 - WINDOW < step <= 100:
            dumps[step] = _dumps(state)
        if step in lengths:
            for side in sides:
                yield await _newest(side, step, whole, rounds)
    for side in sides:
        for finding in _saves(side, whole):
            yield finding
        yield _cpu(side, whole, dumps)
        yield await _older(side, rounds)
        for finding in _sizes(side):
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
    return Finding(
        "load",
        f"load the newest of {step:,} messages, cold, {side.engine}",
        ratio(found["ours"], found["theirs"]),
        "x",
        at_most(1.0 if step >= 200 else 1.5),
        milliseconds(found["ours"]),
        f"{side.peer.subject.name} {milliseconds(found['theirs'])}",
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
        target: Target | None = at_most(1.0)
        if step == 200:
            target = at_most(1.3 if side.engine == "SQLite" else 0.7)
        elif step < 200:
            target = None
        findings.append(
            Finding(
                "save",
                f"save at {step:,} messages, {side.engine}",
                ratio(side.ours.around(step), side.peer.around(step)),
                "x",
                target,
                milliseconds(side.ours.around(step)),
                f"{side.peer.subject.name} {milliseconds(side.peer.around(step))}",
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
    return Finding(
        "growth",
        f"CPU of a save beyond serialising, at {whole:,} against 100 messages, {side.engine}",
        ratio(sorted(late), sorted(early)),
        "x",
        at_most(2.0),
        milliseconds(late),
        f"at 100: {milliseconds(early)}",
    )


def _sizes(side: Side) -> list[Finding]:
    theirs = side.peer.subject.size()
    with_text, without = (150, 200) if side.engine == "SQLite" else (40, 70)
    return [
        Finding(
            "size",
            f"{side.peer.subject.name}'s bytes to ours, text search {how}",
            theirs / timed.subject.size(),
            "x",
            Target("at least", target),
            megabytes(timed.subject.size()),
            f"{side.peer.subject.name} {megabytes(theirs)}",
        )
        for how, timed, target in (("on", side.ours, with_text), ("off", side.plain, without))
    ]


def _against_locus(ours: Timed, delta: Timed) -> Finding:
    return Finding(
        "size",
        "locus DeltaCheckpointer's bytes to ours (the whole SQLite file) at 200 steps",
        delta.subject.size() / ours.subject.size(),
        "x",
        Target("at least", 25),
        megabytes(ours.subject.size()),
        f"its compressed payloads {megabytes(delta.subject.size())}",
    )


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
