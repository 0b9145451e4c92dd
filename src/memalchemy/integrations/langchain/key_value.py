"""`MemalchemyStore` and `MemalchemyByteStore`: values under keys, as LangChain's `BaseStore`."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterable, Iterator, Sequence
from typing import Any, Generic, TypeVar

from langchain_core.stores import BaseStore

from memalchemy.contracts import NewItem, Seconds
from memalchemy.integrations._base import AnyDatabase, blocking
from memalchemy.integrations.langchain._adapter import LangChainAdapter
from memalchemy.integrations.langchain._records import record_to_value, value_to_record
from memalchemy.keys import check_list
from memalchemy.store import Store

V = TypeVar("V")


class _KeyValueStore(LangChainAdapter, BaseStore[str, V], Generic[V]):
    """Base of both stores."""

    def __init__(
        self,
        db: AnyDatabase | None = None,
        *,
        namespace: Iterable[str] = (),
        index_text: bool = True,
        ttl: Seconds | None = None,
    ) -> None:
        super().__init__(db, namespace=namespace)
        self.store: Store = Store(self.db, index_text=index_text, ttl=ttl)
        """The items, with asynchronous methods."""

    async def amget(self, keys: Sequence[str]) -> list[V | None]:
        """Return the value of each key, ``None`` for one that is not there."""
        places = [(self.namespace, key) for key in check_list(keys, "keys")]
        found = await self.store.get_items(places)
        items = (found.get(place) for place in places)
        return [None if one is None else record_to_value(one.value, one.metadata) for one in items]

    mget = blocking(amget)

    async def amset(self, key_value_pairs: Sequence[tuple[str, V]]) -> None:
        """Set the values of keys, all or none; of two with the same key the last counts.

        Raises:
            NotSerialisable, TooLarge: a value cannot be stored; nothing was written.
        """
        items = []
        for key, value in check_list(key_value_pairs, "key_value_pairs"):
            self._check(value)
            items.append(NewItem(self.namespace, key, *value_to_record(value)))
        await self.store.put_batch(items)

    mset = blocking(amset)

    async def amdelete(self, keys: Sequence[str]) -> None:
        """Delete keys, those that are there, in one transaction."""
        await self.store.delete_batch([(self.namespace, key) for key in check_list(keys, "keys")])

    mdelete = blocking(amdelete)

    async def ayield_keys(self, *, prefix: str | None = None) -> AsyncIterator[str]:
        """Yield the keys that begin with *prefix*, or all, in the order of their code points."""
        async for key in self.store.iter_keys(self.namespace, prefix=prefix):
            yield key

    def yield_keys(self, *, prefix: str | None = None) -> Iterator[str]:
        """Yield keys, as `ayield_keys`."""
        yield from self._keys(prefix=prefix)

    _keys = blocking(ayield_keys)

    def _check(self, value: Any) -> None:
        """Raise if *value* is none that the store takes."""


class MemalchemyStore(_KeyValueStore[Any]):
    """Values under keys, which any number of processes share.

    A value is JSON's, or a datetime, UUID, bytes, set or `Decimal` in it; or a `Document` or one of
    LangChain's messages, as a whole. A tuple comes back as a list. Every read builds new objects.

    Args:
        db: a URL, the path of a SQLite file, a `Database`, a `memalchemy.sync.Database` or an
            `AsyncEngine`. Without it, the URL in ``MEMALCHEMY_URL``, or else a database in memory
            for this object alone.
        namespace: keeps several stores apart in one database.
        index_text: make the words of values searchable by ``store.search``.
        ttl: the lifetime of a value after it was set, in seconds or as a timedelta.

    Raises, from any method:
        DatabaseUnreachable, AuthenticationFailed, SchemaOutdated, SchemaTooNew.
        Corrupt, KeyMissing, NotEncrypted: a stored value cannot be read.
    """

    kind = "store"


class MemalchemyByteStore(_KeyValueStore[bytes]):
    """Bytes under keys, such as the embeddings of `CacheBackedEmbeddings`.

    Args:
        db: a URL, the path of a SQLite file, a `Database`, a `memalchemy.sync.Database` or an
            `AsyncEngine`. Without it, the URL in ``MEMALCHEMY_URL``, or else a database in memory
            for this object alone.
        namespace: keeps several stores apart in one database.
        ttl: the lifetime of a value after it was set, in seconds or as a timedelta.

    Raises, from any method: as `MemalchemyStore`.
    """

    kind = "bytes"

    def __init__(
        self,
        db: AnyDatabase | None = None,
        *,
        namespace: Iterable[str] = (),
        ttl: Seconds | None = None,
    ) -> None:
        super().__init__(db, namespace=namespace, index_text=False, ttl=ttl)

    def _check(self, value: Any) -> None:
        if not isinstance(value, bytes):
            raise TypeError(f"a value is bytes, not {type(value).__name__}")
