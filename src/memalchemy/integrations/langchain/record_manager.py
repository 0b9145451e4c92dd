"""`MemalchemyRecordManager`: which documents LangChain's `index` has written, and when."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

from langchain_core.indexing import RecordManager

from memalchemy.contracts import NewItem
from memalchemy.integrations._base import AnyDatabase, blocking
from memalchemy.integrations.langchain._adapter import LangChainAdapter
from memalchemy.keys import check_list
from memalchemy.store import Store


class MemalchemyRecordManager(LangChainAdapter, RecordManager):
    """Records of the documents that `langchain_core.indexing.index` has written.

    Times are the database server's, so that processes on several machines agree about them.

    Args:
        db: a URL, the path of a SQLite file, a `Database`, a `memalchemy.sync.Database` or an
            `AsyncEngine`. Without it, the URL in ``MEMALCHEMY_URL``, or else a database in memory
            for this object alone.
        namespace: keeps the records of several vector stores apart: give each its own. A string is
            a namespace of one part.

    Raises, from any method:
        DatabaseUnreachable, AuthenticationFailed, SchemaOutdated, SchemaTooNew.
    """

    kind = "records"
    namespace: Any

    def __init__(
        self, db: AnyDatabase | None = None, *, namespace: str | Iterable[str] = ()
    ) -> None:
        parts = (namespace,) if isinstance(namespace, str) else namespace
        super().__init__(db, namespace=parts)
        self.store: Store = Store(self.db, index_text=False)
        """The records as items, with asynchronous methods."""

    def create_schema(self) -> None:
        """Do nothing: the tables are memalchemy's. On a server, run ``memalchemy upgrade`` once."""

    async def acreate_schema(self) -> None:
        """Do nothing, as `create_schema`."""

    async def aget_time(self) -> float:
        """Return the time of the database's clock, in seconds since 1970."""
        return (await self.db.now()).timestamp()

    get_time = blocking(aget_time)

    def update(
        self,
        keys: Sequence[str],
        *,
        group_ids: Sequence[str | None] | None = None,
        time_at_least: float | None = None,
    ) -> None:
        """Write records with the time of now, all or none, in place of those that are there.

        Raises:
            ValueError: the numbers of *keys* and *group_ids* differ; or the database's clock is
                behind *time_at_least*.
        """
        items = self._new_items(keys, group_ids, self.get_time(), time_at_least)
        self.wait(self.store.put_batch(items))

    async def aupdate(
        self,
        keys: Sequence[str],
        *,
        group_ids: Sequence[str | None] | None = None,
        time_at_least: float | None = None,
    ) -> None:
        """Write records, as `update`."""
        items = self._new_items(keys, group_ids, await self.aget_time(), time_at_least)
        await self.store.put_batch(items)

    async def aexists(self, keys: Sequence[str]) -> list[bool]:
        """Return, for each key, whether there is a record."""
        places = [(self.namespace, key) for key in check_list(keys, "keys")]
        found = await self.store.get_batch(places)
        return [place in found for place in places]

    exists = blocking(aexists)

    async def alist_keys(
        self,
        *,
        before: float | None = None,
        after: float | None = None,
        group_ids: Sequence[str] | None = None,
        limit: int | None = None,
    ) -> list[str]:
        """Return the keys of records written before and after these times, of these groups.

        In the order of the keys, at most *limit*.
        """
        wanted: dict[str, Any] = {}
        if before is not None:
            wanted.setdefault("updated_at", {})["$lt"] = before
        if after is not None:
            wanted.setdefault("updated_at", {})["$gt"] = after
        if group_ids is not None:
            wanted["group_id"] = {"$in": check_list(group_ids, "group_ids")}
        if limit is not None:
            items = await self.store.list_items(
                self.namespace, filter=wanted, order="key", limit=limit
            )
            return [item.key for item in items]
        found = self.store.iter_items(self.namespace, filter=wanted, order="key")
        return [item.key async for item in found]

    list_keys = blocking(alist_keys)

    async def adelete_keys(self, keys: Sequence[str]) -> None:
        """Delete records, in one transaction."""
        await self.store.delete_batch([(self.namespace, key) for key in check_list(keys, "keys")])

    delete_keys = blocking(adelete_keys)

    def _new_items(
        self,
        keys: Sequence[str],
        group_ids: Sequence[str | None] | None,
        now: float,
        time_at_least: float | None,
    ) -> list[NewItem]:
        keys = check_list(keys, "keys")
        groups = [None] * len(keys) if group_ids is None else check_list(group_ids, "group_ids")
        if len(groups) != len(keys):
            raise ValueError(f"there are {len(keys)} keys, and {len(groups)} group_ids")
        if time_at_least is not None and now < time_at_least:
            raise ValueError(f"the database's clock is at {now}, before time_at_least")
        return [
            NewItem(self.namespace, key, {"group_id": group, "updated_at": now})
            for key, group in zip(keys, groups, strict=True)
        ]
