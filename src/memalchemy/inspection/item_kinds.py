"""The kinds of items: facts, episodes, long-term memories, documents, and others."""

from __future__ import annotations

from memalchemy.contracts import StoreItem

MEMORY_TYPES = ("user", "feedback", "project", "reference")


def item_kind(item: StoreItem) -> str:
    """Return the kind of an item, such as a fact, from its shape and its namespace."""
    value, namespace = item.value, item.namespace
    if isinstance(value, dict):
        names = value.keys()
        if {"content", "topics", "confidence", "last_seen_at"} <= names:
            return "fact"
        if {"task", "rollout", "completed_at"} <= names:
            return "episode"
        if {"type", "key", "content"} <= names and value["type"] in MEMORY_TYPES:
            return "memory"
        if names == {"id", "page_content", "metadata"}:
            return "document"
    if namespace[:1] == ("vectors",):
        return "document"
    return "item"
