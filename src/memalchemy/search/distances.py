"""The nearest vectors as the database finds them: all compared, or about the nearest by an index.

Which of the two it is, is decided here and not by the planner: under the same text it changes its
mind, and an index that is asked for the items of a small namespace gives too few of them.
"""

from __future__ import annotations

import time
import weakref
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime
from operator import attrgetter
from typing import Any

import numpy as np

from memalchemy import _forks
from memalchemy.contracts import MAX_LIMIT, SearchPlan
from memalchemy.database import (
    READ,
    READ_IN_TRANSACTION,
    READ_REPLICA,
    Database,
    HostConnection,
    Intent,
)
from memalchemy.dialects import vector_index_name
from memalchemy.events import Event
from memalchemy.search.embeddings import (
    INDEXED_DIMENSIONS,
    count_vectors,
    current_vector_settings,
    has_native_vectors,
    only_by_vector_index,
    rank_all,
    rank_by_index,
    rank_few,
    vector_indexes,
)
from memalchemy.search.nearness import Item, Near, Wanted
from memalchemy.search.scanning import MAX_AMONG
from memalchemy.search.scope import key_lists, scope_binds
from memalchemy.statements import Program

MANY = 10_000
"""Of up to so many vectors comparing all takes as long as an index does; of short ones more."""
MANY_NUMBERS = 4_000_000
WIDE, WIDER = 200, 400
"""Candidates that an index looks at together, and of a namespace that is not large among others."""
LARGE = 20_000
LARGEST_HALF = 65_504.0
"""The largest number of half precision; the database refuses to round a larger one to it."""
SECONDS = 10.0
"""How long it is believed which indexes there are, and which namespaces are large."""
SPARE = 4
"""Vectors that are asked for beyond the items wanted, for those that have expired."""


_PLACE = attrgetter("distance", "namespace", "key", "field", "part")

SHORT = 8192
"""Bytes of a value that is read along with its distance, though it may not be wanted."""


Scope = tuple[str, str, bool, str, int]
"""Whose vectors are searched: tenant, path, below, model and dimensions."""


@dataclass
class Known:
    """What was seen of a database, and when."""

    native: bool = False
    indexes: frozenset[str] = frozenset()
    seen: float = -SECONDS
    numbers: dict[Scope, tuple[int | None, float]] = field(default_factory=dict)

    @property
    def is_fresh(self) -> bool:
        return self.native and time.monotonic() - self.seen < SECONDS

    def number_of(self, scope: Scope) -> int | None:
        """How many vectors a scope has, if they were counted lately."""
        return self.numbers[scope][0] if self.was_searched(scope) else None

    def was_searched(self, scope: Scope) -> bool:
        return scope in self.numbers and time.monotonic() - self.numbers[scope][1] < SECONDS

    def remember(self, scope: Scope, number: int | None) -> None:
        """That a scope was searched, and how many vectors it has, if they were counted."""
        if len(self.numbers) > 1000:
            self.numbers.clear()
        self.numbers[scope] = (number, time.monotonic())


_known: weakref.WeakKeyDictionary[object, Known] = weakref.WeakKeyDictionary()
_lock = _forks.lock()


def known_of(db: Database) -> Known:
    """What is known of the database that *db* reads from."""
    with _lock:
        return _known.setdefault(db.identity, Known())


def forget_indexes(db: Database) -> None:
    """Look again at the next search which indexes there are."""
    known_of(db).seen = -SECONDS


async def look(
    db: Database, connection: HostConnection | None, event: Event | None, *, stale: bool
) -> Known:
    """How *db* stores vectors, and which indexes it has of them."""
    known = known_of(db)
    if known.is_fresh:
        return known

    def program() -> Program[tuple[bool, frozenset[str]]]:
        native = yield from has_native_vectors(db)
        if not native or db.dialect.vectors.list_indexes() is None:
            return native, frozenset()
        rows: Sequence[Any] = yield vector_indexes(db.dialect), {"p_schema": db.schema}
        return native, frozenset(str(row[0]) for row in rows if row[1])

    known.native, known.indexes = await db.run(
        program, READ_REPLICA if stale else READ, connection=connection, event=event
    )
    known.seen = time.monotonic()
    return known


def many(dimensions: int) -> int:
    """From more vectors than this on an index is used, if there is one."""
    return max(1, min(MANY, MANY_NUMBERS // dimensions))


class InDatabase:
    """A ranking by distances that the database computes."""

    def __init__(
        self,
        db: Database,
        wanted: Wanted,
        now: datetime,
        known: Known,
        *,
        connection: HostConnection | None,
        event: Event | None,
        stale: bool,
    ) -> None:
        self.db, self.wanted, self.known = db, wanted, known
        self.exhausted = False
        self.plan = SearchPlan("exact vectors", "nothing was looked for yet")
        self._connection = connection
        self._options: dict[str, Any] = {"connection": connection, "event": event}
        self._replica_ok = stale
        self._binds = scope_binds(wanted.tenant, wanted.path, wanted.below) | {
            "p_model": wanted.model,
            "p_dimensions": wanted.dimensions,
            "p_vector": db.dialect.vectors.query_value(wanted.vector),
            "p_now": now,
        }
        self._scope: Scope = (
            wanted.tenant,
            wanted.path,
            wanted.below,
            wanted.model,
            wanted.dimensions,
        )
        self._given: set[Item] = set()
        self._ready: list[Any] = []
        self._limit = 0
        self._longest = SHORT
        self._is_all = False
        self._by_index: bool | None = None
        self._few = False

    async def page(self, count: int) -> list[Near]:
        """The next *count* items; fewer at the end."""
        if self._by_index is None:
            self._by_index = await self._choose()
        # Of a later page most were sent already: whoever wants the rest reads them by their keys.
        self._longest = -1 if self._given else SHORT
        while len(self._ready) < count and not self._is_all:
            wanted = max(self._limit * 2, len(self._given) + count + SPARE)
            self._limit = min(wanted, MAX_LIMIT)
            if self._by_index and await self._ask_index(count):
                continue
            rows = await self.db.run(self._exact, self._intent(READ), **self._options)
            self._take(rows)
            self._is_all = len(rows) < self._limit
        page, self._ready = self._ready[:count], self._ready[count:]
        self._given |= {(row.namespace, row.key) for row in page}
        self.exhausted = len(page) < count
        return [self._near(row) for row in page]

    async def _choose(self) -> bool:
        """Whether to ask the index."""
        wanted, dimensions = self.wanted, self.wanted.dimensions
        name = vector_index_name(wanted.metric, dimensions)
        if dimensions not in INDEXED_DIMENSIONS or name not in self.known.indexes:
            self._plan("exact vectors", "there is no vector index of this size and metric")
            await self._see_whether_few()
            return False
        if float(np.abs(wanted.vector).max()) > LARGEST_HALF:
            self._plan("exact vectors", "the vector has numbers beyond the index's precision")
            return False
        number, most = await self._number(), many(dimensions)
        if number <= most:
            reason = f"of up to {most:,} vectors comparing all is as fast as the index"
            self._plan("exact vectors", reason, vectors=number)
            self._few = True
            return False
        width = WIDE if number >= LARGE else WIDER
        self._settings = self.db.dialect.vectors.index_settings(width)
        reason = f"of over {most:,} vectors the index finds the nearest without comparing all"
        self._plan("hnsw", reason, vectors_at_least=number, width=width, index=name)
        return True

    async def _number(self) -> int:
        """How many vectors there are, but at most as many as make a difference."""
        known = self.known.number_of(self._scope)
        if known is not None:
            return known
        wanted = self.wanted

        def program() -> Program[int]:
            statement = count_vectors(self.db.dialect, below=wanted.below)
            rows = yield statement, self._binds | {"p_limit": max(LARGE, MANY) + 1}
            return int(rows[0][0])

        number: int = await self.db.run(program, self._intent(READ), **self._options)
        self.known.remember(self._scope, number)
        return number

    def _intent(self, intent: Intent) -> Intent:
        return replace(intent, replica_ok=self._replica_ok)

    async def _see_whether_few(self) -> None:
        """Count, but only what is searched again and again: once, that costs more than it saves."""
        if not self.db.dialect.statements.has_custom_plans:
            return
        if self.known.was_searched(self._scope):
            self._few = await self._number() <= many(self.wanted.dimensions)
        else:
            self.known.remember(self._scope, None)

    async def _ask_index(self, count: int) -> bool:
        """Ask it for the nearest, from the first on; false if it does not have *count* more."""
        rows = await self.db.run(self._indexed, self._intent(READ_IN_TRANSACTION), **self._options)
        if rows is not None:
            self._take(rows)
            if len(rows) >= self._limit or len(self._ready) >= count:
                return True
        reason = "the index found fewer than are wanted, so all vectors were compared"
        if rows is None:
            reason = "few items can match, so all of theirs were compared"
        self._by_index = False
        self._plan("exact vectors", reason)
        return False

    def _take(self, rows: Sequence[Any]) -> None:
        taken, self._ready = set(self._given), []
        for row in sorted(rows, key=_PLACE):
            item = row.namespace, row.key
            if row.alive and item not in taken:
                taken.add(item)
                self._ready.append(row)

    def _near(self, row: Any) -> Near:
        item, part = (row.namespace, row.key), (row.field, row.part)
        stored = None if row.value is None else row
        return self.wanted.near(item, part, float(row.distance), stored)

    def _exact(self) -> Program[Sequence[Any]]:
        d, wanted = self.db.dialect, self.wanted
        among = yield from self._among()
        if among is not None and not among:
            return []
        binds: dict[str, Any] = {"p_limit": self._limit, "p_longest": self._longest}
        if among is not None:
            (listed,) = key_lists(d, among, most=len(among))
            binds |= listed
        if self._few and among is None and d.statements.has_custom_plans:
            statement = rank_few(d, metric=wanted.metric, below=wanted.below)
        else:
            among_some = among is not None
            statement = rank_all(d, metric=wanted.metric, below=wanted.below, among=among_some)
        return (yield statement, self._binds | binds)

    def _indexed(self) -> Program[Sequence[Any] | None]:
        """By the index; ``None`` if only few items can match, and all of those are compared."""
        d, wanted = self.db.dialect, self.wanted
        if (yield from self._among()) is not None:
            return None
        settings = self._settings
        before: dict[str, Any] | None = None
        if self._connection is not None:  # a transaction of the caller's goes on with its own
            rows = yield current_vector_settings(d), None
            before = dict(rows[0]._mapping)
        yield only_by_vector_index(d), settings
        statement = rank_by_index(
            d, metric=wanted.metric, below=wanted.below, dimensions=wanted.dimensions
        )
        binds = {"p_limit": self._limit, "p_longest": self._longest}
        found = yield statement, self._binds | binds
        if before is not None:
            yield only_by_vector_index(d), before
        return found

    def _among(self) -> Program[Sequence[Item] | None]:
        if self.wanted.among is None or self.db.dialect.statements.max_list_bytes is not None:
            return None
        return (yield from self.wanted.among(MAX_AMONG))

    def _plan(self, strategy: str, reason: str, **details: Any) -> None:
        self.plan = SearchPlan(strategy, reason, details)
