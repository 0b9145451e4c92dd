"""`HTTPStore`: items under namespaces and keys, kept by a server over HTTP."""

from __future__ import annotations

import warnings
from collections.abc import AsyncGenerator, Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import aclosing, contextmanager
from typing import Any

from memalchemy._changes import ItemChange, function_errors
from memalchemy._retry import retry_on_conflict
from memalchemy.codec.values import from_jsonable, jsonable
from memalchemy.contracts import (
    DELETE,
    LEAVE,
    UNSET,
    ItemOrder,
    Match,
    NewItem,
    SearchHit,
    SearchMode,
    Seconds,
    StoreItem,
    Unset,
    check_flag,
    check_limit,
    check_position,
)
from memalchemy.errors import AnsweredByWordsWarning, Conflict, InvalidArgument
from memalchemy.events import operation
from memalchemy.http import operations, wire
from memalchemy.http._offload import offload
from memalchemy.http.client._client import (
    RemoteClient,
    lifetime_seconds,
    words_to_match,
)
from memalchemy.http.client._remote import RemoteServer
from memalchemy.keys import check_list, check_name, check_namespace, encode_namespace
from memalchemy.metadata import check_metadata
from memalchemy.search.hybrid import check_fraction, check_threshold
from memalchemy.search.vectors import check_vector
from memalchemy.store.compare_and_swap import check_expected
from memalchemy.store.embedding import is_nested, vector_rows

Namespace = Sequence[str]

Name = tuple[tuple[str, ...], str]
"""A namespace and a key."""


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
        embedding: Any | None = None,
        ttl: Seconds | None = None,
        expected_version: int | StoreItem | Unset | None = UNSET,
    ) -> int:
        """Write an item, and return its version: 1, or one more than before.

        Args:
            embedding: its vector; or vectors by field, or lists of them.
            expected_version: write only if the item is at this version; ``None``: only if it does
                not exist; a `StoreItem` that was read: only if it is still that one.

        Raises:
            Conflict: the item is not as expected.
            NotSerialisable, TooLarge: value, metadata, key or namespace cannot be stored.
        """
        check_expected(expected_version)
        body: dict[str, Any] = {
            "value": await offload([value], lambda: jsonable(value)),
            "metadata": check_metadata(metadata),
            "embedding": None if embedding is None else _encode_vectors(embedding),
            "ttl": lifetime_seconds(ttl),
        } | _expected(expected_version)
        with operation("store.put"), _conflicts_with_items():
            answer = await self._server.call(operations.store_put(namespace, key, body=body))
        return answer.value("version", int)

    async def put_with_embedding(
        self,
        namespace: Namespace,
        key: str,
        value: Any,
        embedding: Any,
        metadata: Mapping[str, Any] | None = None,
        *,
        ttl: Seconds | None = None,
    ) -> int:
        """Write an item with a vector, as `put`."""
        return await self.put(namespace, key, value, metadata, embedding=embedding, ttl=ttl)

    async def put_batch(
        self,
        items: Iterable[Sequence[Any] | NewItem],
        *,
        ttl: Seconds | None = None,
        if_exists: str = "replace",
        keep_vectors: bool = False,
    ) -> list[int]:
        """Write items, all or none; return their versions, in the order given.

        Each is ``(namespace, key, value)``, ``(namespace, key, value, metadata)`` or a `NewItem`,
        of which *embedding* is as `put` takes it. Otherwise as `memalchemy.Store.put_batch`.

        Raises:
            Conflict: *if_exists* is ``fail``, and an item exists; nothing was written.
            NotSerialisable, TooLarge, TypeError: one of them cannot be stored; nothing was written.
            ValueError: one has an *index* or times, which the server does not take; nothing was
                sent.
        """
        new = [_to_new_item(one) for one in check_list(items, "put_batch")]
        values = [one.value for one in new]
        trees = await offload(values, lambda: [jsonable(value) for value in values])
        body = {
            "items": [
                _item_name(one.namespace, one.key)
                | {
                    "value": tree,
                    "metadata": check_metadata(one.metadata),
                    "embedding": None if one.embedding is None else _encode_vectors(one.embedding),
                    "ttl": lifetime_seconds(one.ttl),
                }
                for one, tree in zip(new, trees, strict=True)
            ],
            "ttl": lifetime_seconds(ttl),
            "if_exists": if_exists,
            "keep_vectors": keep_vectors,
        }
        with operation("store.put"):
            answer = await self._server.call(operations.store_put_batch(body=body))
        return answer.value("versions", lambda versions: list(map(int, versions)))

    async def get(self, namespace: Namespace, key: str, default: Any = None) -> Any:
        """Return the value of an item, or *default* if it does not exist."""
        item = await self.get_item(namespace, key)
        return default if item is None else item.value

    async def get_item(self, namespace: Namespace, key: str) -> StoreItem | None:
        """Return an item, or ``None`` if it does not exist."""
        with operation("store.get"):
            answer = await self._server.find(operations.store_get(namespace, key))
        return None if answer is None else answer.read(_decode_item)

    async def exists(self, namespace: Namespace, key: str) -> bool:
        """Return whether the item exists; its value does not travel."""
        return await self._server.exists(operations.store_get(namespace, key))

    async def get_items(self, keys: Iterable[tuple[Namespace, str]]) -> dict[Name, StoreItem]:
        """Return the items of the given ``(namespace, key)`` that exist, in the order of *keys*."""
        with operation("store.get"):
            answer = await self._server.call(operations.store_get_batch(body=_item_names(keys)))
        items = answer.members("items", _decode_item)
        return {(item.namespace, item.key): item for item in items}

    async def get_batch(self, keys: Iterable[tuple[Namespace, str]]) -> dict[Name, Any]:
        """Return the values of the given ``(namespace, key)`` that exist."""
        found = await self.get_items(keys)
        return {name: item.value for name, item in found.items()}

    async def refresh(self, keys: Iterable[tuple[Namespace, str]]) -> int:
        """Begin the ttl of the given items anew; return the number of items that have one."""
        return await self._server.count(operations.store_refresh(body=_item_names(keys)))

    async def put_embedding(
        self,
        namespace: Namespace,
        key: str,
        embedding: Any,
        *,
        model: str | None = None,
        expected_version: int | Unset = UNSET,
    ) -> bool:
        """Give an existing item vectors of a model; return whether it exists.

        *embedding* is as `put` takes it.

        Raises:
            Conflict: the item is not at *expected_version*.
        """
        check_expected(expected_version, or_item=False)
        body: dict[str, Any] = {"embedding": _encode_vectors(embedding), "model": model}
        # Here null says that no version is expected. No item is at version 0.
        body |= _expected(0 if expected_version is None else expected_version)
        request = operations.store_put_embedding(namespace, key, body=body)
        with _conflicts_with_items():
            return await self._server.find(request) is not None

    async def get_embedding(
        self,
        namespace: Namespace,
        key: str,
        *,
        field: str = "",
        part: int = 0,
        model: str | None = None,
    ) -> list[float] | None:
        """Return a vector of an item, in the precision of float32; ``None`` if there is none."""
        query = {"field": field, "part": part, "model": model}
        request = operations.store_get_embedding(namespace, key, query=query)
        answer = await self._server.find(request)
        return None if answer is None else answer.read(_decode_embedding)

    async def get_embeddings(
        self, keys: Iterable[tuple[Namespace, str]], *, model: str | None = None
    ) -> dict[Name, list[float]]:
        """Return the vectors of the whole values of items; one without a vector is left out."""
        body = _item_names(keys) | {"model": model}
        answer = await self._server.call(operations.store_get_embeddings(body=body))
        return dict(
            answer.members(
                "vectors",
                lambda one: ((tuple(one["namespace"]), str(one["key"])), _decode_embedding(one)),
            )
        )

    async def change(
        self,
        namespace: Namespace,
        key: str,
        function: Callable[[StoreItem | None], Any],
        *,
        metadata: Mapping[str, Any] | Unset | None = UNSET,
        ttl: Seconds | None = None,
    ) -> Any | None:
        """Change an item with a function of its current state, and lose no write of others.

        *function* runs here, and is called again if others write the item meanwhile. It takes the
        `StoreItem`, or ``None`` if there is none, and returns the new value, ``LEAVE`` or
        ``DELETE``, as for `memalchemy.Store.change`. An item that was deleted and made anew
        meanwhile may be taken for the one that was read.

        Returns the value after the call; ``None`` if there is none.

        Raises:
            Conflict: others wrote first 20 times; nothing was changed.
        """
        change = ItemChange(function)

        async def write(item: StoreItem | None, value: Any) -> None:
            if value is LEAVE:
                return
            if value is DELETE:
                if item is not None:
                    await self.delete(namespace, key, expected_version=item.version)
                return
            kept = None if item is None else item.metadata
            await self.put(
                namespace,
                key,
                value,
                kept if isinstance(metadata, Unset) else metadata,
                ttl=ttl,
                expected_version=None if item is None else item.version,
            )

        async def attempt() -> Any:
            return await change.apply(await self.get_item(namespace, key), write)

        with function_errors():
            return await retry_on_conflict(attempt, f"the item {key!r}")

    async def delete_batch(self, keys: Iterable[tuple[Namespace, str]]) -> int:
        """Delete items with their vectors, in one transaction; return the number that existed."""
        return await self._server.count(operations.store_delete_batch(body=_item_names(keys)))

    async def delete_matching(
        self, namespace: Namespace, filter: Mapping[str, Any], *, prefix: bool = False
    ) -> int:
        """Delete the items that *filter* accepts, in one transaction, and return their number.

        Raises:
            ValueError: the filter is empty: `clear_namespace` deletes everything.
        """
        tree = wire.encode_filter(filter)
        if not tree:
            raise InvalidArgument(
                "the filter is empty: it would accept every item of the namespace"
            )
        body = {"filter": tree, "prefix": check_flag(prefix, "prefix")}
        return await self._server.count(operations.store_delete_matching(namespace, body=body))

    async def forget_namespace(self, namespace: Namespace) -> int:
        """Erase all items of the namespace and of all below it; return their number.

        No word of them is left in a text index: see `memalchemy.Store.forget_namespace`.
        """
        return await self._server.count(operations.store_forget_namespace(namespace))

    async def sweep(self) -> int:
        """Delete the items that have expired; return their number."""
        return await self._server.count(operations.store_sweep())

    async def delete(
        self, namespace: Namespace, key: str, *, expected_version: int | StoreItem | Unset = UNSET
    ) -> bool:
        """Delete an item with its vectors; return whether it existed.

        Raises:
            Conflict: the item is not at *expected_version*, a version or the `StoreItem` that was
                read.
        """
        check_expected(expected_version, of_delete=True)
        query = _expected(expected_version)
        with operation("store.delete"), _conflicts_with_items():
            answer = await self._server.find(operations.store_delete(namespace, key, query=query))
        return answer is not None

    async def clear_namespace(self, namespace: Namespace, *, prefix: bool = False) -> int:
        """Delete all items of the namespace, with *prefix* also those below it; return how many."""
        request = operations.store_clear(namespace, query={"below": check_flag(prefix, "prefix")})
        return await self._server.count(request)

    async def list_keys(
        self, namespace: Namespace, limit: int = 100, *, prefix: str | None = None
    ) -> list[str]:
        """Return keys of exactly this namespace, in code point order, at most *limit*."""
        query = {"prefix": None if prefix is None else check_name(prefix, "prefix")}
        request = operations.store_list_keys(namespace, query=query)
        return await self._server.all_pages(request, "keys", str, check_limit(limit))

    async def list_items(
        self,
        namespace: Namespace,
        *,
        prefix: bool = False,
        limit: int = 100,
        order: ItemOrder = "newest",
    ) -> list[StoreItem]:
        """Return items of the namespace, with *prefix* also of those below it, at most *limit*."""
        request = operations.store_list(
            namespace, query={"order": order, "below": check_flag(prefix, "prefix")}
        )
        return await self._server.all_pages(request, "items", _decode_item, check_limit(limit))

    async def iter_items(
        self, namespace: Namespace, *, prefix: bool = False, order: ItemOrder = "newest"
    ) -> AsyncGenerator[StoreItem]:
        """Yield all items of the namespace, with *prefix* also of those below it, page by page."""
        request = operations.store_list(
            namespace, query={"order": order, "below": check_flag(prefix, "prefix")}
        )
        async with aclosing(self._server.pages(request, "items", _decode_item, None)) as pages:
            async for some in pages:
                for item in some:
                    yield item

    async def iter_keys(
        self, namespace: Namespace, *, prefix: str | None = None
    ) -> AsyncGenerator[str]:
        """Yield all keys of exactly this namespace, in code point order, page by page."""
        query = {"prefix": None if prefix is None else check_name(prefix, "prefix")}
        request = operations.store_list_keys(namespace, query=query)
        async with aclosing(self._server.pages(request, "keys", str, None)) as pages:
            async for some in pages:
                for key in some:
                    yield key

    async def count(self, namespace: Namespace, *, prefix: bool = False) -> int:
        """Count the items of the namespace, with *prefix* also those below it."""
        request = operations.store_count(namespace, query={"below": check_flag(prefix, "prefix")})
        return await self._server.count(request)

    async def list_namespaces(
        self, prefix: Namespace | None = None, limit: int = 100
    ) -> list[tuple[str, ...]]:
        """Return namespaces that hold an item, at most *limit*; those from *prefix* on down."""
        query = {"prefix": None if prefix is None else encode_namespace(prefix)}
        request = operations.store_list_namespaces(query=query)
        return await self._server.all_pages(request, "namespaces", tuple, check_limit(limit))

    async def search(
        self,
        namespace: Namespace,
        query: str | None = None,
        limit: int = 10,
        *,
        prefix: bool = False,
        mode: SearchMode = "text",
        match: Match = "any",
        filter: Mapping[str, Any] | None = None,
        offset: int = 0,
        threshold: float | None = None,
        embedding: Sequence[float] | None = None,
        model: str | None = None,
        alpha: float | None = None,
        mmr: float | None = None,
    ) -> list[SearchHit]:
        """Return items of the namespace, the best first, as `memalchemy.Store.search`.

        The modes ``vector`` and ``hybrid`` need the vector of the query as *embedding*, unless
        *alpha* is 0.
        """
        check_threshold(threshold)
        check_fraction(alpha, "alpha")
        check_fraction(mmr, "mmr")
        if embedding is not None:
            check_vector(embedding)
        body = {
            "query": query,
            "limit": check_limit(limit),
            "prefix": check_flag(prefix, "prefix"),
            "mode": mode,
            "filter": wire.encode_filter(filter),
            "offset": check_limit(offset, "offset"),
            "threshold": threshold,
            "embedding": None if embedding is None else _to_floats(embedding),
            "model": model,
            "alpha": alpha,
            "mmr": mmr,
        } | words_to_match(match)
        with operation("store.search"):
            answer = await self._server.call(operations.store_search(namespace, body=body))
        for notice in answer.read(lambda tree: [str(one) for one in tree.get("notices", ())]):
            warnings.warn(notice, AnsweredByWordsWarning, stacklevel=2)
        return answer.members("hits", _decode_hit)

    async def search_by_embedding(
        self,
        namespace: Namespace,
        query_embedding: Sequence[float],
        limit: int = 10,
        threshold: float | None = None,
        metadata_filter: Mapping[str, Any] | None = None,
        *,
        filter: Mapping[str, Any] | None = None,
        offset: int = 0,
        prefix: bool = False,
        model: str | None = None,
    ) -> list[SearchHit]:
        """Return items by the nearness of their vectors, the nearest first.

        *filter* applies to value and metadata, *metadata_filter* to the metadata alone.
        """
        filters = [filter] if filter else []
        if metadata_filter:
            filters.append({"$metadata": metadata_filter})
        check_vector(query_embedding, "query_embedding")
        return await self.search(
            namespace,
            None,
            limit,
            prefix=prefix,
            mode="vector",
            filter={"$and": filters} if filters else None,
            offset=offset,
            threshold=threshold,
            embedding=query_embedding,
            model=model,
        )


def _decode_item(tree: Mapping[str, Any]) -> StoreItem:
    return StoreItem.from_dict({**tree, "value": from_jsonable(tree["value"])})


def _decode_hit(tree: Mapping[str, Any]) -> SearchHit:
    item = _decode_item(tree)
    fields = {name: getattr(item, name) for name in StoreItem.__dataclass_fields__}
    return SearchHit(**fields, score=tree["score"])


@contextmanager
def _conflicts_with_items() -> Iterator[None]:
    """Give a `Conflict` the item that is there, as the store raises it."""
    try:
        yield
    except Conflict as error:
        current: Any = error.current
        if isinstance(current, Mapping):
            error.current = _decode_item(current)
        raise


def _decode_embedding(tree: Mapping[str, Any]) -> list[float]:
    return [float(part) for part in tree["embedding"]]


def _expected(version: int | StoreItem | Unset | None) -> dict[str, Any]:
    """Return the fields that say at which version an item is expected; none without one."""
    if isinstance(version, Unset):
        return {}
    if isinstance(version, StoreItem):
        created_at = version.created_at.isoformat()
        return {"expected_version": version.version, "expected_created_at": created_at}
    if version is None:
        return {"expected_version": None}
    return {"expected_version": check_position(version, "expected_version")}


def _encode_vectors(embedding: Any) -> Any:
    """Return a vector, or vectors by field or in parts, as they travel.

    Raises:
        TypeError, ValueError: one of them is no vector.
    """
    vector_rows(embedding, "")
    if isinstance(embedding, Mapping):
        return {field: _encode_parts(vectors) for field, vectors in embedding.items()}
    return _encode_parts(embedding)


def _encode_parts(vectors: Any) -> list[Any]:
    return [_to_floats(one) for one in vectors] if is_nested(vectors) else _to_floats(vectors)


def _to_floats(vector: Any) -> list[float]:
    return [float(part) for part in vector]


def _item_name(namespace: Namespace, key: str) -> dict[str, Any]:
    return {"namespace": list(check_namespace(namespace)), "key": check_name(key, "key")}


def _item_names(keys: Iterable[tuple[Namespace, str]]) -> dict[str, Any]:
    return {"keys": [_item_name(*one) for one in check_list(keys, "keys")]}


def _to_new_item(one: Sequence[Any] | NewItem) -> NewItem:
    if isinstance(one, NewItem):
        times = (one.created_at, one.updated_at, one.expires_at)
        if one.index is not None or times != (None, None, None):
            raise InvalidArgument(
                "a server takes no index and no times of an item: give its embedding and its ttl"
            )
        return one
    if not isinstance(one, (tuple, list)) or not 3 <= len(one) <= 4:
        raise TypeError(
            "each item is (namespace, key, value), (namespace, key, value, metadata) or a NewItem"
        )
    return NewItem(*one)
