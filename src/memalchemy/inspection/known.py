"""All that is known of a person, an agent, a pair of metadata or a namespace, on one page each."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from memalchemy._bounds import parse_plain_json
from memalchemy.errors import InvalidArgument
from memalchemy.inspection._log_heads import Namespace
from memalchemy.inspection._records import Record, framework_of, item_preview, time
from memalchemy.inspection.internal_items import holds_internal_items
from memalchemy.inspection.item_kinds import item_kind
from memalchemy.inspection.store import count_items_up_to
from memalchemy.inspection.thread_list import ThreadFilter, list_threads
from memalchemy.inspection.thread_summaries import AGENT_KEYS, USER_KEYS, ThreadSummaries
from memalchemy.keys import check_name, check_namespace
from memalchemy.store import Store

NAMESPACES = 5_000
"""Namespaces of the store that are looked through for the name."""
SHOWN = 20
"""Items that are shown of a namespace, and items that are found by their metadata for a key."""
FOUND = 50
"""Namespaces, and threads of each kind, that are named."""


@dataclass(frozen=True)
class _Subject:
    """The subject of a page: a person, an agent or a pair of metadata.

    Attributes:
        keys: keys of metadata under which the name stands.
        field: the field of a thread's summary that has the name, if ids and namespaces have it as
            a part, too.
    """

    kind: str
    name: str
    keys: Sequence[str]
    field: str | None = None


async def read_person(store: Store, summaries: ThreadSummaries, name: str) -> Record:
    """Return what is known of a person; see `Inspector.person`."""
    if not name:
        raise InvalidArgument("the name of a person is not empty")
    check_name(name, "name")
    return await _read_named(store, summaries, _Subject("person", name, USER_KEYS, "user"))


async def read_scope(
    store: Store,
    summaries: ThreadSummaries,
    *,
    namespace: Sequence[str],
    agent: str,
    metadata: Mapping[str, str],
) -> Record:
    """Return what is known of a scope; see `Inspector.scope`."""
    if bool(namespace) + bool(agent) + len(metadata) != 1:
        raise InvalidArgument("give a namespace, an agent or a pair of metadata: one of them")
    if namespace:
        return await _read_namespace(store, summaries, check_namespace(namespace))
    if agent:
        check_name(agent, "agent")
        subject = _Subject("agent", agent, AGENT_KEYS, "agent")
    else:
        ((key, value),) = metadata.items()
        subject = _Subject("metadata", value, (key,))
    return await _read_named(store, summaries, subject)


async def _read_named(store: Store, summaries: ThreadSummaries, subject: _Subject) -> Record:
    """Return what is named after somebody, or has a value under some keys of its metadata."""
    namespaces: list[Namespace] = []
    is_all = True
    threads: dict[tuple[Any, ...], Record] = {}
    looked: dict[str, Any] = {"looked": 0, "window": None}

    async def add_threads(wanted: ThreadFilter, by: str) -> None:
        found = await list_threads(summaries, wanted=wanted, sort="written", limit=FOUND)
        looked.update(looked=found["looked"], window=found["window"])
        for row in found["threads"]:
            threads[_name_of(row)] = row | {"by": by}

    if subject.field is not None:
        namespaces, is_all = await _find_namespaces(store, subject.name)
        await add_threads(ThreadFilter(about=subject.name, unreadable=False), "name")
    for key in subject.keys:
        await add_threads(ThreadFilter(metadata={key: subject.name}), key)
    tagged = await _find_tagged_items(store, subject, namespaces)
    shown = [row for row in threads.values() if _is_of(row, subject)]
    return {
        "kind": subject.kind,
        "name": subject.name,
        "namespaces": [await _read_place(store, one) for one in namespaces[:FOUND]],
        "more_namespaces": max(len(namespaces) - FOUND, 0),
        "all_namespaces": is_all,
        "items": tagged,
        "threads": _latest_first(shown),
        "keys": sorted({row["by"] for row in (*shown, *tagged) if row["by"] != "name"}),
        **looked,
    }


async def _read_namespace(store: Store, summaries: ThreadSummaries, namespace: Namespace) -> Record:
    """Return the items and threads of a namespace and of those below it."""
    places = await store.list_namespaces(namespace, FOUND + 1)
    found = await list_threads(
        summaries,
        framework=framework_of(namespace),
        wanted=ThreadFilter(below=namespace),
        sort="written",
        limit=FOUND,
    )
    return {
        "kind": "namespace",
        "name": namespace[-1],
        "namespace": list(namespace),
        "namespaces": [await _read_place(store, one) for one in places[:FOUND]],
        "more_namespaces": max(len(places) - FOUND, 0),
        "all_namespaces": True,
        "items": [],
        "threads": _latest_first([row | {"by": "namespace"} for row in found["threads"]]),
        "keys": [],
        "looked": found["looked"],
        "window": found["window"],
    }


def _latest_first(threads: list[Record]) -> list[Record]:
    return sorted(threads, key=lambda row: str(row["happened_at"]), reverse=True)


def _name_of(row: Record) -> tuple[Any, ...]:
    return row["thread_id"], *row["namespace"]


def _is_of(row: Record, subject: _Subject) -> bool:
    """Return whether a thread is somebody's by its metadata, its namespace or a part of its id.

    A thread that only mentions the name is not.
    """
    if row["by"] != "name" or (subject.field and row[subject.field] == subject.name):
        return True
    parts = row["thread_id"].replace(":", "/").replace("|", "/").split("/")
    return subject.name in (*parts, *row["namespace"])


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


async def _find_tagged_items(
    store: Store, subject: _Subject, namespaces: list[Namespace]
) -> list[Record]:
    """Return items elsewhere that have the name in their value or metadata, found by the index."""
    found: dict[tuple[Any, ...], Record] = {}
    for key in subject.keys:
        for value in _values_of(subject.name):
            hits = await store.search((), None, SHOWN, prefix=True, filter={key: value})
            for one in hits:
                if one.namespace not in namespaces and not holds_internal_items(one.namespace):
                    found.setdefault((*one.namespace, one.key), _item(one) | {"by": key})
    return list(found.values())


def _values_of(text: str) -> list[Any]:
    """Return the values of metadata that a text stands for: itself, and a number or a boolean."""
    try:
        value = parse_plain_json(text)
    except ValueError:
        return [text]
    return [text, value] if isinstance(value, (bool, int, float)) else [text]


def _item(item: Any) -> Record:
    return {
        "namespace": list(item.namespace),
        "key": item.key,
        "kind": item_kind(item),
        "text": item_preview(item.value),
        "updated_at": time(item.updated_at),
    }
