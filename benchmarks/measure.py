"""What a measurement is: two or more subjects that take turns, and a target for their ratio."""

from __future__ import annotations

import gc
import time
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from statistics import median
from typing import Any, Literal, TypeVar

T = TypeVar("T")

TOLERANCE = 0.10
"""How far a ratio of times may miss its target on a machine that others use too."""

ROUNDS = 5

Rule = Literal["at most", "at least"]

Run = Callable[[], Awaitable[float]]


class Seconds(float):
    """Seconds on the wall, which know the CPU seconds that this process took meanwhile."""

    cpu: float

    def __new__(cls, wall: float, cpu: float) -> Seconds:
        made = super().__new__(cls, wall)
        made.cpu = cpu
        return made


class Stopwatch:
    """Measure from its making on: the wall's time, and the CPU time of all threads here."""

    def __init__(self) -> None:
        self._wall, self._cpu = time.perf_counter(), time.process_time()

    def per(self, calls: int) -> Seconds:
        """The mean of *calls* since then."""
        cpu, wall = time.process_time() - self._cpu, time.perf_counter() - self._wall
        return Seconds(wall / calls, cpu / calls)

    def read(self) -> Seconds:
        return self.per(1)


@dataclass(frozen=True)
class Target:
    """What is promised: *value* at most, or at least."""

    rule: Rule
    value: float
    tolerance: float = 0.0

    def met_by(self, found: float) -> bool:
        if self.rule == "at most":
            return found <= self.value * (1 + self.tolerance)
        return found >= self.value * (1 - self.tolerance)

    def is_met_by_tolerance(self, found: float) -> bool:
        """Return whether *found* misses the value itself, and not by more than the tolerance."""
        return self.met_by(found) and not replace(self, tolerance=0.0).met_by(found)

    def __str__(self) -> str:
        return f"{self.rule} {self.value:.4g}"


def at_most(value: float, *, timed: bool = True) -> Target:
    return Target("at most", value, TOLERANCE if timed else 0.0)


def at_least(value: float, *, timed: bool = True) -> Target:
    return Target("at least", value, TOLERANCE if timed else 0.0)


@dataclass(frozen=True)
class CpuTime:
    """CPU seconds of a call on both sides, where it has no server that works for it elsewhere."""

    ours: float
    theirs: float
    ratio: float
    """Of the same kind as the finding's value: the median of the rounds' ratios."""


RARE = ("cpu", "better", "floor")
"""Fields of a finding that most have not, and the JSON only where they are."""


@dataclass(frozen=True)
class Finding:
    """One line of the report. ``value`` is what the target speaks of; the rest explains it."""

    group: str
    name: str
    value: float
    unit: str
    """``x`` for a ratio; empty for a share of one."""
    target: Target | None
    ours: str
    theirs: str
    note: str = ""
    """Why a target that there is does not hold for this run."""
    cpu: CpuTime | None = None
    better: Rule | None = None
    """The rule that a target would have, where there is none: "at most" if less is better."""
    floor: str = ""
    """What the same bytes and indexes take through the driver by hand, where that alone is more
    than the target: it is shown in the target's place, and a miss stays a miss."""

    @property
    def rule(self) -> Rule | None:
        """Which way is better, if either is."""
        return self.better if self.target is None else self.target.rule

    @property
    def promised(self) -> str:
        """The target as a reader sees it, or why there is none."""
        return self.floor or str(self.target or self.note)

    @property
    def is_met(self) -> bool:
        return self.target is None or self.target.met_by(self.value)

    @property
    def score(self) -> float | None:
        """What was found, as a share of what was promised: up to 1 is kept, whichever the rule."""
        if self.target is None:
            return None
        if self.target.rule == "at most":
            return self.value / self.target.value
        return self.target.value / self.value

    def __str__(self) -> str:
        digits = 0 if self.unit != "x" and self.value >= 100 else 3 if self.value < 10 else 1
        unit = self.unit if self.unit == "x" else f" {self.unit}"
        return f"{self.value:,.{digits}f}{unit}".rstrip()

    def as_dict(self) -> dict[str, Any]:
        given = asdict(self) | {"is_met": self.is_met}
        return {key: value for key, value in given.items() if value or key not in RARE}

    @classmethod
    def from_dict(cls, given: Mapping[str, Any]) -> Finding:
        """The finding that `as_dict` wrote."""
        values = {key: value for key, value in given.items() if key != "is_met"}
        target = values["target"] and Target(**values["target"])
        cpu = values.get("cpu") and CpuTime(**values["cpu"])
        return cls(**(values | {"target": target, "cpu": cpu}))


def with_floor(found: Finding, by_hand: float) -> Finding:
    """*found* with its floor, if that is one: *by_hand*, a value like its own, misses the target.

    What is met needs none, and a floor that would be met excuses nothing.
    """
    if found.target is None or found.is_met or found.target.met_by(by_hand):
        return found
    return replace(found, floor=f"floor {replace(found, value=by_hand)} by hand")


def in_order_of(turn: int, subjects: Sequence[T]) -> list[T]:
    """Return *subjects* in the order of a turn: each begins as often as another, and as often
    follows its neighbour as it goes before it.

    Who goes first finds none of the caches warm that the two share, of code and of the disk.
    """
    first = turn // 2 % len(subjects)
    order = [*subjects[first:], *subjects[:first]]
    return order[::-1] if turn % 2 else order


async def take_turns(runs: Mapping[str, Run], rounds: int = ROUNDS) -> dict[str, list[float]]:
    """Run each of *runs* once per round, see `in_order_of`; what they returned, by name."""
    found: dict[str, list[float]] = {name: [] for name in runs}
    for turn in range(rounds):
        for name in in_order_of(turn, list(runs)):
            gc.collect()
            found[name].append(await runs[name]())
    return found


def ratio(ours: Sequence[float], theirs: Sequence[float]) -> float:
    """The median of the rounds' ratios: neighbours on the machine disturb a round, not a ratio."""
    return median(a / b for a, b in zip(ours, theirs, strict=True))


def mean(times: Sequence[Seconds]) -> Seconds:
    return Seconds(sum(times) / len(times), sum(one.cpu for one in times) / len(times))


def cpu_ratio(ours: Sequence[float], theirs: Sequence[float]) -> CpuTime | None:
    """The CPU time of both sides, ours to theirs, where it was measured: see `Seconds`."""
    mine, their = _cpu_seconds(ours), _cpu_seconds(theirs)
    if not mine or not their:
        return None
    return CpuTime(median(mine), median(their), ratio(mine, their))


def cpu_speed(ours: Sequence[float], theirs: Sequence[float]) -> CpuTime | None:
    """The same for a value that is theirs to ours: how many times less CPU ours takes."""
    mine, their = _cpu_seconds(ours), _cpu_seconds(theirs)
    if not mine or not their:
        return None
    return CpuTime(median(mine), median(their), ratio(their, mine))


def _cpu_seconds(times: Sequence[float]) -> list[float]:
    """The CPU seconds of each, or none at all."""
    found = [one.cpu for one in times if isinstance(one, Seconds) and one.cpu > 0]
    return found if len(found) == len(times) else []


def milliseconds(seconds: Sequence[float]) -> str:
    return f"{median(seconds) * 1000:.2f} ms"


def per_second(rates: Sequence[float]) -> str:
    return f"{median(rates):,.0f}/s"


def under(limit: int, length: int, target: Target | None) -> tuple[Target | None, str]:
    """*target* where the workload is as long as it speaks of; else nothing, and a note on that.

    The targets are stated for threads of certain lengths: a shorter one would meet or miss them for
    reasons of its own.
    """
    if target is None or length >= limit:
        return target, ""
    return None, f"no target on {length:,} messages: it is stated for {limit:,}"


def megabytes(count: float) -> str:
    return f"{count / 1e6:.2f} MB"
