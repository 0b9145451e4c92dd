"""Rows that somebody edited end in an error of the library, and nothing is deleted for them."""

from __future__ import annotations

from contextlib import suppress

import pytest
from sqlalchemy import text

from memalchemy import Checkpointer, Corrupt, Database, Store
from memalchemy.verify import verify


async def edit(db: Database, *statements: str) -> None:
    async with db.transaction() as connection:
        for one in statements:
            await connection.execute(text(one))


@pytest.mark.own_signing_keys
@pytest.mark.parametrize("thread", ["a", "b", None])
async def test_pruning_stops_at_heads_that_name_each_other(
    db: Database, thread: str | None
) -> None:
    agent = Checkpointer(db)
    for name in ("a", "b"):
        for step in range(4):
            await agent.save({"text": f"word{step} {name}"}, name, checkpoint_id=f"{name}{step}")
    rename = "UPDATE threads SET thread_id = '{}' WHERE thread_id = '{}' AND tenant = '{}'"
    names = ("x", "a"), ("a", "b"), ("b", "x")
    await edit(db, *(rename.format(*pair, db.tenant) for pair in names))
    with pytest.raises(Corrupt, match="names another"):
        await agent.prune(thread, keep_last=1)
    async with db.transaction() as connection:
        count = text(f"SELECT count(*) FROM checkpoints WHERE tenant = '{db.tenant}'")
        left = await connection.execute(count)
        assert left.scalar() == 8


@pytest.mark.own_signing_keys
@pytest.mark.parametrize(
    "path",
    [
        b"\xff",
        b"/a\xc3/",
        pytest.param(b"", marks=pytest.mark.own_programs("no bytes are NULL there"), id="empty"),
        b"/\xed\xa0\x80/",
    ],
)
async def test_a_counter_of_vectors_that_names_nothing_is_damage(db: Database, path: bytes) -> None:
    if not db.dialect.vectors.counts_changes:
        return  # it counts no changes of vectors
    store = Store(db)
    await store.put_with_embedding(("a",), "k", {"n": 1}, [1.0, 0.5])
    counters = f"namespace LIKE '/~v%' AND tenant = '{db.tenant}'"
    await edit(db, f"UPDATE store_items SET value = x'{path.hex()}' WHERE {counters}")
    with suppress(Corrupt):
        await store.search_by_embedding(("a",), [1.0, 0.5])
    assert not (await verify(db)).ok
