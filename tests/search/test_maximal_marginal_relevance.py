"""Maximal marginal relevance: the order of its definition, with few comparisons."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from memalchemy.codec.vectors import to_bytes
from memalchemy.search import diversity
from memalchemy.search.diversity import choose_diverse

# Sums and products of these are exact, so that ties are ties.
QUARTERS = st.integers(-4, 4).map(lambda number: number / 4)
VECTORS = st.one_of(
    st.none(),
    *(st.lists(QUARTERS, min_size=size, max_size=size) for size in (2, 3)),
)


POOLS = st.lists(st.tuples(st.integers(1, 6), st.integers(0, 6)), max_size=3).map(
    lambda steps: [
        (sum(a for a, _ in steps[: n + 1]), n + sum(a + b for a, b in steps[: n + 1]))
        for n in range(len(steps))
    ]
)
"""Growing numbers of hits, and of those that they are chosen from."""


def by_definition(
    scores: list[float],
    vectors: list[list[float] | None],
    share: float,
    limit: int,
    pools: Sequence[tuple[int, int]],
) -> list[int]:
    def similarity(one: int, other: int) -> float:
        a, b = vectors[one], vectors[other]
        if a is None or b is None or len(a) != len(b):
            return 0.0
        return (1 + sum(x * y for x, y in zip(a, b, strict=True))) / 2

    chosen: list[int] = []
    while len(chosen) < min(limit, len(scores)):
        pool = next((pool for number, pool in pools if len(chosen) < number), len(scores))
        left = [at for at in range(min(pool, len(scores))) if at not in chosen]
        worth = {
            at: share * scores[at]
            - (1 - share) * max([0.0, *(similarity(at, one) for one in chosen)])
            for at in left
        }
        chosen.append(max(left, key=lambda at: (worth[at], -at)))
    return chosen


@given(
    hits=st.lists(st.tuples(st.integers(0, 16), VECTORS), max_size=30),
    share=st.integers(0, 8).map(lambda number: number / 8),
    limit=st.integers(0, 32),
    block=st.sampled_from([1, 2, 5, 64]),
    at_once=st.sampled_from([1, 30, diversity.SERIAL_PRODUCT]),
    pools=POOLS,
)
def test_hits_are_chosen_in_the_order_of_the_definition_however_they_are_compared(
    hits: list[tuple[int, list[float] | None]],
    share: float,
    limit: int,
    block: int,
    at_once: int,
    pools: list[tuple[int, int]],
) -> None:
    scores = [score / 16 for score, _ in hits]
    vectors = [vector for _, vector in hits]
    named = [(("/n/", f"k{at}"), score) for at, score in enumerate(scores)]
    directions = {
        ("/n/", f"k{at}"): np.array(vector, dtype="f4")
        for at, vector in enumerate(vectors)
        if vector is not None
    }
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(diversity, "BLOCK", block)
        patched.setattr(diversity, "SERIAL_PRODUCT", at_once)
        found = choose_diverse(named, directions, share, limit, pools)
    assert found == by_definition(scores, vectors, share, limit, pools)


@given(seed=st.integers(0, 10_000), share=st.sampled_from([0.0, 0.3, 0.7, 1.0]))
def test_a_larger_number_begins_with_what_a_smaller_one_has_from_fewer_hits(
    seed: int, share: float
) -> None:
    rng = np.random.default_rng(seed)
    vectors = rng.normal(size=(90, 12)).astype("f4")
    vectors[rng.integers(0, 90, 30)] = vectors[0]  # of equal ones the last digits must be equal
    vectors /= np.linalg.norm(vectors, axis=1, keepdims=True)
    scores = [(("/n/", f"k{at}"), 1 - (at // 4) / 90) for at in range(90)]
    directions = {place: vectors[at] for at, (place, _) in enumerate(scores)}
    pools = ((5, 20), (20, 70))
    whole = choose_diverse(scores, directions, share, 90, pools)
    assert sorted(whole) == list(range(90))
    for limit, needed in ((1, 20), (5, 20), (6, 70), (20, 70), (60, 90)):
        assert choose_diverse(scores[:needed], directions, share, limit, pools) == whole[:limit]


def test_hits_that_cannot_be_the_next_are_not_compared(monkeypatch: pytest.MonkeyPatch) -> None:
    rng = np.random.default_rng(1)
    vectors = rng.normal(size=(2000, 16)).astype("f4")
    vectors /= np.linalg.norm(vectors, axis=1, keepdims=True)
    scores = [(("/n/", f"k{at}"), 1 - at / 2000) for at in range(2000)]
    directions = {place: vectors[at] for at, (place, _) in enumerate(scores)}
    compared = 0
    multiply = diversity._dot_products

    def counted(*given: Any) -> Any:
        nonlocal compared
        products = multiply(*given)
        compared += products.size
        return products

    monkeypatch.setattr(diversity, "_dot_products", counted)
    assert len(choose_diverse(scores, directions, 0.8, 100)) == 100
    assert 0 < compared < 2000 * 100 / 4


@pytest.mark.parametrize("store", [to_bytes, str, list])
def test_the_direction_of_an_item_with_several_vectors_is_that_of_their_sum(
    store: Callable[[list[float]], Any],
) -> None:
    vectors = {
        ("/n/", "one"): [[0.0, 3.0]],
        ("/n/", "two"): [[2.0, 0.0], [0.0, 5.0]],
        ("/n/", "zero"): [[0.0, 0.0, 0.0]],
        ("/n/", "of two sizes"): [[1.0, 0.0], [1.0, 0.0, 0.0]],
    }
    found = diversity._directions(
        {place: [store(vector) for vector in of] for place, of in vectors.items()}
    )
    assert {key: vector.tolist() for (_, key), vector in found.items()} == {
        "one": [0.0, 1.0],
        "two": [np.float32(0.5**0.5)] * 2,
        "zero": [0.0, 0.0, 0.0],
    }
