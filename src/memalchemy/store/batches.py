"""Many items at once: written in one transaction, read in one round trip."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from datetime import UTC, datetime, timedelta
from functools import partial
from typing import Any

from memalchemy.codec import items as codec
from memalchemy.contracts import Seconds
from memalchemy.database import HostConnection, off_loop
from memalchemy.errors import MemalchemyError
from memalchemy.events import Event, operation
from memalchemy.metadata import check_metadata
from memalchemy.search.distances import look
from memalchemy.search.scope import Place, key_lists
from memalchemy.statements import Program
from memalchemy.store import queries, writing
from memalchemy.store.embedding import Index, Text, embed, no_embedder, texts_of
from memalchemy.store.shelf import Namespace, Shelf
from memalchemy.store.writing import VectorRow

Batch = Iterable[Sequence[Any]]
"""``(namespace, key, value)`` or ``(namespace, key, value, metadata)``."""

Prepared = tuple[dict[str, Any], list[VectorRow]]


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
        vectors = await self._embedded(given, index)
        last = {_key(row): (row, vectors[at]) for at, row in enumerate(rows)}
        d = self.db.dialect

        with operation("store.put", tenant=self.db.tenant) as event:
            some = next((of for of in vectors if of), [])
            native = await self._has_native_vectors(some, connection, event)

            def program() -> Program[dict[tuple[str, str], int]]:
                return (yield from writing.put_all(d, list(last.values()), native))

            event.details["items"] = len(last)
            event.payload_bytes = sum(len(row["p_value"]) for row, _ in last.values())
            versions = await self._write(program, connection, event) if last else {}
        return [versions[_key(row)] for row in rows]

    async def get_batch(
        self, keys: Iterable[tuple[Namespace, str]], *, connection: HostConnection | None = None
    ) -> dict[tuple[tuple[str, ...], str], Any]:
        """The values of those ``(namespace, key)`` that are there. Does not prolong life."""
        wanted: dict[Place, tuple[tuple[str, ...], str]] = {}
        for namespace, key in keys:
            binds = self._item(namespace, key)
            wanted[binds["k_namespace"], key] = (tuple(namespace), key)
        found: dict[tuple[tuple[str, ...], str], Any] = {}
        statement = queries.read_items(self.db.dialect)
        with operation("store.get", tenant=self.db.tenant) as event:
            for listed in key_lists(self.db.dialect, wanted):
                binds = {"k_tenant": self.db.tenant, "p_keys": listed}
                for row in await self._rows(statement, binds, connection, event):
                    found[wanted[row.namespace, row.key]] = queries.value(row, self.db.keyring)
        return {name: found[name] for name in wanted.values() if name in found}

    async def _has_native_vectors(
        self, vectors: Sequence[VectorRow], connection: HostConnection | None, event: Event
    ) -> bool:
        """How vectors are written, if there are any: asked of the database once in a while."""
        if not vectors or not self.db.dialect.compares_vectors:
            return True
        return (await look(self.db, connection, event, stale=False)).native

    def _prepared(
        self, given: list[tuple[Any, ...]], ttl: Seconds | None, now: datetime
    ) -> list[dict[str, Any]]:
        rows = []
        for namespace, key, value, metadata in given:
            try:
                binds = self._item(namespace, key)
                rows.append(binds | self._row(tuple(namespace), value, metadata, ttl, now))
            except (MemalchemyError, TypeError, ValueError) as error:
                error.add_note(f"of the batch's item {key!r} in {namespace!r}; nothing was written")
                raise
        return rows

    async def _embedded(self, given: list[tuple[Any, ...]], index: Index) -> list[list[VectorRow]]:
        """The vectors of each, from one call of the embedder."""
        wanted = self._settings.index if index is None else index
        if not wanted:
            return [[] for _ in given]
        if self._settings.embedder is None:
            raise no_embedder("index=")
        self.db.keyring.check_reveals("vectors", "index=")
        texts: list[list[Text]] = [texts_of(value, wanted) for _, _, value, _ in given]
        vectors = iter(await embed(self._settings.embedder, (t.text for of in texts for t in of)))
        model = self._settings.model
        return [[VectorRow(t.field, model, t.part, next(vectors)) for t in of] for of in texts]

    def _row(
        self,
        namespace: tuple[str, ...],
        value: Any,
        metadata: Mapping[str, Any] | None,
        ttl: Seconds | None,
        now: datetime,
    ) -> dict[str, Any]:
        """What a put binds besides the key."""
        checked = check_metadata(metadata)
        keyring = self.db.keyring
        payload, checksum = codec.encode_item(value)
        stored = keyring.seal(codec.CODEC, checksum, payload)
        indexed = self._settings.index_text and keyring.reveals("text")
        life = self._settings.life_of(namespace, ttl)
        return {
            "p_now": now,
            "p_meta": checked,
            "p_codec": stored.codec,
            "p_checksum": stored.checksum,
            "p_search_text": codec.search_text(value, checked) if indexed else None,
            "p_field_terms": (
                codec.field_terms(value, checked, self._settings.named)
                if keyring.reveals("fields")
                else codec.OTHERS
            ),
            "p_updated_at": now,
            "p_expires_at": None if life is None else now + life,
            "p_lifetime": None if life is None else life // timedelta(microseconds=1),
            "p_value": stored.payload,
        }


def _four(one: Sequence[Any]) -> tuple[Any, ...]:
    if not isinstance(one, (tuple, list)) or not 3 <= len(one) <= 4:
        raise TypeError("each item is (namespace, key, value) or (namespace, key, value, metadata)")
    return (*one, None) if len(one) == 3 else tuple(one)


def _key(row: Mapping[str, Any]) -> tuple[str, str]:
    return row["k_namespace"], row["k_key"]
