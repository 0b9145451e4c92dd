"""Stores: memalchemy's as a user gets it, and LangGraph's PostgresStore, its own class."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import AsyncExitStack
from pathlib import Path
from typing import Any

import psycopg
from langgraph.store.postgres.aio import AsyncPostgresStore

from benchmarks.filling import Item, fill
from memalchemy import Database, Store


class OurStore:
    def __init__(self, where: Path | str, **options: Any) -> None:
        self.place = where
        self.db = Database(f"sqlite:///{where}" if isinstance(where, Path) else where)
        self.store = Store(self.db, **options)

    async def open(self) -> OurStore:
        await self.db.migrate()
        return self

    async def close(self) -> None:
        await self.db.close()

    async def fill(self, items: Sequence[Item], *, text: bool = True) -> None:
        """Put items that are not there; this is not measured."""
        await fill(self.place, self.db, items, text=text)

    async def keys_near(
        self, namespace: tuple[str, ...], vector: Any, count: int, *, prefix: bool = False
    ) -> list[str]:
        """The keys of the items nearest to a vector."""
        found = await self.store.search_by_embedding(namespace, vector, count, prefix=prefix)
        return [one.item.key for one in found]


class LangGraphStore:
    """Its tables beside ours, made by its ``setup()`` and filled from ours within the server: the
    same vectors. Its index is built as it defines it, but after the rows are there, which is a
    hundred times faster and no worse an index.
    """

    def __init__(self, dsn: str, embed: Callable[[Sequence[str]], list[list[float]]]) -> None:
        self._dsn, self._embed = dsn, embed
        self._stack = AsyncExitStack()

    async def open(self, dimensions: int) -> None:
        opened = AsyncPostgresStore.from_conn_string(
            self._dsn, index={"dims": dimensions, "embed": self._embed, "fields": ["text"]}
        )
        self._store = await self._stack.enter_async_context(opened)
        await self._store.setup()
        index = "store_vectors_embedding_idx"
        with psycopg.connect(self._dsn, autocommit=True) as connection:
            asked = connection.execute("SELECT pg_get_indexdef(%s::regclass)", [index]).fetchone()
            assert asked is not None
            connection.execute(f"DROP INDEX {index}")
            # /a/b/ is a.b there; none of these names has a mark in it.
            path = "replace(trim(both '/' from namespace), '/', '.')"
            connection.execute(
                f"INSERT INTO store (prefix, key, value) SELECT {path}, key, "
                "jsonb_build_object('text', key) FROM store_items"
            )
            connection.execute(
                f"INSERT INTO store_vectors (prefix, key, field_name, embedding) "
                f"SELECT {path}, key, 'text', vector FROM embeddings"
            )
            connection.execute(asked[0])
            connection.execute("VACUUM ANALYZE store")
            connection.execute("VACUUM ANALYZE store_vectors")

    async def close(self) -> None:
        await self._stack.aclose()

    async def keys_near(self, namespace: tuple[str, ...], query: str, count: int) -> list[str]:
        found = await self._store.asearch(namespace, query=query, limit=count)
        return [one.key for one in found]
