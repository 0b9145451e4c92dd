"""Diverse hits: maximal marginal relevance (MMR) over the hits of a search.

Carbonell and Goldstein, "The use of MMR, diversity-based reranking", SIGIR 1998.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import chain, pairwise
from typing import Any

import numpy as np
import numpy.typing as npt

from memalchemy.column_types import stored_vector_bytes
from memalchemy.database import Database, HostConnection, off_loop
from memalchemy.events import Event
from memalchemy.log.scan import run_query
from memalchemy.protection.found_items import check_vectors
from memalchemy.search._vector_cache import Floats, to_matrix
from memalchemy.search._vector_statements import vectors_of_items
from memalchemy.search.hybrid import Ranked
from memalchemy.search.scope import Place, key_lists

MAX_DIVERSE = 1000
"""Hits that are chosen by MMR, from four times as many; further ones follow by their scores."""

Pools = Sequence[tuple[int, int]]
"""Each a number of diverse hits, and from how many of the best hits they are chosen up to there.

From which a hit is chosen depends on its number, and not on how many are wanted, so that pages of
diverse hits fit together.
"""
POOLS: Pools = ((25, 100), (100, 400))
"""The first pools. Behind them hits are chosen from all that are given."""
BLOCK = 64
"""Hits that are compared at once: their vectors fit into a processor's cache."""
SERIAL_PRODUCT = 4 * 65_536
"""Multiplications of a product of matrices up to which OpenBLAS uses one thread. With more, its
threads wait for one another on a busy machine."""


def pool_size(limit: int) -> int:
    """Return the number of best hits from which *limit* diverse ones are chosen."""
    return next((pool for number, pool in POOLS if limit <= number), max(limit, 4 * MAX_DIVERSE))


async def diversify(
    db: Database,
    found: Sequence[Ranked],
    share: float,
    limit: int,
    model: str,
    connection: HostConnection | None,
    event: Event | None = None,
    *,
    from_all: bool = False,
) -> list[Ranked]:
    """Return at most *limit* of the hits in *found*, in the order of `choose_diverse`.

    *share* is the weight of a hit's score against its difference from the others, 0 to 1. *found*
    has the best `pool_size` hits. With *from_all* each is chosen from all in *found*.
    """
    scores = [(one.place, one.score) for one in found[: 4 * MAX_DIVERSE]]
    places = [place for place, _ in scores]
    vectors = await _stored_vectors(db, places, model, connection, event)
    size = sum(len(one) for of in vectors.values() for one in of)
    chosen = min(limit, MAX_DIVERSE)
    choose_from = partial(choose_diverse, pools=()) if from_all else choose_diverse

    def choose() -> list[int]:
        return choose_from(scores, _directions(vectors), share, chosen)

    order = await off_loop(size * chosen, choose)
    if limit > MAX_DIVERSE:
        taken = set(order)
        order += [at for at in range(len(found)) if at not in taken]
    return [found[at] for at in order[:limit]]


async def _stored_vectors(
    db: Database,
    places: Sequence[Place],
    model: str,
    connection: HostConnection | None,
    event: Event | None,
) -> dict[Place, list[Any]]:
    """Return the vectors of each item as the driver returns them."""
    statement = vectors_of_items(db.dialect, as_stored=True, alive=False)
    vectors: dict[Place, list[Any]] = {}
    for keys in key_lists(db.dialect, places):
        binds = {"k_tenant": db.tenant} | keys
        rows = await run_query(db, statement, binds, connection, event=event, replica_ok=True)
        of_model = [row for row in rows if row.model == model]
        check_vectors(db.tenant, of_model, db.signing)
        for row in of_model:
            vectors.setdefault((row.namespace, row.key), []).append(row.vector)
    return vectors


def _directions(stored: Mapping[Place, Sequence[Any]]) -> dict[Place, Floats]:
    """Return the direction of each item as a unit vector; of several vectors that of their sum."""
    places: dict[tuple[int, int], list[Place]] = {}
    vectors = {place: list(map(stored_vector_bytes, of)) for place, of in stored.items()}
    for place, of in vectors.items():
        if len(set(map(len, of))) == 1:
            places.setdefault((len(of), len(of[0]) // 4), []).append(place)
    found: dict[Place, Floats] = {}
    for (number, size), alike in places.items():
        some = list(chain.from_iterable(vectors[place] for place in alike))
        units = to_matrix(some, size, unit=True).reshape(-1, number, size)
        directions = units[:, 0] if number == 1 else _to_unit_vectors(units.sum(axis=1))
        found.update(zip(alike, directions, strict=True))
    return found


def choose_diverse(
    scores: Sequence[tuple[Place, float]],
    directions: Mapping[Place, Floats],
    share: float,
    limit: int,
    pools: Pools = POOLS,
) -> list[int]:
    """Return the indices of at most *limit* hits, in the order in which MMR chooses them.

    Each next hit has the largest ``share * score - (1 - share) * similarity`` of those in its pool.
    The similarity is that to the most similar hit chosen before it, from 0 (opposite) to 1 (the
    same direction). A hit without a vector is similar to none.
    """
    all_worth = share * np.array([score for _, score in scores], dtype=np.float64)
    worth = np.full(len(scores), -np.inf)
    opened = 0
    ends = [0, *(pool for _, pool in pools), len(scores)]
    # A pool has blocks of its own: the last digits of a product depend on the size of a block.
    blocks = [
        block
        for start, end in pairwise(ends)
        for block in _group_by_size(
            [directions.get(place) for place, _ in scores[start:end]], first=start
        )
    ]
    block_of = {at: block for block in blocks for at in block.rows.tolist()}
    similarity = np.zeros(len(scores))
    limit = min(limit, len(scores))
    chosen = {size: _Chosen(limit, size) for size in {block.vectors.shape[1] for block in blocks}}
    # A similarity can only grow, so that an outdated one makes a hit seem better than it is. Only
    # the blocks of hits that seem the best are brought up to date.
    marginal = worth.copy()
    order: list[int] = []
    for at in range(limit):
        pool = next((pool for number, pool in pools if at < number), len(scores))
        if pool > opened:
            more = slice(opened, pool)
            worth[more] = all_worth[more]
            marginal[more] = worth[more] - (1 - share) * similarity[more]
            opened = pool
        while True:
            best = int(np.argmax(marginal))
            block = block_of.get(best)
            if block is None:
                break
            taken = chosen[block.vectors.shape[1]]
            if block.compared == taken.number:
                taken.add(directions[scores[best][0]])
                break
            rows = block.rows
            similarity[rows] = np.maximum(similarity[rows], block.similarity(taken))
            marginal[rows] = worth[rows] - (1 - share) * similarity[rows]
        order.append(best)
        worth[best] = marginal[best] = -np.inf
    return order


class _Chosen:
    """The directions of the hits that were chosen, of those that have one size."""

    def __init__(self, limit: int, size: int) -> None:
        self._all: Floats = np.empty((limit, size), dtype=np.float32)
        self.number = 0

    def add(self, direction: Floats) -> None:
        self._all[self.number] = direction
        self.number += 1

    def since(self, number: int) -> Floats:
        """Return the directions behind the first *number*."""
        return self._all[number : self.number]


@dataclass(slots=True)
class _Block:
    """Hits with vectors of one size, and how many of the chosen ones they were compared with."""

    rows: npt.NDArray[np.int64]
    vectors: Floats
    compared: int = 0

    def similarity(self, chosen: _Chosen) -> Floats:
        """Return each hit's similarity to the most similar of those not compared with before."""
        fresh = chosen.since(self.compared)
        self.compared = chosen.number
        at_once = max(1, SERIAL_PRODUCT // self.vectors.size)
        parts = (fresh[start : start + at_once] for start in range(0, len(fresh), at_once))
        highest = [_dot_products(part, self.vectors).max(axis=0) for part in parts]
        found: Floats = (1 + np.max(highest, axis=0)) / np.float32(2)
        return found


def _dot_products(some: Floats, others: Floats) -> Floats:
    """Return the products of each of *some* vectors with each of *others*."""
    if len(some) > 1:
        return some @ others.T
    # BLAS multiplies a matrix with a single vector in several threads much earlier.
    products: Floats = np.vecdot(others, some[0])[None, :]
    return products


def _group_by_size(directions: Sequence[Floats | None], first: int) -> list[_Block]:
    """Return blocks of *directions*, of which the first is that of the hit number *first*."""
    sizes: dict[int, list[int]] = {}
    for at, one in enumerate(directions):
        if one is not None:
            sizes.setdefault(len(one), []).append(at)
    return [
        _Block(np.array(rows) + first, np.array([directions[at] for at in rows], dtype=np.float32))
        for alike in sizes.values()
        for start in range(0, len(alike), BLOCK)
        for rows in [alike[start : start + BLOCK]]
    ]


def _to_unit_vectors(vectors: Floats) -> Floats:
    doubles = vectors.astype(np.float64)
    lengths = np.sqrt(np.vecdot(doubles, doubles))
    lengths[lengths == 0] = 1
    made: Floats = vectors / lengths[:, None].astype(np.float32)
    return made
