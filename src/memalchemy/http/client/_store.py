"""`HTTPStore`: items under namespaces and keys, kept by a server over HTTP."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Mapping, Sequence
from contextlib import aclosing
from typing import Any

from memalchemy.codec.values import from_jsonable, jsonable
from memalchemy.contracts import (
    UNSET,
    ItemOrder,
    SearchHit,
    SearchMode,
    Seconds,
    StoreItem,
    Unset,
    check_limit,
    to_timedelta,
)
from memalchemy.events import operation
from memalchemy.http import wire
from memalchemy.http._offload import offload
from memalchemy.http.client._client import RemoteClient, namespace_path, spelled
from memalchemy.http.client._remote import RemoteServer
from memalchemy.keys import check_name, check_namespace
from memalchemy.metadata import check_metadata

Namespace = Sequence[str]


class HTTPStore(RemoteClient):
    """Items under namespaces and keys on ``memalchemy serve``, as `memalchemy.Store` has them.

    The server makes no vectors: they are given with an item and with a query. Writes are repeated
    if their answers are lost, and done once. Outages are exceptions, as of `HTTPCheckpointer`,
    whose arguments these are.
    """

    _server: RemoteServer

    async def put(
        self,
        namespace: Namespace,
        key: str,
        value: Any,
        metadata: Mapping[str, Any] | None = None,
        *,
        embedding: Sequence[float] | None = None,
        ttl: Seconds | None = None,
        expected_version: int | Unset | None = UNSET,
    ) -> int:
        """Write an item, and return its version: 1, or one more than before.

        Args:
            embedding: its vector.
            expected_version: write only if the item is at this version; ``None``: only if it does
                not exist.

        Raises:
            Conflict: the item is not as expected.
            NotSerialisable, TooLarge: value, metadata, key or namespace cannot be stored.
        """
        body: dict[str, Any] = {
            "value": await offload([value], lambda: jsonable(value)),
            "metadata": check_metadata(metadata),
            "embedding": None if embedding is None else [float(part) for part in embedding],
            "ttl": None if ttl is None else to_timedelta(ttl).total_seconds(),
        }
        if expected_version is not UNSET:
            body["expected_version"] = expected_version
        with operation("store.put"):
            tree = await self._server.change("PUT", _item_path(namespace, key), body)
        return self._server.decode(lambda found: int(found["version"]), tree, writes=True)

    async def get(self, namespace: Namespace, key: str, default: Any = None) -> Any:
        """Return the value of an item, or *default* if it does not exist."""
        item = await self.get_item(namespace, key)
        return default if item is None else item.value

    async def get_item(self, namespace: Namespace, key: str) -> StoreItem | None:
        """Return an item, or ``None`` if it does not exist."""
        with operation("store.get"):
            tree = await self._server.find(_item_path(namespace, key))
        return None if tree is None else self._server.decode(_item, tree)

    async def delete(
        self, namespace: Namespace, key: str, *, expected_version: int | Unset = UNSET
    ) -> bool:
        """Delete an item with its vectors; return whether it existed.

        Raises:
            Conflict: the item is not at *expected_version*.
        """
        query = {"expected_version": None if expected_version is UNSET else expected_version}
        tree = await self._server.change("DELETE", _item_path(namespace, key), query=query)
        return tree is not None

    async def clear_namespace(self, namespace: Namespace, *, prefix: bool = False) -> int:
        """Delete all items of the namespace, with *prefix* also those below it; return how many."""
        query = {"below": "true"} if prefix else {}
        tree = await self._server.change("DELETE", _path(namespace), query=query)
        return self._server.decode(lambda found: int(found["count"]), tree, writes=True)

    async def list_keys(
        self, namespace: Namespace, limit: int = 100, *, prefix: str | None = None
    ) -> list[str]:
        """Return keys of exactly this namespace, in code point order, at most *limit*."""
        path = f"{_path(namespace)}/keys"
        query = {"prefix": prefix}
        return await self._server.all_pages(path, "keys", query, check_limit(limit))

    async def list_items(
        self,
        namespace: Namespace,
        *,
        prefix: bool = False,
        limit: int = 100,
        order: ItemOrder = "newest",
    ) -> list[StoreItem]:
        """Return items of the namespace, with *prefix* also of those below it, at most *limit*."""
        path, query = _listing(namespace, prefix, order)
        trees = await self._server.all_pages(path, "items", query, check_limit(limit))
        return await offload(trees, lambda: [self._server.decode(_item, tree) for tree in trees])

    async def iter_items(
        self, namespace: Namespace, *, prefix: bool = False, order: ItemOrder = "newest"
    ) -> AsyncGenerator[StoreItem]:
        """Yield all items of the namespace, with *prefix* also of those below it, page by page."""
        path, query = _listing(namespace, prefix, order)
        pages = self._server.pages(path, "items", query, None)
        async with aclosing(pages):
            async for some in pages:
                for one in some:
                    yield self._server.decode(_item, one)

    async def count(self, namespace: Namespace, *, prefix: bool = False) -> int:
        """Count the items of the namespace, with *prefix* also those below it."""
        query = {"below": "true"} if prefix else {}
        tree = await self._server.read("GET", f"{_path(namespace)}/count", query)
        return self._server.decode(lambda found: int(found["count"]), tree)

    async def list_namespaces(
        self, prefix: Namespace | None = None, limit: int = 100
    ) -> list[tuple[str, ...]]:
        """Return namespaces that hold an item, at most *limit*; those from *prefix* on down."""
        query = {"prefix": None if prefix is None else spelled(check_namespace(prefix))}
        found = await self._server.all_pages("/store", "namespaces", query, check_limit(limit))
        return [tuple(parts) for parts in found]

    async def search(
        self,
        namespace: Namespace,
        query: str | None = None,
        limit: int = 10,
        *,
        prefix: bool = False,
        mode: SearchMode = "text",
        filter: Mapping[str, Any] | None = None,
        offset: int = 0,
        threshold: float | None = None,
        embedding: Sequence[float] | None = None,
        model: str | None = None,
        alpha: float | None = None,
        mmr: float | None = None,
    ) -> list[SearchHit]:
        """Return items of the namespace, the best first, as `memalchemy.Store.search`.

        The modes ``vector`` and ``hybrid`` need the vector of the query as *embedding*.
        """
        body = {
            "query": query,
            "limit": check_limit(limit),
            "prefix": prefix,
            "mode": mode,
            "filter": None if filter is None else dict(filter),
            "offset": check_limit(offset, "offset"),
            "threshold": threshold,
            "embedding": None if embedding is None else [float(part) for part in embedding],
            "model": model,
            "alpha": alpha,
            "mmr": mmr,
        }
        with operation("store.search"):
            tree = await self._server.read("POST", f"{_path(namespace)}/search", body=body)
        return self._server.decode_list(_hit, tree, "hits")


def _path(namespace: Namespace) -> str:
    return "/store/" + namespace_path(check_namespace(namespace))


def _item_path(namespace: Namespace, key: str) -> str:
    return f"{_path(namespace)}/items/{wire.quote_id(check_name(key, 'key'))}"


def _listing(namespace: Namespace, prefix: bool, order: str) -> tuple[str, dict[str, Any]]:
    return f"{_path(namespace)}/items", {"order": order} | ({"below": "true"} if prefix else {})


def _item(tree: Mapping[str, Any]) -> StoreItem:
    return StoreItem.from_dict({**tree, "value": from_jsonable(tree["value"])})


def _hit(tree: Mapping[str, Any]) -> SearchHit:
    item = _item(tree)
    fields = {name: getattr(item, name) for name in StoreItem.__dataclass_fields__}
    return SearchHit(**fields, score=tree["score"])
