"""`MemalchemyStorage`: bytes under keys, such as snapshots and files of memories."""

from __future__ import annotations

import builtins
import copy
import glob
import re
from collections.abc import Iterable, Sequence
from datetime import datetime
from functools import partial
from typing import Any, Self

from strands.storage.storage import (
    _NAMESPACED,
    Storage,
    StorageSearchResult,
    _normalize_key,
    _normalize_prefix,
)
from strands.types.exceptions import StorageError

from memalchemy.checkpoints import Checkpointer
from memalchemy.contracts import MAX_LIMIT, NewItem, SearchHit
from memalchemy.errors import MemalchemyError
from memalchemy.integrations._base import AnyDatabase, paged
from memalchemy.integrations._stored_forms import StoredForm
from memalchemy.integrations.strands._adapter import StrandsAdapter
from memalchemy.keys import check_namespace
from memalchemy.store import Store

_SNAPSHOT = re.compile(
    r"(.+)/snapshots/(snapshot_latest\.json|immutable_history/snapshot_[^/]+\.json)"
)
"""Keys of the snapshots of an agent or a group of agents: what they are of, and the rest."""
_SNAPSHOTS = "/snapshots/"


class MemalchemyStorage(StrandsAdapter, Storage):
    """Stores bytes under keys in a SQL database: snapshots of sessions, memories, stashed content.

        agent = Agent(session_manager=SnapshotSessionManager("user-123", storage=storage))

    A write is stored as a whole or not at all, of two at once the later one wins, and every process
    sees it. Bytes are returned as they were written. Keys are normalised as Strands' own storages
    do, and told apart by case.

    Snapshots are checkpoints: of a snapshot that is written again only the difference from the one
    before is stored, however long the conversation is. All other values are store items.

    Args:
        db: a URL, the path of a SQLite file, a `Database`, a `memalchemy.sync.Database` or an
            `AsyncEngine`. Without it, the URL in ``MEMALCHEMY_URL``, or else a database in memory
            for this object alone.
        namespace: keeps several storages apart in one database.
        index_text: let `search` find the words of values that are text, and are no snapshots.
        search_limit: the largest number of results of a search.

    Raises, from any method:
        StorageError: Strands'. The key is empty or has a ``..`` or a backslash; the value or the
            key is too large; the database cannot be reached, or the stored value cannot be read.
            Its cause is the `MemalchemyError`.
    """

    def __init__(
        self,
        db: AnyDatabase | None = None,
        *,
        namespace: Iterable[str] = (),
        index_text: bool = True,
        search_limit: int = 100,
    ) -> None:
        # The last part keeps the directories of one storage out of the namespaces of others.
        super().__init__(db, namespace=(*check_namespace(namespace), "storage"))
        self.path: tuple[str, ...] = vars(self).pop("namespace")
        """The namespace below which all lies; `namespace` is a method of Strands' storages."""
        self.store: Store = Store(self.db, index_text=index_text)
        """The values that are no snapshots."""
        self.snapshots: Checkpointer = Checkpointer(self.db, namespace=self.path, index_text=False)
        """The snapshots: a thread for each agent of each session."""
        self._search_limit = search_limit
        self._prefix = ""

    async def write(self, key: str, data: bytes, *, occurred_at: datetime | None = None) -> None:
        """Store *data* under a key, in place of what is there.

        *occurred_at* is when it was written, if it comes from elsewhere.

        Raises:
            StorageError: *data* is no bytes, or as all methods do; nothing was written.
        """
        if not isinstance(data, bytes | bytearray | memoryview):
            raise StorageError(f"a storage holds bytes, not {type(data).__name__}")
        await self.run(partial(self._write, self._full_key_of(key), _value_of(data), occurred_at))

    async def read(self, key: str) -> bytes | None:
        """Return the bytes of a key; ``None`` if there is no such key."""
        return await self.run(partial(self._read, self._full_key_of(key)))

    async def delete(self, key: str) -> None:
        """Delete a key, if it is there."""
        await self.run(partial(self._delete, self._full_key_of(key)))

    async def list(self, query: str = "") -> builtins.list[str]:
        """Return the keys that begin with *query*, sorted by code point.

        Takes a query for each directory, and for each agent's snapshots, that is listed.
        """
        prefix = self._prefix + _normalize_prefix(query)
        found = await self.run(partial(self._list_keys, prefix))
        return sorted(key[len(self._prefix) :] for key in found)

    async def search(self, query: str) -> builtins.list[StorageSearchResult]:
        """Return the values and file names that hold words of *query*, best first, with their data.

        Scores are 0 to 1. Snapshots are not searched. A `namespace` searches below its prefix.
        """
        place = (*self.path, *self._prefix.split("/")[:-1])
        return [
            StorageSearchResult(
                self._full_key(hit.namespace, hit.key)[len(self._prefix) :],
                hit.score or 0.0,
                _bytes_of(hit.value),
            )
            for hit in await self.run(partial(self._search, place, query))
        ]

    def namespace(self, prefix: str) -> Self:  # type: ignore[override]
        """Return a view of the keys below *prefix*, in which keys are relative to it.

        Closing the view closes nothing.
        """
        normalized = _normalize_prefix(prefix).rstrip("/")
        view = copy.copy(self)
        view._prefix = f"{self._prefix}{normalized}/" if normalized else self._prefix
        view._owns_db = False
        view._namespaced = _NAMESPACED  # type: ignore[attr-defined]
        return view

    def translate(self, error: Exception) -> Exception | None:
        """Return Strands' `StorageError` for an error of memalchemy."""
        return StorageError(str(error)) if isinstance(error, MemalchemyError) else None

    def _full_key_of(self, key: str) -> str:
        return self._prefix + _normalize_key(key)

    async def _write(self, full: str, value: str | bytes, at: datetime | None) -> None:
        with self.translated_errors():
            if match := _SNAPSHOT.fullmatch(full):
                state = {"data": value}
                await self.snapshots.save(state, match[1], match[2], occurred_at=at)
            else:
                namespace, name = self._item_place(full)
                item = NewItem(namespace, name, value, {"name": name}, created_at=at, updated_at=at)
                await self.store.put_batch([item])

    async def _read(self, full: str) -> bytes | None:
        with self.translated_errors():
            if match := _SNAPSHOT.fullmatch(full):
                state = await self.snapshots.load(match[1], match[2])
                return None if state is None else _bytes_of(state.get("data"))
            item = await self.store.get_item(*self._item_place(full))
        return None if item is None else _bytes_of(item.value)

    async def _delete(self, full: str) -> None:
        with self.translated_errors():
            if match := _SNAPSHOT.fullmatch(full):
                await self._delete_snapshot(match[1], match[2])
            else:
                await self.store.delete(*self._item_place(full))

    async def _list_keys(self, prefix: str) -> set[str]:
        with self.translated_errors():
            return {*await self._item_keys(prefix), *await self._snapshot_keys(prefix)}

    async def _search(self, place: tuple[str, ...], query: str) -> Sequence[SearchHit]:
        with self.translated_errors():
            return await self.store.search(place, query, self._search_limit, prefix=True)

    def _item_place(self, full: str) -> tuple[tuple[str, ...], str]:
        """Return the namespace and the key of the store item: the directory and the file name."""
        *directories, name = full.split("/")
        return (*self.path, *directories), name

    def _full_key(self, namespace: Iterable[str], name: str) -> str:
        return "/".join((*tuple(namespace)[len(self.path) :], name))

    async def _item_keys(self, prefix: str) -> builtins.list[str]:
        """Return the keys of store items that begin with *prefix*, in no order."""
        found = []
        listing = partial(self.store.list_namespaces, (*self.path, *prefix.split("/")[:-1]))
        async for namespace in paged(lambda after, size: listing(size, after=after)):
            directory = self._full_key(namespace, "")
            if directory.startswith(prefix) or prefix.startswith(directory):
                rest = prefix[len(directory) :] or None
                async for name in self.store.iter_keys(namespace, prefix=rest):
                    found.append(directory + name)
        return found

    async def _snapshot_keys(self, prefix: str) -> builtins.list[str]:
        """Return the keys of snapshots that begin with *prefix*, in no order."""
        threads: set[Any] = {None}
        if prefix:
            pattern = f"{glob.escape(prefix)}*"
            threads = {*await self.snapshots.list_threads(MAX_LIMIT, pattern)}
            ends = [match.start() for match in re.finditer("/", prefix)]
            threads |= {prefix[:end] for end in ends if _may_follow(prefix[end:])}
        found = []
        for thread in threads:
            async for info in self.snapshots.history(thread, order="id"):
                found.append(f"{info.thread_id}{_SNAPSHOTS}{info.checkpoint_id}")
        return [key for key in found if key.startswith(prefix)]

    async def _delete_snapshot(self, thread: str, name: str) -> None:
        """Delete a snapshot; the last one of a thread with all that is left of the others."""
        async with self.db.transaction() as tx:
            await self.snapshots.delete(thread, name, connection=tx)
            if not await self.snapshots.exists(thread, connection=tx):
                await self.snapshots.delete(thread, all_namespaces=False, connection=tx)


def _may_follow(rest: str) -> bool:
    """Return whether *rest*, the end of a prefix, may be that of a snapshot's key."""
    return rest.startswith(_SNAPSHOTS) or _SNAPSHOTS.startswith(rest)


def _value_of(data: bytes) -> str | bytes:
    """Return the value to store: a text, if the bytes are one in UTF-8."""
    try:
        return str(data, "utf-8")
    except UnicodeDecodeError:
        return bytes(data)


@StoredForm("object of Strands' storage")
def _bytes_of(value: Any) -> bytes:
    if not isinstance(value, str | bytes):
        raise TypeError(f"a {type(value).__name__} is neither text nor bytes")
    return value.encode() if isinstance(value, str) else value


__all__ = ["MemalchemyStorage"]
