"""Vectors compared here, all of them: those a matrix holds, or page by page from the database.

Beside a caller's own connection nothing is kept: what it reads may be undone.
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import datetime
from functools import partial
from typing import Any

import numpy as np
import numpy.typing as npt

from memalchemy.contracts import SearchPlan
from memalchemy.database import READ, READ_REPLICA, Database, HostConnection
from memalchemy.events import Event
from memalchemy.keys import decode_id, encode_id
from memalchemy.search.embeddings import live_items, page_after, read_vectors
from memalchemy.search.matrices import MATRICES, PAGE, Part, Scope, View, vectors_of
from memalchemy.search.nearness import Floats, Item, Near, Wanted
from memalchemy.statements import Program

Doubles = npt.NDArray[np.float64]

KEPT = 1000
"""The best rows that are kept while all are read; more, when more are asked for."""
MAX_AMONG = 5000
"""Items that are worth naming: of more, comparing all vectors is no slower."""
BLOCK = 4096
MARGIN = 1e-5
"""By how much single precision may be wrong about which of two is nearer, relative to lengths."""

Found = tuple[Item, tuple[str, int], float]
"""An item as it is stored, which part of it is nearest, and how far that is."""


def closeness(vectors: Floats, wanted: Floats, metric: str) -> Floats:
    """How near each row is, higher is nearer: rough, in single precision."""
    if metric != "l2":
        found: Floats = np.vecdot(vectors, wanted)
        return found
    close = np.empty(len(vectors), dtype=np.float32)
    for start in range(0, len(vectors), BLOCK):
        apart = vectors[start : start + BLOCK] - wanted
        close[start : start + BLOCK] = -np.vecdot(apart, apart)
    return close


def distances(vectors: Floats, wanted: Floats, metric: str) -> Doubles:
    """How far each row is, as `Near.distance` says, in double precision."""
    rows, one = vectors.astype(np.float64), wanted.astype(np.float64)
    if metric == "l2":
        return np.asarray(np.linalg.norm(rows - one, axis=1))
    product = rows @ one
    if metric == "dot":
        return np.asarray(-product)
    lengths = np.linalg.norm(rows, axis=1) * np.linalg.norm(one)
    lengths[lengths == 0] = 1
    return np.asarray(np.clip(1 - product / lengths, 0, 2))


@dataclass(slots=True)
class Scored:
    """Vectors and how near each is; ``is_all`` unless some were left out that are further away."""

    wanted: Wanted
    view: View
    close: Floats
    number: int
    """Vectors that were compared."""
    is_all: bool = True
    source: str = "memory"
    read: int = 0
    _ranked: list[Found] = field(default_factory=list)
    _rows: int = 0
    """The best so many rows are ranked."""

    def after(self, given: set[Item], count: int) -> list[Found]:
        """The best *count* items that are not *given*, or all there are."""
        while True:
            found = [one for one in self._ranked if one[0] not in given]
            if len(found) >= count or self._rows >= len(self.close):
                return found[:count]
            self._rank(max(self._rows * 4, len(given) + count))

    def _rank(self, rows: int) -> None:
        self._rows = min(rows, len(self.close))
        if self._rows < len(self.close):
            last = np.partition(self.close, len(self.close) - self._rows)[-self._rows]
            # What is as near as the last is ranked with it, so that ties have one order.
            reach = MARGIN * max(1.0, abs(float(last))) if np.isfinite(last) else 0.0
            best = np.flatnonzero((self.close >= last - reach) & np.isfinite(self.close))
        else:
            best = np.flatnonzero(np.isfinite(self.close))
        view, wanted = self.view, self.wanted
        far = distances(view.matrix[best], wanted.vector, wanted.metric)
        ranked = []
        for row, distance in zip(best.tolist(), far.tolist(), strict=True):
            ranked.append((distance, *view.part(row)))
        ranked.sort()
        nearest: dict[Item, Found] = {}
        for distance, path, key, field_, part in ranked:
            nearest.setdefault((path, key), ((path, key), (field_, part), distance))
        self._ranked = list(nearest.values())


def score_view(wanted: Wanted, view: View, among: Sequence[Item] | None) -> Scored:
    """Compare the rows of a matrix, or those of some items."""
    one = _query(wanted)
    if among is None:
        close = closeness(view.vectors, one, wanted.metric)
        close[view.gone] = -np.inf
        return Scored(wanted, view, close, view.living)
    keys: dict[str, set[str]] = {path: set() for path in view.paths}
    for path, key in among:
        keys.get(path, set()).add(key)
    of_space = [keys[path] for path in view.paths]
    names = zip(view.spaces[: view.rows].tolist(), view.keys, strict=False)
    there = (key in of_space[space] for space, key in names)
    mask = np.fromiter(there, dtype=bool, count=view.rows)
    mask[view.gone] = False
    rows = np.flatnonzero(mask)
    close = np.full(view.rows, -np.inf, dtype=np.float32)
    close[rows] = closeness(view.matrix[rows], one, wanted.metric)
    return Scored(wanted, view, close, len(rows))


def score_pages(
    db: Database, wanted: Wanted, among: Sequence[Item] | None, keep: int
) -> Program[Scored]:
    """Read and compare all vectors, page by page; of the best, *keep* are kept."""
    d, scope = db.dialect, _scope(wanted)
    statement = read_vectors(d, below=wanted.below)
    one, chosen = _query(wanted), None if among is None else set(among)
    best = _Best(wanted, keep)
    last: Any = None
    while True:
        binds = scope.binds() | page_after(d, last, wanted.path) | {"p_limit": PAGE}
        rows = yield statement, binds
        if rows:
            last = rows[-1]
            page = [r for r in rows if chosen is None or (r.namespace, r.key) in chosen]
            best.read += len(rows)
            if page:
                vectors = vectors_of([r.vector for r in page], wanted.dimensions, unit=scope.unit)
                best.add(page, vectors, closeness(vectors, one, wanted.metric))
        if len(rows) < PAGE:
            return best.scored()


class _Best:
    """The best rows of those that have been read so far."""

    def __init__(self, wanted: Wanted, keep: int) -> None:
        self.wanted, self.keep = wanted, keep
        self.read = self.number = 0
        self.is_all = True
        self._parts: list[Part] = []
        self._vectors: Floats = np.empty((0, wanted.dimensions), dtype=np.float32)
        self._close: Floats = np.empty(0, dtype=np.float32)

    def add(self, page: Sequence[Any], vectors: Floats, close: Floats) -> None:
        self.number += len(page)
        self._parts += [(r.namespace, r.key, r.field, r.part) for r in page]
        self._vectors = np.concatenate([self._vectors, vectors])
        self._close = np.concatenate([self._close, close])
        if len(self._close) > self.keep:
            self.is_all = False
            rows = np.argpartition(self._close, -self.keep)[-self.keep :]
            self._parts = [self._parts[row] for row in rows.tolist()]
            self._vectors, self._close = self._vectors[rows], self._close[rows]

    def scored(self) -> Scored:
        spaces = [path for path, _, _, _ in self._parts]
        paths = sorted(set(spaces))
        at = {path: number for number, path in enumerate(paths)}
        view = View(
            self._vectors,
            len(spaces),
            np.empty(0, dtype=np.int64),
            [key for _, key, _, _ in self._parts],
            [field_ for _, _, field_, _ in self._parts],
            [part for _, _, _, part in self._parts],
            np.array([at[path] for path in spaces], dtype=np.int32),
            paths,
        )
        return Scored(
            self.wanted, view, self._close, self.number, self.is_all, "the database", self.read
        )


class InPython:
    """A ranking by vectors that are compared here."""

    def __init__(
        self,
        db: Database,
        wanted: Wanted,
        now: datetime,
        *,
        connection: HostConnection | None,
        event: Event | None,
        stale: bool,
    ) -> None:
        self.db, self.wanted, self.now = db, wanted, now
        self.exhausted = False
        self.plan = SearchPlan("exact vectors", "nothing was looked for yet")
        self._options: dict[str, Any] = {"connection": connection, "event": event}
        self._intent = READ_REPLICA if stale else READ
        self._scored: Scored | None = None
        self._given: set[Item] = set()

    async def page(self, count: int) -> list[Near]:
        """The next *count* items; fewer at the end."""
        program = partial(self._program, count)
        found, scored, self._given = await self.db.run(program, self._intent, **self._options)
        self._scored = scored
        self.exhausted = len(found) < count
        event: Event | None = self._options["event"]
        if event is not None:
            event.cache_hit = scored.source == "memory" and not scored.read
        self.plan = SearchPlan(
            "exact vectors",
            f"all vectors {'below' if self.wanted.below else 'of'} the namespace were compared, "
            f"from {scored.source}",
            {"vectors": scored.number, "read": scored.read, "cached": scored.source == "memory"},
        )
        near = self.wanted.near
        return [
            near((path, decode_id(key)), (decode_id(field_), part), distance)
            for (path, key), (field_, part), distance in found
        ]

    def _program(self, count: int) -> Program[tuple[list[Found], Scored, set[Item]]]:
        # It may run again from the start: what it learns is kept when it has ended.
        scored = self._scored or (yield from self._score(KEPT + count))
        seen, found = set(self._given), list[Found]()
        while len(found) < count:
            candidates = scored.after(seen, count - len(found))
            if not candidates:
                if scored.is_all:
                    break
                scored = yield from self._score(4 * len(scored.close) + count)
                continue
            seen |= {item for item, _, _ in candidates}
            alive = yield from self._alive([item for item, _, _ in candidates])
            found += [one for one in candidates if one[0] in alive]
        return found, scored, seen

    def _score(self, keep: int) -> Program[Scored]:
        among: list[Item] | None = None
        if self.wanted.among is not None:
            named = yield from self.wanted.among(MAX_AMONG)
            among = None if named is None else [(path, encode_id(key)) for path, key in named]
        view = None
        read = 0
        if self._options["connection"] is None and self.db.dialect.vectors.counts_changes:
            matrix = MATRICES.of(self.db, _scope(self.wanted))
            # On an event loop's thread another task may hold it, and goes on only when this waits.
            if matrix.lock.acquire(blocking=not _on_a_loop()):
                try:
                    view = yield from matrix.up_to_date(self.db.dialect, MATRICES.max_bytes)
                    read = matrix.read
                    MATRICES.weigh(self.db, matrix, keep=view is not None)
                finally:
                    matrix.lock.release()
        if view is None:
            return (yield from score_pages(self.db, self.wanted, among, keep))
        scored = score_view(self.wanted, view, among)
        scored.read = read
        return scored

    def _alive(self, items: list[Item]) -> Program[set[Item]]:
        d, found = self.db.dialect, set[Item]()
        binds = {"k_tenant": self.wanted.tenant, "p_now": self.now}
        for some in d.statements.list_batches("p_keys", items):
            rows: Sequence[Any] = yield live_items(d), binds | some
            found |= {(row[0], row[1]) for row in rows}
        return found


def _scope(wanted: Wanted) -> Scope:
    return Scope(
        wanted.tenant,
        wanted.path,
        wanted.below,
        wanted.model,
        wanted.dimensions,
        wanted.metric == "cosine",
    )


def _query(wanted: Wanted) -> Floats:
    if wanted.metric != "cosine":
        return wanted.vector
    made: Floats = (wanted.vector / np.linalg.norm(wanted.vector.astype(np.float64))).astype("f4")
    return made


def _on_a_loop() -> bool:
    try:
        asyncio.get_running_loop()
    except RuntimeError:
        return False
    return True
