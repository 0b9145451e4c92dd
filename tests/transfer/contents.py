"""What the copied databases hold, as plain values of Python, and things to fill them with."""

from __future__ import annotations

import random
from datetime import UTC, datetime, timedelta
from typing import Any

import numpy as np
from sqlalchemy import Connection, insert, select

from memalchemy import Checkpointer, Database
from memalchemy.codec.field_terms import field_terms
from memalchemy.codec.payloads import VALUE_CODEC, encode_payload
from memalchemy.codec.search_text import item_search_text
from memalchemy.schema import (
    CheckpointRow,
    DeltaRow,
    EmbeddingRow,
    StoreItemRow,
    ThreadRow,
)
from memalchemy.search.cache_versions import COUNTERS

TABLES = (ThreadRow, CheckpointRow, DeltaRow, StoreItemRow, EmbeddingRow)
WHEN = datetime(2030, 1, 2, 3, 4, 5, 678901, tzinfo=UTC)
AWKWARD = ("plain", "", "\x00", "\x1a", "\ud800", " ", "a/b", "Ünï 漢字", "x" * 255)
METADATA = {"n": 1e22, "one": 1.0, "yes": True, "deep": [{"ü": None}, -3, 2**62], "": ""}


async def everything(db: Database, *, tenant: str | None = None) -> dict[str, list[dict[str, Any]]]:
    """All rows of a database but for the library's own, without what a copy makes anew: epochs,
    and counts of changes to vectors.
    """

    def read(connection: Connection) -> dict[str, list[dict[str, Any]]]:
        found = {}
        for kind in TABLES:
            table: Any = kind.__table__
            rows = connection.execute(
                select(*table.c).where(table.c.tenant != "~").order_by(*table.primary_key.columns)
            )
            found[table.name] = [
                {k: _plain(k, v) for k, v in row._mapping.items() if k not in ("epoch", "change")}
                for row in rows
                if tenant in (None, row.tenant) and getattr(row, "namespace", None) != COUNTERS
            ]
        return found

    return await db.run_sync(_moved(db, read))


async def run(db: Database, *statements: Any) -> None:
    """Execute statements of the test's own on the tables."""

    def execute(connection: Connection) -> None:
        for statement in statements:
            connection.execute(statement)

    await db.run_sync(_moved(db, execute))


def _moved(db: Database, job: Any) -> Any:
    if db.schema is None:
        return job
    schemas = {None: db.schema}
    return lambda c: job(c.execution_options(schema_translate_map=schemas))


def _plain(name: str, value: Any) -> Any:
    if name == "vector":
        return np.asarray(value, "<f4").tobytes()
    return value


async def fill(db: Database) -> None:
    """Every kind of row: branches, deleted states, tombstones, forks, expiry, items, vectors."""
    agent = Checkpointer(db)
    for number, thread in enumerate(AWKWARD):
        for step in range(6 + number):
            state = {"m": [f"word{n} of {step} é" for n in range(step)], "b": b"\x00\xff", "f": 1.5}
            await agent.save(state, thread, f"{step}-é", METADATA if step % 2 else None)
    await agent.save({"big": random.Random(1).randbytes(300_000)}, "large", "whole")
    await agent.save({"m": ["branch"]}, "plain", "branch", parent_id="2-é")
    await agent.delete("plain", "3-é")
    await agent.save({"replaced": True}, "a/b", "1-é")
    await agent.fork("plain", "4-é", new_thread_id="forked")
    await agent.save({"gone": 1}, "buried")
    await agent.delete("buried")
    await Checkpointer(db, namespace=("other", "a/b"), ttl=timedelta(days=9)).save(
        {"n": 1}, "plain"
    )
    await Checkpointer(db, index_text=False).save({}, "silent")
    await Checkpointer(db.for_tenant("zeta")).save({"whose": "zeta"}, "plain", "theirs")
    await run(
        db,
        *(
            insert(StoreItemRow.__table__).values(item(name))
            for name in ("one", "", "\ud800", "ü" * 9)
        ),
        *(
            insert(EmbeddingRow.__table__).values(vector("one", part, n))
            for part, n in ((0, 3), (1, 700))
        ),
        insert(StoreItemRow.__table__).values(item("counter") | {"namespace": "/~memalchemy/"}),
        insert(StoreItemRow.__table__).values(item("one", value="Words ü") | {"tenant": "zeta"}),
    )


def item(key: str, value: Any = b"\x00value\xff", **values: Any) -> dict[str, Any]:
    return {
        "tenant": "acme", "namespace": "/facts/", "key": key, "meta": METADATA, "version": 3,
        "created_at": WHEN, "updated_at": WHEN,
        "expires_at": WHEN + timedelta(days=1), "lifetime": 86_400_000_000,
    } | stored(value) | values  # fmt: skip


def stored(value: Any) -> dict[str, Any]:
    """Return the columns that an item with *value* has."""
    payload, checksum = encode_payload(value)
    return {
        "codec": VALUE_CODEC, "checksum": checksum, "value": payload,
        "search_text": item_search_text(value, METADATA),
        "field_terms": field_terms(value, METADATA),
    }  # fmt: skip


def vector(key: str, part: int, dimensions: int) -> dict[str, Any]:
    numbers = np.random.default_rng(dimensions).standard_normal(dimensions).astype("<f4")
    return {
        "tenant": "acme", "namespace": "/facts/", "key": key, "field": "text", "model": "m",
        "part": part, "dimensions": dimensions, "change": 4,
        "vector": numbers if part else [0.1, -1e-30, 3e38],
    }  # fmt: skip


async def states(db: Database) -> dict[tuple[str, str], Any]:
    """Every checkpoint's state and metadata."""
    agent = Checkpointer(db)
    found = {}
    for thread in await agent.list_threads(limit=1000):
        async for info in agent.history(thread):
            state = await agent.load(thread, info.checkpoint_id)
            found[thread, info.checkpoint_id] = (info, state)
    return found
