"""The tables as SQLAlchemy classes: a host relates them to its own, queries and deletes through its
session. What docs/sqlalchemy.md shows, on every database.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from typing import Any
from uuid import UUID

import pytest
from sqlalchemy import ForeignKey, delete, event, func, select
from sqlalchemy.ext.asyncio import AsyncEngine, AsyncSession, create_async_engine
from sqlalchemy.orm import DeclarativeBase, Mapped, joinedload, mapped_column, relationship

from host_urls import async_url
from memalchemy import Checkpointer, Database
from memalchemy.keys import log_key
from memalchemy.schema import CheckpointRow, DeltaRow, ThreadRow
from rows import differences_of
from servers import Postgres

Reopen = Callable[[], Database]

LONG = {"text": "what every step has in common, " * 30}


class HostBase(DeclarativeBase):
    """The host's own tables."""


class User(HostBase):
    __tablename__ = "native_users"
    id: Mapped[int] = mapped_column(primary_key=True)
    name: Mapped[str]
    conversations: Mapped[list[Conversation]] = relationship(back_populates="user")


class Conversation(HostBase):
    """A conversation that cannot be without its log, as the database sees to."""

    __tablename__ = "native_conversations"
    id: Mapped[int] = mapped_column(primary_key=True)
    user_id: Mapped[int] = mapped_column(ForeignKey("native_users.id"))
    log_id: Mapped[UUID] = mapped_column(
        ThreadRow.log_id.type, ForeignKey(ThreadRow.log_id, ondelete="CASCADE")
    )
    user: Mapped[User] = relationship(back_populates="conversations")
    thread: Mapped[ThreadRow] = relationship(ThreadRow)


def host_engine(url: str, *, foreign_keys: bool) -> AsyncEngine:
    """The engine that a host makes for the same database."""
    engine = create_async_engine(async_url(url))
    if foreign_keys and engine.dialect.name == "sqlite":
        event.listen(
            engine.sync_engine,
            "connect",
            lambda connection, _: connection.execute("PRAGMA foreign_keys = ON"),
        )
    return engine


@pytest.fixture
def foreign_keys() -> bool:
    """Whether the host asked SQLite to heed foreign keys; SQLAlchemy does not."""
    return False


heeded_or_not = pytest.mark.parametrize("foreign_keys", [True, False])


@pytest.fixture
async def session(
    db: Database, owner_url: str, foreign_keys: bool, reopen: Reopen
) -> AsyncIterator[AsyncSession]:
    """A session of the host's. Not for a database in memory: that is one process's alone."""
    engine = host_engine(owner_url, foreign_keys=foreign_keys)
    async with engine.begin() as connection:
        await connection.run_sync(HostBase.metadata.create_all)
    async with AsyncSession(engine, expire_on_commit=False) as own:
        yield own
    async with engine.begin() as connection:
        await connection.run_sync(HostBase.metadata.drop_all)
    await engine.dispose()


async def rows_of(session: AsyncSession, db: Database, table: Any) -> int:
    return await session.scalar(select(func.count()).where(table.tenant == db.tenant)) or 0


async def text_index_is_sound(db: Database) -> None:
    """The index has the words of the rows and no others; other databases look after theirs."""
    if db.dialect.single_writer and db.dialect.text.index_name("deltas_search", None):
        assert await db.run_sync(lambda c: differences_of(c.exec_driver_sql)) == []


# --- Join and relate -----------------------------------------------------------------------------


async def test_a_hosts_rows_and_a_checkpoint_are_written_in_one_transaction_and_joined(
    db: Database, session: AsyncSession, checkpointer: Checkpointer
) -> None:
    odd = "ticket/1 naïve \x00 🧵"
    ada = User(id=1, name="Ada")
    session.add(Conversation(id=1, user=ada, log_id=log_key(db.tenant, odd, "/")))
    await checkpointer.save({"step": 1}, odd, "first", connection=session)
    await session.commit()

    found = await session.execute(
        select(User.name, ThreadRow.head_id)
        .join(User.conversations)
        .join(Conversation.thread)
        .where(ThreadRow.tenant == db.tenant)
    )
    assert found.all() == [("Ada", "first")]
    assert await checkpointer.load(odd) == {"step": 1}


async def test_a_rollback_takes_the_hosts_rows_and_the_checkpoint(
    db: Database, session: AsyncSession, checkpointer: Checkpointer
) -> None:
    await checkpointer.save({"step": 1}, "thread", connection=session)
    session.add(
        Conversation(id=1, user=User(id=1, name="Ada"), log_id=log_key(db.tenant, "thread", "/"))
    )
    await session.flush()
    assert await checkpointer.load("thread", connection=session) == {"step": 1}
    await session.rollback()

    assert await checkpointer.load("thread") is None
    assert await session.get(User, 1) is None


async def test_a_relationship_leads_from_the_hosts_class_to_the_thread(
    db: Database, session: AsyncSession, checkpointer: Checkpointer
) -> None:
    await checkpointer.save({"step": 1}, "thread", "first")
    session.add(
        Conversation(id=1, user=User(id=1, name="Ada"), log_id=log_key(db.tenant, "thread", "/"))
    )
    await session.commit()
    session.expunge_all()

    found = await session.scalar(select(Conversation).options(joinedload(Conversation.thread)))

    assert found is not None
    assert (found.thread.head_id, found.thread.next_seq) == ("first", 2)
    assert found.thread.updated_at.tzinfo is not None


# --- List and filter -----------------------------------------------------------------------------


async def test_listing_rows_through_the_orm_reads_no_payload(
    db: Database, session: AsyncSession, checkpointer: Checkpointer
) -> None:
    for n in range(3):
        await checkpointer.save(LONG | {"n": n}, "thread", f"c{n}", {"step": n})
    sent: list[str] = []
    connection = await session.connection()
    event.listen(
        connection.sync_connection,
        "before_cursor_execute",
        lambda _c, _cursor, statement, *_: sent.append(statement),
    )

    names = await session.scalars(
        select(CheckpointRow).where(CheckpointRow.tenant == db.tenant).order_by(CheckpointRow.seq)
    )
    deltas = await session.scalars(select(DeltaRow).where(DeltaRow.tenant == db.tenant))

    assert [row.checkpoint_id for row in names] == ["c0", "c1", "c2"]
    assert len(deltas.all()) == 3
    assert len(sent) == 2
    assert not [statement for statement in sent if "payload" in statement]


async def test_metadata_is_filtered_with_sqlalchemys_json_operators(
    db: Database, session: AsyncSession, checkpointer: Checkpointer
) -> None:
    for n in range(4):
        await checkpointer.save({"n": n}, "thread", f"c{n}", {"step": n, "node": f"node {n % 2}"})

    found = await session.scalars(
        select(CheckpointRow.checkpoint_id)
        .where(CheckpointRow.tenant == db.tenant)
        .where(CheckpointRow.meta["step"].as_integer() >= 1)
        .where(CheckpointRow.meta["node"].as_string() == "node 1")
        .order_by(CheckpointRow.seq)
    )

    assert found.all() == ["c1", "c3"]


# --- Delete --------------------------------------------------------------------------------------


async def delete_through(
    session: AsyncSession, db: Database, thread_id: str, *, unit_of_work: bool
) -> None:
    mine = (ThreadRow.tenant == db.tenant, ThreadRow.thread_id == thread_id)
    if unit_of_work:
        row = await session.scalar(select(ThreadRow).where(*mine))
        await session.delete(row)
        await session.flush()
    else:
        await session.execute(delete(ThreadRow).where(*mine))


@heeded_or_not
@pytest.mark.parametrize("unit_of_work", [True, False])
async def test_a_thread_deleted_through_the_orm_is_gone_everywhere(
    db: Database, session: AsyncSession, checkpointer: Checkpointer, unit_of_work: bool
) -> None:
    for n in range(4):
        state = LONG | {"messages": [f"zebra number {n}"]}
        await checkpointer.save(state, "thread", f"c{n}", {"step": n})
    await checkpointer.save({"messages": ["another zebra"]}, "kept", "kept", {"step": 1})

    await delete_through(session, db, "thread", unit_of_work=unit_of_work)
    await session.commit()

    for table in (ThreadRow, CheckpointRow, DeltaRow):
        assert await rows_of(session, db, table) == 1
    await session.rollback()
    assert await checkpointer.load("thread") is None
    assert await checkpointer.list_threads() == ["kept"]
    assert [hit["thread_id"] for hit in await checkpointer.search("zebra")] == ["kept"]
    found = await checkpointer.query_by_metadata("step", 1)
    assert [hit["thread_id"] for hit in found] == ["kept"]
    await text_index_is_sound(db)


@heeded_or_not
async def test_a_thread_deleted_through_the_orm_can_be_saved_again(
    db: Database, session: AsyncSession, checkpointer: Checkpointer
) -> None:
    for n in range(3):
        await checkpointer.save(LONG | {"messages": [f"zebra {n}"]}, "thread", f"old{n}")
    await delete_through(session, db, "thread", unit_of_work=True)
    await checkpointer.save({"messages": ["a giraffe"]}, "thread", "new", connection=session)
    await session.commit()

    assert [info.checkpoint_id async for info in checkpointer.history("thread")] == ["new"]
    assert await checkpointer.load("thread") == {"messages": ["a giraffe"]}
    assert await checkpointer.load("thread", "old1") is None
    assert await checkpointer.search("zebra") == []
    assert len(await checkpointer.search("giraffe")) == 1
    await text_index_is_sound(db)


@heeded_or_not
async def test_a_delete_that_is_rolled_back_has_not_happened(
    db: Database, session: AsyncSession, checkpointer: Checkpointer, reopen: Reopen
) -> None:
    for n in range(3):
        await checkpointer.save(LONG | {"n": n, "messages": ["zebra"]}, "thread", f"c{n}")
    await delete_through(session, db, "thread", unit_of_work=False)
    await session.rollback()

    await checkpointer.save(LONG | {"n": 3}, "thread", "c3")

    async with reopen() as other:
        for n in range(4):
            loaded = await Checkpointer(other).load("thread", f"c{n}")
            assert loaded is not None
            assert loaded["n"] == n
    assert len(await checkpointer.search("zebra", limit=9)) == 1
    await text_index_is_sound(db)


@heeded_or_not
async def test_processes_with_cached_bases_save_while_the_host_deletes_under_them(
    db: Database, session: AsyncSession, reopen: Reopen
) -> None:
    over = asyncio.Event()
    saved: dict[str, dict[str, Any]] = {}
    told: asyncio.Queue[str] = asyncio.Queue()

    async def save_on(who: str, own: Database) -> None:
        keep = Checkpointer(own)
        n = 0
        while not over.is_set():
            n += 1
            # Incompressible enough to be worth a delta, and unlike what the other one saves.
            state = {"who": who, "messages": [f"{who} {m} {hash((who, m))}" for m in range(n % 40)]}
            name = await keep.save(state, "thread", f"{who}{n}")
            saved[name] = state
            told.put_nowait(name)
            loaded = await keep.load("thread", name)
            assert loaded is None or loaded == state

    async def delete_often() -> None:
        try:
            for _ in range(25):
                for _ in range(4):
                    await told.get()
                await delete_through(session, db, "thread", unit_of_work=False)
                await session.commit()
        finally:
            over.set()

    async with reopen() as one, reopen() as other, asyncio.TaskGroup() as tasks:
        tasks.create_task(save_on("a", one))
        tasks.create_task(save_on("b", other))
        tasks.create_task(delete_often())

    keep = Checkpointer(db)
    await keep.save({"last": True}, "thread", "last")
    left = [info.checkpoint_id async for info in keep.history("thread")]
    assert left[0] == "last"
    assert len(left) < len(saved)
    for name in left[1:]:
        assert await keep.load("thread", name) == saved[name]
    await text_index_is_sound(db)


@pytest.mark.one_server_only("a host's own table has to be distributed like threads, too")
async def test_the_hosts_rows_go_with_the_thread_they_point_to(
    db: Database, session: AsyncSession, checkpointer: Checkpointer
) -> None:
    await checkpointer.save({"step": 1}, "thread")
    session.add(
        Conversation(id=1, user=User(id=1, name="Ada"), log_id=log_key(db.tenant, "thread", "/"))
    )
    await session.commit()
    assert await checkpointer.delete("thread")
    assert await session.scalar(select(func.count()).select_from(Conversation)) == 1  # a tombstone
    await session.rollback()

    # On memalchemy's own connections foreign keys are heeded, the host's too.
    await checkpointer.forget(thread_id="thread")

    assert await session.scalar(select(func.count()).select_from(Conversation)) == 0
    assert await session.scalar(select(func.count()).select_from(User)) == 1


# --- Tenants and schemas -------------------------------------------------------------------------


async def test_a_delete_that_names_the_tenant_leaves_the_others_threads(
    db: Database, session: AsyncSession, checkpointer: Checkpointer
) -> None:
    elsewhere = Checkpointer(db.for_tenant(f"{db.tenant}-2"))
    await checkpointer.save({"whose": "mine"}, "thread")
    await elsewhere.save({"whose": "theirs"}, "thread")

    await delete_through(session, db, "thread", unit_of_work=False)
    await session.commit()

    assert await checkpointer.load("thread") is None
    assert await elsewhere.load("thread") == {"whose": "theirs"}
    await elsewhere.forget(thread_id="thread")


@pytest.mark.asyncio_only(reason="a host's asynchronous engine serves one loop, not the face's too")
@pytest.mark.parametrize("how", ["search path", "translated"])
async def test_tables_in_a_schema_of_their_own_are_joined_and_deleted(
    postgres: Postgres, how: str
) -> None:
    class Base(DeclarativeBase):
        pass

    class Account(Base):
        __tablename__ = "accounts"
        # With a translation, what has no schema is memalchemy's; the host's says where it is.
        __table_args__ = {} if how == "search path" else {"schema": "public"}
        id: Mapped[int] = mapped_column(primary_key=True)
        thread_id: Mapped[str]

    name = postgres.create_database()
    url = postgres.url(name, driver="asyncpg")
    if how == "search path":
        settings = {"server_settings": {"search_path": "public, memory"}}
        engine = create_async_engine(url, connect_args=settings)
    else:
        engine = create_async_engine(
            url, execution_options={"schema_translate_map": {None: "memory"}}
        )
    db = Database(engine, schema="memory")
    await db.migrate()
    checkpointer = Checkpointer(db)
    async with engine.begin() as connection:
        await connection.run_sync(Base.metadata.create_all)

    async with AsyncSession(engine) as session, session.begin():
        session.add(Account(id=1, thread_id="thread"))
        await checkpointer.save({"step": 1}, "thread", "first", connection=session)
    async with AsyncSession(engine) as session, session.begin():
        joined = select(Account.id, ThreadRow).join(
            ThreadRow, ThreadRow.thread_id == Account.thread_id
        )
        ((account, row),) = (await session.execute(joined)).all()
        assert (account, row.head_id) == (1, "first")
        await session.delete(row)

    assert await checkpointer.load("thread") is None
    assert postgres.execute("SELECT count(*) FROM memory.deltas", name) == [(0,)]
    await db.close()
    await engine.dispose()
    postgres.drop_database(name)
