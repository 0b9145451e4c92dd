"""The drivers by hand: one connection or pool, our own statements as they are sent, ready bytes.

No encoding, no ORM, no retry, no error translation, no cache: what is left is the database.
"""

from __future__ import annotations

import asyncio
import zlib
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import aiosqlite
import asyncpg
from sqlalchemy import Executable
from sqlalchemy.dialects import postgresql, sqlite

from memalchemy.checkpoints.skip_deltas import CODEC
from memalchemy.dialects import DIALECTS
from memalchemy.keys import new_checkpoint_id
from memalchemy.log import Log, truncate_to_second
from memalchemy.log.append import insert_row, upsert_checkpoint
from memalchemy.log.heads import Allotted, allot_or_create
from memalchemy.log.one_statement import save_checkpoint


class Compiled:
    """A statement as text, with its values in the order in which they are bound."""

    def __init__(self, statement: Executable, dialect: Any) -> None:
        compiled = statement.compile(dialect=dialect)  # type: ignore[attr-defined]
        self.sql = str(compiled)
        self._names: Sequence[str] = compiled.positiontup or ()
        self._constants = compiled.params
        self._processors = {
            name: bind.type.dialect_impl(dialect).bind_processor(dialect)
            for name, bind in compiled.binds.items()
        }

    def values(self, given: Mapping[str, Any]) -> list[Any]:
        found = ((name, given.get(name, self._constants[name])) for name in self._names)
        return [
            processor(value) if (processor := self._processors[name]) else value
            for name, value in found
        ]


def _row(thread_id: str, payload: bytes, words: str | None) -> dict[str, Any]:
    now = datetime.now(UTC)
    return Log("default", thread_id, "/").head_binds() | {
        "p_now": now,
        "p_active_at": truncate_to_second(now),
        "p_count": 1,
        "p_expires_at": None,
        "p_epoch": 1,
        "p_checkpoint_id": new_checkpoint_id(),
        "p_parent_id": None,
        "p_run_id": None,
        "p_rests_on": None,
        "p_meta": {},
        "p_raw_size": len(payload),
        "p_stored_size": len(payload),
        "p_occurred_at": now,
        "p_created_at": now,
        "p_kind": "snapshot",
        "p_base_seq": None,
        "p_depth": 0,
        "p_radix": None,
        "p_codec": CODEC,
        "p_checksum": zlib.crc32(payload),
        "p_search_text": words,
        "p_payload": payload,
    }


class RawSqlite:
    """One aiosqlite connection, set up as ours; each save is its own BEGIN IMMEDIATE … COMMIT."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._turn = asyncio.Lock()
        d, dialect = DIALECTS["sqlite"], sqlite.dialect()
        self._head = Compiled(allot_or_create(d, purpose="checkpoint", condition="any"), dialect)
        self._delta = Compiled(insert_row(d, of="state"), dialect)
        self._name = Compiled(upsert_checkpoint(d), dialect)

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

    async def save(self, thread_id: str, payload: bytes, words: str | None) -> None:
        row, run = _row(thread_id, payload, words), self._connection.execute
        async with self._turn:
            await run("BEGIN IMMEDIATE")
            cursor = await run(self._head.sql, self._head.values(row))
            found = await cursor.fetchone()
            assert found is not None
            head = Allotted._make(found)
            row |= {"p_seq": head.next_seq - 1, "p_previous_id": head.previous_id}
            row["p_ordinal"] = head.last_ordinal
            await run(self._delta.sql, self._delta.values(row))
            await run(self._name.sql, self._name.values(row))
            await run("COMMIT")


CONNECTIONS = 15
"""As many as ours may open: SQLAlchemy's pool has 5 and lets 10 more be opened. asyncpg's own
default is 10, a tenth slower here."""


class RawPostgres:
    """asyncpg from its pool, every connection open beforehand; each save is the one statement."""

    def __init__(self, dsn: str) -> None:
        self._dsn = dsn
        statement = save_checkpoint(
            DIALECTS["postgresql"], mode="create", condition="any", parent=False, retain=False
        )
        self._save = Compiled(statement, postgresql.asyncpg.dialect())

    async def open(self) -> None:
        self._pool = await asyncpg.create_pool(
            self._dsn, min_size=CONNECTIONS, max_size=CONNECTIONS
        )

    async def close(self) -> None:
        await self._pool.close()

    async def save(self, thread_id: str, payload: bytes, words: str | None) -> None:
        values = self._save.values(_row(thread_id, payload, words))
        async with self._pool.acquire() as connection:
            assert await connection.fetchrow(self._save.sql, *values) is not None
