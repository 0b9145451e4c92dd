"""The read side of vectors: the nearest items of a namespace, page by page, best first.

Distances are computed here where vectors are stored as bytes (`search.scanning`), and in the
database where they are of a type of its own (`search.distances`). Both compare every vector unless
an index was built (`search.indexes`) and the namespace is large.

Those who write rows of embeddings call `count_change` first: see `search.counting`.
"""

from __future__ import annotations

from datetime import datetime

from memalchemy.contracts import SearchPlan
from memalchemy.database import Database, HostConnection
from memalchemy.events import Event
from memalchemy.search.counting import bump_vectors, count_change, counter_key, read_counter
from memalchemy.search.distances import InDatabase, look
from memalchemy.search.embeddings import has_native_vectors
from memalchemy.search.nearness import METRICS, Item, Metric, Near, Wanted, check_vector, score
from memalchemy.search.scanning import InPython

__all__ = [
    "METRICS",
    "Item",
    "Metric",
    "Near",
    "Ranking",
    "Wanted",
    "bump_vectors",
    "check_vector",
    "count_change",
    "counter_key",
    "has_native_vectors",
    "nearest",
    "read_counter",
    "score",
]


class Ranking:
    """The items that are nearest, best first, by score and then by (namespace, key).

    An item is there once, with the nearest of its vectors, and only if it is alive at ``now``.
    Nothing is read before the first page. A later page does not compare again what was compared
    here; where the database compares, it is asked for more from the start.
    """

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
        self._db, self._wanted, self._now = db, wanted, now
        self._connection, self._event, self._stale = connection, event, stale
        self._source: InPython | InDatabase | None = None

    async def page(self, count: int) -> list[Near]:
        """The next *count* items; fewer only at the end."""
        if count < 1:
            return []
        if self._source is None:
            self._source = await self._begin()
        return await self._source.page(count)

    @property
    def exhausted(self) -> bool:
        """Whether a page came short: there are no more."""
        return self._source is not None and self._source.exhausted

    @property
    def plan(self) -> SearchPlan:
        """What was done for the pages so far, and why."""
        if self._source is None:
            return SearchPlan("exact vectors", "nothing was looked for yet")
        return self._source.plan

    async def _begin(self) -> InPython | InDatabase:
        connection, event, stale = self._connection, self._event, self._stale
        if self._db.dialect.vectors.computes_distances:
            known = await look(self._db, connection, event, stale=stale)
            if known.native:
                return InDatabase(
                    self._db,
                    self._wanted,
                    self._now,
                    known,
                    connection=connection,
                    event=event,
                    stale=stale,
                )
        return InPython(
            self._db, self._wanted, self._now, connection=connection, event=event, stale=stale
        )


def nearest(
    db: Database,
    wanted: Wanted,
    now: datetime,
    *,
    connection: HostConnection | None = None,
    event: Event | None = None,
    stale: bool = False,
) -> Ranking:
    """The items nearest to a vector, as a `Ranking` to take pages of.

    On a *connection* the search sees what its transaction has written, and no cache is used.
    *stale* allows a replica to answer.
    """
    return Ranking(db, wanted, now, connection=connection, event=event, stale=stale)
