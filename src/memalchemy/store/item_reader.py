"""Reading items: page by page in order, those that an index narrows a filter to, and by their keys.

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
"""The most that the values of one answer take, encoded and unpacked: four of the largest."""

PIECE_BYTES = 16 * 1024 * 1024
PIECE_ROWS = 100
"""What is decoded at once: with a filter not all may be wanted, nor the rest of the page."""

TEST_BYTES = 100
"""A condition of a filter takes as long as decoding about so many bytes."""

Found = list[tuple[Any, StoreItem]]
"""Rows, each with its item."""


@dataclass(frozen=True, slots=True)
class ItemReader:
    """Read the items of one namespace, or of it and all *below*, for one call.

    They may be a moment old, as a replica has them.
    """

    db: Database
    path: str
    below: bool
    filter: Filter | None
    connection: HostConnection | None
    event: Event
    _answer: list[Answer] = field(default_factory=list)

    @property
    def answer(self) -> Answer:
        """The values that this call gives back, all pages together."""
        if not self._answer:
            self._answer.append(Answer(self.db.keyring, self.filter))
        return self._answer[0]

    async def in_order(
        self, order: str, after: StoreItem | None, limit: int
    ) -> AsyncGenerator[StoreItem]:
        """Items in order, page by page, those that the filter lets through."""
        few = await self._few()
        if few is not None:
            for item in _sorted(few, order, after):
                yield item
            return
        if not limit:
            return
        d, begun = self.db.dialect, after is not None
        binds = scope_binds(self.db.tenant, self.path, self.below)
        if after is not None:
            binds |= _behind(after.updated_at, encode_namespace(after.namespace), after.key)
        pages = scan(
            self.db,
            lambda behind: read.list_items(d, order=order, below=self.below, after=begun or behind),
            binds,
            lambda row: _behind(row.updated_at, row.namespace, row.key),
            self.connection,
            size=min(limit, PAGE) if self.filter is None else PAGE,
            event=self.event,
            replica_ok=True,
        )
        async with aclosing(pages):
            async for rows in pages:
                async with aclosing(self.answer.pieces(rows)) as pieces:
                    async for some in pieces:
                        for _, item in some:
                            yield item

    async def at(
        self, places: Sequence[Place], known: Sequence[Any] = ()
    ) -> dict[Place, StoreItem]:
        """The items at *places*, in their order, that are there and pass the filter.

        *known* are the rows of those that need not be read again.
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
        async with aclosing(self.answer.pieces(there)) as pieces:
            async for some in pieces:
                found |= {(row.namespace, row.key): item for row, item in some}
        return found

    async def run_query(self, statement: Any, binds: dict[str, Any]) -> Any:
        """The rows of a statement."""
        return await run_query(
            self.db, statement, binds, self.connection, event=self.event, replica_ok=True
        )

    def field_words(self) -> list[FieldTerms]:
        """The words of fields that an item which passes the filter may have, if any are stored."""
        if self.filter is None or not self.db.keyring.is_readable("fields"):
            return []
        return [FieldTerms.of(path, values) for path, values in self.filter.equalities()]

    def narrowed(self) -> Callable[[int], Program[Sequence[Place] | None]] | None:
        """The items that may pass the filter, if an index knows: a program that gives them.

        Or ``None``, if they are more than it is given.
        """
        d, fields = self.db.dialect, self.field_words()
        if not fields or not d.text.indexes_fields:
            return None
        scope = scope_binds(self.db.tenant, self.path, self.below)
        scope |= d.text.item_scope_binds(self.db.tenant, self.path, self.below, fields)

        def program(most: int) -> Program[Sequence[Place] | None]:
            rows = yield narrowed_items(d, below=self.below), scope | {"p_limit": most + 1}
            return None if len(rows) > most else [(row.namespace, row.key) for row in rows]

        return program

    async def _few(self) -> list[StoreItem] | None:
        """All that pass the filter, in no order, if an index says that they are few."""
        narrowed = self.narrowed()
        if narrowed is None:
            return None
        places = await self.db.run(
            lambda: narrowed(PAGE), READ_REPLICA, connection=self.connection, event=self.event
        )
        return None if places is None else list((await self.at(places)).values())


def _sorted(items: list[StoreItem], order: str, after: StoreItem | None) -> list[StoreItem]:
    """Items as the database orders them, and what comes after one of them."""

    def place(item: StoreItem) -> tuple[Any, ...]:
        spelt = encode_namespace(item.namespace), encode_id(item.key)
        return (item.updated_at, *spelt) if order == "newest" else spelt

    backwards = order == "newest"
    ordered = sorted(items, key=place, reverse=backwards)
    if after is None:
        return ordered
    mark = place(after)
    return [one for one in ordered if (place(one) < mark if backwards else place(one) > mark)]


def _behind(updated_at: Any, path: str, key: str) -> dict[str, Any]:
    """The binds of a page that comes after this item."""
    return {"p_after_updated_at": updated_at, "p_after_namespace": path, "p_after_key": key}


# --- The values of an answer ---------------------------------------------------------------------


class Answer:
    """What one call gives back: the items that its filter lets through.

    Raises `TooLarge` before it holds values of more than `MAX_ANSWER_BYTES`.
    """

    def __init__(self, keyring: Keyring, wanted: Filter | None) -> None:
        self.keyring, self.wanted = keyring, wanted
        self.size = 0

    async def pieces(self, rows: Sequence[Any]) -> AsyncGenerator[Found]:
        """The items of *rows*, in their order, some at a time."""
        tests = 0 if self.wanted is None else self.wanted.conditions
        for some, size in _pieces(rows):
            weight = size + TEST_BYTES * tests * len(some)
            yield await off_loop(weight, partial(self._decoded, some, size))

    def _decoded(self, rows: Sequence[Any], size: int) -> Found:
        if self.keyring.encrypts:  # how large a value is, is not known before it is opened
            return [found for row in rows for found in self._opened(row)]
        if self.wanted is None:
            self._take(size)
            return list(zip(rows, read.items(rows, self.keyring), strict=True))
        return [
            (row, item)
            for row, item in zip(rows, read.items(rows, self.keyring), strict=True)
            if self._passes(item, _size(row))
        ]

    def _opened(self, row: Any) -> Found:
        sealed = read.opened(row, self.keyring)
        size = decompressed_size(sealed.payload)
        if self.wanted is None:
            self._take(size)
        item = read.item_of(row, sealed)
        return [(row, item)] if self.wanted is None or self._passes(item, size) else []

    def _passes(self, item: StoreItem, size: int) -> bool:
        assert self.wanted is not None
        if not self.wanted.matches(item.value, item.metadata):
            return False
        self._take(size)
        return True

    def _take(self, size: int) -> None:
        self.size += size
        if self.size > MAX_ANSWER_BYTES:
            advice = "; ask for fewer items, with a smaller limit= and page by page"
            raise TooLarge("the answer", self.size, MAX_ANSWER_BYTES, advice=advice)


def _pieces(rows: Sequence[Any]) -> Iterator[tuple[Sequence[Any], int]]:
    """*rows* in parts that are decoded at once, and the bytes of each."""
    start = size = 0
    for at, row in enumerate(rows):
        more = _size(row)
        if at > start and (size + more > PIECE_BYTES or at - start >= PIECE_ROWS):
            yield rows[start:at], size
            start, size = at, 0
        size += more
    if start < len(rows):
        yield rows[start:], size


def _size(row: Any) -> int:
    """Bytes of a row's value, unpacked; of a sealed one, as it is stored."""
    return decompressed_size(bytes(row.value))


async def taken(found: AsyncGenerator[T], limit: int) -> list[T]:
    """The first of *found*, at most *limit*; nothing beyond them is asked for."""
    some: list[T] = []
    async with aclosing(found):
        while len(some) < limit:
            try:
                some.append(await anext(found))
            except StopAsyncIteration:
                break
    return some
