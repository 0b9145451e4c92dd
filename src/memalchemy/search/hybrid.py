"""Hybrid search: one ranking made of two, by text and by vector, with reciprocal-rank fusion.

Cormack, Clarke and Büttcher, "Reciprocal Rank Fusion outperforms Condorcet and individual Rank
Learning Methods", SIGIR 2009.
"""

from __future__ import annotations

from itertools import pairwise
from typing import Any, NamedTuple

from memalchemy.contracts import StoreItem
from memalchemy.keys import encode_namespace
from memalchemy.search.scope import Place

_DEPTHS = (100, 500)
"""Ends of the first windows: the hits of each ranking up to there are fused with one another."""
_STEP = 500
"""Hits of each ranking in a later window."""

_RANK_CONSTANT = 10
"""The method's constant k: the larger it is, the less does a rank count."""


class Ranked(NamedTuple):
    """An item with its score."""

    item: StoreItem
    score: float
    distance: float | None = None

    @property
    def place(self) -> Place:
        """The item's encoded namespace and its key."""
        return encode_namespace(self.item.namespace), self.item.key


def check_fraction(value: Any, name: str) -> None:
    """Raise unless *value* is a number from 0 to 1, or ``None``."""
    if value is None:
        return
    if isinstance(value, bool) or not isinstance(value, (int, float)):
        raise TypeError(f"{name} is a number from 0 to 1, not {type(value).__name__}")
    if not 0 <= value <= 1:
        raise ValueError(f"{name} is a number from 0 to 1, not {value}")


def check_threshold(threshold: Any) -> None:
    """Raise unless *threshold* is a score, from 0 to 1, or ``None``."""
    if threshold is None:
        return
    if isinstance(threshold, bool) or not isinstance(threshold, (int, float)):
        raise TypeError(f"threshold is a score, not {type(threshold).__name__}")
    if not 0 <= threshold <= 1:
        raise ValueError(f"threshold is a score, from 0 to 1: not {threshold}")


def fusion_depth(limit: int) -> int:
    """Return how many hits to take from each ranking, for *limit* fused ones: whole windows.

    The windows are the same for every limit, so that a page of results does not depend on its size.
    """
    return next((depth for depth in _DEPTHS if limit <= depth), -(-limit // _STEP) * _STEP)


def fuse(rankings: list[list[Ranked]], alpha: float | None = None) -> list[Ranked]:
    """Fuse a ranking by text and one by vector.

    Each ranking that has an item adds ``weight / (10 + rank)``, and the score is the share of the
    highest possible sum, so that an item that is first in both has 1. *alpha* is the weight of the
    ranking by vector, 0 to 1, and ``1 - alpha`` that of the one by text; by default both are one
    half.

    The hits of a window, see `fusion_depth`, are fused by themselves, and come before those of the
    next window. So longer rankings only add hits at the end. No score is above one of an earlier
    window.
    """
    share = 0.5 if alpha is None else alpha
    weighed = list(zip((1 - share, share), rankings, strict=True))
    best = 1 / (_RANK_CONSTANT + 1)
    found: dict[Place, Ranked] = {}
    least = 1.0
    for start, end in pairwise(_ends_of_windows(max(map(len, rankings)))):
        sums: dict[Place, float] = {}
        items: dict[Place, StoreItem] = {}
        for weight, ranking in weighed:
            for rank, one in enumerate(ranking[start:end] if weight else (), start=start + 1):
                if one.place not in found:
                    sums[one.place] = sums.get(one.place, 0.0) + weight / (_RANK_CONSTANT + rank)
                    items.setdefault(one.place, one.item)
        order = sorted(sums, key=lambda place: (-sums[place], place))
        # An item that the earlier window has in one ranking only may have a lower sum than these.
        scale = min(1.0, least / (sums[order[0]] / best)) if order else 1.0
        for place in order:
            # Rounded: the sum of two weights is not always 1.
            least = min(least, round(sums[place] / best * scale, 12))
            found[place] = Ranked(items[place], least)
    return list(found.values())


def _ends_of_windows(longest: int) -> list[int]:
    """Return where the windows of rankings begin, of which one has *longest* hits, and the end."""
    ends = [0]
    while ends[-1] < longest:
        ends.append(fusion_depth(ends[-1] + 1))
    return ends
