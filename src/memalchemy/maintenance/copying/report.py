"""Counts of a copy, and what it leaves out."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from typing import Any

from memalchemy.errors import MemalchemyError, about
from memalchemy.maintenance.copying.row_comparison import Values
from memalchemy.protection.proven_jobs import ERRORS, Damage, is_damage
from memalchemy.search.scope import ITEM_KEY

NAMED_LEFT_OUT = 1_000
"""Maximum number of left-out logs and items that a report names."""


@dataclass(frozen=True, slots=True)
class CopyReport:
    """The counts of a copy, so far or at its end.

    Attributes:
        logs: the logs that the source had when the copy began.
        items: the items that it had then.
        looked: the logs and items that were compared with the target before the copy.
        new: those that were not on the target.
        updated: those that were there from an earlier copy, and are the source's of now.
        unchanged: those that were there already.
        rows: the rows that were written and read back.
        bytes: the bytes of payloads, values and vectors that were written and read back.
        left: the logs and items that were left out, because they are damaged or not what was
            signed.
        left_out: those, each with the reason, the first `NAMED_LEFT_OUT`.
        grown: the updated logs of which only what was new was copied.
        copied_again: the number of the updated logs that were copied as a whole, by the reason.
    """

    logs: int = 0
    items: int = 0
    looked: int = 0
    new: int = 0
    updated: int = 0
    unchanged: int = 0
    rows: int = 0
    bytes: int = 0
    seconds: float = 0.0
    left: int = 0
    left_out: tuple[str, ...] = ()
    grown: int = 0
    copied_again: Mapping[str, int] = field(default_factory=dict)

    @property
    def done(self) -> int:
        """Logs and items that are on the target, as the source has them."""
        return self.new + self.updated + self.unchanged


class CopyProgress:
    """The report of a copy so far, and the callback that is told of it."""

    def __init__(self, callback: Callable[[CopyReport], object] | None) -> None:
        self.report = CopyReport()
        """Set back to an earlier one if a transaction is not committed."""
        self._callback = callback
        self._started = time.perf_counter()

    def tell(self, **more: int) -> None:
        """Add to the report, and call the callback."""
        counts: dict[str, Any] = {k: getattr(self.report, k) + v for k, v in more.items()}
        seconds = round(time.perf_counter() - self._started, 3)
        self.report = replace(self.report, **counts, seconds=seconds)
        if self._callback is not None:
            self._callback(self.report)

    def note_copied_again(self, reason: str) -> None:
        """Note that a log is copied as a whole although the target had it from an earlier copy."""
        again = self.report.copied_again
        more = {**again, reason: again.get(reason, 0) + 1}
        self.report = replace(self.report, copied_again=more)


class LeftOut:
    """Logs and items that a copy leaves out: they are damaged, or not what was signed."""

    def __init__(self) -> None:
        self.damage: Damage = Damage()
        self._keys: set[tuple[Any, ...]] = set()

    @contextmanager
    def noting(self, row: Values) -> Iterator[None]:
        """Leave a log or an item out if the block finds that it is damaged."""
        try:
            yield
        except ERRORS as error:
            if not is_damage(error):
                raise
            self.add(row, error)

    def add(self, row: Values, error: MemalchemyError) -> None:
        """Leave a log or an item out because of *error*."""
        self._keys.add(item_key_of(row))
        self.damage.errors.append(about(error, name_of(row)))

    def has(self, row: Values) -> bool:
        """Return whether a log or an item is left out."""
        return item_key_of(row) in self._keys

    def added_to(self, report: CopyReport) -> CopyReport:
        """Return *report* with the number and the names of all that was left out."""
        errors = self.damage.errors
        named = tuple(map(str, errors[:NAMED_LEFT_OUT]))
        return replace(report, left=len(errors), left_out=named)


def item_key_of(row: Values) -> tuple[Any, ...]:
    """Return the key of a log or an item, which no other has: damaged logs may share names."""
    return tuple(row[name] for name in (("log_id",) if "thread_id" in row else ITEM_KEY))


def name_of(row: Values) -> str:
    """Name a log or an item for people."""
    if "thread_id" in row:
        return f"thread {row['thread_id']!r} in {row['namespace']}"
    return f"item {row['key']!r} in {row['namespace']}"
