"""Read items: page by page in order, those that an index finds for a filter, or by their keys.

The values of an answer are bounded in bytes, and large ones are decoded off the loop.
"""

from __future__ import annotations

from collections.abc import AsyncGenerator, Callable, Iterator, Sequence
from contextlib import aclosing
from dataclasses import dataclass, field
from functools import partial
from typing import Any, TypeVar

from memalchemy.codec.compression import decompressed_size
from memalchemy.codec.encryption import Keyring
from memalchemy.codec.field_terms import FieldTerms
from memalchemy.contracts import StoreItem
from memalchemy.database import READ_REPLICA, Database, HostConnection, off_loop
from memalchemy.errors import TooLarge
from memalchemy.events import Event
from memalchemy.filters import Filter
from memalchemy.keys import encode_id, encode_namespace
from memalchemy.log.scan import PAGE, run_query, scan
from memalchemy.search.scope import Place, key_lists, scope_binds
from memalchemy.search.text import narrowed_items
from memalchemy.statements import Program
from memalchemy.store import read

T = TypeVar("T")

MAX_ANSWER_BYTES = 256 * 1024 * 1024
"""The largest size of the values of one answer, unpacked: four of the largest values."""

BATCH_BYTES = 16 * 1024 * 1024
BATCH_ROWS = 100
"""Bounds of what is decoded at once: the rest of a page may not be wanted."""

TEST_BYTES = 100
"""The bytes that are decoded in the time that one condition of a filter takes."""

MAX_RANGES = 8
"""Ranges of a filter that an index narrows: each asks it for up to 300 prefixes."""

RowsWithItems = list[tuple[Any, StoreItem]]
"""Rows, each with its item."""


@dataclass(frozen=True, slots=True)
class ItemReader:
    """Reader of the items of one namespace, with *below* also of those under it, for one call.

    They may be a moment old, as a replica has them.
    """

    db: Database
    path: str
    below: bool
    filter: Filter | None
    connection: HostConnection | None
    event: Event
    _decoder: list[ItemDecoder] = field(default_factory=list)

    @property
    def decoder(self) -> ItemDecoder:
        """Decoder of this call's values, all pages together."""
        if not self._decoder:
            self._decoder.append(ItemDecoder(self.db.keyring, self.filter))
        return self._decoder[0]

    async def read_in_order(
        self, order: str, after: StoreItem | None, limit: int
    ) -> AsyncGenerator[StoreItem]:
        """Yield the items that the filter accepts, in order."""
        few = await self._read_narrowed()
        if few is not None:
            for item in _sort_after(few, order, after):
                yield item
            return
        if not limit:
            return
        d, begun = self.db.dialect, after is not None
        binds = scope_binds(self.db.tenant, self.path, self.below)
        if after is not None:
            binds |= _page_binds(after.updated_at, encode_namespace(after.namespace), after.key)
        pages = scan(
            self.db,
            lambda behind: read.list_items(d, order=order, below=self.below, after=begun or behind),
            binds,
            lambda row: _page_binds(row.updated_at, row.namespace, row.key),
            self.connection,
            size=min(limit, PAGE) if self.filter is None else PAGE,
            event=self.event,
            replica_ok=True,
        )
        async with aclosing(pages):
            async for rows in pages:
                async with aclosing(self.decoder.decode(rows)) as batches:
                    async for some in batches:
                        for _, item in some:
                            yield item

    async def read_at(
        self, places: Sequence[Place], known: Sequence[Any] = ()
    ) -> dict[Place, StoreItem]:
        """Return the items at *places* that exist and pass the filter, in the order of *places*.

        *known* are rows that need not be read again.
        """
        rows = {(row.namespace, row.key): row for row in known}
        missing = [place for place in places if place not in rows]
        statement = read.read_items(self.db.dialect)
        for listed in key_lists(self.db.dialect, missing):
            binds = {"k_tenant": self.db.tenant} | listed
            for row in await self.run_query(statement, binds):
                rows[row.namespace, row.key] = row
        there = [rows[place] for place in places if place in rows]
        found: dict[Place, StoreItem] = {}
        async with aclosing(self.decoder.decode(there)) as batches:
            async for some in batches:
                found |= {(row.namespace, row.key): item for row, item in some}
        return found

    async def run_query(self, statement: Any, binds: dict[str, Any]) -> Any:
        """Return the rows of a statement."""
        return await run_query(
            self.db, statement, binds, self.connection, event=self.event, replica_ok=True
        )

    def field_terms(self) -> list[FieldTerms]:
        """The field terms that an item which passes the filter may have, if any are stored."""
        if self.filter is None or not self.db.keyring.is_readable("fields"):
            return []
        terms = [FieldTerms.of(path, values) for path, values in self.filter.equalities()]
        ranges = self.filter.ranges()[:MAX_RANGES]
        return terms + [FieldTerms.between(path, low, high) for path, low, high in ranges]

    def narrowing_program(self) -> Callable[[int], Program[Sequence[Place] | None]] | None:
        """Return a program that finds the items that may pass the filter, if an index has them.

        The program takes the largest number of items to return, and returns ``None`` if there are
        more.
        """
        d, fields = self.db.dialect, self.field_terms()
        if not fields or not d.text.indexes_fields:
            return None
        scope = scope_binds(self.db.tenant, self.path, self.below)
        scope |= d.text.item_scope_binds(self.db.tenant, self.path, self.below, fields)

        def program(most: int) -> Program[Sequence[Place] | None]:
            rows = yield narrowed_items(d, below=self.below), scope | {"p_limit": most + 1}
            return None if len(rows) > most else [(row.namespace, row.key) for row in rows]

        return program

    async def _read_narrowed(self) -> list[StoreItem] | None:
        """Return all items that pass the filter, unordered, if an index finds that they are few."""
        narrowing_program = self.narrowing_program()
        if narrowing_program is None:
            return None
        places = await self.db.run(
            lambda: narrowing_program(PAGE),
            READ_REPLICA,
            connection=self.connection,
            event=self.event,
        )
        return None if places is None else list((await self.read_at(places)).values())


def _sort_after(items: list[StoreItem], order: str, after: StoreItem | None) -> list[StoreItem]:
    """Sort items as the database does, and return those that come after one of them."""

    def place(item: StoreItem) -> tuple[Any, ...]:
        spelt = encode_namespace(item.namespace), encode_id(item.key)
        return (item.updated_at, *spelt) if order == "newest" else spelt

    backwards = order == "newest"
    ordered = sorted(items, key=place, reverse=backwards)
    if after is None:
        return ordered
    mark = place(after)
    return [one for one in ordered if (place(one) < mark if backwards else place(one) > mark)]


def _page_binds(updated_at: Any, path: str, key: str) -> dict[str, Any]:
    """Return the binds of a page that comes after an item."""
    return {"p_after_updated_at": updated_at, "p_after_namespace": path, "p_after_key": key}


# --- The values of an answer ---------------------------------------------------------------------


class ItemDecoder:
    """Decoder of the items that one call returns, as far as its filter accepts them.

    Raises `TooLarge` before it holds values of more than `MAX_ANSWER_BYTES`.
    """

    def __init__(self, keyring: Keyring, wanted: Filter | None) -> None:
        self.keyring, self.wanted = keyring, wanted
        self.size = 0

    async def decode(self, rows: Sequence[Any]) -> AsyncGenerator[RowsWithItems]:
        """Yield the items of *rows*, in their order, in batches."""
        tests = 0 if self.wanted is None else self.wanted.conditions
        for some, size in _batches(rows):
            weight = size + TEST_BYTES * tests * len(some)
            yield await off_loop(weight, partial(self._decode_batch, some, size))

    def _decode_batch(self, rows: Sequence[Any], size: int) -> RowsWithItems:
        if self.keyring.encrypts:  # a value's size is not known before it is decrypted
            return [found for row in rows for found in self._decode_encrypted(row)]
        if self.wanted is None:
            self._count_size(size)
            return list(zip(rows, read.to_items(rows, self.keyring), strict=True))
        return [
            (row, item)
            for row, item in zip(rows, read.to_items(rows, self.keyring), strict=True)
            if self._matches(item, _size(row))
        ]

    def _decode_encrypted(self, row: Any) -> RowsWithItems:
        sealed = read.decrypt_row(row, self.keyring)
        size = decompressed_size(sealed.payload)
        if self.wanted is None:
            self._count_size(size)
        item = read.decode_item(row, sealed)
        return [(row, item)] if self.wanted is None or self._matches(item, size) else []

    def _matches(self, item: StoreItem, size: int) -> bool:
        assert self.wanted is not None
        if not self.wanted.matches(item.value, item.metadata):
            return False
        self._count_size(size)
        return True

    def _count_size(self, size: int) -> None:
        self.size += size
        if self.size > MAX_ANSWER_BYTES:
            advice = "; ask for fewer items, with a smaller limit= and page by page"
            raise TooLarge("the answer", self.size, MAX_ANSWER_BYTES, advice=advice)


def _batches(rows: Sequence[Any]) -> Iterator[tuple[Sequence[Any], int]]:
    """Split *rows* into batches that are decoded at once; yield each with its size in bytes."""
    start = size = 0
    for at, row in enumerate(rows):
        more = _size(row)
        if at > start and (size + more > BATCH_BYTES or at - start >= BATCH_ROWS):
            yield rows[start:at], size
            start, size = at, 0
        size += more
    if start < len(rows):
        yield rows[start:], size


def _size(row: Any) -> int:
    """Return the bytes of a row's value, unpacked; of an encrypted one, as it is stored."""
    return decompressed_size(bytes(row.value))


async def take_first(found: AsyncGenerator[T], limit: int) -> list[T]:
    """Return the first *limit* of *found*; none beyond them is asked for."""
    some: list[T] = []
    async with aclosing(found):
        while len(some) < limit:
            try:
                some.append(await anext(found))
            except StopAsyncIteration:
                break
    return some
