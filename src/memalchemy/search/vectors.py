"""Vector search: the nearest items of a namespace, page by page, best first.

`nearest` returns a `VectorRanking`. Distances are computed in the database where it has a type for
vectors (`DatabaseRanking`), and otherwise here (`BruteForceRanking`). Both compare every vector,
unless an index was built (`search.indexes`) and the namespace is large.

A program that writes embeddings calls `count_change` first: see `search.cache_versions`.
"""

from __future__ import annotations

import asyncio
import math
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime
from functools import cached_property, partial
from itertools import chain
from operator import attrgetter
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from memalchemy._cache import BoundedCache
from memalchemy.column_types import stored_vector_bytes
from memalchemy.contracts import MAX_LIMIT, Metric, SearchPlan
from memalchemy.database import (
    READ,
    READ_IN_TRANSACTION,
    READ_REPLICA,
    Database,
    HostConnection,
)
from memalchemy.database.per_database import shared
from memalchemy.dialects import vector_index_name
from memalchemy.events import Event
from memalchemy.keys import decode_id, encode_id
from memalchemy.protection.found_items import check_vectors
from memalchemy.protection.signed_items import check_vector_sets
from memalchemy.search import _vector_cache
from memalchemy.search._vector_cache import Floats, Item, MatrixScope, MatrixView, Part, to_matrix
from memalchemy.search._vector_statements import (
    INDEXED_DIMENSIONS,
    METRICS,
    PART,
    count_vectors,
    current_vector_settings,
    has_native_vectors,
    live_items,
    live_parts,
    only_by_vector_index,
    page_after,
    rank_all,
    rank_by_index,
    rank_few,
    rank_listed,
    read_vectors,
    vector_indexes,
    vectors_of_items,
)
from memalchemy.search.cache_versions import count_change
from memalchemy.search.scope import key_lists, scope_binds
from memalchemy.statements import Program

__all__ = [
    "METRICS",
    "Metric",
    "Neighbour",
    "VectorQuery",
    "VectorRanking",
    "check_vector",
    "count_change",
    "has_native_vectors",
    "nearest",
    "score",
    "vectors_of_items",
]

MAX_DIMENSIONS = 16_000
MIN_NORM, MAX_NORM = 1e-15, 1e18
"""The square of a norm beyond these is out of the range of single precision, in which databases
compute."""

ROUNDING = 1e-6
"""Difference to the highest score that single precision makes."""

MAX_CANDIDATES = 5000
"""Items to which a search is limited by their keys; of more it is as fast to compare all vectors.
"""


# --- Queries and answers --------------------------------------------------------------------------


@dataclass(frozen=True, eq=False)
class VectorQuery:
    """Query for the items of a namespace whose vectors are nearest to *vector*.

    Vectors are float32, as they are stored.

    Args:
        path: the encoded namespace.
        below: search the namespaces under it, too.
        candidates: a program that returns the only items that can match, so that fewer vectors are
            compared. It is given the number of items that are worth listing, and returns ``None``
            if there are more.
        is_filtered: some of the nearest items will be dropped.
    """

    tenant: str
    path: str
    below: bool
    model: str
    vector: Floats
    metric: Metric = "cosine"
    candidates: Callable[[int], Program[Sequence[Item] | None]] | None = None
    is_filtered: bool = False

    def __post_init__(self) -> None:
        if self.metric not in METRICS:
            raise ValueError(f"metric is one of {', '.join(METRICS)}, not {self.metric!r}")

    @property
    def dimensions(self) -> int:
        """Number of dimensions of the vector."""
        return len(self.vector)

    @cached_property
    def is_unit(self) -> bool:
        """The vector has the length 1, as models that normalise return it."""
        return abs(length(self.vector) - 1) < 1e-3

    def neighbour(
        self, item: Item, part: tuple[str, int], distance: float, stored: Any | None = None
    ) -> Neighbour:
        """Return the answer for an item whose nearest vector is at *distance*."""
        if self.metric == "dot" and self.is_unit:
            worth = score("dot", distance / self._squared_length, unit=True)
        else:
            worth = score(self.metric, distance)
        return Neighbour(*item, *part, distance, worth, stored)

    @cached_property
    def _squared_length(self) -> float:
        """Product of the vector with itself: of floats it is not exactly 1."""
        return length(self.vector) ** 2


class Neighbour(NamedTuple):
    """An item near the query: its encoded namespace, its key, and which of its vectors is nearest.

    ``distance`` is 0 to 2 for ``cosine``, the negative product for ``dot``, and 0 upward for
    ``l2``.
    """

    namespace: str
    key: str
    field: str
    part: int
    distance: float
    score: float
    stored: Any | None = None
    """The columns of the item itself, if they were read along with the distance."""


def check_vector(vector: Any, what: str = "embedding") -> Floats:
    """Return a copy of *vector* as it is stored and compared.

    Raises:
        TypeError: it is not a sequence.
        ValueError: it is empty or has over 16,000 dimensions; a component is not a finite number in
            single precision; or it is zero or nearly so, and has no direction.
    """
    if isinstance(vector, (str, bytes, bytearray, memoryview)) or not (
        hasattr(vector, "__len__") and hasattr(vector, "__getitem__")
    ):
        raise TypeError(f"{what} must be a sequence of numbers, not {type(vector).__name__}")
    if isinstance(vector, dict):
        raise TypeError(f"{what} must be a sequence of numbers, not a dict")
    if not isinstance(vector, np.ndarray):
        wrong = next((v for v in vector if isinstance(v, (str, bytes, bool)) or v is None), None)
        if wrong is not None:
            raise ValueError(f"{what} must hold numbers, and holds a {type(wrong).__name__}")
    try:
        given = np.asarray(vector)
        if given.dtype.kind not in "iuf":
            given = np.asarray(vector, dtype=np.float64)
    except (TypeError, ValueError, OverflowError) as error:
        raise ValueError(f"{what} must hold numbers only") from error
    if given.ndim != 1:
        raise ValueError(f"{what} must have one dimension of numbers, not {given.ndim}")
    if not 1 <= len(given) <= MAX_DIMENSIONS:
        raise ValueError(f"{what} has {len(given):,} dimensions; 1 to {MAX_DIMENSIONS:,} can be")
    with np.errstate(over="ignore"):
        made: Floats = np.array(given, dtype=np.float32)
    norm = length(made)
    if not math.isfinite(norm):
        raise ValueError(f"{what} holds NaN, an infinity, or what is too large for float32")
    if not MIN_NORM <= norm <= MAX_NORM:
        how = "zero" if norm == 0 else f"of the length {norm:.3g}"
        raise ValueError(f"{what} is {how}, which cannot be compared")
    return made


def length(vector: Floats) -> float:
    """Return the length of a vector, computed in double precision: no component is too large."""
    doubles = vector.astype(np.float64)
    return math.sqrt(float(doubles @ doubles))


def score(metric: str, distance: float, *, unit: bool = False) -> float:
    """Convert a distance to a score of 0 to 1, higher is better; monotonic within one search.

    - ``cosine``: the same direction 1.0, orthogonal 0.5, opposite 0.0.
    - ``dot``: the same for *unit* vectors; else ``1 / (1 + exp(-product))``: 0.5 for a product of
      zero.
    - ``l2``: ``1 / (1 + distance)``: 1.0 for the same vector.

    It is 1.0 for the same vector, although databases compute with single precision.
    """
    if metric == "cosine":
        worth = 1 - distance / 2
    elif metric == "l2":
        worth = 1 / (1 + distance)
    elif unit:
        worth = (1 - distance) / 2
    else:
        worth = 0.5 * (1 + math.tanh(-distance / 2))
    return 1.0 if worth > 1 - ROUNDING else max(0.0, worth)


# --- Ranking --------------------------------------------------------------------------------------


def nearest(
    db: Database,
    query: VectorQuery,
    now: datetime,
    *,
    connection: HostConnection | None = None,
    event: Event | None = None,
    replica_ok: bool = False,
) -> VectorRanking:
    """Return the items nearest to a vector, as a ranking from which pages are taken.

    With *connection* the search sees what its transaction has written, and no cache is used. With
    *replica_ok* a replica may answer.
    """
    return VectorRanking(_Session(db, query, now, connection, event, replica_ok))


@dataclass(frozen=True, slots=True)
class _Session:
    """One search: its query, and how its programs are run."""

    db: Database
    query: VectorQuery
    now: datetime
    connection: HostConnection | None
    event: Event | None
    replica_ok: bool

    async def read(self, program: Callable[[], Program[Any]]) -> Any:
        intent = READ_REPLICA if self.replica_ok else READ
        return await self.db.run(program, intent, connection=self.connection, event=self.event)

    async def read_in_transaction(self, program: Callable[[], Program[Any]]) -> Any:
        intent = replace(READ_IN_TRANSACTION, replica_ok=self.replica_ok)
        return await self.db.run(program, intent, connection=self.connection, event=self.event)


class VectorRanking:
    """Items by score, the best first, then by (namespace, key).

    Each item occurs once, with the nearest of its vectors, and only if it has not expired. Nothing
    is read before the first page. Where vectors are compared in Python a later page does not
    compare them again; where the database compares them, it is asked for more from the start.

    Of many vectors an index finds the first `WINDOWS`. What it overlooks comes behind these, where
    all vectors are compared. Rankings of the same vectors have the same order, however it is cut
    into pages.
    """

    def __init__(self, session: _Session) -> None:
        self._session = session
        self._ranking: BruteForceRanking | DatabaseRanking | None = None

    async def page(self, count: int) -> list[Neighbour]:
        """Return the next *count* items; fewer only at the end."""
        return await (await self._chosen()).page(count) if count > 0 else []

    async def uses_index(self) -> bool:
        """Return whether an index gives the first items; until a page shows that few can match."""
        return await (await self._chosen()).uses_index()

    def start_over_without_index(self) -> None:
        """Begin again: the next page is the first one of all vectors compared."""
        if isinstance(self._ranking, DatabaseRanking):
            self._ranking.start_over_without_index()

    @property
    def exhausted(self) -> bool:
        """A page was shorter than asked for: there are no more items."""
        return self._ranking is not None and self._ranking.exhausted

    @property
    def plan(self) -> SearchPlan:
        """The plan by which the pages so far were read."""
        return _NO_PLAN if self._ranking is None else self._ranking.plan

    async def _chosen(self) -> BruteForceRanking | DatabaseRanking:
        if self._ranking is None:
            self._ranking = await self._choose_ranking()
        return self._ranking

    async def _choose_ranking(self) -> BruteForceRanking | DatabaseRanking:
        session = self._session
        if session.db.dialect.vectors.computes_distances:
            support = await vector_support(
                session.db, session.connection, session.event, replica_ok=session.replica_ok
            )
            if support.native:
                return DatabaseRanking(session, support)
        return BruteForceRanking(session)


_NO_PLAN = SearchPlan("exact vectors", "nothing was looked for yet")


# --- Distances computed by the database -----------------------------------------------------------
#
# This library, and not the planner, chooses between an index and comparing all vectors: for the
# same text the planner changes its choice, and an index that is asked for the items of a small
# namespace returns too few of them.

MANY = 10_000
"""Vectors up to which comparing all is as fast as an index; for vectors of few dimensions."""
MANY_NUMBERS = 4_000_000
"""The same as a number of components, for vectors of many dimensions."""
LARGE = 20_000
"""Vectors from which a namespace is large among others in an index."""
WIDTH, WIDTH_IF_SMALL = 200, 400
"""Candidates that an index examines together, for a large namespace and for another."""
MAX_HALF = 65_504.0
"""Largest number in half precision; the database raises an error for a larger one."""
WINDOWS = ((20, 40), (100, 150), (500, 600))
"""Hits that an index gives, and vectors that it is asked for, whose nearest are these hits.

An index returns vectors roughly in order. They are put in exact order window by window, whatever
page is wanted, so that a page of one search continues that of another.
"""
WINDOWS_WITH_FILTER = ((100, 150),)
"""`WINDOWS` of a search that drops some of the hits."""
SUPPORT_SECONDS = 10.0
"""Seconds for which indexes and numbers of vectors that were read are relied on."""
MAX_COUNTED_SCOPES = 1000
"""Scopes whose numbers of vectors are cached."""
SPARE = 4
"""Vectors that are asked for beyond the items wanted, for items that have expired."""
SHORT_VALUE = 8192
"""Bytes up to which an item's value is read with its distance, although it may not be wanted."""
SHORT_VALUES = 32 * 1024 * 1024
"""The same of all rows that are read at once."""

_BY_DISTANCE = attrgetter("distance", "namespace", "key", "field", "part")

Scope = tuple[str, str, bool, str, int]
"""The vectors that are searched: tenant, path, below, model and dimensions."""


class VectorSupport:
    """Cached facts about the vectors of a database: their type, their indexes, their numbers."""

    def __init__(self) -> None:
        self.native = False
        self.indexes: frozenset[str] = frozenset()
        self.read_at: float = -math.inf
        self._counts: BoundedCache[Scope, tuple[int | None, float]] = BoundedCache(
            MAX_COUNTED_SCOPES
        )

    @classmethod
    def of(cls, db: Database) -> VectorSupport:
        """Return the one object for a `Database` and all its tenants."""
        return shared(db, cls)

    @property
    def is_fresh(self) -> bool:
        """The column's type and the indexes were read less than `SUPPORT_SECONDS` ago."""
        return self.native and time.monotonic() - self.read_at < SUPPORT_SECONDS

    def was_searched(self, scope: Scope) -> bool:
        """Return whether a scope was searched lately."""
        return self._recent_count_and_time(scope) is not None

    def count_of(self, scope: Scope) -> int | None:
        """Return the number of vectors of a scope, if they were counted lately."""
        found = self._recent_count_and_time(scope)
        return None if found is None else found[0]

    def add(self, scope: Scope, count: int | None) -> None:
        """Note that a scope is searched, and how many vectors it has if they were counted."""
        self._counts.put(scope, (count, time.monotonic()))

    def _recent_count_and_time(self, scope: Scope) -> tuple[int | None, float] | None:
        found = self._counts.get(scope)
        return found if found and time.monotonic() - found[1] < SUPPORT_SECONDS else None


async def vector_support(
    db: Database, connection: HostConnection | None, event: Event | None, *, replica_ok: bool
) -> VectorSupport:
    """Return how a database stores vectors and which indexes of them it has."""
    support = VectorSupport.of(db)
    if support.is_fresh:
        return support

    def program() -> Program[tuple[bool, frozenset[str]]]:
        native = yield from has_native_vectors(db)
        if not native or db.dialect.vectors.list_indexes() is None:
            return native, frozenset()
        rows: Sequence[Any] = yield vector_indexes(db.dialect), {"p_schema": db.schema}
        return native, frozenset(str(row[0]) for row in rows if row[1])

    support.native, support.indexes = await db.run(
        program, READ_REPLICA if replica_ok else READ, connection=connection, event=event
    )
    support.read_at = time.monotonic()
    return support


def expire_indexes(db: Database) -> None:
    """Make the next search read which indexes there are."""
    VectorSupport.of(db).read_at = -math.inf


def max_compared(dimensions: int) -> int:
    """Return the number of vectors up to which all are compared even if there is an index."""
    return max(1, min(MANY, MANY_NUMBERS // dimensions))


class DatabaseRanking:
    """Ranking by distances that the database computes."""

    def __init__(self, session: _Session, support: VectorSupport) -> None:
        query = session.query
        self.exhausted: bool = False
        self.plan: SearchPlan = _NO_PLAN
        self._session, self._query, self._support = session, query, support
        self._dialect = session.db.dialect
        self._binds = scope_binds(query.tenant, query.path, query.below) | {
            "p_model": query.model,
            "p_dimensions": query.dimensions,
            "p_vector": self._dialect.vectors.query_value(query.vector),
            "p_now": session.now,
        }
        self._scope = query.tenant, query.path, query.below, query.model, query.dimensions
        self._number = 0
        """Vectors of the scope, or a few more than make a difference."""
        self._windows = WINDOWS_WITH_FILTER if query.is_filtered else WINDOWS
        self._found: list[Any] = []
        """Rows of the items that an index has found, in order. They come before all others."""
        self._returned: set[Item] = set()
        self._ready: list[Any] = []
        """Rows of items that were not returned yet, in order."""
        self._limit = 0
        self._max_value = SHORT_VALUE
        self._is_all = False
        self._by_index: bool | None = None
        """An index is asked for more; ``None`` before it is known whether there is one."""
        self._few = False
        """The scope has so few vectors that planning takes longer than comparing them."""

    async def page(self, count: int) -> list[Neighbour]:
        """Return the next *count* items; fewer only at the end."""
        await self.uses_index()
        while len(self._ready) < count and not self._is_all:
            if self._by_index:
                await self._ask_index(count)
            else:
                await self._ask_all(count)
        page, self._ready = self._ready[:count], self._ready[count:]
        check_vectors(self._query.tenant, page, self._session.db.signing)
        self._returned |= {(row.namespace, row.key) for row in page}
        self.exhausted = len(page) < count
        return [self._to_neighbour(row) for row in page]

    async def uses_index(self) -> bool:
        """Return whether an index has given the items so far, or will give the first ones."""
        if self._by_index is None:
            self._by_index = await self._choose_index()
        return self._by_index or bool(self._found)

    def start_over_without_index(self) -> None:
        """Begin again: the next page is the first one of all vectors compared."""
        self._returned, self._ready, self._found = set(), [], []
        self._limit, self._is_all, self.exhausted = 0, False, False
        reason = "the filter drops most of what the index finds, so all vectors were compared"
        self._compare_from_here(reason)

    async def _choose_index(self) -> bool:
        """Return whether to use the index, and say in the plan why."""
        dimensions = self._query.dimensions
        name = vector_index_name(self._query.metric, dimensions)
        if dimensions not in INDEXED_DIMENSIONS or name not in self._support.indexes:
            self._set_plan("exact vectors", "there is no vector index of this size and metric")
            await self._count_if_searched_before()
            return False
        if float(np.abs(self._query.vector).max()) > MAX_HALF:
            self._set_plan("exact vectors", "the vector has numbers beyond the index's precision")
            return False
        number, most = await self._count_vectors(), max_compared(dimensions)
        self._number = number
        if number <= most:
            reason = f"of up to {most:,} vectors comparing all is as fast as the index"
            self._set_plan("exact vectors", reason, vectors=number)
            self._few = True
            return False
        width = WIDTH if number >= LARGE else WIDTH_IF_SMALL
        self._settings = self._dialect.vectors.index_settings(width)
        reason = f"of over {most:,} vectors the index finds the nearest without comparing all"
        self._set_plan("hnsw", reason, vectors_at_least=number, width=width, index=name)
        return True

    async def _count_vectors(self) -> int:
        """Return the number of vectors, but at most as many as make a difference."""
        number: int = await self._session.read(self._count)
        return number

    def _count(self) -> Program[int]:
        known = self._support.count_of(self._scope)
        if known is not None:
            return known
        statement = count_vectors(self._dialect, below=self._query.below)
        rows = yield statement, self._binds | {"p_limit": max(LARGE, MANY) + 1}
        number = int(rows[0][0])
        self._support.add(self._scope, number)
        return number

    def _is_small(self) -> Program[bool]:
        """Return whether reading the whole scope costs no more than looking up some items of it."""
        return self._dialect.statements.has_custom_plans and (yield from self._count()) <= LARGE

    async def _count_if_searched_before(self) -> None:
        """Find out whether there are few vectors; for a single search that costs too much."""
        if not self._dialect.statements.has_custom_plans:
            return
        if self._support.was_searched(self._scope):
            self._few = await self._count_vectors() <= max_compared(self._query.dimensions)
        else:
            self._support.add(self._scope, None)

    async def _ask_index(self, count: int) -> None:
        """Ask the index for the first windows that have *count* more items, if there are any."""
        reason = "the index found fewer than are wanted, so all vectors were compared"
        larger = [window for window in self._windows if window[1] > self._limit]
        if not larger:
            self._compare_from_here(reason)
            return
        wanted = len(self._returned) + count
        self._set_limit(next((asked for given, asked in larger if given >= wanted), larger[-1][1]))
        rows = await self._session.read_in_transaction(self._search_index)
        if rows is None:
            self._compare_from_here("few items can match, so all of theirs were compared")
            return
        self._found = self._order_windows(rows)
        self._take_rows([])
        if len(rows) < self._limit and len(self._ready) < count:
            self._compare_from_here(reason)

    async def _ask_all(self, count: int) -> None:
        """Compare all vectors, and take the nearest from the first on, at least *count* more."""
        self._set_limit(max(self._limit * 2, len(self._returned) + count + SPARE))
        rows = await self._session.read(self._compare_all)
        self._take_rows(sorted(rows, key=_BY_DISTANCE))
        self._is_all = len(rows) < self._limit

    def _set_limit(self, limit: int) -> None:
        self._limit = min(limit, MAX_LIMIT)
        # If most rows were sent before, values are read by the keys of the items that are new.
        is_new = self._limit >= 4 * len(self._returned)
        self._max_value = min(SHORT_VALUE, SHORT_VALUES // self._limit) if is_new else -1

    def _compare_from_here(self, reason: str) -> None:
        self._by_index = False
        self._limit = 0
        self._set_plan("exact vectors", reason)

    def _order_windows(self, rows: Sequence[Any]) -> list[Any]:
        """Return the hits of the windows that the index has filled, in exact order.

        There are none if it gave up within the first, because it knows this scope too badly.
        """
        if len(rows) < self._windows[0][1]:
            return sorted(rows, key=_BY_DISTANCE) if len(rows) >= self._number else []
        by_place = sorted(rows, key=attrgetter("place"))
        ordered, looked_at = list[Any](), list[Any]()
        for given, asked in self._windows:
            if asked > len(by_place):
                break
            begun = len(ordered) + len(looked_at)
            looked_at += by_place[begun:asked]
            looked_at.sort(key=_BY_DISTANCE)
            more = given - len(ordered)
            ordered, looked_at = ordered + looked_at[:more], looked_at[more:]
        return ordered

    def _take_rows(self, rows: Sequence[Any]) -> None:
        """Take the items of *rows* that were not returned yet, behind those of the index."""
        taken, self._ready = set(self._returned), []
        for row in chain(self._found, rows):
            item = row.namespace, row.key
            if row.alive and item not in taken:
                taken.add(item)
                self._ready.append(row)

    def _to_neighbour(self, row: Any) -> Neighbour:
        item, part = (row.namespace, row.key), (row.field, row.part)
        stored = None if row.value is None else row
        return self._query.neighbour(item, part, float(row.distance), stored)

    def _compare_all(self) -> Program[Sequence[Any]]:
        d, query = self._dialect, self._query
        candidates = yield from self._find_candidates()
        if candidates is not None and not candidates:
            return []
        binds: dict[str, Any] = {"p_limit": self._limit, "p_longest": self._max_value}
        if candidates is not None:
            (listed,) = key_lists(d, candidates, most=len(candidates))
            binds |= listed
        named = {"metric": query.metric, "below": query.below}
        if candidates is not None and (yield from self._is_small()):
            statement = rank_listed(d, **named)
        elif self._few and candidates is None and d.statements.has_custom_plans:
            statement = rank_few(d, **named)
        else:
            statement = rank_all(d, **named, among=candidates is not None)
        return (yield statement, self._binds | binds)

    def _search_index(self) -> Program[Sequence[Any] | None]:
        """Search the index; ``None`` if only few items can match, and all of those are compared."""
        d, query = self._dialect, self._query
        if (yield from self._find_candidates()) is not None:
            return None
        before: dict[str, Any] | None = None
        if self._session.connection is not None:  # the caller's transaction keeps its settings
            rows = yield current_vector_settings(d), None
            before = dict(rows[0]._mapping)
        yield only_by_vector_index(d), self._settings
        statement = rank_by_index(
            d,
            metric=query.metric,
            below=query.below,
            dimensions=query.dimensions,
        )
        binds = {"p_limit": self._limit, "p_longest": self._max_value}
        found = yield statement, self._binds | binds
        if before is not None:
            yield only_by_vector_index(d), before
        return found

    def _find_candidates(self) -> Program[Sequence[Item] | None]:
        if self._query.candidates is None or self._dialect.statements.max_list_bytes is not None:
            return None
        return (yield from self._query.candidates(MAX_CANDIDATES))

    def _set_plan(self, strategy: str, reason: str, **details: Any) -> None:
        self.plan = SearchPlan(strategy, reason, details)


# --- Distances computed in Python -----------------------------------------------------------------
#
# Vectors come from a cached matrix, or page by page from the database. Rows are compared roughly in
# single precision; the best of them then exactly in double precision.

MIN_KEPT = 1000
"""Best rows that are kept while vectors are read page by page."""
BLOCK = 4096
"""Rows whose differences to the query are computed at once."""
MARGIN = 1e-5
"""Error of a comparison in single precision, relative to the lengths."""

Found = tuple[Item, tuple[str, int], float]
"""An item as it is stored, which of its parts is nearest, and the distance of that part."""


class BruteForceRanking:
    """Ranking by comparing all vectors in Python.

    On a caller's own connection nothing is cached, because what it reads may be rolled back.
    """

    def __init__(self, session: _Session) -> None:
        self.exhausted: bool = False
        self.plan: SearchPlan = _NO_PLAN
        self._session, self._query, self._db = session, session.query, session.db
        self._compared: _Comparison | None = None
        self._returned: set[Item] = set()

    async def uses_index(self) -> bool:
        """Return false: all vectors are compared."""
        return False

    async def page(self, count: int) -> list[Neighbour]:
        """Return the next *count* items; fewer only at the end."""
        found: list[Neighbour]
        found, compared, self._returned = await self._session.read(partial(self._find_best, count))
        self._compared = compared
        self.exhausted = len(found) < count
        cached = compared.source == "memory"
        if self._session.event is not None:
            self._session.event.cache_hit = cached and not compared.read
        self.plan = SearchPlan(
            "exact vectors",
            f"all vectors {'below' if self._query.below else 'of'} the namespace were compared, "
            f"from {compared.source}",
            {"vectors": compared.number, "read": compared.read, "cached": cached},
        )
        return found

    def _find_best(self, count: int) -> Program[tuple[list[Neighbour], _Comparison, set[Item]]]:
        # A program may be run again from the start, so it changes no attribute.
        compared = self._compared or (yield from self._compare_vectors(MIN_KEPT + count))
        seen, found = set(self._returned), list[Neighbour]()
        while len(found) < count:
            best = compared.best(seen, count - len(found))
            if not best:
                if compared.is_all:
                    break
                compared = yield from self._compare_vectors(4 * len(compared.similarities) + count)
                continue
            seen |= {item for item, _, _ in best}
            if self._db.signing.signs:
                found += yield from self._prove_hits(best)
                continue
            alive = yield from self._read_live_items([item for item, _, _ in best])
            found += [self._to_neighbour(one, alive[one[0]]) for one in best if one[0] in alive]
        return found, compared, seen

    def _compare_vectors(self, keep: int) -> Program[_Comparison]:
        candidates: list[Item] | None = None
        if self._query.candidates is not None:
            named = yield from self._query.candidates(MAX_CANDIDATES)
            if named is not None:
                candidates = [(path, encode_id(key)) for path, key in named]
        view = None
        read = 0
        if self._session.connection is None and self._db.dialect.vectors.counts_changes:
            cache = _vector_cache.MATRICES
            matrix = cache.matrix_of(self._db, _matrix_scope(self._query))
            # If another task of this event loop holds the lock, waiting for it would block both.
            if matrix.lock.acquire(blocking=not _is_on_a_loop()):
                try:
                    view = yield from matrix.up_to_date(self._db.dialect, cache.max_bytes)
                    read = matrix.read
                    cache.update(self._db, matrix, keep=view is not None)
                finally:
                    matrix.lock.release()
        if view is None:
            return (yield from compare_pages(self._db, self._query, candidates, keep))
        compared = compare_matrix(self._query, view, candidates)
        compared.read = read
        return compared

    def _read_live_items(self, items: list[Item]) -> Program[dict[Item, Any]]:
        """Return the rows of those items that have not expired."""
        d, found = self._db.dialect, dict[Item, Any]()
        binds = {"k_tenant": self._query.tenant, "p_now": self._session.now}
        for listed in d.statements.list_batches("p_keys", items):
            rows: Sequence[Any] = yield live_items(d), binds | listed | {"p_longest": SHORT_VALUE}
            found |= {(row.namespace, encode_id(row.key)): row for row in rows}
        return found

    def _prove_hits(self, best: list[Found]) -> Program[list[Neighbour]]:
        """Read hits again with their vectors, verify the signatures of these, and return the hits.

        A hit has the distance of the vector that its signature proves, whatever was compared. One
        that has expired or was removed is left out, and so is one that has no such vector any more,
        if its signature says so.

        Raises:
            Corrupt, NotSigned, KeyMissing: a vector is not what was signed at its place, or is not
                there although its item has it.
        """
        d, query, rows = self._db.dialect, self._query, dict[Part, Any]()
        binds = {
            "k_tenant": query.tenant,
            "p_now": self._session.now,
            "p_model": query.model,
            "p_dimensions": query.dimensions,
            "p_longest": SHORT_VALUE,
        }
        parts = [(*item, field_, str(part)) for item, (field_, part), _ in best]
        for listed in d.statements.list_batches("p_keys", parts):
            for row in (yield live_parts(d), binds | listed):
                rows[row.namespace, encode_id(row.key), encode_id(row.field), row.part] = row
        check_vectors(query.tenant, rows.values(), self._db.signing)
        there = [one for one in best if (*one[0], *one[1]) in rows]
        missing = [one[0] for one in best if (*one[0], *one[1]) not in rows]
        for listed in d.statements.list_batches("p_keys", missing):
            yield from check_vector_sets(d, query.tenant, listed, self._db.signing)
        if not there:
            return []
        stored = [stored_vector_bytes(rows[(*item, *part)].vector) for item, part, _ in there]
        vectors = to_matrix(stored, query.dimensions, unit=query.metric == "cosine")
        proven = distances(vectors, query.vector, query.metric).tolist()
        found = [
            self._to_neighbour((item, part, _proven_distance(compared, true)), rows[(*item, *part)])
            for (item, part, compared), true in zip(there, proven, strict=True)
        ]
        return sorted(found, key=attrgetter("distance"))

    def _to_neighbour(self, found: Found, row: Any) -> Neighbour:
        _, (field_, part), distance = found
        stored = None if row.value is None else row
        return self._query.neighbour(
            (row.namespace, row.key), (decode_id(field_), part), distance, stored
        )


def _proven_distance(compared: float, true: float) -> float:
    """Return the distance of a hit: that of many vectors at once has other last digits."""
    return compared if abs(true - compared) <= MARGIN * max(1.0, abs(compared)) else true


@dataclass(slots=True)
class _Comparison:
    """Vectors with their rough similarities to the query."""

    query: VectorQuery
    view: MatrixView
    similarities: Floats
    number: int
    """Vectors that were compared."""
    is_all: bool = True
    """No vector was left out. Those left out are farther away than all that are here."""
    source: str = "memory"
    read: int = 0
    """Vectors that were read from the database."""
    _ranked: list[Found] = field(default_factory=list)
    _rows: int = 0
    """Number of the best rows that are in ``_ranked``."""

    def best(self, returned: set[Item], count: int) -> list[Found]:
        """Return the best *count* items that are not in *returned*, or all that there are."""
        while True:
            found = [one for one in self._ranked if one[0] not in returned]
            if len(found) >= count or self._rows >= len(self.similarities):
                return found[:count]
            self._order_best_rows(max(self._rows * 4, len(returned) + count))

    def _order_best_rows(self, rows: int) -> None:
        """Order the best *rows* by their exact distances."""
        similarities = self.similarities
        self._rows = min(rows, len(similarities))
        if self._rows < len(similarities):
            last = np.partition(similarities, len(similarities) - self._rows)[-self._rows]
            # Rows as near as the last are included, so that ties have one order.
            reach = MARGIN * max(1.0, abs(float(last))) if np.isfinite(last) else 0.0
            best = np.flatnonzero((similarities >= last - reach) & np.isfinite(similarities))
        else:
            best = np.flatnonzero(np.isfinite(similarities))
        view, query = self.view, self.query
        exact = distances(view.matrix[best], query.vector, query.metric)
        ranked = []
        for row, distance in zip(best.tolist(), exact.tolist(), strict=True):
            ranked.append((distance, *view.part(row)))
        ranked.sort()
        nearest_parts: dict[Item, Found] = {}
        for distance, path, key, field_, part in ranked:
            nearest_parts.setdefault((path, key), ((path, key), (field_, part), distance))
        self._ranked = list(nearest_parts.values())


def compare_matrix(
    query: VectorQuery, view: MatrixView, candidates: Sequence[Item] | None
) -> _Comparison:
    """Compare the rows of a cached matrix, or only those of *candidates*."""
    vector = _query_vector(query)
    if candidates is None:
        found = similarities(view.vectors, vector, query.metric)
        found[view.removed] = -np.inf
        return _Comparison(query, view, found, view.number)
    keys: dict[str, set[str]] = {path: set() for path in view.paths}
    for path, key in candidates:
        keys.get(path, set()).add(key)
    keys_of_path = [keys[path] for path in view.paths]
    names = zip(view.path_numbers[: view.rows].tolist(), view.keys, strict=False)
    is_candidate = (key in keys_of_path[number] for number, key in names)
    mask = np.fromiter(is_candidate, dtype=bool, count=view.rows)
    mask[view.removed] = False
    rows = np.flatnonzero(mask)
    found = np.full(view.rows, -np.inf, dtype=np.float32)
    found[rows] = similarities(view.matrix[rows], vector, query.metric)
    return _Comparison(query, view, found, len(rows))


def compare_pages(
    db: Database, query: VectorQuery, candidates: Sequence[Item] | None, keep: int
) -> Program[_Comparison]:
    """Read and compare all vectors page by page, and keep the best *keep* of them."""
    d, scope = db.dialect, _matrix_scope(query)
    statement = read_vectors(d, below=query.below)
    vector, chosen = _query_vector(query), None if candidates is None else set(candidates)
    best = _BestRows(query, keep)
    last: Any = None
    while True:
        binds = scope.binds() | page_after(d, last, query.path) | {"p_limit": _vector_cache.PAGE}
        rows: Sequence[Any] = yield statement, binds
        if rows:
            last = rows[-1]
            page = rows if chosen is None else [row for row in rows if (row[0], row[1]) in chosen]
            best.read += len(rows)
            if page:
                stored = [row[len(PART)] for row in page]
                vectors = to_matrix(stored, query.dimensions, unit=scope.unit)
                best.add(page, vectors, similarities(vectors, vector, query.metric))
        if len(rows) < _vector_cache.PAGE:
            return best.comparison()


class _BestRows:
    """The best rows of the pages read so far."""

    def __init__(self, query: VectorQuery, keep: int) -> None:
        self.query, self.keep = query, keep
        self.read = self.number = 0
        self.is_all = True
        self._parts: list[Part] = []
        self._vectors: Floats = np.empty((0, query.dimensions), dtype=np.float32)
        self._similarities: Floats = np.empty(0, dtype=np.float32)

    def add(self, page: Sequence[Any], vectors: Floats, found: Floats) -> None:
        """Add a page, and drop what is not among the best any more."""
        self.number += len(page)
        self._parts += [row[: len(PART)] for row in page]
        self._vectors = np.concatenate([self._vectors, vectors])
        self._similarities = np.concatenate([self._similarities, found])
        if len(self._similarities) > self.keep:
            self.is_all = False
            rows = np.argpartition(self._similarities, -self.keep)[-self.keep :]
            self._parts = [self._parts[row] for row in rows.tolist()]
            self._vectors, self._similarities = self._vectors[rows], self._similarities[rows]

    def comparison(self) -> _Comparison:
        """Return the rows that are kept."""
        paths = sorted({path for path, _, _, _ in self._parts})
        number_of = {path: number for number, path in enumerate(paths)}
        view = MatrixView(
            self._vectors,
            len(self._parts),
            np.empty(0, dtype=np.int64),
            [key for _, key, _, _ in self._parts],
            [field_ for _, _, field_, _ in self._parts],
            [part for _, _, _, part in self._parts],
            np.array([number_of[path] for path, _, _, _ in self._parts], dtype=np.int32),
            paths,
        )
        return _Comparison(
            self.query,
            view,
            self._similarities,
            self.number,
            self.is_all,
            "the database",
            self.read,
        )


def similarities(vectors: Floats, vector: Floats, metric: str) -> Floats:
    """Return how near each row is, in single precision; higher is nearer."""
    if metric != "l2":
        found: Floats = np.vecdot(vectors, vector)
        return found
    found = np.empty(len(vectors), dtype=np.float32)
    for start in range(0, len(vectors), BLOCK):
        difference = vectors[start : start + BLOCK] - vector
        found[start : start + BLOCK] = -np.vecdot(difference, difference)
    return found


def distances(vectors: Floats, vector: Floats, metric: str) -> npt.NDArray[np.float64]:
    """Return the distance of each row as `Neighbour` defines it, in double precision."""
    rows, one = vectors.astype(np.float64), vector.astype(np.float64)
    if metric == "l2":
        return np.asarray(np.linalg.norm(rows - one, axis=1))
    # Of each row by itself: the last digits of BLAS's product depend on where a row stands.
    product = np.vecdot(rows, one)
    if metric == "dot":
        return np.asarray(-product)
    lengths = np.linalg.norm(rows, axis=1) * np.linalg.norm(one)
    lengths[lengths == 0] = 1
    return np.asarray(np.clip(1 - product / lengths, 0, 2))


def _matrix_scope(query: VectorQuery) -> MatrixScope:
    return MatrixScope(
        query.tenant,
        query.path,
        query.below,
        query.model,
        query.dimensions,
        query.metric == "cosine",
    )


def _query_vector(query: VectorQuery) -> Floats:
    if query.metric != "cosine":
        return query.vector
    unit: Floats = (query.vector / np.linalg.norm(query.vector.astype(np.float64))).astype("f4")
    return unit


def _is_on_a_loop() -> bool:
    try:
        asyncio.get_running_loop()
    except RuntimeError:
        return False
    return True
