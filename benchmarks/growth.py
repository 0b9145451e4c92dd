"""One thread grows to the end of the workload under every subject, side by side.

Every step is a round: each subject saves it once, in an order that changes, so that what one leaves
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
    Seconds,
    Stopwatch,
    Target,
    at_least,
    at_most,
    cpu_ratio,
    in_order_of,
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
LENGTHS = (50, 200, 1_000)
WINDOW = 20
"""The last saves before a length count as the saves at that length."""
LOADS = 3
"""Loads per round: the one in the middle is the round's."""

SAVES = {
    "SQLite": (1.25, 1.1, 0.75),
    "SQLite, text search off": (1.0, 0.95, 0.7),
    "PostgreSQL": (0.8, 0.45, 0.2),
}
"""At each of the lengths, at most so many of LangGraph's."""
CPU_OF_SAVES = {"PostgreSQL": (0.85, 0.85, 0.85)}
LOADS_COLD = {"SQLite": (1.15, 1.15, 0.95), "PostgreSQL": (0.6, 0.6, 0.6)}


def target_at(step: int, goals: Sequence[float] | None) -> tuple[Target | None, str]:
    """The target at a length, or a note that a run so short has none."""
    if goals is None:
        return None, ""
    if step not in LENGTHS:
        return None, f"no target on {step:,} messages: it is stated for {LENGTHS[0]:,} and more"
    return at_most(goals[LENGTHS.index(step)]), ""


@dataclass
class Timed:
    """One subject with the time of each of its saves."""

    subject: Subject
    times: list[Seconds] = field(default_factory=list)
    ids: list[str] = field(default_factory=list)
    other: str = ""
    """The checkpoint of the other, tiny thread."""

    async def save(self, state: dict[str, Any]) -> None:
        watch = Stopwatch()
        saved = await self.subject.save(THREAD, state)
        self.times.append(watch.read())
        self.ids.append(saved)

    def before(self, step: int) -> list[Seconds]:
        """The last saves up to *step*."""
        return self.times[max(0, step - WINDOW) : step]

    def loading(self, checkpoint_id: str | None = None) -> Run:
        async def run() -> Seconds:
            return sorted([await self._load(checkpoint_id) for _ in range(LOADS)])[LOADS // 2]

        return run

    async def _load(self, checkpoint_id: str | None) -> Seconds:
        subject = self.subject.again()
        await subject.open()
        try:
            await subject.warm(OTHER, checkpoint_id and self.other)
            watch = Stopwatch()
            assert await subject.load(THREAD, checkpoint_id) is not None
            return watch.read()
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
    lengths = sorted({min(n, whole) for n in LENGTHS})
    dumps: dict[int, float] = {}
    for step in range(1, whole + 1):
        state = state_at(list(messages), step)
        for timed in in_order_of(step, everyone):
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
                yield await _newest(side, step, rounds)
    for side in sides:
        for finding in _saves(side, lengths):
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


async def _newest(side: Side, step: int, rounds: int) -> Finding:
    found = await take_turns(
        {"ours": side.ours.loading(), "theirs": side.peer.loading()}, max(rounds, 7)
    )
    target, note = target_at(step, LOADS_COLD[side.engine])
    return Finding(
        "load",
        f"load the newest of {step:,} messages, cold, {side.engine}",
        ratio(found["ours"], found["theirs"]),
        "x",
        target,
        milliseconds(found["ours"]),
        f"{side.peer.subject.name} {milliseconds(found['theirs'])}",
        note,
        cpu_ratio(found["ours"], found["theirs"]) if side.engine == "SQLite" else None,
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
        cpu=cpu_ratio(found[worst], found["newest"]) if side.engine == "SQLite" else None,
    )


def _saves(side: Side, lengths: Sequence[int]) -> list[Finding]:
    findings = []
    for what, timed in (("", side.ours), (", text search off", side.plain)):
        where = side.engine + what
        for step in lengths:
            ours, theirs = timed.before(step), side.peer.before(step)
            cpu = cpu_ratio(ours, theirs)
            assert cpu is not None
            target, note = target_at(step, SAVES.get(where))
            name = side.peer.subject.name
            findings.append(
                Finding(
                    "save",
                    f"save at {step:,} messages, {where}",
                    ratio(ours, theirs),
                    "x",
                    target,
                    milliseconds(ours),
                    f"{name} {milliseconds(theirs)}",
                    note,
                    cpu if side.engine == "SQLite" else None,
                    better="at most",
                )
            )
            if goals := CPU_OF_SAVES.get(where):
                target, note = target_at(step, goals)
                findings.append(
                    Finding(
                        "save",
                        f"CPU of a save at {step:,} messages, {where}, without the server's",
                        cpu.ratio,
                        "x",
                        target,
                        milliseconds([cpu.ours]),
                        f"{name} {milliseconds([cpu.theirs])}",
                        note,
                    )
                )
    return findings


def _cpu(side: Side, whole: int, dumps: dict[int, float]) -> Finding:
    """CPU of a save beyond serialising the state, at the end against the hundredth step."""
    beyond: dict[int, list[float]] = defaultdict(list)
    for step, serialising in dumps.items():
        end = 100 if step <= 100 else whole
        beyond[end].append(side.ours.times[step - 1].cpu - serialising)
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
    with_text, without = (200, 350) if side.engine == "SQLite" else (45, 95)
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
            better="at least",
        ),
    ]


def _beside(ours: Timed, locus: Timed, whole: int) -> Finding:
    return Finding(
        "save",
        f"save at {whole:,} messages, PostgreSQL, against locus",
        ratio(ours.before(whole), locus.before(whole)),
        "x",
        None,
        milliseconds(ours.before(whole)),
        f"{locus.subject.name} {milliseconds(locus.before(whole))}",
        better="at most",
    )
