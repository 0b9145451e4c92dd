"""The operations on a store's items.

A namespace is one segment of the path, written as on the command line: ``users%2Fada``.
"""

from __future__ import annotations

from typing import Any

from memalchemy.codec.values import from_jsonable
from memalchemy.contracts import UNSET
from memalchemy.errors import InvalidArgument, NotFound, NotSerialisable
from memalchemy.http import wire
from memalchemy.http._offload import offload
from memalchemy.http.server import _schemas as schemas
from memalchemy.http.server._context import RequestContext
from memalchemy.http.server._operations import Operations
from memalchemy.keys import parse_namespace

NAMESPACE = "/store/{namespace}"
ITEMS = "/store/{namespace}/items"
ITEM = "/store/{namespace}/items/{key}"

Namespace = tuple[str, ...]

operations = Operations("store")


@operations.add("PUT", ITEM, body=schemas.PutItemBody, answer=schemas.Version, problems=(409,))
async def store_put(
    context: RequestContext, namespace: Namespace, key: str, body: schemas.PutItemBody
) -> Any:
    """Write an item."""
    try:
        value = await offload([body.value], lambda: from_jsonable(body.value))
    except ValueError as error:
        raise NotSerialisable("/value", str(error)) from error
    is_expecting = "expected_version" in body.model_fields_set
    version = await context.store.put(
        namespace,
        key,
        value,
        body.metadata,
        embedding=body.embedding,
        ttl=body.ttl,
        expected_version=body.expected_version if is_expecting else UNSET,
    )
    return {"version": version}


@operations.add("GET", ITEM, answer=schemas.Item, problems=(404,))
async def store_get(context: RequestContext, namespace: Namespace, key: str) -> Any:
    """Read an item."""
    item = await context.store.get_item(namespace, key)
    if item is None:
        raise NotFound(f"there is no item {key!r}")
    return await offload(item.value, lambda: wire.encode_item(item))


@operations.add(
    "DELETE", ITEM, query=schemas.DeleteItemQuery, answer=schemas.Deleted, problems=(404, 409)
)
async def store_delete(
    context: RequestContext, namespace: Namespace, key: str, query: schemas.DeleteItemQuery
) -> Any:
    """Delete an item."""
    expected = query.expected_version
    deleted = await context.store.delete(
        namespace, key, expected_version=UNSET if expected is None else expected
    )
    if not deleted:
        raise NotFound(f"there is no item {key!r}")
    return {"deleted": True}


@operations.add("GET", NAMESPACE + "/keys", query=schemas.ListKeysQuery, answer=schemas.KeyList)
async def store_list_keys(
    context: RequestContext, namespace: Namespace, query: schemas.ListKeysQuery
) -> Any:
    """List the keys of the namespace, in the order of their code points."""
    keys = await context.store.list_keys(
        namespace, query.limit, prefix=query.prefix, after=query.after
    )
    return {"keys": keys}


@operations.add("GET", ITEMS, query=schemas.ListItemsQuery, answer=schemas.ItemList)
async def store_list(
    context: RequestContext, namespace: Namespace, query: schemas.ListItemsQuery
) -> Any:
    """List the items of the namespace."""
    items = await context.store.list_items(
        namespace, prefix=query.below, limit=query.limit, order=query.order
    )
    return await offload(items, lambda: {"items": [wire.encode_item(item) for item in items]})


@operations.add(
    "POST", NAMESPACE + "/search", body=schemas.SearchItemsBody, answer=schemas.ItemHitList
)
async def store_search(
    context: RequestContext, namespace: Namespace, body: schemas.SearchItemsBody
) -> Any:
    """Find items, the best first."""
    if body.mode != "text" and body.query is not None and body.embedding is None:
        raise InvalidArgument("a server makes no vectors: give that of your query as embedding")
    hits = await context.store.search(namespace, **body.model_dump())
    return await offload(
        hits,
        lambda: {"hits": [{**wire.encode_item(hit), "score": hit.score} for hit in hits]},
    )


@operations.add("GET", NAMESPACE + "/count", query=schemas.NamespaceQuery, answer=schemas.Count)
async def store_count(
    context: RequestContext, namespace: Namespace, query: schemas.NamespaceQuery
) -> Any:
    """Count the items of the namespace."""
    return {"count": await context.store.count(namespace, prefix=query.below)}


@operations.add("DELETE", NAMESPACE, query=schemas.NamespaceQuery, answer=schemas.Count)
async def store_clear(
    context: RequestContext, namespace: Namespace, query: schemas.NamespaceQuery
) -> Any:
    """Delete all items of the namespace."""
    return {"count": await context.store.clear_namespace(namespace, prefix=query.below)}


@operations.add("GET", "/store", query=schemas.ListNamespacesQuery, answer=schemas.NamespaceList)
async def store_list_namespaces(context: RequestContext, query: schemas.ListNamespacesQuery) -> Any:
    """List the namespaces that hold an item."""
    prefix = None if query.prefix is None else parse_namespace(query.prefix)
    after = None if query.after is None else parse_namespace(query.after)
    found = await context.store.list_namespaces(prefix, query.limit, after=after)
    return {"namespaces": [list(namespace) for namespace in found]}
