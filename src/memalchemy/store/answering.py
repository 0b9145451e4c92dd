"""The items of an answer, decoded from rows: bounded in bytes, and large ones off the loop."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Iterator, Sequence
from functools import partial
from typing import Any

from memalchemy.codec.packing import unpacked_size
from memalchemy.codec.sealing import Keyring
from memalchemy.contracts import StoreItem
from memalchemy.database import off_loop
from memalchemy.errors import TooLarge
from memalchemy.filters import Filter
from memalchemy.store import queries

MAX_ANSWER_BYTES = 256 * 1024 * 1024
"""The most that the values of one answer take, encoded and unpacked: four of the largest."""

PIECE_BYTES = 16 * 1024 * 1024
PIECE_ROWS = 100
"""What is decoded at once: with a filter not all may be wanted, nor the rest of the page."""

TEST_BYTES = 100
"""A condition of a filter takes as long as decoding about so many bytes."""

Found = list[tuple[Any, StoreItem]]
"""Rows, each with its item."""


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
        if self.keyring.seals:  # how large a value is, is not known before it is opened
            return [found for row in rows for found in self._opened(row)]
        if self.wanted is None:
            self._take(size)
            return list(zip(rows, queries.items(rows, self.keyring), strict=True))
        return [
            (row, item)
            for row, item in zip(rows, queries.items(rows, self.keyring), strict=True)
            if self._passes(item, _size(row))
        ]

    def _opened(self, row: Any) -> Found:
        sealed = queries.opened(row, self.keyring)
        size = unpacked_size(sealed.payload)
        if self.wanted is None:
            self._take(size)
        item = queries.item_of(row, sealed)
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
    return unpacked_size(bytes(row.value))
