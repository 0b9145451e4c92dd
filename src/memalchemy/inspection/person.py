"""All that is known of a person: what is named after somebody, or has the name in its metadata."""

from __future__ import annotations

from typing import Any

from memalchemy.errors import InvalidArgument
from memalchemy.inspection._log_heads import Namespace
from memalchemy.inspection._records import Record, item_preview, time
from memalchemy.inspection.internal_items import holds_internal_items
from memalchemy.inspection.item_kinds import item_kind
from memalchemy.inspection.store import count_items_up_to
from memalchemy.inspection.thread_list import ThreadFilter, list_threads
from memalchemy.inspection.thread_summaries import USER_KEYS, ThreadSummaries
from memalchemy.keys import check_name
from memalchemy.store import Store

NAMESPACES = 5_000
"""Namespaces of the store that are looked through for the name."""
SHOWN = 20
"""Items that are shown of a namespace, and items that are found by their metadata for a key."""
FOUND = 50
"""Namespaces, and threads of each kind, that are named."""


async def read_person(store: Store, summaries: ThreadSummaries, name: str) -> Record:
    """Return what is known of a person; see `Inspector.person`."""
    if not name:
        raise InvalidArgument("the name of a person is not empty")
    check_name(name, "name")
    namespaces, is_all = await _find_namespaces(store, name)
    places = [await _read_place(store, one) for one in namespaces[:FOUND]]
    tagged = await _find_tagged_items(store, name, namespaces)
    about = await list_threads(
        summaries, wanted=ThreadFilter(about=name), sort="written", limit=FOUND
    )
    threads = {_name_of(row): row | {"by": "name"} for row in about["threads"]}
    looked, window = about["looked"], about["window"]
    for key in USER_KEYS:
        found = await list_threads(
            summaries, wanted=ThreadFilter(metadata={key: name}), sort="written", limit=FOUND
        )
        looked, window = found["looked"], found["window"]
        for row in found["threads"]:
            threads[_name_of(row)] = row | {"by": key}
    shown = [row for row in threads.values() if _is_of(row, name)]
    return {
        "name": name,
        "namespaces": places,
        "more_namespaces": max(len(namespaces) - FOUND, 0),
        "all_namespaces": is_all,
        "items": tagged,
        "threads": sorted(shown, key=lambda row: str(row["happened_at"]), reverse=True),
        "looked": looked,
        "window": window,
        "keys": sorted({row["by"] for row in (*shown, *tagged) if row["by"] != "name"}),
    }


def _name_of(row: Record) -> tuple[Any, ...]:
    return row["thread_id"], *row["namespace"]


def _is_of(row: Record, name: str) -> bool:
    """Return whether a thread is the person's by its metadata, its namespace or a part of its id.

    A thread that only mentions the name is not.
    """
    parts = row["thread_id"].replace(":", "/").replace("|", "/").split("/")
    return row["by"] != "name" or row["user"] == name or name in (*parts, *row["namespace"])


async def _find_namespaces(store: Store, name: str) -> tuple[list[Namespace], bool]:
    """Return the namespaces that have the name as a part, and whether all were looked at."""
    found: list[Namespace] = []
    after: Namespace | None = None
    looked = 0
    while looked < NAMESPACES:
        page = await store.list_namespaces((), 500, after=after)
        found += [one for one in page if name in one and not holds_internal_items(one)]
        looked += len(page)
        if len(page) < 500:
            return found, True
        after = page[-1]
    return found, False


async def _read_place(store: Store, namespace: Namespace) -> Record:
    items = await store.list_items(namespace, limit=SHOWN + 1)
    count = len(items)
    if count > SHOWN:
        count = await count_items_up_to(store.db, namespace, below=False, most=1_000)
    return {
        "namespace": list(namespace),
        "items": count,
        "shown": [_item(one) for one in items[:SHOWN]],
    }


async def _find_tagged_items(store: Store, name: str, namespaces: list[Namespace]) -> list[Record]:
    """Return items elsewhere that have the name in their value or metadata, found by the index."""
    found: dict[tuple[Any, ...], Record] = {}
    for key in USER_KEYS:
        hits = await store.search((), None, SHOWN, prefix=True, filter={key: name})
        for one in hits:
            if one.namespace not in namespaces and not holds_internal_items(one.namespace):
                found.setdefault((*one.namespace, one.key), _item(one) | {"by": key})
    return list(found.values())


def _item(item: Any) -> Record:
    return {
        "namespace": list(item.namespace),
        "key": item.key,
        "kind": item_kind(item),
        "text": item_preview(item.value),
        "updated_at": time(item.updated_at),
    }
