"""The operations on a store's items.

A namespace is one segment of the path, written as on the command line: ``users%2Fada``.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from datetime import datetime
from typing import Any

from memalchemy._cursors import decode_cursor, encode_cursor
from memalchemy.contracts import UNSET, NewItem, StoreItem, Unset
from memalchemy.errors import Conflict, InvalidArgument, NotFound
from memalchemy.http import operations, wire
from memalchemy.http._offload import offload
from memalchemy.http.server import _schemas as schemas
from memalchemy.http.server._conditions import (
    Conditions,
    precondition_failed,
    precondition_required,
    tag_of_item,
)
from memalchemy.http.server._context import OperationResult, RequestContext, page
from memalchemy.http.server._endpoints import Endpoints
from memalchemy.http.server._values import decode_list, decode_part
from memalchemy.keys import parse_namespace

Namespace = tuple[str, ...]

endpoints = Endpoints()


@endpoints.add(operations.store_put)
async def store_put(
    context: RequestContext,
    namespace: Namespace,
    key: str,
    body: schemas.PutItemBody,
    conditions: Conditions,
) -> Any:
    """Write an item."""
    value: Any = await decode_part(body.value, "/value")
    given = _asked_version(namespace, key, body)
    expected = await _expected_item(context, namespace, key, conditions, given)
    with _conditions_hold(conditions):
        version = await context.store.put(
            namespace,
            key,
            value,
            body.metadata,
            embedding=body.embedding,
            ttl=body.ttl,
            expected_version=expected,
            connection=context.connection,
        )
    return {"version": version}


@endpoints.add(operations.store_get)
async def store_get(
    context: RequestContext, namespace: Namespace, key: str, conditions: Conditions
) -> Any:
    """Read an item."""
    item = await context.store.get_item(namespace, key)
    if item is None:
        raise NotFound(f"there is no item {key!r}")
    tag = tag_of_item(item)
    if conditions.is_unchanged(tag):
        return OperationResult(None, 304, {"ETag": tag})
    tree = await offload(item.value, lambda: wire.encode_item(item))
    return OperationResult(tree, headers={"ETag": tag})


@endpoints.add(operations.store_delete)
async def store_delete(
    context: RequestContext,
    namespace: Namespace,
    key: str,
    query: schemas.DeleteItemQuery,
    conditions: Conditions,
) -> Any:
    """Delete an item."""
    given = _asked_version(namespace, key, query)
    expected = await _expected_item(context, namespace, key, conditions, given)
    with _conditions_hold(conditions):
        deleted = expected is not None and await context.store.delete(
            namespace, key, expected_version=expected, connection=context.connection
        )
    if not deleted:
        raise NotFound(f"there is no item {key!r}")
    return {"deleted": True}


def _asked_version(
    namespace: Namespace, key: str, asked: schemas.PutItemBody | schemas.DeleteItemQuery
) -> StoreItem | int | Unset | None:
    """Return the version that a request expects of an item, or the item of that time."""
    version, time = asked.expected_version, asked.expected_created_at
    if time is None:
        return version if "expected_version" in asked.model_fields_set else UNSET
    if version is None:
        raise InvalidArgument("expected_created_at is given together with expected_version")
    return StoreItem(namespace, key, None, {}, time, time, version, None)


async def _expected_item(
    context: RequestContext,
    namespace: Namespace,
    key: str,
    conditions: Conditions,
    given: StoreItem | int | Unset | None,
) -> StoreItem | int | Unset | None:
    """Return the item that a write may replace: as the conditions have it, or as it was *given*."""
    if not conditions:
        if given is UNSET and context.server.requires_conditions:
            raise precondition_required()
        return given
    if given is not UNSET:
        raise InvalidArgument("give expected_version, or If-Match or If-None-Match, not both")
    item = await context.store.get_item(
        namespace, key, refresh=False, connection=context.connection
    )
    conditions.check(None if item is None else tag_of_item(item))
    return item


@contextmanager
def _conditions_hold(conditions: Conditions) -> Iterator[None]:
    """Raise 412 for an item that was changed after the conditions were checked."""
    try:
        yield
    except Conflict as error:
        if not conditions:
            raise
        current = error.current
        tag = tag_of_item(current) if isinstance(current, StoreItem) else None
        raise precondition_failed("it was changed meanwhile; nothing was done", tag) from error


@endpoints.add(operations.store_list_keys)
async def store_list_keys(
    context: RequestContext, namespace: Namespace, query: schemas.ListKeysQuery
) -> Any:
    """List the keys of the namespace, in the order of their code points."""
    after = None
    if query.cursor is not None:
        (after,) = decode_cursor("keys", query.cursor, (str,))
    keys = await context.store.list_keys(
        namespace, query.limit + 1, prefix=query.prefix, after=after
    )
    return page("keys", keys, query.limit, lambda last: encode_cursor("keys", last))


@endpoints.add(operations.store_list)
async def store_list(
    context: RequestContext, namespace: Namespace, query: schemas.ListItemsQuery
) -> Any:
    """List the items of the namespace."""
    after = None
    if query.cursor is not None:
        time, parts, key = decode_cursor("items", query.cursor, (datetime, list, str))
        after = StoreItem(tuple(parts), key, None, {}, time, time, 1, None)
    found = await context.store.list_items(
        namespace, prefix=query.below, limit=query.limit + 1, after=after, order=query.order
    )
    answer = page("items", found, query.limit, _cursor_of_item)
    items = answer["items"]
    trees = await offload(items, lambda: [wire.encode_item(item) for item in items])
    return answer | {"items": trees}


def _cursor_of_item(item: StoreItem) -> str:
    return encode_cursor("items", item.updated_at, list(item.namespace), item.key)


@endpoints.add(operations.store_search)
async def store_search(
    context: RequestContext, namespace: Namespace, body: schemas.SearchItemsBody
) -> Any:
    """Find items, the best first."""
    needs_vector = body.mode == "vector" or (body.mode == "hybrid" and body.alpha != 0)
    if needs_vector and body.query is not None and body.embedding is None:
        raise InvalidArgument("a server makes no vectors: give that of your query as embedding")
    hits = await context.store.search(namespace, **body.model_dump())
    return await offload(
        hits,
        lambda: {
            "hits": [{**wire.encode_item(hit), "score": hit.score} for hit in hits],
            "notices": list(hits.notices),
        },
    )


@endpoints.add(operations.store_count)
async def store_count(
    context: RequestContext, namespace: Namespace, query: schemas.NamespaceQuery
) -> Any:
    """Count the items of the namespace."""
    return {"count": await context.store.count(namespace, prefix=query.below)}


@endpoints.add(operations.store_clear)
async def store_clear(
    context: RequestContext, namespace: Namespace, query: schemas.NamespaceQuery
) -> Any:
    """Delete all items of the namespace."""
    count = await context.store.clear_namespace(
        namespace, prefix=query.below, connection=context.connection
    )
    return {"count": count}


@endpoints.add(operations.store_list_namespaces)
async def store_list_namespaces(context: RequestContext, query: schemas.ListNamespacesQuery) -> Any:
    """List the namespaces that hold an item."""
    prefix = None if query.prefix is None else parse_namespace(query.prefix)
    after = None
    if query.cursor is not None:
        (after,) = decode_cursor("namespaces", query.cursor, (list,))
    found = await context.store.list_namespaces(prefix, query.limit + 1, after=after)
    namespaces = [list(namespace) for namespace in found]
    return page(
        "namespaces", namespaces, query.limit, lambda last: encode_cursor("namespaces", last)
    )


@endpoints.add(operations.store_delete_matching)
async def store_delete_matching(
    context: RequestContext, namespace: Namespace, body: schemas.DeleteMatchingBody
) -> Any:
    """Delete the items of the namespace that a filter accepts, in one transaction."""
    count = await context.store.delete_matching(
        namespace, body.filter, prefix=body.prefix, connection=context.connection
    )
    return {"count": count}


@endpoints.add(operations.store_forget_namespace)
async def store_forget_namespace(context: RequestContext, namespace: Namespace) -> Any:
    """Erase all items of the namespace and of all below it, without a trace."""
    return {"count": await context.store.forget_namespace(namespace)}


@endpoints.add(operations.store_get_embedding)
async def store_get_embedding(
    context: RequestContext, namespace: Namespace, key: str, query: schemas.ItemVectorQuery
) -> Any:
    """Read a vector of an item."""
    vector = await context.store.get_embedding(namespace, key, **query.model_dump())
    if vector is None:
        raise NotFound(f"the item {key!r} has no such vector")
    return {"embedding": vector}


@endpoints.add(operations.store_put_embedding)
async def store_put_embedding(
    context: RequestContext, namespace: Namespace, key: str, body: schemas.PutVectorBody
) -> Any:
    """Give an existing item a vector of a model, in place of those that it has of that model."""
    was_there = await context.store.put_embedding(
        namespace,
        key,
        body.embedding,
        model=body.model,
        expected_version=UNSET if body.expected_version is None else body.expected_version,
        connection=context.connection,
    )
    if not was_there:
        raise NotFound(f"there is no item {key!r}")
    return {"edited": True}


@endpoints.add(operations.store_put_batch)
async def store_put_batch(context: RequestContext, body: schemas.PutItemsBody) -> Any:
    """Write items, all or none."""
    if body.keep_vectors and any(item.embedding is not None for item in body.items):
        raise InvalidArgument("give keep_vectors, or embeddings, not both")
    values = await decode_list([item.value for item in body.items], "/items")
    items = [
        NewItem(
            tuple(item.namespace),
            item.key,
            value,
            item.metadata,
            embedding=item.embedding,
            ttl=item.ttl,
        )
        for item, value in zip(body.items, values, strict=True)
    ]
    versions = await context.store.put_batch(
        items,
        ttl=body.ttl,
        if_exists=body.if_exists,
        keep_vectors=body.keep_vectors,
        connection=context.connection,
    )
    return {"versions": versions}


@endpoints.add(operations.store_get_batch)
async def store_get_batch(context: RequestContext, body: schemas.ItemNamesBody) -> Any:
    """Read items by their names; those that are not there are left out."""
    found = list((await context.store.get_items(body.names())).values())
    return {"items": await offload(found, lambda: [wire.encode_item(item) for item in found])}


@endpoints.add(operations.store_delete_batch)
async def store_delete_batch(context: RequestContext, body: schemas.ItemNamesBody) -> Any:
    """Delete items by their names, in one transaction; count those that were there."""
    count = await context.store.delete_batch(body.names(), connection=context.connection)
    return {"count": count}


@endpoints.add(operations.store_refresh)
async def store_refresh(context: RequestContext, body: schemas.ItemNamesBody) -> Any:
    """Begin the lifetimes of items anew; count those that have one."""
    return {"count": await context.store.refresh(body.names(), connection=context.connection)}


@endpoints.add(operations.store_get_embeddings)
async def store_get_embeddings(context: RequestContext, body: schemas.VectorsBody) -> Any:
    """Read the vectors of the whole values of items; those without one are left out."""
    found = await context.store.get_embeddings(body.names(), model=body.model)
    return {
        "vectors": [
            {"namespace": list(namespace), "key": key, "embedding": vector}
            for (namespace, key), vector in found.items()
        ]
    }


@endpoints.add(operations.store_sweep)
async def store_sweep(context: RequestContext) -> Any:
    """Delete the items that have expired, which no operation returns any more."""
    return {"count": await context.store.sweep()}
