"""`Report`: the results of checks, to be read by people, tests and programs."""

from __future__ import annotations

import textwrap
from dataclasses import asdict, dataclass
from typing import Any, Literal

WIDTH = 100
Status = Literal["passed", "failed", "skipped"]


class NotConforming(AssertionError):
    """A promise is broken: what was promised, what happened instead, and where it is promised."""


@dataclass(frozen=True, slots=True)
class Result:
    """Result of one check.

    Attributes:
        check: the name of the check.
        status: ``"passed"``, ``"failed"`` or ``"skipped"``.
        promise: the promise that was checked, in words.
        source: the place where the promise is written: a method, or a page of the documentation.
        message: what happened, if it failed; the reason, if it was skipped; or else empty.
        seconds: how long it took.
    """

    check: str
    status: Status
    promise: str
    source: str
    message: str = ""
    seconds: float = 0.0

    def __str__(self) -> str:
        if self.status == "passed":
            return f"passed   {self.check}"
        if self.status == "skipped":
            return f"skipped  {self.check}: {self.message}"
        lines = [f"FAILED   {self.check}"]
        for label, text in (
            ("promised", self.promise),
            ("happened", self.message),
            ("see", self.source),
        ):
            indent = f"  {label + ':':<10}"
            first, *more = text.splitlines() or [""]
            lines += textwrap.wrap(
                first,
                width=WIDTH,
                initial_indent=indent,
                subsequent_indent=" " * len(indent),
                break_long_words=False,
            ) or [indent]
            lines += textwrap.indent("\n".join(more), " " * len(indent)).splitlines()
        return "\n".join(lines)


@dataclass(frozen=True, slots=True)
class Report:
    """Results of the checks of one subject, in the order in which they ran.

    ``str(report)`` has a line for each check and, of those that failed, what was promised, what
    happened, and where the promise is written.
    """

    subject: str
    results: tuple[Result, ...]

    @property
    def passed(self) -> tuple[Result, ...]:
        """The checks that passed."""
        return self._results_with("passed")

    @property
    def failed(self) -> tuple[Result, ...]:
        """The checks that failed."""
        return self._results_with("failed")

    @property
    def skipped(self) -> tuple[Result, ...]:
        """The checks that could not run, each with its reason as ``message``."""
        return self._results_with("skipped")

    @property
    def ok(self) -> bool:
        """True if no check failed, and at least one passed."""
        return bool(self.passed) and not self.failed

    def raise_for_failures(self) -> None:
        """Raise an error that describes every check that failed; do nothing if there is none.

        Raises:
            NotConforming: a check failed.
        """
        if self.failed:
            about = f"{self.subject} does not keep {len(self.failed)} of its promises"
            raise NotConforming("\n".join([about, *map(str, self.failed)]))

    def to_dict(self) -> dict[str, Any]:
        """Return the report as JSON has it."""
        return {
            "subject": self.subject,
            "ok": self.ok,
            "passed": len(self.passed),
            "failed": len(self.failed),
            "skipped": len(self.skipped),
            "results": [asdict(one) for one in self.results],
        }

    def __str__(self) -> str:
        counts = (
            f"{len(self.passed)} passed, {len(self.failed)} failed, {len(self.skipped)} skipped"
        )
        return "\n".join([self.subject, *map(str, self.results), counts])

    def _results_with(self, status: Status) -> tuple[Result, ...]:
        return tuple(one for one in self.results if one.status == status)
