"""Metadata and vectors of rows that were edited become bounded memory, or the row is Corrupt.

The bombs are written into the rows behind the library's back, as whoever can write there would.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Any

import pytest
from sqlalchemy import Text, cast, literal, type_coerce, update
from sqlalchemy.dialects.postgresql import JSONB

from memalchemy import Checkpointer, Database, Store
from memalchemy import _bounds as bounds
from memalchemy.errors import Corrupt
from memalchemy.schema import Base

pytestmark = pytest.mark.asyncio_only

BOMBS = {
    "maps": "{},",
    "lists": "[],",
    "maps in maps": '{"a":{}},',
    "numbers": "12345,",
    "texts": '"ab",',
}


async def _save(db: Database) -> None:
    await Checkpointer(db).save({"n": 1}, "thread", metadata={"a": [1]})
    await Store(db).put(("a",), "k", {"n": 1}, metadata={"a": [1]})
    await Checkpointer(db).set_thread_metadata("thread", {"a": [1]})


READS: dict[str, tuple[str, Callable[[Database], Awaitable[Any]]]] = {
    "an item": ("store_items", lambda db: Store(db).get_item(("a",), "k")),
    "a list of items": ("store_items", lambda db: Store(db).list_items(("a",))),
    "a history": ("checkpoints", lambda db: _all(Checkpointer(db).history("thread"))),
    "metadata of a checkpoint": ("checkpoints", lambda db: Checkpointer(db).get_metadata("thread")),
    "a list of logs": ("threads", lambda db: Checkpointer(db).list_logs("thread")),
}


async def _all(found: Any) -> list[Any]:
    return [one async for one in found]


@pytest.mark.parametrize("bomb", BOMBS)
@pytest.mark.parametrize("read", READS)
async def test_metadata_that_could_not_have_been_saved_is_not_built(
    db: Database, read: str, bomb: str
) -> None:
    await _save(db)
    table, work = READS[read]
    document = '{"a":[' + BOMBS[bomb] * 700_000 + "0]}"
    rows = Base.metadata.tables[table]
    async with db.transaction() as connection:
        stored = JSONB() if connection.dialect.name == "postgresql" else Text()
        meta = type_coerce(cast(literal(document, Text()), stored), rows.c.meta.type)
        await connection.execute(update(rows).where(rows.c.tenant == db.tenant).values(meta=meta))
    built: list[int] = []
    with pytest.MonkeyPatch.context() as patch:
        decode = bounds.json.loads
        patch.setattr(bounds.json, "loads", lambda given: built.append(1) or decode(given))
        with pytest.raises(Corrupt):
            await work(db)
    assert not built
