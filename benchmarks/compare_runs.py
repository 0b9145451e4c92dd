"""Compare a run with the stored one of the same kind of machine: what got slower, what got faster.

Only ratios decide: both sides of a ratio were measured in turns, so a busy machine slows them
alike. Where both runs know a finding's CPU time the ratios of that are compared, which waits of
others disturb least. Absolute numbers have targets of their own.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from benchmarks.measure import Finding, Rule
from benchmarks.report import Results

ALLOWED = 0.15
"""A ratio that got worse by this share or more is a regression."""
STEADY = 0.05
"""A change of less is not listed."""


class CannotCompare(Exception):
    """There is nothing to compare a run with; the message says why."""


@dataclass(frozen=True)
class Change:
    """One finding then and now."""

    group: str
    name: str
    measure: str
    """``CPU`` for the ratio of CPU time, ``value`` for what was found."""
    stored: float
    now: float
    better: Rule

    @property
    def worse_by(self) -> float:
        """The share by which it got worse; less than 0 if it got better."""
        sign = 1 if self.better == "at most" else -1
        return sign * (self.now - self.stored) / self.stored

    @property
    def is_regression(self) -> bool:
        # A ratio of exactly the share counts, whatever its last binary digit.
        return round(self.worse_by, 9) >= ALLOWED

    def as_dict(self) -> dict[str, Any]:
        return asdict(self) | {"worse_by": self.worse_by, "is_regression": self.is_regression}


@dataclass(frozen=True)
class Comparison:
    """All findings that both runs have, and the names of those that only one has."""

    stored_on: str
    changes: tuple[Change, ...]
    new: tuple[str, ...]
    gone: tuple[str, ...]

    @property
    def slower(self) -> list[Change]:
        """What got worse, the worst first."""
        found = [one for one in self.changes if one.worse_by >= STEADY]
        return sorted(found, key=lambda one: -one.worse_by)

    @property
    def faster(self) -> list[Change]:
        """What got better, the best first."""
        found = [one for one in self.changes if one.worse_by <= -STEADY]
        return sorted(found, key=lambda one: one.worse_by)

    @property
    def regressions(self) -> list[Change]:
        return [one for one in self.slower if one.is_regression]

    @property
    def exit_code(self) -> int:
        """1 if any ratio got worse by the allowed share or more."""
        return 1 if self.regressions else 0

    def as_json(self) -> str:
        return _json(
            {
                "is_compared": True,
                "stored_on": self.stored_on,
                "allowed": ALLOWED,
                "slower": [one.as_dict() for one in self.slower],
                "faster": [one.as_dict() for one in self.faster],
                "steady": [one.as_dict() for one in self.changes if abs(one.worse_by) < STEADY],
                "new": list(self.new),
                "gone": list(self.gone),
            }
        )

    def __str__(self) -> str:
        steady = len(self.changes) - len(self.slower) - len(self.faster)
        lines = [f"Compared with the stored run of {self.stored_on}:"]
        lines += _table("slower", self.slower) + _table("faster", self.faster)
        lines.append(f"{steady} of {len(self.changes)} ratios changed by less than {STEADY:.0%}.")
        for what, names in (("only in this run", self.new), ("only in the stored run", self.gone)):
            if names:
                lines.append(f"Not compared, {what}: {'; '.join(names)}.")
        number = len(self.regressions)
        lines.append(
            f"{number} got slower by {ALLOWED:.0%} or more." if number else "No regression."
        )
        return "\n".join(lines)


def _table(title: str, changes: Sequence[Change]) -> list[str]:
    if not changes:
        return [f"  nothing got {title}"]
    width = max(len(one.name) for one in changes)
    lines = [f"  {title:{width}}  {'stored':>10}  {'now':>10}  {'by':>8}"]
    for one in changes:
        cells = f"{one.stored:>9.3f}x  {one.now:>9.3f}x  {abs(one.worse_by):>8.1%}"
        of = "CPU " if one.measure == "CPU" else ""
        mark = "REGRESSION" if one.is_regression else ""
        lines.append(f"  {one.name:{width}}  {cells}  {of}{mark}".rstrip())
    return lines


def stored_run(path: Path) -> Results:
    """Read a stored run.

    Raises:
        CannotCompare: there is none, or the file is not one.
    """
    try:
        found = Results.from_json(path.read_text(encoding="utf-8"))
        _kind(found.about)
        for name in ("date", "messages", "groups"):
            found.about[name]
    except FileNotFoundError as error:
        raise CannotCompare(
            f"{path}: there is no stored run. `nox -s bench -- --threads FILE` makes one"
        ) from error
    except (OSError, ValueError, LookupError, TypeError, AttributeError) as error:
        raise CannotCompare(f"{path} cannot be read as a stored run: {error!r}") from error
    return found


def other_kind(stored: Mapping[str, Any], here: Mapping[str, Any]) -> str | None:
    """Say how the machine of the stored run differs from this one, if it is of another kind."""
    then, now = _kind(stored), _kind(here)
    if then == now:
        return None
    return f"the stored run is of another kind of machine: {then} there, {now} here"


def _kind(about: Mapping[str, Any]) -> str:
    python = ".".join(str(about["python"]).split(".")[:2])
    return f"{about['system']}, {about['cpus']} CPUs, Python {python}"


def check_workload(stored: Mapping[str, Any], messages: int, groups: Iterable[str]) -> None:
    """Check that the stored run measured what is to be measured now.

    Raises:
        CannotCompare: it has other messages, or not all of the groups.
    """
    if stored["messages"] != messages:
        raise CannotCompare(
            f"the stored run is of {stored['messages']:,} messages, and this one of {messages:,}"
        )
    if missing := [one for one in groups if one not in stored["groups"]]:
        raise CannotCompare(
            f"the stored run has no group {', '.join(missing)}; it has "
            f"{', '.join(stored['groups'])}. --only chooses among them"
        )


def check_addition(
    stored: Mapping[str, Any], here: Mapping[str, Any], messages: int, groups: Iterable[str]
) -> None:
    """Check that groups that are to be measured *here* may be added to the stored run.

    Raises:
        CannotCompare: it was measured elsewhere or with other messages, or has one of the groups.
    """
    if other := other_kind(stored, here):
        raise CannotCompare(f"{other}: nothing can be added")
    check_workload(stored, messages, ())
    if known := [one for one in groups if one in stored["groups"]]:
        raise CannotCompare(
            f"the stored run has {', '.join(known)} already: a whole run replaces it"
        )


def compare(stored: Results, now: Results) -> Comparison:
    """Compare the findings of the groups that *now* measured."""
    before = {(one.group, one.name): one for one in stored.findings}
    after = {(one.group, one.name): one for one in now.findings}
    groups = {one.group for one in now.findings}
    changes = [_change(before[key], one) for key, one in after.items() if key in before]
    return Comparison(
        stored.about["date"],
        tuple(one for one in changes if one is not None),
        tuple(one.name for key, one in after.items() if key not in before),
        tuple(one.name for key, one in before.items() if key not in after and one.group in groups),
    )


def _change(before: Finding, after: Finding) -> Change | None:
    """Compare two findings; nothing, if they are no ratios above 0 or neither way is better."""
    if after.rule is None or after.unit not in ("x", "") or before.unit != after.unit:
        return None
    if before.cpu and after.cpu:
        measure, then, now = "CPU", before.cpu.ratio, after.cpu.ratio
    else:
        measure, then, now = "value", before.value, after.value
    if then <= 0:
        return None
    return Change(after.group, after.name, measure, then, now, after.rule)


def nothing_compared(reason: str) -> str:
    """The same as JSON where nothing was compared."""
    return _json({"is_compared": False, "reason": reason})


def _json(found: dict[str, Any]) -> str:
    return json.dumps(found, indent=1, ensure_ascii=False)
