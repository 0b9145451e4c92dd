"""Many items put straight into the tables, as a store writes them: to fill is not to measure.

On PostgreSQL with COPY; on SQLite as statements of a program, because its vectors are counted.
"""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

import asyncpg
import psycopg
from pgvector.asyncpg import register_vector
from sqlalchemy import insert

from benchmarks.corpus import Floats
from memalchemy import Database
from memalchemy.codec.field_terms import field_terms
from memalchemy.codec.payloads import VALUE_CODEC, encode_payload
from memalchemy.codec.search_text import item_search_text
from memalchemy.database import WRITE
from memalchemy.keys import encode_namespace
from memalchemy.search.cache_versions import count_change
from memalchemy.search.scope import EMBEDDINGS, ITEMS
from memalchemy.statements import Program

MODEL = "default"
AT_ONCE = 5000
START = datetime(2026, 1, 1, tzinfo=UTC)


class Item(NamedTuple):
    """What is put: each a millisecond younger than the one before."""

    namespace: tuple[str, ...]
    key: str
    value: Any
    vector: Floats | None = None


async def fill(
    where: Path | str, db: Database, items: Sequence[Item], *, text: bool = True
) -> None:
    """Put *items*, none of which is there; with *text* their words can be found."""
    rows = [row_of(db, one, at, text) for at, one in enumerate(items)]
    if isinstance(where, str):
        await _copy(where, items, rows)
        return
    for start in range(0, len(items), AT_ONCE):
        some = slice(start, start + AT_ONCE)
        await db.run(partial(_put, db, items[some], rows[some]), WRITE)


def settle(dsn: str) -> None:
    """Gather statistics and clean up, as PostgreSQL's own daemon would a minute later."""
    with psycopg.connect(dsn, autocommit=True) as connection:
        connection.execute("VACUUM ANALYZE")


def row_of(db: Database, item: Item, number: int, text: bool = True) -> dict[str, Any]:
    """An item as the columns of its table hold it."""
    payload, checksum = encode_payload(item.value)
    written = START + timedelta(milliseconds=number)
    return {
        "tenant": db.tenant,
        "namespace": encode_namespace(item.namespace),
        "key": item.key,
        "meta": {},
        "version": 1,
        "codec": VALUE_CODEC,
        "checksum": checksum,
        "search_text": item_search_text(item.value, {}) if text else None,
        "field_terms": field_terms(item.value, {}) if text else None,
        "created_at": written,
        "updated_at": written,
        "expires_at": None,
        "lifetime": None,
        "value": payload,
    }


def _put(db: Database, items: Sequence[Item], rows: list[dict[str, Any]]) -> Program[None]:
    changes = {}
    for path in sorted({row["namespace"] for row in rows}):
        now = rows[0]["updated_at"]
        changes[path] = yield from count_change(db.dialect, db.tenant, path, now, removes=False)
    yield insert(ITEMS), rows
    embedded = [
        _embedding(item, row, changes[row["namespace"]])
        for item, row in zip(items, rows, strict=True)
        if item.vector is not None
    ]
    if embedded:
        yield insert(EMBEDDINGS), embedded


async def _copy(dsn: str, items: Sequence[Item], rows: Sequence[dict[str, Any]]) -> None:
    connection = await asyncpg.connect(dsn)
    await register_vector(connection)
    embedded = [
        _embedding(item, row, 0)
        for item, row in zip(items, rows, strict=True)
        if item.vector is not None
    ]
    as_json = [row | {"meta": "{}"} for row in rows]
    for table, records in ((ITEMS, as_json), (EMBEDDINGS, embedded)):
        if records:
            await connection.copy_records_to_table(
                table.name,
                records=[tuple(one.values()) for one in records],
                columns=[*records[0]],
            )
            # Without statistics each vector's look for its item reads the whole namespace.
            await connection.execute(f"ANALYZE {table.name}")
    await connection.close()


def _embedding(item: Item, row: dict[str, Any], change: int) -> dict[str, Any]:
    assert item.vector is not None
    return {name: row[name] for name in ("tenant", "namespace", "key")} | {
        "field": "",
        "model": MODEL,
        "part": 0,
        "dimensions": len(item.vector),
        "change": change,
        "vector": item.vector,
    }
