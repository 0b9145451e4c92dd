"""Rows of what stores hold: items, and those of them that are memories."""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import Any

from memalchemy.analysis._values import adapter_root_of, json_text, text
from memalchemy.analysis.selection import Selection
from memalchemy.contracts import StoreItem
from memalchemy.database import Database
from memalchemy.inspection.internal_items import holds_internal_items
from memalchemy.inspection.item_kinds import item_kind
from memalchemy.keys import format_namespace
from memalchemy.protection.proven_jobs import ERRORS, Damage, is_damage
from memalchemy.store import Store

Row = dict[str, Any]

NAMESPACES = 200
"""Namespaces that are listed at once."""

_MEMORIES = ("fact", "episode", "memory")
"""Kinds of items that are memories."""


async def selected_items(
    db: Database, selection: Selection, unreadable: Damage
) -> AsyncIterator[StoreItem]:
    """Yield the selected items, without those that are an adapter's own; by namespace and key.

    Items that cannot be read are noted and passed over.
    """
    store = Store(db)
    path, below = selection.place
    async for namespace in _namespaces(store, path, below=below):
        if holds_internal_items(namespace):
            continue
        async for item in _items_of(store, namespace, unreadable):
            has_pairs = all(
                name in item.metadata and item.metadata[name] == value
                for name, value in selection.metadata.items()
            )
            if has_pairs and selection.has_time(item.updated_at):
                yield item


async def _namespaces(
    store: Store, path: tuple[str, ...], *, below: bool
) -> AsyncIterator[tuple[str, ...]]:
    if not below:
        yield path
        return
    after: tuple[str, ...] | None = None
    while page := await store.list_namespaces(path, NAMESPACES, after=after):
        for namespace in page:
            yield namespace
        after = page[-1]


async def _items_of(
    store: Store, namespace: tuple[str, ...], unreadable: Damage
) -> AsyncIterator[StoreItem]:
    """Yield the items of a namespace, one by one if some cannot be read."""
    last: StoreItem | None = None
    try:
        async for item in store.iter_items(namespace, order="key"):
            yield item
            last = item
    except ERRORS as error:
        if not is_damage(error):
            raise
    else:
        return
    with unreadable.noted():
        async for key in store.iter_keys(namespace):
            if last is not None and key <= last.key:
                continue
            with unreadable.noted():
                found = await store.get_item(namespace, key, refresh=False)
                if found is not None:
                    yield found


def item_row(tenant: str, item: StoreItem) -> Row:
    """Return the row of an item."""
    return _place_of(tenant, item) | {
        "framework": adapter_root_of(item.namespace),
        "value": json_text(item.value),
        "metadata": json_text(item.metadata),
        "version": item.version,
        "created_at": item.created_at,
        "updated_at": item.updated_at,
        "expires_at": item.expires_at,
    }


def memory_row(tenant: str, item: StoreItem) -> Row | None:
    """Return the row of a fact, an episode or a long-term memory; ``None`` of another item."""
    kind, value = item_kind(item), item.value
    if kind not in _MEMORIES:
        return None
    words = value["task"] if kind == "episode" else value["content"]
    confidence = value.get("confidence")
    is_number = isinstance(confidence, (int, float)) and not isinstance(confidence, bool)
    return _place_of(tenant, item) | {
        "kind": kind,
        "user_id": text(item.namespace[-1]) if kind == "fact" and item.namespace else None,
        "text": _text_or_json(words),
        "result": _text_or_json(value.get("result")),
        "confidence": float(confidence) if is_number else None,
        "created_at": item.created_at,
        "updated_at": item.updated_at,
    }


def _text_or_json(value: Any) -> str | None:
    return text(value) if isinstance(value, str) else json_text(value)


def _place_of(tenant: str, item: StoreItem) -> Row:
    return {
        "tenant": text(tenant),
        "namespace": text(format_namespace(item.namespace)),
        "key": text(item.key),
    }
