"""Hits that differ: maximal marginal relevance over what a search has found.

Carbonell and Goldstein, "The use of MMR, diversity-based reranking", SIGIR 1998.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np

from memalchemy.database import Database, HostConnection, off_loop
from memalchemy.events import Event
from memalchemy.log.scan import ask
from memalchemy.search.nearness import Floats
from memalchemy.search.scope import Place, key_lists
from memalchemy.store import read
from memalchemy.store.fusion import Ranked

MOST = 1000
"""Hits that are chosen to differ; those beyond follow by their scores."""


def pool_of(limit: int) -> int:
    """How many of the best hits *limit* differing ones are taken from."""
    return max(min(4 * limit, 4 * MOST), 20, limit)


async def differing(
    db: Database,
    found: Sequence[Ranked],
    share: float,
    limit: int,
    model: str,
    connection: HostConnection | None,
    event: Event | None = None,
) -> list[Ranked]:
    """At most *limit* of what was *found*, best first, in the order of `diverse`."""
    pool = found[: 4 * MOST]
    scores = [(one.place, one.score) for one in pool]
    vectors = await _vectors(db, pool, model, connection, event)
    numbers = sum(len(one) for of in vectors.values() for one in of)
    chosen = min(limit, MOST)

    def choose() -> list[int]:
        return diverse(scores, _directions(vectors), share, chosen)

    order = await off_loop(4 * numbers * chosen, choose)
    if limit > MOST:
        taken = set(order)
        order += [at for at in range(len(found)) if at not in taken]
    return [found[at] for at in order[:limit]]


async def _vectors(
    db: Database,
    found: Sequence[Ranked],
    model: str,
    connection: HostConnection | None,
    event: Event | None,
) -> dict[Place, list[Sequence[float]]]:
    """The vectors of each item."""
    d = db.dialect
    vectors: dict[Place, list[Sequence[float]]] = {}
    for keys in key_lists(d, [one.place for one in found]):
        binds = {"k_tenant": db.tenant} | keys
        rows = await ask(db, read.vectors_of_items(d), binds, connection, event=event, stale=True)
        for row in rows:
            if row.model == model:
                vectors.setdefault((row.namespace, row.key), []).append(row.vector)
    return vectors


def _directions(vectors: Mapping[Place, Sequence[Sequence[float]]]) -> dict[Place, Floats]:
    """Where the vectors of each item point, of length 1; of several, where they do together."""
    units = {
        place: [_unit(np.asarray(one, dtype=np.float32)) for one in of]
        for place, of in vectors.items()
    }
    return {
        place: _unit(np.sum(parts, axis=0))
        for place, parts in units.items()
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
    worth = share * np.array([score for _, score in scores], dtype=np.float64)
    likeness = np.zeros(len(scores))
    left = np.ones(len(scores), dtype=bool)
    # Vectors of one size are compared with each other: as rows of a matrix, all at once.
    sizes: dict[int, list[int]] = {}
    for at, (place, _) in enumerate(scores):
        if place in pointing:
            sizes.setdefault(len(pointing[place]), []).append(at)
    alike = {
        size: (np.array(rows), np.stack([pointing[scores[at][0]] for at in rows]))
        for size, rows in sizes.items()
    }
    order: list[int] = []
    for _ in range(min(limit, len(scores))):
        marginal = np.where(left, worth - (1 - share) * likeness, -np.inf)
        best = int(np.argmax(marginal))
        order.append(best)
        left[best] = False
        taken = pointing.get(scores[best][0])
        if taken is not None:
            rows, vectors = alike[len(taken)]
            likeness[rows] = np.maximum(likeness[rows], (1 + vectors @ taken) / 2)
    return order


def _unit(vector: Floats) -> Floats:
    length = float(np.linalg.norm(vector.astype(np.float64)))
    return vector / np.float32(length) if length > 0 else vector
