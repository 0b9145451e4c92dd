"""LazyBridge's store under the tests of all adapters."""

from __future__ import annotations

import asyncio
from typing import Any

from memalchemy.conformance import Subject
from memalchemy.integrations.lazybridge import MemalchemyStore

FRAMEWORK, EXTRA = "lazybridge", "lazybridge"
ADAPTERS = {MemalchemyStore: MemalchemyStore}
ARGUMENTS: dict[str, list[Any]] = {
    "expected": [None],
    "new": [{"text": "the stork flies"}],
    "turns": [[{"role": "user", "content": "the stork flies"}]],
}


async def _write(store: MemalchemyStore, id_: str, text: str) -> Any:
    value = {"text": text}
    await asyncio.to_thread(store.write, id_, value)
    return value


async def _read(store: MemalchemyStore, id_: str) -> list[str]:
    found = await asyncio.to_thread(store.read, id_)
    return [] if found is None else [found["text"]]


SUBJECTS = {
    "LazyBridge's store": Subject(
        MemalchemyStore,
        _write,
        _read,
        lambda store, id_: asyncio.to_thread(store.delete, id_),
        appends=False,
        objects=lambda store, id_: asyncio.to_thread(store.read, id_),
    )
}
