"""A store's statements by hand: one connection, our own text of them, ready values.

No encoding, no words made, no retry, no vectors to remove: an upsert and a read, and the database.
A batch is the quickest that each driver has: the upsert for many rows, whose versions are not told,
or one statement that unnests arrays.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

import aiosqlite
import asyncpg
from sqlalchemy.dialects import postgresql, sqlite

from benchmarks.subjects.raw import CONNECTIONS, Compiled
from memalchemy.dialects import DIALECTS
from memalchemy.store.read import read_item
from memalchemy.store.write import batch_binds, put_item, put_items

Row = Mapping[str, Any]
"""What a put binds, made beforehand."""


class RawStorePostgres:
    """asyncpg from its pool, every statement prepared, and a transaction of its own."""

    def __init__(self, dsn: str) -> None:
        self._dsn = dsn
        d, dialect = DIALECTS["postgresql"], postgresql.asyncpg.dialect()
        self._dialect = d
        self._put = Compiled(put_item(d, expected="any"), dialect)
        self._put_batch = Compiled(put_items(d, expected="any"), dialect)
        self._get = Compiled(read_item(d), dialect)

    async def open(self) -> None:
        self._pool = await asyncpg.create_pool(self._dsn, min_size=1, max_size=CONNECTIONS)

    async def close(self) -> None:
        await self._pool.close()

    def binds(self, row: Row) -> Sequence[Any]:
        return self._put.values(row)

    def key(self, row: Row) -> Sequence[Any]:
        return self._get.values(row)

    def batch(self, rows: Iterable[Row]) -> Sequence[Any]:
        return self._put_batch.values(batch_binds(self._dialect, list(rows)))

    async def put(self, binds: Sequence[Any]) -> None:
        async with self._pool.acquire() as connection:
            assert await connection.fetchrow(self._put.sql, *binds) is not None

    async def put_batch(self, binds: Sequence[Any]) -> None:
        # asyncpg's executemany, with a row at a time, takes a third longer.
        async with self._pool.acquire() as connection:
            assert len(await connection.fetch(self._put_batch.sql, *binds)) > 0

    async def get(self, key: Sequence[Any]) -> None:
        async with self._pool.acquire() as connection:
            assert await connection.fetchrow(self._get.sql, *key) is not None


class RawStoreSqlite:
    """aiosqlite, set up as ours; a put is its own BEGIN IMMEDIATE … COMMIT."""

    def __init__(self, path: Path) -> None:
        self._path = path
        d, dialect = DIALECTS["sqlite"], sqlite.dialect()
        self._put, self._get = (
            Compiled(put_item(d, expected="any"), dialect),
            Compiled(read_item(d), dialect),
        )
        # executemany tells nothing of what a row returns.
        self._put_without_version = self._put.sql.rpartition(" RETURNING ")[0]

    async def open(self) -> None:
        self._connection = await aiosqlite.connect(self._path, isolation_level=None)
        for pragma in (
            "journal_mode = WAL",
            "synchronous = FULL",
            "foreign_keys = ON",
            "secure_delete = FAST",
        ):
            await self._connection.execute(f"PRAGMA {pragma}")

    async def close(self) -> None:
        await self._connection.close()

    def binds(self, row: Row) -> Sequence[Any]:
        return self._put.values(row)

    def key(self, row: Row) -> Sequence[Any]:
        return self._get.values(row)

    def batch(self, rows: Iterable[Row]) -> Sequence[Sequence[Any]]:
        return [self._put.values(row) for row in rows]

    async def put(self, binds: Sequence[Any]) -> None:
        run = self._connection.execute
        await run("BEGIN IMMEDIATE")
        cursor = await run(self._put.sql, binds)
        assert await cursor.fetchone() is not None
        await run("COMMIT")

    async def put_batch(self, binds: Sequence[Sequence[Any]]) -> None:
        await self._connection.execute("BEGIN IMMEDIATE")
        await self._connection.executemany(self._put_without_version, binds)
        await self._connection.execute("COMMIT")

    async def get(self, key: Sequence[Any]) -> None:
        cursor = await self._connection.execute(self._get.sql, key)
        assert await cursor.fetchone() is not None
