"""The store: its namespaces, the items in them, one item, and its neighbours."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Mapping
from datetime import datetime
from functools import partial
from typing import Any

from memalchemy._cursors import decode_cursor, encode_cursor
from memalchemy.contracts import Match, StoreItem, check_match
from memalchemy.database import Database
from memalchemy.errors import InvalidArgument, KeyMissing, NotEncrypted, NotFound
from memalchemy.inspection import _statements as statements
from memalchemy.inspection._log_heads import Namespace, query
from memalchemy.inspection._records import Record, item_preview, item_record
from memalchemy.inspection.internal_items import holds_internal_items, internal_binds, places
from memalchemy.inspection.item_kinds import item_kind
from memalchemy.inspection.tree import tree, value_at
from memalchemy.keys import check_namespace, decode_namespace, encode_namespace
from memalchemy.log.scan import run_query
from memalchemy.protection.signed_items import check_vector_sets
from memalchemy.search.scope import key_lists, scope_binds
from memalchemy.statements import Program
from memalchemy.store import Store
from memalchemy.store.read import decode_item_value

COUNTED_BELOW = 1_000
"""Items of each namespace in a list that are counted, at most."""
NAMESPACES_AT_ONCE = 100
"""Namespaces that are read at once to find those right below one."""
SORTED = 5_000
"""Items below a namespace up to which they are sorted by time."""
SMALL = 64 * 1024
"""Bytes of a value that a list reads."""

_LAST = "\U0010ffff"
"""A part behind all others that stand below a namespace."""


async def list_child_namespaces(
    store: Store,
    namespace: Iterable[str] = (),
    *,
    internal: bool = False,
    cursor: str | None = None,
    limit: int = 100,
) -> Record:
    """Return a page of the namespaces right below one, with the number of items in each.

    At most 1,000 items of each are counted: ``more`` says that there are others.
    """
    top = check_namespace(namespace)
    internal = internal or holds_internal_items(top)
    after: Namespace | None = None
    if cursor is not None:
        after = check_namespace(decode_cursor("namespaces", cursor, (list,))[0])
    children: list[Namespace] = []
    while len(children) <= limit:
        found = await _next_children(store, top, after)
        children += [one for one in found if internal or not holds_internal_items(one)]
        if not found:
            break
        after = (*found[-1], _LAST)
    records = []
    for child in children[:limit]:
        items = await count_items_up_to(
            store.db, child, below=True, internal=internal, most=COUNTED_BELOW + 1
        )
        more = items > COUNTED_BELOW
        records.append({"namespace": list(child), "items": min(items, COUNTED_BELOW), "more": more})
    last = children[limit - 1] if len(children) > limit else None
    return {
        "namespaces": records,
        "next": None if last is None else encode_cursor("namespaces", [*last, _LAST]),
    }


async def list_item_records(
    store: Store,
    namespace: Iterable[str] = (),
    words: str = "",
    *,
    match: Match = "any",
    below: bool = True,
    internal: bool = False,
    cursor: str | None = None,
    limit: int = 50,
) -> Record:
    """Return a page of items, the last written first; with *below* also of lower namespaces.

    Items of a large tree of namespaces are in the order of namespaces and keys: see ``order``. With
    *words* they are those that hold these words, ``any`` or ``all``, the best first.
    """
    check_match(match)
    top = check_namespace(namespace)
    internal = internal or holds_internal_items(top)
    if words:
        return await _search_items(
            store,
            top,
            words,
            match=match,
            below=below,
            internal=internal,
            cursor=cursor,
            limit=limit,
        )
    after = None if cursor is None else decode_cursor("items", cursor, (str, datetime, str, str))
    if after is not None:
        order = after[0]
    else:
        is_few = not below or await is_small(store.db, top, internal=internal)
        order = "newest" if is_few else "key"
    if order not in ("newest", "key"):
        raise InvalidArgument("this cursor is of another listing")
    binds = scope_binds(store.db.tenant, encode_namespace(top), below)
    binds |= internal_binds(shown=internal) | {"p_limit": limit + 1, "p_most": SMALL}
    if after is not None:
        binds |= {"p_after_namespace": after[2], "p_after_key": after[3]}
        if order == "newest":
            binds["p_after_updated_at"] = after[1]
    rows = await query(
        store.db,
        partial(
            statements.list_item_rows,
            order=order,
            below=below,
            after=after is not None,
            internal=places(),
        ),
        binds,
    )
    last = rows[limit - 1] if len(rows) > limit else None
    return {
        "items": [_item_record(store.db, row) for row in rows[:limit]],
        "order": order,
        "next": None
        if last is None
        else encode_cursor("items", order, last.updated_at, last.namespace, last.key),
    }


async def read_item_tree(
    store: Store, namespace: Iterable[str], key: str, *, path: str = "", offset: int = 0
) -> Record:
    """Return an item with its value, or what is under *path* in it, as a tree."""
    place = check_namespace(namespace)
    item = await _require_item(store, place, key)
    binds = _item_key_binds(store.db, place, key)
    sizes = await query(store.db, statements.measure_item, binds)
    vectors = await _list_vectors(store.db, binds, 100)
    size = int(sizes[0].bytes) if sizes else None
    node = await asyncio.to_thread(lambda: tree(value_at(item.value, path), offset=offset))
    return item_record(place, item, size, len(vectors), item_preview(item.value)) | {
        "kind": item_kind(item),
        "path": path,
        "value": node,
        "metadata": tree(item.metadata),
        "models": [
            {
                "field": row.field,
                "model": row.model,
                "part": row.part,
                "dimensions": row.dimensions,
            }
            for row in vectors
        ],
    }


async def _list_vectors(db: Database, item: Mapping[str, Any], most: int) -> Any:
    """Return which vectors an item has, the first *most*, verified by its signature."""

    def check() -> Program[None]:
        for listed in key_lists(db.dialect, [(item["k_namespace"], item["k_key"])]):
            yield from check_vector_sets(db.dialect, db.tenant, listed, db.signing)

    statement = statements.list_vectors(db.dialect)
    return await run_query(db, statement, {**item, "p_limit": most}, replica_ok=True, check=check)


async def list_neighbours(
    store: Store, namespace: Iterable[str], key: str, *, limit: int = 10
) -> Record:
    """Return the items of the namespace whose vectors are nearest to the item's first one."""
    place = check_namespace(namespace)
    await _require_item(store, place, key)
    vectors = await _list_vectors(store.db, _item_key_binds(store.db, place, key), 1)
    if not vectors:
        return {"neighbours": []}
    first = vectors[0]
    vector = await store.get_embedding(
        place, key, field=first.field, part=first.part, model=first.model
    )
    found = await store.search_by_embedding(place, vector, limit + 1, model=first.model)
    return {
        "neighbours": [
            {
                "namespace": list(hit.item.namespace),
                "key": hit.item.key,
                "score": hit.score,
                "preview": item_preview(hit.item.value),
            }
            for hit in found
            if hit.item.key != key
        ][:limit]
    }


async def is_small(db: Database, namespace: Namespace, *, internal: bool = False) -> bool:
    """Return whether a namespace and those below it hold few items, which can be sorted by time."""
    return (
        await count_items_up_to(db, namespace, below=True, internal=internal, most=SORTED) < SORTED
    )


async def count_items_up_to(
    db: Database, namespace: Namespace, *, below: bool, most: int, internal: bool = False
) -> int:
    """Count the items of a namespace, up to *most*."""
    binds = scope_binds(db.tenant, encode_namespace(namespace), below)
    binds |= internal_binds(shown=internal) | {"p_limit": most}
    statement = partial(statements.count_some_items, below=below, internal=places())
    rows = await query(db, statement, binds)
    return int(rows[0].items)


def _item_key_binds(db: Database, namespace: Namespace, key: str) -> dict[str, Any]:
    path = encode_namespace(namespace)
    return {"k_tenant": db.tenant, "k_namespace": path, "k_key": key}


async def _next_children(store: Store, top: Namespace, after: Namespace | None) -> list[Namespace]:
    """Return some namespaces right below one, in order; the next ones stand behind the last."""
    found = await store.list_namespaces(top, NAMESPACES_AT_ONCE, after=after or top)
    return list(dict.fromkeys(one[: len(top) + 1] for one in found if len(one) > len(top)))


async def _require_item(store: Store, namespace: Namespace, key: str) -> StoreItem:
    item = await store.get_item(namespace, key)
    if item is None:
        place = "/".join(namespace) or "/"
        raise NotFound(f"there is no item {key!r} in namespace {place}")
    return item


def _item_record(db: Database, row: Any) -> Record:
    if row.value is None:
        shown = None
    else:
        try:
            shown = item_preview(decode_item_value(db.tenant, row, db.keyring))
        except (KeyMissing, NotEncrypted):
            shown = None
    namespace = decode_namespace(row.namespace)
    return item_record(namespace, row, int(row.bytes), int(row.vectors), shown)


async def _search_items(
    store: Store,
    top: Namespace,
    words: str,
    *,
    match: Match,
    below: bool,
    internal: bool,
    cursor: str | None,
    limit: int,
) -> Record:
    offset = 0 if cursor is None else decode_cursor("found items", cursor, (int,))[0]
    if not 0 <= offset < 1_000_000:
        raise InvalidArgument("this cursor is of another listing")
    found: list[Any] = []
    if not offset and (exact := await store.get_item(top, words)) is not None:
        found.append(exact)
    hits = await store.search(top, words, limit + 1, prefix=below, match=match, offset=offset)
    found += [hit for hit in hits[:limit] if (hit.namespace, hit.key) != (top, words)]
    more = len(hits) > limit
    return {
        "items": [
            item_record(item.namespace, item, None, 0, item_preview(item.value))
            for item in found
            if internal or not holds_internal_items(item.namespace)
        ],
        "order": "score",
        "next": encode_cursor("found items", offset + limit) if more else None,
    }
