"""Hybrid search: one ranking made of two, by text and by vector, with reciprocal-rank fusion.

Cormack, Clarke and Büttcher, "Reciprocal Rank Fusion outperforms Condorcet and individual Rank
Learning Methods", SIGIR 2009.
"""

from __future__ import annotations

from typing import Any, NamedTuple

from memalchemy.contracts import StoreItem
from memalchemy.keys import encode_namespace
from memalchemy.search.scope import Place

_DEPTHS = (100, 1000)
"""Numbers of hits that are taken from each ranking."""

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


def fusion_depth(limit: int) -> int:
    """Return how many hits to take from each ranking.

    It is the same for many limits, so that a page of results does not depend on its size.
    """
    return next((depth for depth in _DEPTHS if limit <= depth), limit)


def fuse(rankings: list[list[Ranked]], alpha: float | None = None) -> list[Ranked]:
    """Fuse a ranking by text and one by vector.

    Each ranking that has an item adds ``weight / (10 + rank)``, and the score is the share of the
    highest possible sum, so that an item that is first in both has 1. *alpha* is the weight of the
    ranking by vector, 0 to 1, and ``1 - alpha`` that of the one by text; by default both are one
    half.
    """
    share = 0.5 if alpha is None else alpha
    weights = 1 - share, share
    best = 1 / (_RANK_CONSTANT + 1)
    sums: dict[Place, float] = {}
    items: dict[Place, StoreItem] = {}
    for weight, ranking in zip(weights, rankings, strict=True):
        for rank, one in enumerate(ranking if weight else (), start=1):
            sums[one.place] = sums.get(one.place, 0.0) + weight / (_RANK_CONSTANT + rank)
            items.setdefault(one.place, one.item)
    order = sorted(sums, key=lambda place: (-sums[place], place))
    # Rounded: the sum of two weights is not always 1.
    return [Ranked(items[place], round(sums[place] / best, 12)) for place in order]
