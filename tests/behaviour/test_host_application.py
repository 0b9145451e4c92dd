"""Living inside a host application: its engine, its session, its connection, its tables."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable
from typing import Any
from uuid import UUID, uuid4

import pytest
from sqlalchemy import (
    Engine,
    ForeignKey,
    create_engine,
    delete,
    event,
    func,
    select,
)
from sqlalchemy.ext.asyncio import AsyncEngine, AsyncSession, create_async_engine
from sqlalchemy.orm import DeclarativeBase, Mapped, Session, mapped_column

from host_urls import async_url
from memalchemy import Checkpointer, Conflict, Database, SchemaOutdated, UnknownURL
from memalchemy.keys import log_key
from memalchemy.schema import CheckpointRow, DeltaRow, ThreadRow

LONG = {"text": "what every step has in common, " * 30}

Reopen = Callable[[], Database]

OWN_LOOP = pytest.mark.asyncio_only(reason="the pool is that of the host's loop, not the face's")


class HostBase(DeclarativeBase):
    """The host's own tables."""


class Ticket(HostBase):
    __tablename__ = "host_tickets"

    id: Mapped[str] = mapped_column(primary_key=True)
    thread_id: Mapped[str]
    title: Mapped[str]


@pytest.fixture
async def engine(db: Database, owner_url: str) -> AsyncIterator[AsyncEngine]:
    """The host's engine, with foreign keys on, and the host's table."""
    if owner_url == "sqlite://":
        pytest.skip("a host's engine cannot reach a database in memory that is not its own")
    own = create_async_engine(async_url(owner_url))
    if own.dialect.name == "sqlite":
        event.listen(
            own.sync_engine,
            "connect",
            lambda connection, _: connection.execute("PRAGMA foreign_keys = ON"),
        )
    async with own.begin() as connection:
        await connection.run_sync(HostBase.metadata.create_all)
    yield own
    assert getattr(own.pool, "checkedout", int)() == 0
    await own.dispose()


@pytest.fixture
async def session(engine: AsyncEngine) -> AsyncIterator[AsyncSession]:
    async with AsyncSession(engine, expire_on_commit=False) as own:
        yield own


# --- An engine of the host's ---------------------------------------------------------------------


@OWN_LOOP
async def test_a_database_on_the_hosts_engine_does_all_that_one_on_a_url_does(
    db: Database, engine: AsyncEngine
) -> None:
    hosted = Database(engine, tenant=db.tenant)
    checkpointer = Checkpointer(hosted)

    await hosted.check()
    for n in range(3):
        await checkpointer.save(LONG | {"n": n}, "thread", f"c{n}")
    async with hosted.transaction() as tx:
        await checkpointer.save(LONG | {"n": 3}, "thread", "c3", connection=tx)

    assert await checkpointer.load("thread") == LONG | {"n": 3}
    assert await Checkpointer(db).list_checkpoints("thread") == ["c3", "c2", "c1", "c0"]
    assert await checkpointer.delete("thread", "c1")
    assert (await hosted.health())["revision"] == (await db.health())["head"]


@OWN_LOOP
async def test_closing_leaves_the_hosts_engine_open(db: Database, engine: AsyncEngine) -> None:
    disposed: list[Any] = []
    event.listen(engine.sync_engine, "engine_disposed", disposed.append)

    async with Database(engine, tenant=db.tenant) as hosted:
        await Checkpointer(hosted).save({"n": 1}, "thread")
    await hosted.close()

    assert disposed == []
    async with engine.connect() as connection:
        assert await connection.scalar(select(1)) == 1


async def test_the_hosts_engine_is_migrated_only_when_it_is_asked_for(database_url: str) -> None:
    own = create_async_engine(async_url(database_url))
    hosted = Database(own)
    checkpointer = Checkpointer(hosted)

    with pytest.raises(SchemaOutdated):
        await checkpointer.load("thread")
    await hosted.migrate()
    await checkpointer.save({"n": 1}, "thread")

    assert await checkpointer.load("thread") == {"n": 1}
    await own.dispose()


def test_an_engine_of_an_unknown_database_is_refused() -> None:
    own = create_async_engine("sqlite+aiosqlite://")
    own.sync_engine.dialect.name = "informix"

    with pytest.raises(UnknownURL, match="informix"):
        Database(own)


def test_the_password_in_the_hosts_engine_is_not_shown() -> None:
    own = create_async_engine("postgresql+asyncpg://ada:hush@db/agents?password=hush")

    assert "hush" not in repr(Database(own))


# --- connection= ---------------------------------------------------------------------------------


async def test_a_save_is_part_of_the_hosts_session(
    db: Database, session: AsyncSession, checkpointer: Checkpointer
) -> None:
    ticket = uuid4().hex
    session.add(Ticket(id=ticket, thread_id="thread", title="Leaking kettle"))
    await checkpointer.save(LONG, "thread", "a", connection=session)

    assert await checkpointer.load("thread", connection=session) == LONG
    await session.commit()

    assert await checkpointer.load("thread") == LONG
    assert await session.get(Ticket, ticket) is not None


async def test_a_rollback_of_the_hosts_session_takes_the_save_with_it(
    db: Database, session: AsyncSession, checkpointer: Checkpointer, reopen: Reopen
) -> None:
    await checkpointer.save(LONG | {"n": 0}, "thread", "kept")
    for n in range(1, 3):
        await checkpointer.save(LONG | {"n": n}, "thread", f"lost{n}", connection=session)
    await session.rollback()

    await checkpointer.save(LONG | {"n": 9}, "thread", "after")

    assert await checkpointer.list_checkpoints("thread") == ["after", "kept"]
    async with reopen() as other:
        assert await Checkpointer(other).load("thread") == LONG | {"n": 9}
        assert await Checkpointer(other).load("thread", "kept") == LONG | {"n": 0}


async def test_a_save_is_part_of_the_hosts_connection(
    db: Database, engine: AsyncEngine, checkpointer: Checkpointer
) -> None:
    async with engine.connect() as connection:
        transaction = await connection.begin()
        await checkpointer.save({"n": 1}, "lost", connection=connection)
        assert await checkpointer.exists("lost", connection=connection)
        await transaction.rollback()
    async with engine.begin() as connection:
        await checkpointer.save({"n": 2}, "kept", connection=connection)

    assert await checkpointer.load("lost") is None
    assert await checkpointer.load("kept") == {"n": 2}


async def test_a_savepoint_of_the_host_takes_only_what_is_in_it(
    db: Database, session: AsyncSession, checkpointer: Checkpointer
) -> None:
    await checkpointer.save(LONG | {"n": 1}, "thread", "a", connection=session)
    savepoint = await session.begin_nested()
    await checkpointer.save(LONG | {"n": 2}, "thread", "b", connection=session)
    await savepoint.rollback()
    await checkpointer.save(LONG | {"n": 3}, "thread", "c", connection=session)
    await session.commit()

    assert await checkpointer.list_checkpoints("thread") == ["c", "a"]
    assert await checkpointer.load("thread") == LONG | {"n": 3}


async def test_what_is_flushed_in_the_session_does_not_matter_to_a_conflict(
    db: Database, session: AsyncSession, checkpointer: Checkpointer
) -> None:
    await checkpointer.save({"n": 1}, "thread", "a")
    with pytest.raises(Conflict):
        await checkpointer.save({"n": 2}, "thread", expected_parent="x", connection=session)
    await checkpointer.save({"n": 3}, "thread", "c", expected_parent="a", connection=session)
    await session.commit()

    assert await checkpointer.list_checkpoints("thread") == ["c", "a"]


@pytest.mark.asyncio_only(reason="they are what the synchronous face takes")
async def test_a_connection_that_is_no_async_one_is_refused(checkpointer: Checkpointer) -> None:
    sync: Engine = create_engine("sqlite://")
    with sync.connect() as connection, Session(sync) as session:
        for wrong in (connection, session, sync, "postgresql://", object()):
            with pytest.raises(TypeError, match="AsyncConnection or AsyncSession"):
                await checkpointer.save({}, "thread", connection=wrong)  # type: ignore[arg-type]
            with pytest.raises(TypeError, match="AsyncConnection or AsyncSession"):
                await checkpointer.load("thread", connection=wrong)  # type: ignore[arg-type]
    sync.dispose()


async def test_a_connection_to_another_kind_of_database_is_refused(
    checkpointer: Checkpointer, db: Database
) -> None:
    if db.dialect.single_writer:
        pytest.skip("the connection that is wrong here is one to SQLite")
    other = create_async_engine("sqlite+aiosqlite://")
    async with other.connect() as connection:
        with pytest.raises(ValueError, match="sqlite"):
            await checkpointer.save({}, "thread", connection=connection)
    await other.dispose()


# --- The host's queries --------------------------------------------------------------------------


async def test_the_host_queries_threads_and_checkpoints_joined_with_its_own_tables(
    db: Database, session: AsyncSession, checkpointer: Checkpointer
) -> None:
    thread = f"thread-{uuid4().hex}"
    for n in range(3):
        await checkpointer.save({"n": n}, thread, f"c{n}", {"step": n})
    await checkpointer.save({"n": 9}, "another", "x")
    session.add(Ticket(id=uuid4().hex, thread_id=thread, title="Leaking kettle"))
    await session.flush()

    found = await session.execute(
        select(Ticket.title, ThreadRow.head_id, func.count(CheckpointRow.checkpoint_id))
        .join(ThreadRow, ThreadRow.thread_id == Ticket.thread_id)
        .join(
            CheckpointRow,
            CheckpointRow.log_id == ThreadRow.log_id,
        )
        .where(ThreadRow.tenant == db.tenant)
        .group_by(Ticket.title, ThreadRow.head_id)
    )

    assert found.all() == [("Leaking kettle", "c2", 3)]
    await session.rollback()


async def test_rows_read_through_the_orm_have_the_types_of_the_api(
    db: Database, session: AsyncSession, checkpointer: Checkpointer
) -> None:
    odd = "naïve/\x00/\x1a/🧵"
    await checkpointer.save({"n": 1}, odd, "c", {"tags": ["a"], "n": 1.5})

    found = await session.execute(
        select(CheckpointRow, ThreadRow)
        .join(ThreadRow, ThreadRow.log_id == CheckpointRow.log_id)
        .where(ThreadRow.tenant == db.tenant, ThreadRow.thread_id == odd)
    )

    row, head = found.one()
    info = await checkpointer.get_metadata(odd, "c")
    assert info is not None
    assert (head.thread_id, row.checkpoint_id, row.meta) == (odd, "c", {"tags": ["a"], "n": 1.5})
    assert row.created_at == info["created_at"]
    assert row.created_at.tzinfo is not None


async def rows_of(session: AsyncSession, db: Database, table: Any) -> int:
    return await session.scalar(select(func.count()).where(table.tenant == db.tenant)) or 0


@pytest.mark.parametrize("how", ["unit of work", "statement"])
async def test_a_thread_row_that_the_host_deletes_takes_its_log_with_it(
    db: Database, session: AsyncSession, checkpointer: Checkpointer, how: str
) -> None:
    for n in range(3):
        await checkpointer.save(LONG | {"n": n}, "thread")
    assert await rows_of(session, db, DeltaRow) == 3

    if how == "statement":
        await session.execute(delete(ThreadRow).where(ThreadRow.tenant == db.tenant))
    else:
        row = await session.scalar(select(ThreadRow).where(ThreadRow.tenant == db.tenant))
        await session.delete(row)
    await session.commit()

    assert await checkpointer.load("thread") is None
    for table in (ThreadRow, CheckpointRow, DeltaRow):
        assert await rows_of(session, db, table) == 0
    await session.rollback()


async def test_a_process_with_a_stale_cache_saves_after_the_host_has_deleted_the_thread(
    db: Database, session: AsyncSession, checkpointer: Checkpointer, reopen: Reopen
) -> None:
    for n in range(3):
        await checkpointer.save(LONG | {"n": n}, "thread")
    await session.execute(delete(ThreadRow).where(ThreadRow.tenant == db.tenant))
    await session.commit()

    for n in range(3, 6):
        await checkpointer.save(LONG | {"n": n}, "thread", f"c{n}")

    async with reopen() as other:
        assert await Checkpointer(other).list_checkpoints("thread") == ["c5", "c4", "c3"]
        for n in range(3, 6):
            assert await Checkpointer(other).load("thread", f"c{n}") == LONG | {"n": n}


async def test_a_stale_cache_survives_a_thread_that_was_deleted_and_born_again_elsewhere(
    db: Database, session: AsyncSession, checkpointer: Checkpointer, reopen: Reopen
) -> None:
    await checkpointer.save(LONG | {"n": 0}, "thread", "old")
    async with reopen() as other:
        elsewhere = Checkpointer(other)
        await session.execute(delete(ThreadRow).where(ThreadRow.tenant == db.tenant))
        await session.commit()
        await elsewhere.save({"other": "life"}, "thread", "new")

        await checkpointer.save(LONG | {"n": 1}, "thread", "mine")

        assert await elsewhere.list_checkpoints("thread") == ["mine", "new"]
        assert await elsewhere.load("thread") == LONG | {"n": 1}
        assert await elsewhere.load("thread", "new") == {"other": "life"}


@pytest.mark.one_server_only("a host's own table has to be distributed like threads, too")
async def test_a_host_may_point_a_foreign_key_at_a_thread(
    db: Database, engine: AsyncEngine, checkpointer: Checkpointer
) -> None:
    class Base(DeclarativeBase):
        pass

    class Note(Base):
        __tablename__ = f"host_notes_{uuid4().hex[:8]}"
        id: Mapped[int] = mapped_column(primary_key=True)
        log_id: Mapped[UUID] = mapped_column(
            ThreadRow.log_id.type, ForeignKey(ThreadRow.log_id, ondelete="CASCADE")
        )

    await checkpointer.save({"n": 1}, "thread")
    async with engine.begin() as connection:
        await connection.run_sync(Base.metadata.create_all, tables=[Note.__table__])
    async with AsyncSession(engine) as session:
        session.add(Note(id=1, log_id=log_key(db.tenant, "thread", "/")))
        await session.commit()
        await session.execute(delete(ThreadRow).where(ThreadRow.tenant == db.tenant))
        await session.commit()
        assert await session.scalar(select(func.count()).select_from(Note)) == 0
    async with engine.begin() as connection:
        await connection.run_sync(Base.metadata.drop_all)


@OWN_LOOP
async def test_a_host_may_send_begin_itself(engine: AsyncEngine, reopen: Reopen) -> None:
    """As SQLAlchemy's page on SQLite tells hosts whose savepoints are to work."""
    if engine.dialect.name == "sqlite":
        event.listen(engine.sync_engine, "begin", lambda c: c.exec_driver_sql("BEGIN"))
    async with reopen() as other:
        checkpointer = Checkpointer(Database(engine, tenant=other.tenant))
        for n in range(3):
            await checkpointer.save({"n": n}, "thread")
            assert await checkpointer.load("thread") == {"n": n}
            assert await Checkpointer(other).load("thread") == {"n": n}
    assert [info.metadata async for info in checkpointer.history("thread")] == [{}, {}, {}]
