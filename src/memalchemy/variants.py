"""Variants: functions and statements that differ on some databases, in modules named after them.

A function whose first argument is a dialect may have another in its place on a *variant*:

    @varies
    def append_write(dialect: Dialect, …) -> Program[int | None]: …

    @append_write.on(ONE_STATEMENT)
    def _append_in_one_statement(dialect: Dialect, …) -> Program[int | None]: …

A dialect names the variants that it takes, once: `Dialect.variants`. Nothing else asks what a
database is. A module that is named after a variant has all that differs there.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import update_wrapper
from typing import Any, Concatenate, Generic, ParamSpec, Protocol, TypeVar


class TakesVariants(Protocol):
    """The part of a dialect that this module uses."""

    @property
    def variants(self) -> tuple[str, ...]:
        """The variants that it takes, the one that decides first."""


D = TypeVar("D", bound=TakesVariants)
P = ParamSpec("P")
T = TypeVar("T")
Of = Callable[Concatenate[D, P], T]

ONE_STATEMENT = "one_statement"
"""A save is one statement of data-modifying CTEs, and the rows of many are sent as arrays."""

NO_UPSERT = "no_upsert"
"""There is no upsert: a program updates, inserts, and tries once more if another one was faster."""

CITUS = "citus"
"""The rows are spread over the nodes of Citus by the columns of `DISTRIBUTED_BY`.

A statement that names the value of that column is sent to one node, any other to all of them.
"""


class Varying(Generic[D, P, T]):
    """A function of a dialect, with those that stand in its place on variants."""

    def __init__(self, general: Of[D, P, T]) -> None:
        self._general = general
        self._by_variant: dict[str, Of[D, P, T]] = {}
        update_wrapper(self, general)

    def on(self, variant: str) -> Callable[[Of[D, P, T]], Of[D, P, T]]:
        """Register the decorated function in place of the general one on *variant*."""

        def registered(particular: Of[D, P, T]) -> Of[D, P, T]:
            assert variant not in self._by_variant, f"{self} has one on {variant}"
            self._by_variant[variant] = particular
            return particular

        return registered

    def general(self, dialect: D, *args: P.args, **kwargs: P.kwargs) -> T:
        """Call the general function: for those in its place that add to it."""
        return self._general(dialect, *args, **kwargs)

    def __call__(self, dialect: D, *args: P.args, **kwargs: P.kwargs) -> T:
        by_variant = self._by_variant
        if by_variant:
            for variant in dialect.variants:
                if variant in by_variant:
                    return by_variant[variant](dialect, *args, **kwargs)
        return self._general(dialect, *args, **kwargs)


def varies(general: Of[D, P, T]) -> Varying[D, P, T]:
    """Let variants have a function of their own in place of *general*."""
    return Varying(general)


def nothing(dialect: TakesVariants, **choices: Any) -> None:
    """Build no statement: `Statement.on` takes it where a variant has none."""
