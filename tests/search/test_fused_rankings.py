"""Two rankings fused in windows: longer ones only add hits, and scores fall."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from memalchemy.contracts import StoreItem
from memalchemy.search import hybrid
from memalchemy.search.hybrid import Ranked, fuse, fusion_depth

NOW = datetime(2026, 5, 1, tzinfo=UTC)
KEYS = st.lists(st.integers(0, 60), unique=True, max_size=40)


@pytest.fixture(autouse=True, scope="module")
def small_windows() -> Any:
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(hybrid, "_DEPTHS", (3, 8))
        patched.setattr(hybrid, "_STEP", 5)
        yield


def ranking(keys: list[int]) -> list[Ranked]:
    return [
        Ranked(StoreItem(("n",), f"k{key:02}", None, {}, NOW, NOW, 1, None), 1 / (1 + rank))
        for rank, key in enumerate(keys)
    ]


@given(by_text=KEYS, by_vector=KEYS, alpha=st.sampled_from([None, 0.0, 0.2, 0.5, 0.9, 1.0]))
def test_pages_of_any_size_are_parts_of_one_order(
    by_text: list[int], by_vector: list[int], alpha: float | None
) -> None:
    rankings = [ranking(by_text), ranking(by_vector)]
    whole = fuse(rankings, alpha)
    expected = (set() if alpha == 1 else set(by_text)) | (set() if alpha == 0 else set(by_vector))
    assert sorted(one.item.key for one in whole) == sorted(f"k{key:02}" for key in expected)
    scores = [one.score for one in whole]
    assert scores == sorted(scores, reverse=True)
    assert all(0 < score <= 1 for score in scores)
    for limit in range(1, len(whole) + 1):
        depth = fusion_depth(limit)
        assert depth >= limit
        assert fuse([one[:depth] for one in rankings], alpha)[:limit] == whole[:limit]


def test_the_first_window_is_plain_reciprocal_rank_fusion() -> None:
    found = fuse([ranking([1, 2, 3]), ranking([3, 1, 4])])
    sums = {1: 1 / 11 + 1 / 12, 2: 1 / 12, 3: 1 / 13 + 1 / 11, 4: 1 / 13}
    order = sorted(sums, key=lambda key: -sums[key])
    assert [one.item.key for one in found] == [f"k{key:02}" for key in order]
    assert [one.score for one in found] == pytest.approx([sums[key] * 11 / 2 for key in order])
    assert fuse([ranking([1]), ranking([1])])[0].score == 1.0
