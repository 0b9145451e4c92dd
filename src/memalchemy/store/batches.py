"""Many items at once: written in one transaction, read in one round trip."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from datetime import UTC, datetime
from functools import partial
from typing import Any

from memalchemy.codec.values import frozen
from memalchemy.contracts import NewItem, Seconds, StoreItem
from memalchemy.database import OFF_LOOP_BYTES, HostConnection, off_loop
from memalchemy.errors import MemalchemyError
from memalchemy.events import operation
from memalchemy.keys import check_list
from memalchemy.search.scope import Place, key_lists
from memalchemy.statements import Program
from memalchemy.store import queries, writing
from memalchemy.store.embedding import Index, rows_of
from memalchemy.store.shelf import Namespace, Shelf, end_of_life, item_binds, stores_natively
from memalchemy.store.writing import Row, VectorRow, place_of

Batch = Iterable[Sequence[Any] | NewItem]
"""``(namespace, key, value)``, ``(namespace, key, value, metadata)`` or a `NewItem`."""

BYTES_EACH = 10_000
"""A guess of how long an item takes to encode, in bytes of a state."""

Name = tuple[tuple[str, ...], str]
"""The namespace and the key of an item."""


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

        Each is ``(namespace, key, value)``, ``(namespace, key, value, metadata)`` or a `NewItem`,
        which may have a lifetime, vectors and an *index* of its own. Of one that is given twice the
        last counts. The embedder is called once for all that *index* says the same of.

        Raises:
            NotSerialisable, TooLarge, TypeError: one of them cannot be stored; nothing was written.
            StoreCapabilityError: *index* is given, and there is no embedder.
        """
        given = [_new_item(one) for one in check_list(items, "items")]
        now = datetime.now(UTC)
        weight = len(given) * BYTES_EACH
        if weight >= OFF_LOOP_BYTES:  # the caller may change them while a thread encodes them
            given = list(map(_copied, given))
        rows = await off_loop(weight, partial(self._prepared, given, ttl, now))
        vectors = await self._vectors_of_all(given, index)
        last = {place_of(row): (row, vectors[at]) for at, row in enumerate(rows)}
        dated = [_times(row, one) for row, one in zip(rows, given, strict=True) if _is_dated(one)]
        d = self.db.dialect

        with operation("store.put", tenant=self.db.tenant) as event:
            some = next((of for of in vectors if of), [])
            native = await stores_natively(self.db, some, connection, event)

            def program() -> Program[dict[Place, int]]:
                versions = yield from writing.put_all(d, list(last.values()), native)
                if dated:
                    yield writing.date_item(d), dated
                return versions

            event.details["items"] = len(last)
            event.details["vectors"] = sum(len(of) for _, of in last.values())
            event.payload_bytes = sum(len(row["p_value"]) for row, _ in last.values())
            versions = {}
            if last:
                versions = await self._write(program, connection, event)
        return [versions[place_of(row)] for row in rows]

    async def get_batch(
        self, keys: Iterable[tuple[Namespace, str]], *, connection: HostConnection | None = None
    ) -> dict[Name, Any]:
        """The values of those ``(namespace, key)`` that are there. Does not prolong life."""
        found = await self.get_items(keys, refresh=False, connection=connection)
        return {name: item.value for name, item in found.items()}

    async def get_items(
        self,
        keys: Iterable[tuple[Namespace, str]],
        *,
        refresh: bool | None = None,
        connection: HostConnection | None = None,
    ) -> dict[Name, StoreItem]:
        """The items of those ``(namespace, key)`` that are there, in the order of *keys*.

        With *refresh* each lives on for its ttl from now, as `get_item` has it.
        """
        wanted = self._places(keys)
        found: dict[Name, StoreItem] = {}
        ending: list[Any] = []
        statement = queries.read_items(self.db.dialect)
        with operation("store.get", tenant=self.db.tenant) as event:
            for listed in key_lists(self.db.dialect, wanted):
                binds = {"k_tenant": self.db.tenant} | listed
                for row in await self._rows(statement, binds, connection, event):
                    event.payload_bytes += len(row.value)
                    name = wanted[row.namespace, row.key]
                    found[name] = queries.item(row, self.db.keyring)
                    if row.lifetime is not None:
                        ending.append(row)
        wants = self._settings.refresh_ttl if refresh is None else refresh
        if ending and wants and not self.db.read_only:
            for prolonged in await self._prolong(ending, connection):
                item = found[wanted[place_of(prolonged)]]
                if item.expires_at is not None and item.expires_at < prolonged["p_expires_at"]:
                    later = replace(item, expires_at=prolonged["p_expires_at"])
                    found[item.namespace, item.key] = later
        return {name: found[name] for name in wanted.values() if name in found}

    async def refresh(
        self, keys: Iterable[tuple[Namespace, str]], *, connection: HostConnection | None = None
    ) -> int:
        """Let those items that are there live for their own ttl from now; how many have one.

        Of two that do so at once, the later end holds. Items without a ttl stay as they are.
        """
        wanted = self._places(keys)
        ending: list[Any] = []
        statement = queries.lifetimes_of_items(self.db.dialect)
        for listed in key_lists(self.db.dialect, wanted):
            binds = {"k_tenant": self.db.tenant} | listed
            ending += await self._rows(statement, binds, connection)
        if ending:
            await self._prolong(ending, connection)
        return len(ending)

    async def _prolong(
        self, rows: Sequence[Any], connection: HostConnection | None
    ) -> list[dict[str, Any]]:
        """Let the items of *rows* live for their lifetimes from now; what was bound for each."""
        now = datetime.now(UTC)
        tenant = {"k_tenant": self.db.tenant, "p_now": now}
        # In one order in every process: two that prolong the same items do not block each other.
        binds = sorted((tenant | _life_from(now, row) for row in rows), key=place_of)

        def program() -> Program[None]:
            yield writing.prolong_item(self.db.dialect), binds

        with operation("store.refresh", tenant=self.db.tenant) as event:
            event.details["items"] = len(binds)
            await self._write(program, connection, event, payloads=False)
        return binds

    async def delete_batch(
        self, keys: Iterable[tuple[Namespace, str]], *, connection: HostConnection | None = None
    ) -> int:
        """Remove items with their vectors, all in one transaction; how many were there."""
        wanted, d = self._places(keys), self.db.dialect
        binds = {"k_tenant": self.db.tenant, "p_now": datetime.now(UTC)}

        def program() -> Program[int]:
            gone = 0
            for listed in key_lists(d, sorted(wanted)):
                gone += (yield writing.remove_items(d), binds | listed).touched
            return gone

        with operation("store.delete", tenant=self.db.tenant) as event:
            event.details["items"] = len(wanted)
            if not wanted:
                return 0
            return await self._write(program, connection, event, payloads=False)

    def _places(self, keys: Iterable[tuple[Namespace, str]]) -> dict[Place, Name]:
        wanted: dict[Place, Name] = {}
        for namespace, key in check_list(keys, "keys"):
            binds = item_binds(self.db, namespace, key)
            wanted[binds["k_namespace"], key] = (tuple(namespace), key)
        return wanted

    def _prepared(
        self, given: list[NewItem], ttl: Seconds | None, now: datetime
    ) -> list[dict[str, Any]]:
        rows = []
        for one in given:
            try:
                binds = item_binds(self.db, one.namespace, one.key)
                life = ttl if one.ttl is None else one.ttl
                namespace = tuple(one.namespace)
                row = self._settings.row(namespace, one.value, one.metadata, life, now)
            except (MemalchemyError, TypeError, ValueError) as error:
                error.add_note(_whose(one))
                raise
            rows.append(binds | row)
        return rows

    async def _vectors_of_all(self, given: list[NewItem], index: Index) -> list[list[VectorRow]]:
        """The vectors of each: those that it brings, or those that the embedder makes of it."""
        found: list[list[VectorRow]] = [[] for _ in given]
        to_embed: dict[bool | tuple[str, ...] | None, list[int]] = {}
        for at, one in enumerate(given):
            if one.embedding is None:
                wanted = index if one.index is None else one.index
                whole = wanted is None or isinstance(wanted, (bool, str))
                to_embed.setdefault(wanted if whole else tuple(wanted), []).append(at)  # type: ignore[arg-type]
                continue
            self.db.keyring.check_reveals("vectors", "embedding=", store="Store")
            try:
                found[at] = rows_of(one.embedding, self._settings.model)
            except (TypeError, ValueError) as error:
                error.add_note(_whose(one))
                raise
        for said, places in to_embed.items():
            made = await self._settings.vectors_of((given[at].value for at in places), said)
            for at, vectors in zip(places, made, strict=True):
                found[at] = vectors
        return found


def _new_item(one: Sequence[Any] | NewItem) -> NewItem:
    if isinstance(one, NewItem):
        return one
    if not isinstance(one, (tuple, list)) or not 3 <= len(one) <= 4:
        raise TypeError(
            "each item is (namespace, key, value), (namespace, key, value, metadata) or a NewItem"
        )
    return NewItem(*one)


def _copied(one: NewItem) -> NewItem:
    metadata = dict(one.metadata) if isinstance(one.metadata, Mapping) else one.metadata
    copies = {"value": one.value, "metadata": metadata, "embedding": one.embedding}
    return replace(one, **{name: frozen(each) for name, each in copies.items()})


def _is_dated(one: NewItem) -> bool:
    return any(time is not None for time in (one.created_at, one.updated_at, one.expires_at))


def _times(row: Row, one: NewItem) -> dict[str, Any]:
    return {name: row[name] for name in ("k_tenant", "k_namespace", "k_key")} | {
        "p_created_at": one.created_at,
        "p_updated_at": one.updated_at,
        "p_expires_at": one.expires_at,
    }


def _whose(one: NewItem) -> str:
    return f"of the batch's item {one.key!r} in {one.namespace!r}; nothing was written"


def _life_from(now: datetime, row: Any) -> dict[str, Any]:
    return {
        "k_namespace": row.namespace,
        "k_key": row.key,
        "p_version": row.version,
        "p_lifetime": row.lifetime,
        "p_expires_at": end_of_life(now, row.lifetime, row.key),
    }
