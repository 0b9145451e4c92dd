"""mem0's memories and their history under the tests of all adapters."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import Any

import scripted_mem0  # noqa: F401  (before mem0)

from memalchemy.conformance import Subject
from memalchemy.integrations.mem0 import (
    MemalchemyHistory,
    MemalchemyVectorStore,
)

FRAMEWORK, EXTRA = "mem0", "mem0"
NO_SUITE = "The sdist of mem0ai has no tests."
ADAPTERS: dict[Any, Any] = {
    MemalchemyHistory: MemalchemyHistory,
    MemalchemyVectorStore: MemalchemyVectorStore,
}
ARGUMENTS: dict[str, list[Any]] = {
    "event": ["UPDATE"],
    "new_memory": ["the stork flies"],
    "old_memory": [None],
}


async def _insert(store: MemalchemyVectorStore, id_: str, text: str) -> Any:
    payload = {"data": text, "marks": [1]}
    await asyncio.to_thread(store.insert, [[1.0, 2.0]], [payload], [id_])
    return payload


async def _memory(store: MemalchemyVectorStore, id_: str) -> list[str]:
    found = await asyncio.to_thread(store.get, id_)
    return [] if found is None else [found.payload["data"]]


async def _add(history: MemalchemyHistory, id_: str, text: str) -> Any:
    record = {"memory_id": id_, "new_memory": text, "event": "ADD"}
    await asyncio.to_thread(history.batch_add_history, [record])
    return record


async def _changes(history: MemalchemyHistory, id_: str) -> list[str]:
    found = await asyncio.to_thread(history.get_history, id_)
    return [change["new_memory"] for change in found]


async def _say(history: MemalchemyHistory, id_: str, text: str) -> Any:
    message = {"role": "user", "content": text}
    await asyncio.to_thread(history.save_messages, [message], id_)
    return message


async def _said(history: MemalchemyHistory, id_: str) -> list[str]:
    found = await asyncio.to_thread(history.get_last_messages, id_, 1_000)
    return [message["content"] for message in found]


def _histories(db: Any, namespace: Sequence[str] = ()) -> MemalchemyHistory:
    return MemalchemyHistory(db, namespace=namespace, keep_messages=None)


SUBJECTS: dict[str, Subject[Any]] = {
    "mem0's memories": Subject(
        MemalchemyVectorStore,
        _insert,
        _memory,
        lambda store, id_: asyncio.to_thread(store.delete, id_),
        appends=False,
        objects=lambda store, id_: asyncio.to_thread(store.get, id_),
    ),
    "the history of mem0's memories": Subject(
        _histories,
        _add,
        _changes,
        lambda history, id_: history.changes.delete(id_),
        objects=lambda history, id_: asyncio.to_thread(history.get_history, id_),
        namespaced=_histories,
    ),
    "mem0's messages": Subject(
        _histories,
        _say,
        _said,
        lambda history, id_: history.messages.delete(id_),
        objects=lambda history, id_: asyncio.to_thread(history.get_last_messages, id_),
        namespaced=_histories,
    ),
}
