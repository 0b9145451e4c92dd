"""The mapped classes as a host application queries them: relationships, decoded values, filters."""

from __future__ import annotations

from typing import Any

import pytest
from sqlalchemy import func, select
from sqlalchemy.ext.asyncio import AsyncSession
from sqlalchemy.orm import Session, selectinload, undefer

from memalchemy import (
    CapabilityMissing,
    Checkpointer,
    Database,
    KeyMissing,
    Store,
    ThreadLog,
    decode,
)
from memalchemy.codec.encryption import generate_key
from memalchemy.schema import (
    INTERNAL_ROWS,
    CheckpointRow,
    DeltaRow,
    EmbeddingRow,
    StoreItemRow,
    ThreadRow,
)

NS = ("users", "ada")


async def in_session(db: Database, work: Any) -> Any:
    """Run *work* with a session on a connection of the database."""
    return await db.run_sync(lambda connection: work(Session(connection)))


def decoded(row: Any, keys: list[str] | None) -> Any:
    """Return what *row* holds: by its property, which knows no keys, unless it is encrypted."""
    if keys is None:
        return row.decoded
    with pytest.raises(KeyMissing):
        row.decoded  # noqa: B018 - the property raises
    return decode(row, keys=keys)


async def test_a_thread_has_its_checkpoints_and_they_have_their_states(
    db: Database, default_keys: list[str] | None
) -> None:
    checkpointer = Checkpointer(db)
    for n in range(3):
        await checkpointer.save({"n": n}, "trip", f"c{n}")

    def work(session: Session) -> Any:
        thread = session.scalars(
            select(ThreadRow)
            .where(ThreadRow.tenant == db.tenant)
            .options(
                selectinload(ThreadRow.checkpoints)
                .joinedload(CheckpointRow.delta)
                .undefer(DeltaRow.payload)
            )
        ).one()
        assert [c.thread is thread for c in thread.checkpoints] == [True] * 3
        assert [d.checkpoint.checkpoint_id for d in thread.deltas] == ["c0", "c1", "c2"]
        rows = [c.delta for c in thread.checkpoints]
        return [decode(row, keys=default_keys, bases=rows) for row in rows]

    assert await in_session(db, work) == [{"n": 0}, {"n": 1}, {"n": 2}]


async def test_a_delta_alone_says_how_to_read_it(
    db: Database, default_keys: list[str] | None
) -> None:
    checkpointer = Checkpointer(db)
    state = {"messages": ["a long enough message to be worth a difference"] * 40}
    await checkpointer.save(state, "trip", "c0")
    await checkpointer.save({"messages": [*state["messages"], "one more"]}, "trip", "c1")

    def work(session: Session) -> Any:
        mine = select(DeltaRow).where(DeltaRow.tenant == db.tenant)
        mine = mine.options(undefer(DeltaRow.payload))
        row = session.scalars(mine.where(DeltaRow.base_seq.is_not(None))).one()
        session.expunge(row)
        return decoded(row, default_keys)

    with pytest.raises(CapabilityMissing, match=r"Checkpointer\.load"):
        await in_session(db, work)


async def test_entries_and_writes_are_decoded(db: Database, default_keys: list[str] | None) -> None:
    await ThreadLog(db).append("talk", [{"role": "user", "content": "hi"}, ("a", b"\x00")])
    checkpointer = Checkpointer(db)
    await checkpointer.save({}, "trip", "c0")
    await checkpointer.put_writes([("channel", {1, 2})], "trip", "c0", "task")

    def work(session: Session) -> Any:
        mine = select(DeltaRow).where(DeltaRow.tenant == db.tenant)
        query = mine.where(DeltaRow.kind.in_(["entry", "write"]))
        rows = session.scalars(query.options(undefer(DeltaRow.payload)).order_by(DeltaRow.kind))
        return [decoded(row, default_keys) for row in rows]

    first, second, (write,) = await in_session(db, work)
    assert (first, second) == ({"role": "user", "content": "hi"}, ("a", b"\x00"))
    assert (write.task_id, write.channel, write.value) == ("task", "channel", {1, 2})


async def test_an_item_is_decoded_and_has_its_embeddings(
    db: Database, default_keys: list[str] | None
) -> None:
    store = Store(db, embedder=lambda texts: [[1.0, float(len(text))] for text in texts])
    await store.put(NS, "drink", {"text": "tea"}, index=["text"])

    def work(session: Session) -> Any:
        mine = select(StoreItemRow).where(StoreItemRow.tenant == db.tenant)
        item = session.scalars(mine.options(selectinload(StoreItemRow.embeddings))).one()
        return (
            decoded(item, default_keys),
            [list(e.vector) for e in item.embeddings],
            item.embeddings[0].item is item,
        )

    assert await in_session(db, work) == ({"text": "tea"}, [[1.0, 3.0]], True)


async def test_rows_of_memalchemys_own_are_seen_only_by_who_asks_for_them(db: Database) -> None:
    store = Store(db, embedder=lambda texts: [[1.0, 2.0] for _ in texts])
    await store.put(NS, "drink", {"text": "tea"}, index=["text"])
    await store.put(("~vectors",), "mine", {"of": "a user"}, index=False)

    def work(session: Session) -> Any:
        mine = StoreItemRow.tenant == db.tenant
        items = select(StoreItemRow.key).where(mine).order_by(StoreItemRow.key)
        counted = session.scalar(select(func.count()).select_from(StoreItemRow).where(mine))
        joined = session.scalars(select(StoreItemRow.key).join(EmbeddingRow.item).where(mine)).all()
        seen = session.scalars(items).all()
        every = session.scalars(items.execution_options(**{INTERNAL_ROWS: True})).all()
        return seen, counted, joined, len(every) >= len(seen)

    assert await in_session(db, work) == (["drink", "mine"], 2, ["drink"], True)


async def test_an_encrypted_row_is_decoded_with_its_keys(own_url: str) -> None:
    key = generate_key()
    async with Database(own_url, keys=[key]) as db:
        await db.migrate()
        await Store(db).put(NS, "drink", {"text": "tea"})

        def work(session: Session) -> Any:
            row = session.scalars(select(StoreItemRow)).one()
            with pytest.raises(KeyMissing):
                row.decoded  # noqa: B018 - the property raises
            return decode(row, keys=[key])

        assert await in_session(db, work) == {"text": "tea"}


@pytest.mark.asyncio_only("an AsyncSession needs an asynchronous connection")
async def test_an_async_session_sees_the_same(db: Database, default_keys: list[str] | None) -> None:
    await Store(db).put(NS, "drink", "tea")

    async with db.transaction() as tx, AsyncSession(tx) as session:
        mine = select(StoreItemRow).where(StoreItemRow.tenant == db.tenant)
        rows = await session.scalars(mine)
        assert [decoded(row, default_keys) for row in rows] == ["tea"]
