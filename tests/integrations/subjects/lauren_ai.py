"""lauren-ai's stores under the tests of all adapters."""

from __future__ import annotations

from typing import Any

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


async def _load(store: MemalchemyConversationStore, id_: str) -> list[str]:
    found: Any = await store.load(id_)
    return [one["content"] for one in found["messages"]] if found else []


SUBJECTS = {
    "lauren-ai's conversations": Subject(
        MemalchemyConversationStore,
        lambda store, id_, text: store.save(id_, [{"role": "user", "content": text}]),
        _load,
        lambda store, id_: store.delete(id_),
        appends=False,
    )
}
