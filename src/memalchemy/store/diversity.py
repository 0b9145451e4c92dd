"""Hits that differ: maximal marginal relevance over what a search has found.

Carbonell and Goldstein, "The use of MMR, diversity-based reranking", SIGIR 1998.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np

from memalchemy.database import HostConnection
from memalchemy.events import Event
from memalchemy.search.nearness import Floats
from memalchemy.search.scope import Place, key_lists
from memalchemy.store import queries
from memalchemy.store.fusion import Ranked
from memalchemy.store.shelf import Shelf


def pool_of(limit: int) -> int:
    """How many of the best hits *limit* differing ones are taken from."""
    return max(4 * limit, 20)


async def differing(
    store: Shelf,
    found: Sequence[Ranked],
    share: float,
    limit: int,
    model: str,
    connection: HostConnection | None,
    event: Event | None = None,
) -> list[Ranked]:
    """At most *limit* of what was *found*, best first, in the order of `diverse`."""
    pointing = await _directions(store, found, model, connection, event)
    scores = [(one.place, one.score) for one in found]
    return [found[at] for at in diverse(scores, pointing, share, limit)]


async def _directions(
    store: Shelf,
    found: Sequence[Ranked],
    model: str,
    connection: HostConnection | None,
    event: Event | None,
) -> dict[Place, Floats]:
    """Where the vectors of each item point, of length 1; of several, where they do together."""
    d = store.db.dialect
    vectors: dict[Place, list[Floats]] = {}
    for keys in key_lists(d, [one.place for one in found]):
        binds = {"k_tenant": store.db.tenant, "p_keys": keys}
        rows = await store._rows(queries.vectors_of_items(d), binds, connection, event, stale=True)
        for row in rows:
            if row.model == model:
                vector = np.asarray(row.vector, dtype=np.float32)
                vectors.setdefault((row.namespace, row.key), []).append(_unit(vector))
    return {
        place: _unit(np.sum(parts, axis=0))
        for place, parts in vectors.items()
        if len(set(map(len, parts))) == 1
    }


def diverse(
    scores: Sequence[tuple[Place, float]],
    pointing: Mapping[Place, Floats],
    share: float,
    limit: int,
) -> list[int]:
    """Which of the hits, best first, and in which order: at most *limit* indices.

    Each next one has the largest ``share * score - (1 - share) * likeness``, the likeness to the
    nearest that was taken before it, from 0 (opposite) to 1 (the same direction). What has no
    vector is like nothing.
    """
    worth = np.array([score for _, score in scores], dtype=np.float64)
    likeness = np.zeros(len(scores))
    left = np.ones(len(scores), dtype=bool)
    order: list[int] = []
    while len(order) < limit and left.any():
        marginal = np.where(left, share * worth - (1 - share) * likeness, -np.inf)
        best = int(np.argmax(marginal))
        order.append(best)
        left[best] = False
        taken = pointing.get(scores[best][0])
        for at in np.flatnonzero(left).tolist() if taken is not None else ():
            other = pointing.get(scores[at][0])
            if other is not None and taken is not None and len(other) == len(taken):
                likeness[at] = max(likeness[at], (1 + float(np.dot(taken, other))) / 2)
    return order


def _unit(vector: Floats) -> Floats:
    length = float(np.linalg.norm(vector.astype(np.float64)))
    return vector / np.float32(length) if length > 0 else vector
