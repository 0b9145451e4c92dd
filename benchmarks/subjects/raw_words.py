"""Texts in a table by hand, found by scanning it or by a full-text index that knows only them."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import aiosqlite
import asyncpg

Texts = Sequence[tuple[str, str, str]]
"""Namespace, key and text of each."""


class RawWordsSqlite:
    index = "FTS5"

    def __init__(self, path: Path) -> None:
        self._path = path

    async def open(self, texts: Texts) -> None:
        self._connection = await aiosqlite.connect(self._path)
        await self._connection.executescript(
            """
            PRAGMA journal_mode = WAL;
            CREATE TABLE docs (
                id INTEGER PRIMARY KEY, ns TEXT NOT NULL, key TEXT NOT NULL, text TEXT NOT NULL,
                UNIQUE (ns, key)
            );
            CREATE VIRTUAL TABLE words USING fts5(text, content='docs', content_rowid='id');
            """
        )
        put = "INSERT INTO docs (ns, key, text) VALUES (?, ?, ?)"
        await self._connection.executemany(put, texts)
        await self._connection.execute("INSERT INTO words (words) VALUES ('rebuild')")
        await self._connection.commit()

    async def close(self) -> None:
        await self._connection.close()

    async def scan(self, namespace: str, words: Sequence[str]) -> list[Any]:
        found = [f"%{word}%" for word in words]
        like = ["text LIKE ?"] * len(words)
        return await self._all(
            f"SELECT key, text FROM docs WHERE ns = ? AND ({' OR '.join(like)}) "
            f"ORDER BY ({' + '.join(f'({one})' for one in like)}) DESC LIMIT 10",
            [namespace, *found, *found],
        )

    async def ranked(self, namespace: str, word: str) -> list[Any]:
        return await self._all(
            "SELECT docs.key, docs.text FROM words JOIN docs ON docs.id = words.rowid "
            "WHERE words MATCH ? AND docs.ns = ? ORDER BY bm25(words) LIMIT 10",
            [f'"{word}"', namespace],
        )

    async def _all(self, sql: str, values: Sequence[Any]) -> list[Any]:
        async with self._connection.execute(sql, values) as cursor:
            return list(await cursor.fetchall())


class RawWordsPostgres:
    index = "tsvector"

    def __init__(self, dsn: str) -> None:
        self._dsn = dsn

    async def open(self, texts: Texts) -> None:
        self._connection = await asyncpg.connect(self._dsn)
        await self._connection.execute(
            """
            CREATE TABLE docs (
                ns text NOT NULL, key text NOT NULL, text text NOT NULL,
                words tsvector GENERATED ALWAYS AS (to_tsvector('simple', text)) STORED,
                PRIMARY KEY (ns, key)
            )
            """
        )
        await self._connection.copy_records_to_table(
            "docs", records=texts, columns=["ns", "key", "text"]
        )
        await self._connection.execute("CREATE INDEX ON docs USING gin (words)")

    async def close(self) -> None:
        await self._connection.close()

    async def scan(self, namespace: str, words: Sequence[str]) -> list[Any]:
        like = [f"text LIKE ${number}" for number in range(2, 2 + len(words))]
        ranked = " + ".join(f"({one})::int" for one in like)
        return await self._connection.fetch(
            f"SELECT key, text FROM docs WHERE ns = $1 AND ({' OR '.join(like)}) "
            f"ORDER BY {ranked} DESC LIMIT 10",
            namespace,
            *(f"%{word}%" for word in words),
        )

    async def ranked(self, namespace: str, word: str) -> list[Any]:
        return await self._connection.fetch(
            "SELECT key, text FROM docs, plainto_tsquery('simple', $1) AS asked "
            "WHERE words @@ asked AND ns = $2 ORDER BY ts_rank(words, asked) DESC LIMIT 10",
            word,
            namespace,
        )
