"""Many items at once: written in one transaction, read in one round trip."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from datetime import UTC, datetime
from functools import partial
from typing import Any

from memalchemy.contracts import Seconds
from memalchemy.database import HostConnection, off_loop
from memalchemy.errors import MemalchemyError
from memalchemy.events import operation
from memalchemy.search.scope import Place, key_lists
from memalchemy.statements import Program
from memalchemy.store import queries, writing
from memalchemy.store.embedding import Index
from memalchemy.store.shelf import Namespace, Shelf, item_binds, stores_natively
from memalchemy.store.writing import place_of

Batch = Iterable[Sequence[Any]]
"""``(namespace, key, value)`` or ``(namespace, key, value, metadata)``."""


class Batches(Shelf):
    """Several items in one call."""

    async def put_batch(
        self,
        items: Batch,
        *,
        ttl: Seconds | None = None,
        index: Index = None,
        connection: HostConnection | None = None,
    ) -> list[int]:
        """Write items, all or none, as `put` writes one; their versions, in the order given.

        Each is ``(namespace, key, value)`` or ``(namespace, key, value, metadata)``. Of one that is
        given twice the last counts. The embedder is called once for all.

        Raises:
            NotSerialisable, TooLarge, TypeError: one of them cannot be stored; nothing was written.
            CapabilityMissing: *index* is given, and there is no embedder.
        """
        given = [_four(one) for one in items]
        now = datetime.now(UTC)
        rows = await off_loop(len(given) * 10_000, partial(self._prepared, given, ttl, now))
        vectors = await self._settings.vectors_of((value for _, _, value, _ in given), index)
        last = {place_of(row): (row, vectors[at]) for at, row in enumerate(rows)}
        d = self.db.dialect

        with operation("store.put", tenant=self.db.tenant) as event:
            some = next((of for of in vectors if of), [])
            native = await stores_natively(self.db, some, connection, event)

            def program() -> Program[dict[Place, int]]:
                return (yield from writing.put_all(d, list(last.values()), native))

            event.details["items"] = len(last)
            event.details["vectors"] = sum(len(of) for _, of in last.values())
            event.payload_bytes = sum(len(row["p_value"]) for row, _ in last.values())
            versions = {}
            if last:
                versions = await self._write(program, connection, event, payloads=True)
        return [versions[place_of(row)] for row in rows]

    async def get_batch(
        self, keys: Iterable[tuple[Namespace, str]], *, connection: HostConnection | None = None
    ) -> dict[tuple[tuple[str, ...], str], Any]:
        """The values of those ``(namespace, key)`` that are there. Does not prolong life."""
        wanted: dict[Place, tuple[tuple[str, ...], str]] = {}
        for namespace, key in keys:
            binds = item_binds(self.db, namespace, key)
            wanted[binds["k_namespace"], key] = (tuple(namespace), key)
        found: dict[tuple[tuple[str, ...], str], Any] = {}
        statement = queries.read_items(self.db.dialect)
        with operation("store.get", tenant=self.db.tenant) as event:
            for listed in key_lists(self.db.dialect, wanted):
                binds = {"k_tenant": self.db.tenant, "p_keys": listed}
                for row in await self._rows(statement, binds, connection, event):
                    found[wanted[row.namespace, row.key]] = queries.value(row, self.db.keyring)
        return {name: found[name] for name in wanted.values() if name in found}

    def _prepared(
        self, given: list[tuple[Any, ...]], ttl: Seconds | None, now: datetime
    ) -> list[dict[str, Any]]:
        rows = []
        for namespace, key, value, metadata in given:
            try:
                binds = item_binds(self.db, namespace, key)
                rows.append(binds | self._settings.row(tuple(namespace), value, metadata, ttl, now))
            except (MemalchemyError, TypeError, ValueError) as error:
                error.add_note(f"of the batch's item {key!r} in {namespace!r}; nothing was written")
                raise
        return rows


def _four(one: Sequence[Any]) -> tuple[Any, ...]:
    if not isinstance(one, (tuple, list)) or not 3 <= len(one) <= 4:
        raise TypeError("each item is (namespace, key, value) or (namespace, key, value, metadata)")
    return (*one, None) if len(one) == 3 else tuple(one)
