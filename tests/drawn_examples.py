"""Values of a strategy of hypothesis as a list, for a test that takes many at once."""

from __future__ import annotations

from typing import Any

from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st


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
