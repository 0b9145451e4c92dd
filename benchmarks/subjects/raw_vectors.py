"""Exact SQL by hand for the nearest vectors, in our own tables."""

from __future__ import annotations

from typing import Any

import asyncpg
from pgvector.asyncpg import register_vector

from benchmarks.corpus import Floats
from benchmarks.filling import MODEL
from memalchemy.keys import encode_namespace


class RawVectorsPostgres:
    """asyncpg with pgvector's binary format: all of a namespace compared, ten items fetched."""

    _SQL = """
        SELECT item.key, item.value, near.distance
        FROM (
            SELECT namespace, key, vector <=> $1 AS distance FROM embeddings
            WHERE tenant = $2 AND {where} AND model = $3 AND dimensions = $4
            ORDER BY distance LIMIT 10
        ) AS near
        JOIN store_items AS item
            ON item.tenant = $2 AND item.namespace = near.namespace AND item.key = near.key
        WHERE item.expires_at IS NULL OR item.expires_at > now()
        ORDER BY near.distance
    """

    def __init__(self, connection: asyncpg.Connection, one: Any, below: Any) -> None:
        self._connection, self._one, self._below = connection, one, below

    @classmethod
    async def open(cls, dsn: str) -> RawVectorsPostgres:
        connection = await asyncpg.connect(dsn)
        await register_vector(connection)
        one = await connection.prepare(cls._SQL.format(where="namespace = $5"))
        below = cls._SQL.format(where="namespace >= $5 AND namespace < $6")
        return cls(connection, one, await connection.prepare(below))

    async def keys_near(
        self, namespace: tuple[str, ...], query: Floats, *, prefix: bool = False
    ) -> list[str]:
        binds = (query, "default", MODEL, len(query))
        path = encode_namespace(namespace)
        if prefix:
            rows = await self._below.fetch(*binds, path, f"{path[:-1]}0")  # "0" comes after "/"
        else:
            rows = await self._one.fetch(*binds, path)
        return [row["key"] for row in rows]

    async def close(self) -> None:
        await self._connection.close()
