"""What the tests of the store share: ways to read its answers, to wait, and to embed."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Iterable, Iterator
from contextlib import asynccontextmanager
from random import Random
from typing import Any
from zlib import crc32

import pytest
from hypothesis import strategies as st
from sqlalchemy.ext.asyncio import AsyncConnection

from memalchemy import Database
from memalchemy.contracts import StoreItem

WIDTH = 64
"""The dimensions of what an `Embedder` makes."""


class Regret(Exception):
    """What a host raises to leave a transaction."""


@asynccontextmanager
async def undone(db: Database) -> AsyncIterator[AsyncConnection]:
    """A transaction that its host leaves with an exception."""
    with pytest.raises(Regret):  # noqa: PT012 - the block is what raises
        async with db.transaction() as tx:
            yield tx
            raise Regret


def keys_of(items: Iterable[StoreItem]) -> list[str]:
    return [item.key for item in items]


def found_by(results: Iterable[Any]) -> list[str]:
    """The keys of `SemanticSearchResult`s, in their order."""
    return [result.item.key for result in results]


def texts(count: int, longest: int, alphabet: str = "") -> Iterator[str]:
    """Many texts, fast: of characters of an alphabet, and of any; the same in every run."""
    dice = Random(longest)
    for _ in range(count):
        often = dice.choice(("abc xyz", "\U0001f9f5中か한é\u0301 ", alphabet, alphabet)) or "ab "
        yield "".join(
            dice.choice(often) if dice.random() < 0.7 else chr(dice.randrange(0x110000))
            for _ in range(dice.randint(0, longest))
        )


any_text = st.text(st.characters(codec=None), max_size=60)
"""Texts of any code points, lone surrogates and U+0000 included."""


class Embedder:
    """Makes vectors of texts by their words, and remembers what it was asked for."""

    def __init__(self) -> None:
        self.calls: list[list[str]] = []

    def __call__(self, texts: list[str]) -> Any:
        self.calls.append(list(texts))
        return [vector_of(text) for text in texts]


class AsyncEmbedder(Embedder):
    async def __call__(self, texts: list[str]) -> Any:
        await asyncio.sleep(0)
        return super().__call__(texts)


def vector_of(text: str) -> list[float]:
    """Counts of words, each at a place of its own; of a text without words no zero vector."""
    vector = [0.01] * WIDTH
    for word in text.lower().replace('"', " ").replace(",", " ").split():
        vector[crc32(word.encode("utf-8", "replace")) % WIDTH] += 1.0
    return vector
