"""Read items: page by page in order, those that an index finds for a filter, or by their keys.

The values of an answer are bounded in bytes, and large ones are decoded off the loop.
"""

from __future__ import annotations

import operator
from collections.abc import AsyncGenerator, Callable, Iterator, Sequence
from contextlib import aclosing
from dataclasses import dataclass, field
from datetime import datetime
from functools import partial
from operator import itemgetter
from typing import Any, NamedTuple, TypeVar

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
from memalchemy.search.ranking import holds_term
from memalchemy.search.scope import Place, key_lists, scope_binds
from memalchemy.search.text import narrowed_items, newest_narrowed
from memalchemy.search.word_query import WordQuery
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

MAX_NARROWED = 40 * PAGE
"""Items up to which the places of all that may pass a filter are read, to put them in order."""

LEAST_READ = 100
"""Items that are read at once where an index has narrowed them, even if fewer are wanted."""

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
            self._decoder.append(ItemDecoder(self.db.tenant, self.db.keyring, self.filter))
        return self._decoder[0]

    async def read_in_order(
        self, order: str, after: StoreItem | None, limit: int
    ) -> AsyncGenerator[StoreItem]:
        """Yield the items that the filter accepts, in order.

        If an index finds that it may accept few, these are read. If many, a page in order probably
        has enough of them; when it has not, the index is asked once more where the others are.
        """
        if not limit:
            return
        last = None
        if after is not None:
            last = Mark(after.updated_at, encode_namespace(after.namespace), after.key)
        narrowed = None
        if order == "newest" and last is None:
            size = max(limit, LEAST_READ)
            number, rows = await self._read_newest_narrowed(PAGE, size)
            if number is not None and number <= PAGE:
                async with aclosing(self.decoder.decode(rows, by_words=True)) as batches:
                    async for found in batches:
                        for _, item in found:
                            yield item
                if number <= size:
                    return
                if rows:
                    last = Mark(rows[-1].updated_at, rows[-1].namespace, rows[-1].key)
                narrowed = await self._find_narrowed(PAGE)
        else:
            narrowed = await self._find_narrowed(PAGE)
        if narrowed is None:
            async with aclosing(self._pages_of_rows(order, last, limit)) as pages:
                async for is_first, rows in pages:
                    async with aclosing(self.decoder.decode(rows)) as batches:
                        async for found in batches:
                            for _, item in found:
                                yield item
                    if is_first:
                        last = Mark(rows[-1].updated_at, rows[-1].namespace, rows[-1].key)
                        narrowed = await self._find_narrowed(MAX_NARROWED)
                        if narrowed is not None:
                            break
        if narrowed is not None:
            places = _sort_places(narrowed, order, last)
            size = max(limit, LEAST_READ)
            for start in range(0, len(places), size):
                some = places[start : start + size]
                for item in (await self.read_at(some, by_words=True)).values():
                    yield item

    async def _pages_of_rows(
        self, order: str, last: Mark | None, limit: int
    ) -> AsyncGenerator[tuple[bool, Sequence[Any]]]:
        """Yield the rows of all items, in order, by pages; and whether a page is the first."""
        d, begun = self.db.dialect, last is not None
        binds = scope_binds(self.db.tenant, self.path, self.below)
        if last is not None:
            binds |= last.binds()
        pages = scan(
            self.db,
            lambda behind: read.list_items(d, order=order, below=self.below, after=begun or behind),
            binds,
            lambda row: Mark(row.updated_at, row.namespace, row.key).binds(),
            self.connection,
            size=min(limit, PAGE) if self.filter is None else PAGE,
            event=self.event,
            replica_ok=True,
        )
        is_first = True
        async with aclosing(pages):
            async for rows in pages:
                yield is_first, rows
                is_first = False

    async def read_at(
        self,
        places: Sequence[Place],
        known: Sequence[Any] = (),
        *,
        by_words: bool = False,
        query: WordQuery | None = None,
    ) -> dict[Place, StoreItem]:
        """Return the items at *places* that exist and pass the filter, in the order of *places*.

        *known* are rows that need not be read again. With *by_words* an index of their words has
        found them, and their signatures have to prove these. An item that does not hold what
        *query* asks for is left out: the index was edited, or the item was written meanwhile.
        """
        rows = {(row.namespace, row.key): row for row in known}
        missing = [place for place in places if place not in rows]
        by_words = by_words and self.db.signing.signs
        statement = read.read_items(self.db.dialect, words=by_words)
        for listed in key_lists(self.db.dialect, missing):
            binds = {"k_tenant": self.db.tenant} | listed
            for row in await self.run_query(statement, binds):
                rows[row.namespace, row.key] = row
        there = [rows[place] for place in places if place in rows]
        found: dict[Place, StoreItem] = {}
        async with aclosing(self.decoder.decode(there, by_words=by_words)) as batches:
            async for some in batches:
                found |= {
                    (row.namespace, row.key): item
                    for row, item in some
                    if not by_words or query is None or _holds_words(row.search_text, query)
                }
        return found

    async def run_query(self, statement: Any, binds: dict[str, Any]) -> Any:
        """Return the rows of a statement."""
        return await run_query(
            self.db, statement, binds, self.connection, event=self.event, replica_ok=True
        )

    async def run(self, program: Callable[[], Program[T]]) -> T:
        """Return the result of a program that reads."""
        return await self.db.run(
            program, READ_REPLICA, connection=self.connection, event=self.event
        )

    def field_terms(self) -> list[FieldTerms]:
        """The field terms that an item which passes the filter may have, if any are stored."""
        if self.filter is None or not self.db.keyring.is_readable("fields"):
            return []
        terms = [FieldTerms.of(path, values) for path, values in self.filter.equalities()]
        ranges = self.filter.ranges()[:MAX_RANGES]
        return terms + [FieldTerms.between(path, low, high) for path, low, high in ranges]

    async def _read_newest_narrowed(
        self, most: int, limit: int
    ) -> tuple[int | None, Sequence[Any]]:
        """Return the number of items that may pass the filter, and the newest *limit* as rows.

        If they are more than *most*, the number is ``most + 1``, and there are no rows. Without an
        index for the filter the number is ``None``.
        """
        d, fields = self.db.dialect, self.field_terms()
        if not fields or not d.text.indexes_fields:
            return None, []
        binds = scope_binds(self.db.tenant, self.path, self.below)
        binds |= d.text.item_scope_binds(self.db.tenant, self.path, self.below, fields)
        binds |= {"p_most": most, "p_beyond": most + 1, "p_limit": limit}
        statement = newest_narrowed(d, below=self.below)
        rows = await self.run_query(statement, binds)
        return rows[0].number, [row for row in rows if row.key is not None]

    @property
    def is_indexed(self) -> bool:
        """Return true if an index finds the items by every condition of the filter."""
        if self.filter is None:
            return False
        return len(self.field_terms()) == self.filter.conditions and (
            self.db.dialect.text.indexes_fields
        )

    def narrowing_program(self) -> Callable[[int], Program[Sequence[Place] | None]] | None:
        """Return a program that finds the items that may pass the filter, if an index has them.

        The program takes the largest number of items to return, and returns ``None`` if there are
        more.
        """
        find = self._narrowing_program()
        if find is None:
            return None

        def program(most: int) -> Program[Sequence[Place] | None]:
            rows = yield from find(most)
            return None if rows is None else [(row.namespace, row.key) for row in rows]

        return program

    def _narrowing_program(self) -> Callable[[int], Program[Sequence[Any] | None]] | None:
        """Return the same as `narrowing_program`, with ``namespace, key, updated_at`` as rows."""
        d, fields = self.db.dialect, self.field_terms()
        if not fields or not d.text.indexes_fields:
            return None
        scope = scope_binds(self.db.tenant, self.path, self.below)
        scope |= d.text.item_scope_binds(self.db.tenant, self.path, self.below, fields)

        def program(most: int) -> Program[Sequence[Any] | None]:
            rows = yield narrowed_items(d, below=self.below), scope | {"p_limit": most + 1}
            return None if len(rows) > most else rows

        return program

    async def _find_narrowed(self, most: int) -> Sequence[Any] | None:
        """Return the rows of all items that may pass the filter, if an index has them.

        They are unordered, and have ``namespace, key, updated_at``. ``None`` if there are more than
        *most*.
        """
        find = self._narrowing_program()
        if find is None:
            return None
        return await self.db.run(
            lambda: find(most),
            READ_REPLICA,
            connection=self.connection,
            event=self.event,
        )


class Mark(NamedTuple):
    """Place of an item in the order of a listing; the namespace is encoded."""

    updated_at: datetime
    path: str
    key: str

    def binds(self) -> dict[str, Any]:
        """Return the binds of a page that comes after the item."""
        return {
            "p_after_updated_at": self.updated_at,
            "p_after_namespace": self.path,
            "p_after_key": self.key,
        }

    def sort_key(self, order: str) -> tuple[Any, ...]:
        """Return a key that sorts in Python as the database sorts."""
        name = self.path, encode_id(self.key)
        return (self.updated_at, *name) if order == "newest" else name


def _sort_places(rows: Sequence[Any], order: str, last: Mark | None) -> list[Place]:
    """Sort rows of items as the database does; return the places of those behind *last*."""
    marks = [Mark(row.updated_at, row.namespace, row.key) for row in rows]
    keyed = [(mark.sort_key(order), mark) for mark in marks]
    keyed.sort(key=itemgetter(0), reverse=order == "newest")
    if last is not None:
        end = last.sort_key(order)
        is_behind = operator.lt if order == "newest" else operator.gt
        keyed = [(key, mark) for key, mark in keyed if is_behind(key, end)]
    return [(mark.path, mark.key) for _, mark in keyed]


# --- The values of an answer ---------------------------------------------------------------------


class ItemDecoder:
    """Decoder of the items that one call returns, as far as its filter accepts them.

    Raises `TooLarge` before it holds values of more than `MAX_ANSWER_BYTES`.
    """

    def __init__(self, tenant: str, keyring: Keyring, wanted: Filter | None) -> None:
        self.tenant: str = tenant
        self.keyring: Keyring = keyring
        self.wanted: Filter | None = wanted
        self.size: int = 0

    async def decode(
        self, rows: Sequence[Any], *, by_words: bool = False
    ) -> AsyncGenerator[RowsWithItems]:
        """Yield the items of *rows*, in their order, in batches.

        With *by_words* the rows have the words by which they were found, which are verified.
        """
        tests = 0 if self.wanted is None else self.wanted.conditions
        for some, sizes in _split_into_batches(rows):
            weight = sum(sizes) + TEST_BYTES * tests * len(some)
            yield await off_loop(weight, partial(self._decode_batch, some, sizes, by_words))

    def _decode_batch(
        self, rows: Sequence[Any], sizes: Sequence[int], by_words: bool
    ) -> RowsWithItems:
        if self.keyring.encrypts:  # a value's size is not known before it is decrypted
            return [found for row in rows for found in self._decode_encrypted(row, by_words)]
        if self.wanted is None:
            self._count_size(sum(sizes))
        items = read.to_items(self.tenant, rows, self.keyring, words=by_words)
        if self.wanted is None:
            return list(zip(rows, items, strict=True))
        return [
            (row, item)
            for row, item, size in zip(rows, items, sizes, strict=True)
            if self._passes_filter(item, size)
        ]

    def _decode_encrypted(self, row: Any, by_words: bool) -> RowsWithItems:
        sealed = read.decrypt_row(self.tenant, row, self.keyring, words=by_words)
        size = decompressed_size(sealed.payload)
        if self.wanted is None:
            self._count_size(size)
        item = read.decode_item(row, sealed)
        return [(row, item)] if self.wanted is None or self._passes_filter(item, size) else []

    def _passes_filter(self, item: StoreItem, size: int) -> bool:
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


def _split_into_batches(rows: Sequence[Any]) -> Iterator[tuple[Sequence[Any], Sequence[int]]]:
    """Split *rows* into batches that are decoded at once; yield each with its sizes in bytes."""
    sizes = list(map(_size_of_row, rows))
    start = size = 0
    for at, more in enumerate(sizes):
        if at > start and (size + more > BATCH_BYTES or at - start >= BATCH_ROWS):
            yield rows[start:at], sizes[start:at]
            start, size = at, 0
        size += more
    if start < len(rows):
        yield rows[start:], sizes[start:]


def _size_of_row(row: Any) -> int:
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


def _holds_words(text: str | None, query: WordQuery) -> bool:
    """Return whether a search text holds what a query asks for: a term, or all terms."""
    if query.match == "all":
        return all(holds_term(text, (term,)) for term in query.terms)
    return holds_term(text, query.terms)
