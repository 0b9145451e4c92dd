"""What can be a vector, and what a distance is worth."""

from __future__ import annotations

import math
from array import array
from collections import deque
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from memalchemy.search.vectors import METRICS, VectorQuery, check_vector, score
from memalchemy.statements import IntegerRange


@pytest.mark.parametrize(
    "vector",
    [
        [1, 2, 3],
        (1.0, 2.0, 3.0),
        array("d", [1, 2, 3]),
        np.array([1, 2, 3], dtype=np.float16),
        np.array([1, 2, 3], dtype=np.int64),
        range(1, 4),
        deque([1.0, 2.0, 3.0]),
        [np.float64(1), 2, 3.0],
    ],
    ids=str,
)
def test_any_sequence_of_numbers_is_a_vector(vector: Any) -> None:
    made = check_vector(vector)
    assert made.dtype == np.float32
    assert made.tolist() == [1.0, 2.0, 3.0]


def test_a_vector_is_a_copy() -> None:
    mine = np.ones(3, dtype=np.float32)
    made = check_vector(mine)
    mine[:] = 7
    assert made.tolist() == [1, 1, 1]


@pytest.mark.parametrize(
    "vector",
    [
        [],
        [0.0, 0.0],
        [math.nan, 1.0],
        [math.inf, 1.0],
        [1e39, 1.0],
        [10**400],
        [1e-30, 1e-30],
        [1e30, 1.0],
        [1.0] * 16_001,
        [[1.0, 2.0], [3.0, 4.0]],
        [1.0, [2.0]],
        ["1", "2"],
        [1.0, "2"],
        [1.0, None],
        [True, False],
        [1j],
        np.ones((2, 2)),
        np.array(1.0)[None][:0],
    ],
    ids=lambda v: str(v)[:20],
)
def test_what_cannot_be_compared_is_refused_by_name(vector: Any) -> None:
    with pytest.raises(ValueError, match=r"^the query "):
        check_vector(vector, "the query")


@pytest.mark.parametrize("vector", [None, 1.0, "text", b"bytes", {0: 1.0}, {1.0}, iter([1.0])])
def test_what_is_no_sequence_is_refused(vector: Any) -> None:
    with pytest.raises(TypeError, match="embedding must be a sequence of numbers"):
        check_vector(vector)


def test_an_unknown_metric_is_refused() -> None:
    with pytest.raises(ValueError, match="cosine, dot, l2"):
        VectorQuery("t", "/", False, "m", check_vector([1.0]), metric="manhattan")  # type: ignore


@pytest.mark.parametrize(
    ("metric", "unit", "distance", "worth"),
    [
        ("cosine", False, 0.0, 1.0),
        ("cosine", False, 1.0, 0.5),
        ("cosine", False, 2.0, 0.0),
        ("cosine", False, 2.0000001, 0.0),
        ("cosine", False, -1e-9, 1.0),
        ("dot", True, -1.0, 1.0),
        ("dot", True, 0.0, 0.5),
        ("dot", True, 1.0, 0.0),
        ("dot", False, 0.0, 0.5),
        ("dot", False, -5000.0, 1.0),
        ("dot", False, 5000.0, 0.0),
        ("l2", False, 0.0, 1.0),
        ("l2", False, 1.0, 0.5),
        ("l2", False, 1e300, 0.0),
    ],
)
def test_a_score(metric: str, unit: bool, distance: float, worth: float) -> None:
    assert score(metric, distance, unit=unit) == pytest.approx(worth, abs=1e-12)


@given(
    st.sampled_from(METRICS),
    st.booleans(),
    st.floats(-1e6, 1e6),
    st.floats(-1e6, 1e6),
)
def test_nearer_is_never_worth_less(metric: str, unit: bool, a: float, b: float) -> None:
    near, far = sorted([a, b] if metric == "dot" else [abs(a), abs(b)])
    assert 0 <= score(metric, far, unit=unit) <= score(metric, near, unit=unit) <= 1


def test_only_whole_numbers_of_a_range_are_variants_of_a_statement() -> None:
    numbers = IntegerRange(1, 4000, 384)
    assert list(numbers) == [384]
    assert 1 in numbers
    assert 4000 in numbers
    for wrong in (0, 4001, "384", "1); --", True, 384.0, None):
        assert wrong not in numbers
