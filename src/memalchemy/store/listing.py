"""A store's contents in order, page by page; and what goes as a whole. Ranks nothing."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Callable, Mapping, Sequence
from contextlib import aclosing
from datetime import UTC, datetime
from typing import Any

from memalchemy.codec.items import FieldWords
from memalchemy.contracts import StoreItem, check_flag, check_limit
from memalchemy.database import HostConnection
from memalchemy.dialects.lists import LISTED
from memalchemy.events import Event, operation
from memalchemy.filters import Filter
from memalchemy.keys import check_name, decode_namespace, encode_id, encode_namespace
from memalchemy.search.items import narrowed_items
from memalchemy.search.scope import OWN, Place, key_lists, scope_binds
from memalchemy.statements import Program
from memalchemy.store import queries, writing
from memalchemy.store.answering import Answer
from memalchemy.store.shelf import Namespace, Shelf, taken

PAGE = 500


class Listing(Shelf):
    """What is there."""

    async def list_keys(
        self,
        namespace: Namespace,
        limit: int = 100,
        *,
        prefix: str | None = None,
        after: str | None = None,
        connection: HostConnection | None = None,
    ) -> list[str]:
        """Keys of this very namespace, in the order of their code points, at most *limit*.

        Those that begin with *prefix*; those beyond *after*, the last of the page before.
        """
        limit, start = check_limit(limit), after
        if prefix is not None:
            check_name(prefix, "prefix")
        if after is not None:
            check_name(after, "after")
        binds = scope_binds(self.db.tenant, encode_namespace(namespace), below=False)
        found: list[str] = []
        with operation("store.list", **self._about(namespace)) as event:
            if prefix and (start is None or start < prefix):
                if await self._has(binds, prefix, connection):
                    found.append(prefix)
                start = prefix
            while len(found) < limit:
                statement = queries.list_keys(self.db.dialect, after=start is not None)
                values = binds | {"p_limit": limit - len(found), "p_after_key": start}
                rows = await self._rows(statement, values, connection, event, stale=True)
                keys = [row.key for row in rows]
                fitting = [key for key in keys if not prefix or key.startswith(prefix)]
                found += fitting
                if len(keys) < values["p_limit"] or len(fitting) < len(keys):
                    break
                start = keys[-1]
        return found[:limit]

    async def list_items(
        self,
        namespace: Namespace,
        *,
        prefix: bool = False,
        filter: Mapping[str, Any] | None = None,
        limit: int = 100,
        after: StoreItem | None = None,
        order: str = "newest",
        connection: HostConnection | None = None,
    ) -> list[StoreItem]:
        """Items of the namespace, with *prefix* also of those below it, at most *limit*.

        ``newest``: by the time of the last write, then by namespace and key, both backwards.
        ``key``: by namespace and key. The next page comes *after* the last item of this one, and
        is right however many were written meanwhile.

        Raises:
            TooLarge: the values take over 256 MiB together; ask for fewer.
        """
        limit, prefix = check_limit(limit), check_flag(prefix, "prefix")
        path, wanted = encode_namespace(namespace), Filter.parse(filter)
        if after is not None and not isinstance(after, StoreItem):
            raise TypeError("after is the last StoreItem of the page before")
        if order not in queries.ORDERS:
            raise ValueError(f"order is one of {', '.join(queries.ORDERS)}, not {order!r}")
        with operation("store.list", **self._about(namespace)) as event:
            answer = Answer(self.db.keyring, wanted)
            pages = self._pages(path, prefix, order, after, limit, answer, connection, event)
            return await taken(pages, limit)

    async def iter_keys(
        self,
        namespace: Namespace,
        *,
        prefix: str | None = None,
        page_size: int = PAGE,
        connection: HostConnection | None = None,
    ) -> AsyncGenerator[str]:
        """Yield all keys of this very namespace, in the order of their code points.

        *prefix* is as of `list_keys`. Each page of *page_size* keys is a query of its own: what
        others write meanwhile is seen if it comes after the keys that were yielded.
        """
        after: str | None = None
        size = _page_size(page_size)
        while True:
            page = await self.list_keys(
                namespace, size, prefix=prefix, after=after, connection=connection
            )
            for key in page:
                yield key
            if len(page) < size:
                return
            after = page[-1]

    async def iter_items(
        self,
        namespace: Namespace,
        *,
        prefix: bool = False,
        filter: Mapping[str, Any] | None = None,
        order: str = "newest",
        page_size: int = PAGE,
        connection: HostConnection | None = None,
    ) -> AsyncGenerator[StoreItem]:
        """Yield all items of the namespace; with *prefix* also those of the namespaces below it.

        *filter* and *order* are as of `list_items`. Each page of *page_size* items is a query of
        its own. By ``newest``, an item that others write meanwhile moves to the front and may be
        missed; by ``key`` it is yielded where it is.
        """
        after: StoreItem | None = None
        size = _page_size(page_size)
        while True:
            page = await self.list_items(
                namespace,
                prefix=prefix,
                filter=filter,
                limit=size,
                after=after,
                order=order,
                connection=connection,
            )
            for item in page:
                yield item
            if len(page) < size:
                return
            after = page[-1]

    async def count(
        self,
        namespace: Namespace,
        *,
        prefix: bool = False,
        connection: HostConnection | None = None,
    ) -> int:
        """How many items the namespace holds, with *prefix* also those below it."""
        check_flag(prefix, "prefix")
        binds = scope_binds(self.db.tenant, encode_namespace(namespace), prefix)
        statement = queries.count_items(self.db.dialect, below=prefix)
        with operation("store.list", **self._about(namespace)) as event:
            rows = await self._rows(statement, binds, connection, event, stale=True)
        return int(rows[0][0])

    async def list_namespaces(
        self,
        prefix: Namespace | None = None,
        limit: int = 100,
        *,
        after: Namespace | None = None,
        connection: HostConnection | None = None,
    ) -> list[tuple[str, ...]]:
        """Namespaces that hold an item, at most *limit*; with *prefix*, it and those below it.

        In the order of their stored paths. The next page comes *after* the last of this one.
        """
        low = encode_namespace(prefix or ())
        binds = {
            "k_tenant": self.db.tenant,
            "p_low": low,
            "p_high": low[:-1] + "0",
            "p_house": OWN[0],
            "p_house_end": OWN[1],
            "p_limit": check_limit(limit),
        }
        if after is not None:
            # Right behind a path comes nothing that is not below it.
            binds["p_low"] = max(low, encode_namespace(after) + "\x01")
        with operation("store.list", tenant=self.db.tenant) as event:
            statement = queries.list_paths(self.db.dialect)
            rows = await self._rows(statement, binds, connection, event, stale=True)
        return [decode_namespace(row.place) for row in rows]

    async def clear_namespace(
        self,
        namespace: Namespace,
        *,
        prefix: bool = False,
        connection: HostConnection | None = None,
    ) -> int:
        """Remove all items of the namespace, with *prefix* also those below it; how many."""
        check_flag(prefix, "prefix")
        binds = scope_binds(self.db.tenant, encode_namespace(namespace), prefix)
        values = binds | {"p_now": datetime.now(UTC)}
        d = self.db.dialect

        def program() -> Program[int]:
            alive = yield queries.count_items(d, below=prefix), values
            yield writing.clear_items(d, below=prefix), values
            return int(alive[0][0])

        with operation("store.clear", **self._about(namespace)) as event:
            removed = await self._write(program, connection, event, payloads=False)
            event.details["removed"] = removed
        return removed

    async def sweep(self, *, connection: HostConnection | None = None) -> int:
        """Remove the tenant's expired items, which nobody can see any more; how many.

        A few hundred at a time, each time in a transaction of its own.
        """
        values = {"k_tenant": self.db.tenant, "p_now": datetime.now(UTC), "p_limit": LISTED}
        d = self.db.dialect

        def program() -> Program[int | None]:
            rows = yield queries.list_expired(d), values
            gone = 0
            for listed in key_lists(d, ((row.namespace, row.key) for row in rows)):
                gone += (yield queries.drop_expired(d), values | {"p_keys": listed}).touched
            return gone if rows else None

        removed = 0
        with operation("store.sweep", tenant=self.db.tenant) as event:
            more = True
            while more:
                gone = await self._write(program, connection, event, payloads=False)
                more = gone is not None
                removed += gone or 0
            event.details["removed"] = removed
        return removed

    async def _has(
        self, binds: Mapping[str, Any], key: str, connection: HostConnection | None
    ) -> bool:
        values = dict(binds) | {"k_key": key}
        return bool(await self._rows(queries.has_item(self.db.dialect), values, connection))

    async def _pages(
        self,
        path: str,
        below: bool,
        order: str,
        after: StoreItem | None,
        limit: int,
        answer: Answer,
        connection: HostConnection | None,
        event: Event,
    ) -> AsyncGenerator[StoreItem]:
        """Items in order, page by page, those that the filter lets through."""
        few = await self._few(path, below, answer, connection, event)
        if few is not None:
            for item in _sorted(few, order, after):
                yield item
            return
        size = min(limit, PAGE) if answer.wanted is None else PAGE
        mark = None if after is None else _mark_of(after)
        while size:
            binds = scope_binds(self.db.tenant, path, below) | {"p_limit": size}
            statement = queries.list_items(
                self.db.dialect, order=order, below=below, after=mark is not None
            )
            binds |= mark or {}
            rows = await self._rows(statement, binds, connection, event, stale=True)
            async with aclosing(answer.pieces(rows)) as pieces:
                async for some in pieces:
                    for _, item in some:
                        yield item
            if len(rows) < size:
                return
            mark = _mark(rows[-1])

    def _words_of(self, wanted: Filter | None) -> list[FieldWords]:
        """The words of fields that an item which passes a filter may have, if any are stored."""
        if wanted is None or not self.db.keyring.reveals("fields"):
            return []
        return [FieldWords.of(path, values) for path, values in wanted.equalities()]

    def _narrowed(
        self, path: str, below: bool, wanted: Filter | None
    ) -> Callable[[int], Program[Sequence[Place] | None]] | None:
        """The items that may pass a filter, if an index knows: a program that gives them.

        Or ``None``, if they are more than it is given.
        """
        d, fields = self.db.dialect, self._words_of(wanted)
        if not fields or not d.indexes_fields:
            return None
        scope = scope_binds(self.db.tenant, path, below)
        scope |= d.item_scope(self.db.tenant, path, below, fields)

        def program(most: int) -> Program[Sequence[Place] | None]:
            rows = yield narrowed_items(d, below=below), scope | {"p_limit": most + 1}
            return None if len(rows) > most else [(row.namespace, row.key) for row in rows]

        return program

    async def _few(
        self,
        path: str,
        below: bool,
        answer: Answer,
        connection: HostConnection | None,
        event: Event,
    ) -> list[StoreItem] | None:
        """All that pass a filter, in no order, if an index says that they are few."""
        narrowed = self._narrowed(path, below, answer.wanted)
        if narrowed is None:
            return None
        places = await self.db.read(
            lambda: narrowed(PAGE), connection=connection, event=event, stale=True
        )
        if places is None:
            return None
        return list((await self._items(places, answer, connection, event)).values())

    async def _items(
        self,
        places: Sequence[Place],
        answer: Answer,
        connection: HostConnection | None,
        event: Event,
        read: Sequence[Any] = (),
    ) -> dict[Place, StoreItem]:
        """The items at *places*, in their order, that are there and pass the filter.

        *read* are the rows of those that need not be read again.
        """
        rows = {(row.namespace, row.key): row for row in read}
        missing = [place for place in places if place not in rows]
        statement = queries.read_items(self.db.dialect)
        for listed in key_lists(self.db.dialect, missing):
            binds = {"k_tenant": self.db.tenant, "p_keys": listed}
            for row in await self._rows(statement, binds, connection, event, stale=True):
                rows[row.namespace, row.key] = row
        there = [rows[place] for place in places if place in rows]
        found: dict[Place, StoreItem] = {}
        async with aclosing(answer.pieces(there)) as pieces:
            async for some in pieces:
                found |= {(row.namespace, row.key): item for row, item in some}
        return found


def _page_size(size: int) -> int:
    limit = check_limit(size, "page_size")
    if not limit:
        raise ValueError("page_size must be at least 1")
    return limit


def _sorted(items: list[StoreItem], order: str, after: StoreItem | None) -> list[StoreItem]:
    """As the database orders them, and what comes after one of them."""

    def place(item: StoreItem) -> tuple[Any, ...]:
        spelt = encode_namespace(item.namespace), encode_id(item.key)
        return (item.updated_at, *spelt) if order == "newest" else spelt

    backwards = order == "newest"
    ordered = sorted(items, key=place, reverse=backwards)
    if after is None:
        return ordered
    mark = place(after)
    return [one for one in ordered if (place(one) < mark if backwards else place(one) > mark)]


def _mark(row: Any) -> dict[str, Any]:
    """Where the next page begins: after this row."""
    return {
        "p_after_updated_at": row.updated_at,
        "p_after_namespace": row.namespace,
        "p_after_key": row.key,
    }


def _mark_of(item: StoreItem) -> dict[str, Any]:
    return {
        "p_after_updated_at": item.updated_at,
        "p_after_namespace": encode_namespace(item.namespace),
        "p_after_key": item.key,
    }
