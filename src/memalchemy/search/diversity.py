"""Diverse hits: maximal marginal relevance (MMR) over the hits of a search.

Carbonell and Goldstein, "The use of MMR, diversity-based reranking", SIGIR 1998.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np

from memalchemy.database import Database, HostConnection, off_loop
from memalchemy.events import Event
from memalchemy.log.scan import run_query
from memalchemy.search._vector_cache import Floats
from memalchemy.search._vector_statements import vectors_of_items
from memalchemy.search.hybrid import Ranked
from memalchemy.search.scope import Place, key_lists

MAX_DIVERSE = 1000
"""Hits that are chosen by MMR; further ones follow by their scores."""


def pool_size(limit: int) -> int:
    """Return the number of best hits from which *limit* diverse ones are chosen."""
    return max(min(4 * limit, 4 * MAX_DIVERSE), 20, limit)


async def diversify(
    db: Database,
    found: Sequence[Ranked],
    share: float,
    limit: int,
    model: str,
    connection: HostConnection | None,
    event: Event | None = None,
) -> list[Ranked]:
    """Return at most *limit* of the hits in *found*, in the order of `choose_diverse`.

    *share* is the weight of a hit's score against its difference from the others, 0 to 1.
    """
    pool = found[: 4 * MAX_DIVERSE]
    scores = [(one.place, one.score) for one in pool]
    vectors = await _vectors(db, pool, model, connection, event)
    numbers = sum(len(one) for of in vectors.values() for one in of)
    chosen = min(limit, MAX_DIVERSE)

    def choose() -> list[int]:
        return choose_diverse(scores, _directions(vectors), share, chosen)

    order = await off_loop(4 * numbers * chosen, choose)
    if limit > MAX_DIVERSE:
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
    """Return the vectors of each item."""
    d = db.dialect
    vectors: dict[Place, list[Sequence[float]]] = {}
    for keys in key_lists(d, [one.place for one in found]):
        binds = {"k_tenant": db.tenant} | keys
        rows = await run_query(
            db, vectors_of_items(d), binds, connection, event=event, replica_ok=True
        )
        for row in rows:
            if row.model == model:
                vectors.setdefault((row.namespace, row.key), []).append(row.vector)
    return vectors


def _directions(vectors: Mapping[Place, Sequence[Sequence[float]]]) -> dict[Place, Floats]:
    """Return the direction of each item as a unit vector; of several vectors that of their sum."""
    units = {
        place: [_unit(np.asarray(one, dtype=np.float32)) for one in of]
        for place, of in vectors.items()
    }
    return {
        place: _unit(np.sum(parts, axis=0))
        for place, parts in units.items()
        if len(set(map(len, parts))) == 1
    }


def choose_diverse(
    scores: Sequence[tuple[Place, float]],
    directions: Mapping[Place, Floats],
    share: float,
    limit: int,
) -> list[int]:
    """Return the indices of at most *limit* hits, in the order in which MMR chooses them.

    Each next hit has the largest ``share * score - (1 - share) * similarity``. The similarity is
    that to the most similar hit chosen before it, from 0 (opposite) to 1 (the same direction). A
    hit without a vector is similar to none.
    """
    worth = share * np.array([score for _, score in scores], dtype=np.float64)
    similarity = np.zeros(len(scores))
    left = np.ones(len(scores), dtype=bool)
    # Vectors of one size are the rows of a matrix, and are compared all at once.
    sizes: dict[int, list[int]] = {}
    for at, (place, _) in enumerate(scores):
        if place in directions:
            sizes.setdefault(len(directions[place]), []).append(at)
    matrices = {
        size: (np.array(rows), np.stack([directions[scores[at][0]] for at in rows]))
        for size, rows in sizes.items()
    }
    order: list[int] = []
    for _ in range(min(limit, len(scores))):
        marginal = np.where(left, worth - (1 - share) * similarity, -np.inf)
        best = int(np.argmax(marginal))
        order.append(best)
        left[best] = False
        taken = directions.get(scores[best][0])
        if taken is not None:
            rows, vectors = matrices[len(taken)]
            similarity[rows] = np.maximum(similarity[rows], (1 + vectors @ taken) / 2)
    return order


def _unit(vector: Floats) -> Floats:
    length = float(np.linalg.norm(vector.astype(np.float64)))
    return vector / np.float32(length) if length > 0 else vector
