"""The roads of items to the database, and the one place that chooses among them.

An item is written in a transaction with its vectors. Some databases write one that has none in a
single statement, and many as arrays. Where rows are bound to their places, the version of an item
is found before its value is sent.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial

from memalchemy.database import WRITE, WRITE_STATEMENT, Database, HostConnection
from memalchemy.events import Event
from memalchemy.search.scope import Place
from memalchemy.statements import Program
from memalchemy.store.write import (
    Expected,
    PutAll,
    PutOne,
    Row,
    VectorRow,
    Written,
    has_open_arrays,
    put,
    put_alone,
    put_arrays_at_versions,
    put_as_arrays,
    put_at_once,
    put_at_version,
    put_batch,
    put_one_by_one,
    puts_at_once,
)


class ItemRoads:
    """The roads on which the items of one `Store` reach its database."""

    def __init__(self, db: Database) -> None:
        self._db, self._dialect = db, db.dialect
        self._allots_first = db.guard.allots_first
        self._put_one: PutOne = put_at_version if self._allots_first else put_alone

    async def send(
        self,
        row: Row,
        vectors: Sequence[VectorRow],
        native: bool,
        expected: Expected,
        connection: HostConnection | None,
        event: Event,
    ) -> int | None:
        """Write an item with its vectors; return its version, or ``None`` if it is not as expected.

        *native*: the column of vectors is of the database's own type.
        """
        version = None
        if not vectors and not self._allots_first and puts_at_once(self._dialect):
            version = await self._db.run(
                partial(put_at_once, self._dialect, row, expected),
                WRITE_STATEMENT,
                connection=connection,
                event=event,
            )
        if version is None:
            version = await self._db.run(
                partial(self.put, row, vectors, native, expected),
                WRITE,
                connection=connection,
                event=event,
            )
        return version

    def put(
        self, row: Row, vectors: Sequence[VectorRow], native: bool, expected: Expected
    ) -> Program[int | None]:
        """Write an item as part of a transaction; see `memalchemy.store.write.put`."""
        return put(self._dialect, row, vectors, native, expected, self._put_one)

    def put_batch(
        self, items: Sequence[Written], native: bool, expected: str, keep_vectors: bool
    ) -> Program[dict[Place, int]]:
        """Write items as part of a transaction; see `memalchemy.store.write.put_batch`."""
        put_all = self._choose_for_many()
        return put_batch(self._dialect, items, native, expected, keep_vectors, put_all)

    def _choose_for_many(self) -> PutAll:
        d, allots_first = self._dialect, self._allots_first
        if allots_first and has_open_arrays(d):
            return put_arrays_at_versions
        if d.statements.has_arrays and not allots_first:
            return put_as_arrays
        return partial(put_one_by_one, put_one=self._put_one)
