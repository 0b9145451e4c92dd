"""`MemalchemyKVStore`: the keys and values under LlamaIndex's document and index stores."""

from __future__ import annotations

from collections.abc import Iterable
from contextlib import aclosing
from enum import Enum
from typing import Any

from llama_index.core.storage.kvstore.types import (
    DEFAULT_BATCH_SIZE,
    DEFAULT_COLLECTION,
    BaseKVStore,
)

from memalchemy.integrations._base import AnyDatabase, SyncAdapter, blocking
from memalchemy.integrations.llama_index._pydantic_adapter import ROOT
from memalchemy.keys import check_list
from memalchemy.store import Store


class MemalchemyKVStore(SyncAdapter, BaseKVStore):
    """Stores keys and values in collections; `KVDocumentStore` and `KVIndexStore` take it.

    A write is stored as a whole or not at all, and every process sees it. Values that are read are
    new objects. Members of enums become their values.

    Args:
        db: a URL, the path of a SQLite file, a `Database`, a `memalchemy.sync.Database` or an
            `AsyncEngine`. Without it, the URL in ``MEMALCHEMY_URL``, or else a database in memory
            for this object alone.
        namespace: keeps several stores apart in one database.
        index_text: make the words of values searchable. A document store rarely needs it: the nodes
            of a `MemalchemyVectorStore` are searched there.

    Raises, from any method:
        DatabaseUnreachable, AuthenticationFailed, SchemaOutdated, SchemaTooNew.
        Corrupt, KeyMissing, NotEncrypted: a stored value cannot be read.
        NotSerialisable, TooLarge: a key or value cannot be stored; nothing was written.
    """

    root = ROOT

    def __init__(
        self,
        db: AnyDatabase | None = None,
        *,
        namespace: Iterable[str] = (),
        index_text: bool = False,
    ) -> None:
        super().__init__(db, namespace=namespace)
        self.store: Store = Store(self.db, index_text=index_text)
        """The store; a collection is a namespace of it."""

    async def aput(
        self, key: str, val: dict[str, Any], collection: str = DEFAULT_COLLECTION
    ) -> None:
        """Set the value of a key."""
        await self.store.put(self._namespace_of(collection), key, _check_value(val))

    async def aput_all(
        self,
        kv_pairs: list[tuple[str, dict[str, Any]]],
        collection: str = DEFAULT_COLLECTION,
        batch_size: int = DEFAULT_BATCH_SIZE,
    ) -> None:
        """Set the values of many keys, all or none, whatever *batch_size* is."""
        place, pairs = self._namespace_of(collection), check_list(kv_pairs, "kv_pairs")
        await self.store.put_batch([(place, key, _check_value(val)) for key, val in pairs])

    async def aget(self, key: str, collection: str = DEFAULT_COLLECTION) -> dict[str, Any] | None:
        """Return the value of a key, or ``None``."""
        found: dict[str, Any] | None = await self.store.get(self._namespace_of(collection), key)
        return found

    async def aget_all(self, collection: str = DEFAULT_COLLECTION) -> dict[str, dict[str, Any]]:
        """Return all values of the collection by their keys, in the order of the keys."""
        items = self.store.iter_items(self._namespace_of(collection), order="key")
        async with aclosing(items):
            return {item.key: item.value async for item in items}

    async def adelete(self, key: str, collection: str = DEFAULT_COLLECTION) -> bool:
        """Delete a key; return whether it was there."""
        return await self.store.delete(self._namespace_of(collection), key)

    put = blocking(aput)
    put_all = blocking(aput_all)
    get = blocking(aget)
    get_all = blocking(aget_all)
    delete = blocking(adelete)

    def _namespace_of(self, collection: str) -> tuple[str, ...]:
        return (*self.namespace, "kv", collection)


def _check_value(value: object) -> dict[str, Any]:
    if not isinstance(value, dict):
        raise TypeError(f"a value is a dict, not {type(value).__name__}")
    plain: dict[str, Any] = _without_enums(value)
    return plain


def _without_enums(value: Any) -> Any:
    """Replace the members of enums, of which LlamaIndex's documents have some, by their values."""
    if isinstance(value, Enum):
        return value.value
    if isinstance(value, dict):
        return {_without_enums(name): _without_enums(part) for name, part in value.items()}
    if isinstance(value, list | tuple):
        return type(value)(map(_without_enums, value))
    return value
