"""LazyBridge's store under the tests of all adapters."""

from __future__ import annotations

import asyncio

from memalchemy.conformance import Subject
from memalchemy.integrations.lazybridge import MemalchemyStore

FRAMEWORK, EXTRA = "lazybridge", "lazybridge"
ADAPTERS = {MemalchemyStore: MemalchemyStore}


async def _read(store: MemalchemyStore, id_: str) -> list[str]:
    found = await asyncio.to_thread(store.read, id_)
    return [] if found is None else [found]


SUBJECTS = {
    "LazyBridge's store": Subject(
        MemalchemyStore,
        lambda store, id_, text: asyncio.to_thread(store.write, id_, text),
        _read,
        lambda store, id_: asyncio.to_thread(store.delete, id_),
        appends=False,
    )
}
