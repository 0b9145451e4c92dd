"""Pytest plugin that runs langchain-core's own tests on our classes.

The working directory is langchain-core's sdist; see test_langchain_suite.py. The names of the
classes in memory mean ours in its test modules. Their constructors, and the attributes in which the
tests look, are those of the classes in memory.
"""

from __future__ import annotations

import asyncio
import os
from collections.abc import Iterator, Mapping, Sequence
from typing import Any
from uuid import uuid4

import pytest
from langchain_core.embeddings import Embeddings
from langchain_core.messages import BaseMessage

from memalchemy import Database, Store
from memalchemy.integrations.langchain import (
    MemalchemyCache,
    MemalchemyChatMessageHistory,
    MemalchemyRecordManager,
    MemalchemyVectorStore,
)

DB = Database(os.environ["MEMALCHEMY_SUITE_URL"])


def fresh() -> tuple[str]:
    """A namespace that nothing is in."""
    return (uuid4().hex,)


class OurRecordManager(MemalchemyRecordManager):
    """The tests set the time by replacing ``get_time``, which ``aget_time`` of theirs calls."""

    def __init__(self, namespace: str) -> None:
        super().__init__(DB, namespace=(namespace, *fresh()))

    def get_time(self) -> float:
        return self.wait(self.db.now()).timestamp()

    async def aget_time(self) -> float:
        return await asyncio.to_thread(self.get_time)


class ListedStore(Store):
    """The tests look for the ids of documents by iterating over ``store``."""

    def __iter__(self) -> Iterator[str]:
        return iter(self.keys())

    def __len__(self) -> int:
        return len(self.keys())

    def keys(self) -> list[str]:
        owner: OurVectorStore = self.owner  # type: ignore[attr-defined]
        return owner.wait(self.list_keys(owner.namespace))


class OurVectorStore(MemalchemyVectorStore):
    def __init__(self, embedding: Embeddings) -> None:
        super().__init__(DB, embedding=embedding, namespace=fresh())
        self.store: Any = ListedStore(self.db)
        self.store.owner = self


class OurHistory(MemalchemyChatMessageHistory):
    """The tests compare histories, and make some of messages."""

    def __init__(self, messages: Sequence[BaseMessage] = ()) -> None:
        super().__init__(DB, session_id=uuid4().hex)
        if messages:
            self.add_messages(messages)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, OurHistory) and self.messages == other.messages

    __hash__ = None  # type: ignore[assignment]


class OurCache(MemalchemyCache):
    """The tests look into ``_cache``, by prompt and model, and count its answers."""

    def __init__(self) -> None:
        super().__init__(DB, namespace=fresh())
        self._asked: dict[tuple[str, str], None] = {}

    async def aupdate(self, prompt: str, llm_string: str, return_val: Any) -> None:
        self._asked[prompt, llm_string] = None
        await super().aupdate(prompt, llm_string, return_val)

    @property
    def _cache(self) -> Answers:
        found = {asked: self.lookup(*asked) for asked in self._asked}
        return Answers(self, {asked: answer for asked, answer in found.items() if answer})

    @_cache.setter
    def _cache(self, answers: Mapping[tuple[str, str], Any]) -> None:
        for asked, answer in answers.items():
            self.update(*asked, answer)

    def __len__(self) -> int:
        return self.wait(self.store.count(self.namespace))


class Answers(dict[tuple[str, str], Any]):
    def __init__(self, cache: OurCache, found: dict[tuple[str, str], Any]) -> None:
        super().__init__(found)
        self._cache = cache

    def __setitem__(self, asked: tuple[str, str], answer: Any) -> None:
        self._cache.update(*asked, answer)


OURS = {
    "InMemoryRecordManager": OurRecordManager,
    "InMemoryVectorStore": OurVectorStore,
    "InMemoryChatMessageHistory": OurHistory,
    "InMemoryCache": OurCache,
}


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    for module in {item.getparent(pytest.Module) for item in items}:
        assert module is not None
        for name, ours in OURS.items():
            if hasattr(module.obj, name):
                setattr(module.obj, name, ours)
