"""`MemalchemyMemoryStorage`: the storage of CrewAI's unified memory."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncGenerator, Callable, Iterable, Mapping, Sequence
from contextlib import aclosing
from dataclasses import replace
from datetime import UTC, datetime
from typing import Any, Final

from crewai.memory.types import MemoryRecord, ScopeInfo

from memalchemy._json_pointers import pointer
from memalchemy.contracts import NewItem, StoreItem
from memalchemy.database import HostConnection
from memalchemy.errors import NotSerialisable
from memalchemy.filters import Filter
from memalchemy.integrations._base import AnyDatabase, blocking
from memalchemy.integrations._filters import equals
from memalchemy.integrations._stored_forms import StoredForm, not_of_the_form
from memalchemy.integrations.crewai._adapter import CrewAdapter, with_text_keys
from memalchemy.store import Store

_log = logging.getLogger(__name__)

BATCH = 100
"""Memories that `reembed` embeds together."""

_FIELDS = ("content", "categories", "metadata", "importance", "source", "private", "scope",
           "created_at", "last_accessed")  # fmt: skip
_FORM = StoredForm("memory of CrewAI")

Embedder = Callable[[list[str]], Sequence[Any]]


class MemalchemyMemoryStorage(CrewAdapter):
    """The memories of `crewai.Memory`, each an item with a vector.

    `save` writes all of its records or none, and one with the id of another replaces it. A scope is
    a path: the prefix ``/crew`` stands for ``/crew`` and ``/crew/ada``, not for ``/crewmates``.
    Scores are LanceDB's, ``1 / (1 + d * d)`` of the Euclidean distance: 1 for the same vector, a
    third for two of length 1 at a right angle. A filter does not cut the hits short.

    Vectors have any number of dimensions up to 16,000, and those of several sizes lie side by side.
    After a change of the embedder nothing has to be reset: a search compares the vectors of its own
    size, all other methods see every memory, and `reembed` gives new vectors to those that have
    none of this size. A memory without a vector, or with a vector of zeros, is not found by a
    search.

    Every read builds new objects; only `get_record` reads the vector, too. Any thread and process
    may call the methods; one whose event loop is running blocks it, and may await those that begin
    with ``a``.

    Args:
        db: a URL, the path of a SQLite file, a `Database`, a `memalchemy.sync.Database` or an
            `AsyncEngine`. Without it, the URL in ``MEMALCHEMY_URL``, or else a database in memory
            for this object alone.
        namespace: keeps several memories apart in one database.
        index_text: make the words of memories searchable, by `memalchemy.Store.search`.

    ``native`` is the `memalchemy.Store` underneath, without vectors.

    Raises, from any method:
        DatabaseUnreachable, AuthenticationFailed, SchemaOutdated, SchemaTooNew.
        Corrupt, KeyMissing, NotEncrypted: a stored memory cannot be read.
        StoreCapabilityError: the database is encrypted, and may hold no readable vectors.
    """

    def __init__(
        self,
        db: AnyDatabase | None = None,
        *,
        namespace: Iterable[str] = (),
        index_text: bool = True,
    ) -> None:
        super().__init__(db, namespace=namespace)
        self.place: tuple[str, ...] = (*self.namespace, "memory")
        """The namespace of the items."""
        self.native: Store = Store(self.db, index_text=index_text)
        self._index_text = index_text
        self._warned: set[int] = set()

    # --- Writing ----------------------------------------------------------------------------------

    async def asave(self, records: list[MemoryRecord]) -> None:
        """Write records, all or none; one that exists is replaced.

        Raises:
            NotSerialisable, TooLarge: one of them cannot be stored; nothing was written.
            ValueError: a vector is not finite, or has over 16,000 dimensions.
        """
        if not records:
            return
        by_size: dict[int, list[MemoryRecord]] = {}
        for record in {record.id: record for record in records}.values():
            by_size.setdefault(_count_dimensions(record), []).append(record)
        if len(by_size) == 1:
            await self._put_records(by_size, None)
            return
        async with self.db.transaction() as tx:
            await self._put_records(by_size, tx)

    async def aupdate(self, record: MemoryRecord) -> None:
        """Replace the record with this id, or write it if there is none.

        Without a vector of its own it keeps the one that is there, if the content is the same.
        """
        async with self.db.transaction() as tx:
            await self.native.hold([(self.place, record.id)], tx)
            there = await self.native.get_item(self.place, record.id, connection=tx)
            known = None
            if there is not None and not _count_dimensions(record):
                known = _fields_of(there)
            if known is not None and known["content"] == record.content:
                item = _to_item(self.place, record, known["dimensions"], vector=False)
                await self.native.put_batch([item], keep_vectors=True, connection=tx)
            else:
                await self._put_records({_count_dimensions(record): [record]}, tx)

    async def atouch_records(self, record_ids: list[str]) -> None:
        """Set the time of the last access of records to now."""
        if not record_ids:
            return
        keys = [(self.place, one) for one in record_ids]
        now = datetime.now(UTC).replace(tzinfo=None)  # CrewAI's times are UTC without saying so
        async with self.db.transaction() as tx:
            await self.native.hold(keys, tx)
            found = await self.native.get_items(keys, refresh=False, connection=tx)
            touched = [
                _as_written(item, _fields_of(item) | {"last_accessed": now})
                for item in found.values()
            ]
            await self.native.put_batch(touched, keep_vectors=True, connection=tx)

    async def areembed(self, embedder: Embedder) -> int:
        """Give a vector of *embedder* to each memory that has none of its size; return how many.

        *embedder* returns a vector for each of a list of texts, as CrewAI's embedders do. A memory
        that is written meanwhile is left to the next call, as is what is not done when it fails.
        """
        done = 0
        size: int | None = None
        page: list[StoreItem] = []
        async with aclosing(self._iter_items()) as items:
            async for item in items:
                known = _fields_of(item)
                if not known["content"].strip():
                    continue
                if size is None:
                    size = len((await _embed_items(embedder, [item]))[item.key])
                if known["dimensions"] != size:
                    page.append(item)
                if len(page) == BATCH:
                    done += await self._reembed(page, embedder)
                    page = []
        return done + await self._reembed(page, embedder)

    async def _reembed(self, items: list[StoreItem], embedder: Embedder) -> int:
        if not items:
            return 0
        vectors = await _embed_items(embedder, items)
        versions = {item.key: item.version for item in items}
        keys = [(self.place, key) for key in vectors]
        by_size: dict[int, list[NewItem]] = {}
        async with self.db.transaction() as tx:
            await self.native.hold(keys, tx)
            there = await self.native.get_items(keys, refresh=False, connection=tx)
            for item in there.values():
                size = len(vectors[item.key])
                if item.version == versions[item.key] and any(vectors[item.key]):
                    value = _fields_of(item) | {"dimensions": size}
                    new = replace(_as_written(item, value), embedding=vectors[item.key])
                    by_size.setdefault(size, []).append(new)
            for size, some in by_size.items():
                await self._store_of_size(size).put_batch(some, connection=tx)
        return sum(map(len, by_size.values()))

    async def _put_records(
        self, records: Mapping[int, list[MemoryRecord]], connection: HostConnection | None
    ) -> None:
        for size, some in records.items():
            store, dimensions = self._store_of_size(size), size or None
            items = [_to_item(self.place, one, dimensions) for one in some]
            try:
                await store.put_batch(items, connection=connection)
            except NotSerialisable:  # a key that is not a text, perhaps: nothing looks for one
                items = [replace(one, value=with_text_keys(one.value)) for one in items]
                await store.put_batch(items, connection=connection)

    def _store_of_size(self, size: int) -> Store:
        """Return the store whose vectors have so many dimensions."""
        if not size:
            return self.native
        return Store(self.db, model=f"crewai-{size}", metric="l2", index_text=self._index_text)

    # --- Searching --------------------------------------------------------------------------------

    async def asearch(
        self,
        query_embedding: list[float],
        scope_prefix: str | None = None,
        categories: list[str] | None = None,
        metadata_filter: dict[str, Any] | None = None,
        limit: int = 10,
        min_score: float = 0.0,
    ) -> list[tuple[MemoryRecord, float]]:
        """Return the records whose vectors are nearest, the nearest first, with their scores.

        Args:
            categories: the record has one of them.
            metadata_filter: the record's metadata has all of these.
            min_score: only records with at least this score.

        Raises:
            ValueError: the vector is not finite, or has over 16,000 dimensions.
        """
        size = len(query_embedding)
        if limit <= 0 or not size or not any(query_embedding):
            return []
        found = await self._store_of_size(size).search_by_embedding(
            self.place,
            query_embedding,
            limit,
            filter=_to_filter(scope_prefix, categories, metadata_filter),
        )
        if not found:
            await self._warn_of_other_sizes(size)
        scored = [(_to_record(one.item), 1 / (1 + (one.distance or 0.0) ** 2)) for one in found]
        return [(record, score) for record, score in scored if score >= min_score]

    async def _warn_of_other_sizes(self, size: int) -> None:
        """Say once that there are memories, and none has a vector that a search could find."""
        if size in self._warned:
            return
        self._warned.add(size)
        for newest in await self.native.list_items(self.place, limit=1):
            known = _fields_of(newest)["dimensions"]
            if known not in (None, size):
                _log.warning(
                    "the memories have vectors of %d dimensions and the embedder makes %d: nothing "
                    "is found until reembed(embedder) of MemalchemyMemoryStorage has run",
                    known,
                    size,
                )

    # --- Reading ----------------------------------------------------------------------------------

    async def aget_record(self, record_id: str) -> MemoryRecord | None:
        """Return a record with its vector, in the precision of float32; ``None`` without one."""
        item = await self.native.get_item(self.place, record_id)
        if item is None:
            return None
        size = _fields_of(item)["dimensions"]
        vector = None
        if size is not None:
            vector = await self._store_of_size(size).get_embedding(self.place, record_id)
        return _to_record(item, vector)

    async def alist_records(
        self, scope_prefix: str | None = None, limit: int = 200, offset: int = 0
    ) -> list[MemoryRecord]:
        """Return the records of a scope, the newest first by ``created_at``."""
        if limit <= 0 or offset < 0:
            return []
        found = await self.native.list_items(
            self.place, filter=_to_filter(scope_prefix), limit=limit + offset
        )
        return [_to_record(item) for item in found[offset:]]

    async def aget_scope_info(self, scope: str) -> ScopeInfo:
        """Count the records of a scope and below it, with their categories and times."""
        count = 0
        categories: set[str] = set()
        times: list[datetime] = []
        children: set[str] = set()
        async with aclosing(self._iter_items(scope)) as items:
            async for item in items:
                count += 1
                known = _fields_of(item)
                categories.update(known["categories"])
                times = _extremes([*times, known["created_at"]])
                children.update(_child_scope(scope, known["path"]))
        return ScopeInfo(
            path=scope.rstrip("/") or "/",
            record_count=count,
            categories=sorted(categories),
            oldest_record=times[0] if times else None,
            newest_record=times[-1] if times else None,
            child_scopes=sorted(children),
        )

    async def alist_scopes(self, parent: str = "/") -> list[str]:
        """Return the scopes right below another, sorted."""
        async with aclosing(self._iter_items(parent)) as items:
            return sorted(
                {
                    one
                    async for item in items
                    for one in _child_scope(parent, _fields_of(item)["path"])
                }
            )

    async def alist_categories(self, scope_prefix: str | None = None) -> dict[str, int]:
        """Return how many records of a scope have each category."""
        counts: dict[str, int] = {}
        async with aclosing(self._iter_items(scope_prefix)) as items:
            async for item in items:
                for category in _fields_of(item)["categories"]:
                    counts[category] = counts.get(category, 0) + 1
        return counts

    async def acount(self, scope_prefix: str | None = None) -> int:
        """Count the records of a scope and below it."""
        if _to_path(scope_prefix) == "/":
            return await self.native.count(self.place)
        async with aclosing(self._iter_items(scope_prefix)) as items:
            return sum([1 async for _ in items])

    # --- Deleting ---------------------------------------------------------------------------------

    async def adelete(
        self,
        scope_prefix: str | None = None,
        categories: list[str] | None = None,
        record_ids: list[str] | None = None,
        older_than: datetime | None = None,
        metadata_filter: dict[str, Any] | None = None,
    ) -> int:
        """Delete the records that match everything that is given, in one transaction.

        Returns their number. Without any argument, all records.

        Args:
            older_than: the record was made before this time.
        """
        wanted = _to_filter(scope_prefix, categories, metadata_filter, older_than)
        if record_ids:
            return await self._delete_records(record_ids, Filter.parse(wanted))
        if wanted is None:
            return await self.native.clear_namespace(self.place)
        return await self.native.delete_matching(self.place, wanted)

    async def areset(self, scope_prefix: str | None = None) -> None:
        """Delete the records of a scope and below it, or all."""
        await self.adelete(scope_prefix)

    async def _delete_records(self, record_ids: list[str], wanted: Filter | None) -> int:
        keys = [(self.place, one) for one in record_ids]
        if wanted is None:
            return await self.native.delete_batch(keys)
        async with self.db.transaction() as tx:
            await self.native.hold(keys, tx)
            there = await self.native.get_items(keys, refresh=False, connection=tx)
            found = [name for name, item in there.items() if wanted.matches(item.value, {})]
            return await self.native.delete_batch(found, connection=tx)

    def _iter_items(self, scope_prefix: str | None = None) -> AsyncGenerator[StoreItem]:
        return self.native.iter_items(self.place, filter=_to_filter(scope_prefix), order="key")

    save: Final = blocking(asave)
    update: Final = blocking(aupdate)
    touch_records: Final = blocking(atouch_records)
    reembed: Final = blocking(areembed)
    search: Final = blocking(asearch)
    get_record: Final = blocking(aget_record)
    list_records: Final = blocking(alist_records)
    get_scope_info: Final = blocking(aget_scope_info)
    list_scopes: Final = blocking(alist_scopes)
    list_categories: Final = blocking(alist_categories)
    count: Final = blocking(acount)
    delete: Final = blocking(adelete)
    reset: Final = blocking(areset)


async def _embed_items(embedder: Embedder, items: list[StoreItem]) -> dict[str, list[float]]:
    """Return the vectors of items by their keys. The embedder may wait, and does so in a thread."""
    made = await asyncio.to_thread(embedder, [_fields_of(item)["content"] for item in items])
    return {
        item.key: [float(number) for number in vector]
        for item, vector in zip(items, made, strict=True)
    }


# --- Records as items -----------------------------------------------------------------------------


def _count_dimensions(record: MemoryRecord) -> int:
    """Return the number of dimensions of a record's vector; 0 if it has none to be found by."""
    return len(record.embedding) if record.embedding and any(record.embedding) else 0


def _to_item(
    place: tuple[str, ...], record: MemoryRecord, dimensions: int | None, *, vector: bool = True
) -> NewItem:
    """Return the item of a record. Listings are by time, so it was written when it was made."""
    value = {name: getattr(record, name) for name in _FIELDS}
    made = _to_aware(record.created_at)
    return NewItem(
        place,
        record.id,
        value | {"path": _to_path(record.scope), "dimensions": dimensions},
        embedding=record.embedding if dimensions and vector else None,
        created_at=made,
        updated_at=made,
    )


def _as_written(item: StoreItem, value: dict[str, Any]) -> NewItem:
    """Return an item with another value and its times."""
    return NewItem(
        item.namespace,
        item.key,
        value,
        item.metadata,
        created_at=item.created_at,
        updated_at=item.updated_at,
    )


def _fields_of(item: StoreItem) -> dict[str, Any]:
    """Return the stored fields of a record, of which methods use these without making a record."""
    found = _FORM.fields_of(
        item.value,
        content=str,
        dimensions=int | None,
        categories=list,
        path=str,
        created_at=datetime,
    )
    if not all(isinstance(one, str) for one in found["categories"]):
        raise not_of_the_form(_FORM.what, "a category is no text")
    return found


@_FORM
def _to_record(item: StoreItem, vector: list[float] | None = None) -> MemoryRecord:
    return MemoryRecord(
        id=item.key, embedding=vector, **{name: item.value[name] for name in _FIELDS}
    )


# --- Scopes and filters ---------------------------------------------------------------------------


def _to_path(scope: str | None) -> str:
    """Return a scope with a slash at both ends, so that what is below it begins with it."""
    parts = [part for part in (scope or "").split("/") if part]
    return "".join(f"/{part}" for part in parts) + "/"


def _child_scope(scope: str, path: str) -> list[str]:
    """Return the scope right below *scope* that *path* lies in, if it lies below it."""
    above = _to_path(scope)
    name = path.removeprefix(above).partition("/")[0] if path.startswith(above) else ""
    return [above + name] if name else []


def _to_filter(
    scope_prefix: str | None,
    categories: list[str] | None = None,
    metadata_filter: dict[str, Any] | None = None,
    older_than: datetime | None = None,
) -> dict[str, Any] | None:
    """Return the filter of the store for CrewAI's conditions; ``None`` for all records."""
    conditions: list[dict[str, Any]] = []
    if (path := _to_path(scope_prefix)) != "/":
        # "0" is the character after "/": the paths that begin with this one.
        conditions.append({"path": {"$gte": path, "$lt": path[:-1] + "0"}})
    if categories:
        conditions.append({"$or": [{"categories": {"$contains": one}} for one in categories]})
    for name, wanted in (metadata_filter or {}).items():
        conditions.append(equals(pointer("/metadata", name), wanted))
    if older_than is not None:
        conditions.append({"created_at": {"$date": {"$lt": older_than}}})
    return {"$value": {"$and": conditions}} if conditions else None


def _to_aware(time: datetime) -> datetime:
    """Return a time with its zone, which is UTC where CrewAI says none."""
    return time.replace(tzinfo=UTC) if time.tzinfo is None else time.astimezone(UTC)


def _extremes(times: list[datetime]) -> list[datetime]:
    ordered = sorted(times, key=_to_aware)
    return [ordered[0], ordered[-1]]


__all__ = ["MemalchemyMemoryStorage"]
