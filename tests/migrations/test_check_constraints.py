"""The CHECKs of the tables: what no row may be, whoever writes it."""

from __future__ import annotations

import pytest
from sqlalchemy import Connection, text
from sqlalchemy.exc import IntegrityError

from memalchemy import Checkpointer, Database, Store, ThreadLog

IMPOSSIBLE = [
    ("threads", "next_seq = 0", "namespace = '/'"),
    ("threads", "version = 0", "namespace = '/'"),
    ("threads", "last_ordinal = -1", "namespace = '/'"),
    ("checkpoints", "seq = 0", "checkpoint_id = 'c0'"),
    ("checkpoints", "ordinal = -1", "checkpoint_id = 'c0'"),
    ("checkpoints", "raw_size = -1", "checkpoint_id = 'c0'"),
    ("checkpoints", "stored_size = -1", "checkpoint_id = 'c0'"),
    ("deltas", "seq = -1", "kind = 'entry'"),
    ("deltas", "depth = -1", "kind = 'delta'"),
    ("deltas", "kind = 'dream'", "kind = 'entry'"),
    ("deltas", "base_seq = 1", "kind = 'snapshot'"),
    ("deltas", "base_seq = NULL", "kind = 'delta'"),
    ("deltas", "base_seq = seq", "kind = 'delta'"),
    ("deltas", "occurred_at = NULL", "kind = 'entry'"),
    ("deltas", "stored_at = NULL", "kind = 'entry'"),
    ("deltas", "stored_at = NULL", "kind = 'write'"),
    ("deltas", "label = NULL", "kind = 'write'"),
    ("store_items", "version = 0", "key = 'k'"),
    ("embeddings", "part = -1", "key = 'k'"),
    ("embeddings", "dimensions = 0", "key = 'k'"),
    ("embeddings", "change = -1", "key = 'k'"),
]


async def test_a_row_that_cannot_be_is_refused(fresh_url: str) -> None:
    async with Database(fresh_url, migrate="off") as db:
        await db.migrate()
        for n in range(2):
            shared = {"text": "what every step has in common, " * 30}
            await Checkpointer(db).save(shared | {"n": n}, "t", f"c{n}")
        await Checkpointer(db).put_writes([("channel", 1)], "t", "c1", "task")
        await ThreadLog(db).append("t", ["an entry"])
        await Store(db).put(("a",), "k", "a value", embedding=[1.0, 0.5])

        def break_each(connection: Connection) -> None:
            for table, change, of in IMPOSSIBLE:
                count = connection.scalar(text(f"SELECT count(*) FROM {table} WHERE {of}"))
                assert count == 1, (table, of)
                broken = text(f"UPDATE {table} SET {change} WHERE {of}")
                with pytest.raises(IntegrityError, match=f"ck_{table}_"), connection.begin_nested():
                    connection.execute(broken)

        await db.run_sync(break_each)
