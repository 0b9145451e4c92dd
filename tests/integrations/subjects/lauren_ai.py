"""lauren-ai's stores under the tests of all adapters."""

from __future__ import annotations

from typing import Any

from lauren_ai import MemoryFact, StorageError

from memalchemy.conformance import Subject
from memalchemy.integrations.lauren_ai import (
    MemalchemyConversationStore,
    MemalchemyUserMemoryStore,
    MemalchemyVectorStore,
)

FRAMEWORK, EXTRA = "lauren_ai", "lauren-ai"
ADAPTERS: dict[Any, Any] = {
    MemalchemyConversationStore: MemalchemyConversationStore,
    MemalchemyUserMemoryStore: MemalchemyUserMemoryStore,
    MemalchemyVectorStore: MemalchemyVectorStore,
}
ARGUMENTS = {"fact": [MemoryFact("ada", "ada", "the stork flies")]}


async def _save(store: MemalchemyConversationStore, id_: str, text: str) -> Any:
    messages = [{"role": "user", "content": text}]
    await store.save(id_, messages)
    return messages


async def _load(store: MemalchemyConversationStore, id_: str) -> list[str]:
    found: Any = await store.load(id_)
    return [one["content"] for one in found["messages"]] if found else []


SUBJECTS = {
    "lauren-ai's conversations": Subject(
        MemalchemyConversationStore,
        _save,
        _load,
        lambda store, id_: store.delete(id_),
        appends=False,
        objects=lambda store, id_: store.load(id_),
        refusals=(StorageError,),
    )
}
