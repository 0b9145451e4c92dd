"""One ranking of two, by words and by meaning."""

from __future__ import annotations

from typing import Any, NamedTuple

from memalchemy.contracts import StoreItem
from memalchemy.keys import encode_namespace
from memalchemy.search.scope import Place

FUSED = (100, 1000)
"""How many of each ranking take part in a hybrid one: it is the same as long as this is."""

_RANK = 10
"""Reciprocal rank fusion: how slowly a rank loses its weight."""


class Ranked(NamedTuple):
    """A place in a ranking, with the item that is there."""

    item: StoreItem
    score: float
    distance: float | None = None

    @property
    def place(self) -> Place:
        """Where the item is."""
        return encode_namespace(self.item.namespace), self.item.key


def check_share(value: Any, name: str) -> None:
    """Raise unless *value* is from 0 to 1, or ``None``."""
    if value is None:
        return
    if isinstance(value, bool) or not isinstance(value, (int, float)):
        raise TypeError(f"{name} is a number from 0 to 1, not {type(value).__name__}")
    if not 0 <= value <= 1:
        raise ValueError(f"{name} is a number from 0 to 1, not {value}")


def fused(rankings: list[list[Ranked]], alpha: float | None = None) -> list[Ranked]:
    """One ranking of two, by words and by meaning: a place counts as 1 / (10 + its rank) in each
    that has it, times what that weighs.
    """
    share = 0.5 if alpha is None else alpha
    weights = 1 - share, share
    best = 1 / (_RANK + 1)
    sums: dict[Place, float] = {}
    items: dict[Place, StoreItem] = {}
    for weight, ranking in zip(weights, rankings, strict=True):
        for rank, one in enumerate(ranking if weight else (), start=1):
            sums[one.place] = sums.get(one.place, 0.0) + weight / (_RANK + rank)
            items.setdefault(one.place, one.item)
    order = sorted(sums, key=lambda place: (-sums[place], place))
    return [Ranked(items[place], min(1.0, sums[place] / best)) for place in order]
