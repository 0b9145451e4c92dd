"""How many examples a property is tried with, and values of a strategy as a list."""

from __future__ import annotations

import os
from typing import Any

from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

_scale = float(os.environ.get("MEMALCHEMY_EXAMPLES", "1"))


def draw(*, one_of: int) -> None:
    """Draw *one_of* so many examples from now on.

    They are the same in every run, unless MEMALCHEMY_EXAMPLES asks for new ones. None has a
    deadline: on a busy machine any of them may take long.
    """
    global _scale
    _scale /= one_of
    same = {} if "MEMALCHEMY_EXAMPLES" in os.environ else {"derandomize": True, "database": None}
    usual = settings.default.max_examples
    settings.register_profile("drawn", deadline=None, max_examples=examples(usual), **same)
    settings.load_profile("drawn")


def examples(usual: int) -> int:
    """Return how many examples to draw where *usual* is the usual number.

    MEMALCHEMY_EXAMPLES multiplies it, and a run with ``--sample`` draws a part of them.
    """
    return max(1, round(usual * _scale))


def examples_of(strategy: st.SearchStrategy[Any], count: int) -> list[Any]:
    """About *count* values of a strategy; the same ones in every run."""
    collected: list[Any] = []

    @settings(
        max_examples=count,
        deadline=None,
        database=None,
        derandomize=True,
        suppress_health_check=list(HealthCheck),
    )
    @given(strategy)
    def collect(value: Any) -> None:
        collected.append(value)

    collect()
    return collected
