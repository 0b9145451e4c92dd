"""Ten thousand items with vectors in clusters, and fields by which a filter selects clusters."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from datetime import date, timedelta
from functools import cached_property
from typing import Any

import numpy as np

from memalchemy import Database, NewItem, Store

HERE = ("clustered",)
DIMENSIONS = 16
CLUSTERS = 20
NUMBER = 10_200
"""Items: more than are compared where there is an index."""
FIRST_DAY = date(2026, 3, 1)
TIE = 1e-6
"""Scores that differ by less are equal: databases compute in single precision."""


class Corpus:
    """The items, and what numpy finds among them."""

    def __init__(self, seed: int = 7) -> None:
        self.random = np.random.default_rng(seed)
        self.centres = self.random.normal(size=(CLUSTERS, DIMENSIONS))
        self.clusters = self.random.integers(0, CLUSTERS, NUMBER)
        noise = 0.35 * self.random.normal(size=(NUMBER, DIMENSIONS))
        self.vectors = (self.centres[self.clusters] + noise).astype("f4")

    @cached_property
    def _directions(self) -> Any:
        doubles = self.vectors.astype(np.float64)
        return doubles / np.linalg.norm(doubles, axis=1, keepdims=True)

    async def put(self, db: Database) -> None:
        store = Store(db, index_text=False)
        for start in range(0, NUMBER, 3400):
            some = range(start, min(start + 3400, NUMBER))
            await store.put_batch([self._item(number) for number in some])

    def _item(self, number: int) -> NewItem:
        cluster = int(self.clusters[number])
        value = {
            "cluster": cluster,
            "topic": f"topic {cluster:02}",
            "tags": ["all", f"topic {cluster:02}"],
            "day": (FIRST_DAY + timedelta(days=cluster)).isoformat(),
            f"only{cluster}": True,
        }
        metadata = {"group": cluster}
        return NewItem(HERE, f"k{number:05}", value, metadata, embedding=self.vectors[number])

    def query(self) -> Any:
        """Return a vector near one of the items."""
        near = self.vectors[self.random.integers(0, NUMBER)]
        return near + 0.05 * self.random.normal(size=DIMENSIONS).astype("f4")

    def clusters_by_distance(self, query: Any) -> list[int]:
        """Return all clusters, the nearest first."""
        order = np.argsort(-(self.centres @ query) / np.linalg.norm(self.centres, axis=1))
        return [int(cluster) for cluster in order]

    def best(self, query: Any, among: Iterable[int], limit: int) -> list[tuple[str, float]]:
        """Return keys and scores of the nearest items of some clusters."""
        scores = self.scores(query)
        here = np.flatnonzero(np.isin(self.clusters, list(among)))
        order = here[np.argsort(-scores[here], kind="stable")][:limit]
        return [(f"k{number:05}", float(scores[number])) for number in order]

    def scores(self, query: Any) -> Any:
        return (1 + self._directions @ (query / np.linalg.norm(query))) / 2


def check_hits(found: Sequence[Any], expected: Sequence[tuple[str, float]], scores: Any) -> None:
    """Check that hits are those of numpy, in the order of their scores, but for ties."""
    keys = [hit.key for hit in found]
    assert len(set(keys)) == len(keys) == len(expected)
    told = [hit.score for hit in found]
    assert told == sorted(told, reverse=True)
    true = np.array([scores[int(key[1:])] for key in keys])
    assert np.abs(true - np.array(told)).max(initial=0) < TIE
    wanted = np.array([score for _, score in expected])
    assert np.abs(true - wanted).max(initial=0) < TIE, (keys[:5], expected[:5])
