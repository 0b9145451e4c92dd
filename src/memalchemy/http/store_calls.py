"""The operations on a store's items, each an endpoint and a line of the route table.

A namespace is one segment of the path, spelt as on the command line: ``users%2Fada``.
"""

from __future__ import annotations

from typing import Any

from memalchemy.codec.values import from_jsonable
from memalchemy.contracts import UNSET
from memalchemy.errors import NotSerialisable
from memalchemy.http import shapes, wire
from memalchemy.http.apart import apart
from memalchemy.http.calls import Call, Route, missing
from memalchemy.keys import parse_namespace


def _namespace(call: Call) -> tuple[str, ...]:
    return parse_namespace(call.path["namespace"])


async def put(call: Call) -> Any:
    body: shapes.Put = call.body
    try:
        value = await apart([body.value], lambda: from_jsonable(body.value))
    except ValueError as error:
        raise NotSerialisable("/value", str(error)) from error
    given = "expected_version" in body.model_fields_set
    version = await call.store.put(
        _namespace(call),
        call.path["key"],
        value,
        body.metadata,
        embedding=body.embedding,
        ttl=body.ttl,
        expected_version=body.expected_version if given else UNSET,
    )
    return {"version": version}


async def get(call: Call) -> Any:
    item = await call.store.get_item(_namespace(call), call.path["key"])
    if item is None:
        raise missing(f"item {call.path['key']!r}")
    return await apart(item.value, lambda: wire.tree_of_item(item))


async def delete(call: Call) -> Any:
    expected = call.query.expected_version
    deleted = await call.store.delete(
        _namespace(call),
        call.path["key"],
        expected_version=UNSET if expected is None else expected,
    )
    if not deleted:
        raise missing(f"item {call.path['key']!r}")
    return {"deleted": True}


async def list_keys(call: Call) -> Any:
    query: shapes.Keys = call.query
    keys = await call.store.list_keys(
        _namespace(call), query.limit, prefix=query.prefix, after=query.after
    )
    return {"keys": keys}


async def list_items(call: Call) -> Any:
    query: shapes.Items = call.query
    items = await call.store.list_items(
        _namespace(call), prefix=query.below, limit=query.limit, order=query.order
    )
    return await apart(items, lambda: {"items": [wire.tree_of_item(item) for item in items]})


async def search(call: Call) -> Any:
    body = call.body.model_dump()
    if body["mode"] != "text" and body["query"] is not None and body["embedding"] is None:
        raise ValueError("a server makes no vectors: give the one of your query as embedding")
    hits = await call.store.search(_namespace(call), **body)
    return await apart(
        hits,
        lambda: {"hits": [{**wire.tree_of_item(hit), "score": hit.score} for hit in hits]},
    )


async def count(call: Call) -> Any:
    return {"count": await call.store.count(_namespace(call), prefix=call.query.below)}


async def clear(call: Call) -> Any:
    return {"count": await call.store.clear_namespace(_namespace(call), prefix=call.query.below)}


async def list_namespaces(call: Call) -> Any:
    query: shapes.Namespaces = call.query
    found = await call.store.list_namespaces(
        None if query.prefix is None else parse_namespace(query.prefix),
        query.limit,
        after=None if query.after is None else parse_namespace(query.after),
    )
    return {"namespaces": [list(namespace) for namespace in found]}


_NAMESPACE = "/store/{namespace}"
_ITEM = _NAMESPACE + "/items/{key}"

ROUTES = [
    Route(
        "PUT", _ITEM, "store_put", "Write an item.", put, shapes.Version, body=shapes.Put,
        errors=(409,),
    ),
    Route("GET", _ITEM, "store_get", "An item.", get, shapes.Item, errors=(404,)),
    Route(
        "DELETE", _ITEM, "store_delete", "Remove an item.", delete, shapes.Deleted,
        query=shapes.Expected, errors=(404, 409),
    ),
    Route(
        "GET", f"{_NAMESPACE}/keys", "store_list_keys",
        "Keys of the namespace, in the order of their code points.", list_keys, shapes.KeyList,
        query=shapes.Keys,
    ),
    Route(
        "GET", f"{_NAMESPACE}/items", "store_list", "Items of the namespace.", list_items,
        shapes.ItemList, query=shapes.Items,
    ),
    Route(
        "POST", f"{_NAMESPACE}/search", "store_search", "Find items, the best first.", search,
        shapes.Founds, body=shapes.Find,
    ),
    Route(
        "GET", f"{_NAMESPACE}/count", "store_count", "How many items the namespace holds.", count,
        shapes.Count, query=shapes.Below,
    ),
    Route(
        "DELETE", _NAMESPACE, "store_clear", "Remove all items of the namespace.", clear,
        shapes.Count, query=shapes.Below,
    ),
    Route(
        "GET", "/store", "store_list_namespaces", "Namespaces that hold an item.", list_namespaces,
        shapes.NamespaceList, query=shapes.Namespaces,
    ),
]  # fmt: skip
