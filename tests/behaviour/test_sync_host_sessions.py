"""The classes without ``await`` in a host with synchronous sessions, in the host's own thread."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from typing import Any
from uuid import uuid4

import pytest
from sqlalchemy import Engine, create_engine, event, select, text
from sqlalchemy.ext.asyncio import AsyncSession, create_async_engine
from sqlalchemy.orm import Session, scoped_session, sessionmaker

from host_urls import sync_url
from memalchemy import Conflict, SchemaOutdated
from memalchemy.schema import ThreadRow
from memalchemy.sync import Checkpointer, Database
from waiting import A_WHILE

pytestmark = pytest.mark.asyncio_only(reason="it is the synchronous face already")

LONG = {"text": "what every step has in common, " * 30}
HEAVY = {"noise": [f"{n} heavy" for n in range(120_000)]}
"""Big enough to be encoded, compressed and decoded in threads of the database's."""


@pytest.fixture
def db(shared_url: str) -> Iterator[Database]:
    if shared_url == "sqlite://":
        pytest.skip("a host's engine cannot reach a database in memory that is not its own")
    with Database(shared_url, tenant=f"t-{uuid4().hex[:16]}") as database:
        yield database


@pytest.fixture
def checkpointer(db: Database) -> Checkpointer:
    return Checkpointer(db)


@pytest.fixture
def engine(db: Database, shared_url: str) -> Iterator[Engine]:
    """The host's synchronous engine: pysqlite, which refuses other threads, or psycopg."""
    own = create_engine(sync_url(shared_url))
    if own.dialect.name == "sqlite":
        event.listen(own, "connect", lambda c, _: c.execute("PRAGMA foreign_keys = ON"))
    yield own
    own.dispose()


@pytest.fixture
def session(engine: Engine) -> Iterator[Session]:
    with Session(engine) as own:
        yield own


def test_a_save_is_part_of_the_hosts_session(
    session: Session, db: Database, checkpointer: Checkpointer
) -> None:
    checkpointer.save(LONG, "thread", "a", connection=session)

    assert checkpointer.load("thread", connection=session) == LONG
    assert session.scalar(select(ThreadRow.head_id).where(ThreadRow.tenant == db.tenant)) == "a"
    assert checkpointer.load("thread") is None
    session.commit()
    assert checkpointer.load("thread") == LONG


@pytest.mark.parametrize("saves", [1, 2, 3])
def test_after_a_rollback_nothing_remains_in_no_cache_either(
    session: Session, db: Database, checkpointer: Checkpointer, shared_url: str, saves: int
) -> None:
    checkpointer.save(LONG | {"n": 0}, "thread", "kept")
    for n in range(saves):
        checkpointer.save(LONG | {"n": n}, "thread", f"lost{n}", connection=session)
    assert checkpointer.load("thread", connection=session) == LONG | {"n": saves - 1}
    session.rollback()

    checkpointer.save(LONG | {"n": 9}, "thread", "after")

    assert checkpointer.list_checkpoints("thread") == ["after", "kept"]
    with Database(shared_url, tenant=db.tenant) as other:
        assert Checkpointer(other).load("thread") == LONG | {"n": 9}
        assert Checkpointer(other).load("thread", "kept") == LONG | {"n": 0}


def test_a_connection_a_session_and_a_scoped_session_will_do(
    engine: Engine, checkpointer: Checkpointer
) -> None:
    with engine.begin() as connection:
        checkpointer.save({"n": 1}, "thread", "a", connection=connection)
    registry = scoped_session(sessionmaker(engine))
    checkpointer.save({"n": 2}, "thread", "b", connection=registry)
    registry.commit()
    registry.remove()

    assert checkpointer.list_checkpoints("thread") == ["b", "a"]


def test_a_savepoint_of_the_host_takes_only_what_is_in_it(
    session: Session, checkpointer: Checkpointer
) -> None:
    checkpointer.save(LONG | {"n": 1}, "thread", "a", connection=session)
    savepoint = session.begin_nested()
    checkpointer.save(LONG | {"n": 2}, "thread", "b", connection=session)
    savepoint.rollback()
    checkpointer.save(LONG | {"n": 3}, "thread", "c", connection=session)
    session.commit()

    assert checkpointer.list_checkpoints("thread") == ["c", "a"]
    assert checkpointer.load("thread") == LONG | {"n": 3}


def test_a_state_that_is_worked_on_in_threads_is_saved_and_loaded_in_the_hosts(
    session: Session, checkpointer: Checkpointer
) -> None:
    for n in range(2):
        checkpointer.save(HEAVY | {"n": n}, "thread", f"c{n}", connection=session)
    assert checkpointer.load("thread", connection=session) == HEAVY | {"n": 1}
    session.commit()

    assert checkpointer.load("thread", "c0") == HEAVY | {"n": 0}


def test_every_statement_is_sent_in_the_thread_that_called(
    engine: Engine, session: Session, checkpointer: Checkpointer
) -> None:
    threads: set[int] = set()
    event.listen(engine, "before_cursor_execute", lambda *_: threads.add(threading.get_ident()))

    checkpointer.save(HEAVY, "thread", connection=session)
    list(checkpointer.export(thread_id="thread", connection=session))
    checkpointer.prune("thread", keep_last=1, connection=session)
    checkpointer.delete("thread", connection=session)

    assert threads == {threading.get_ident()}


def test_an_iterator_reads_in_the_hosts_session_and_may_outlive_a_commit(
    session: Session, checkpointer: Checkpointer
) -> None:
    for n in range(3):
        checkpointer.save({"n": n}, "thread", f"c{n}", connection=session)
    records = checkpointer.export(thread_id="thread", connection=session)
    assert next(records)["checkpoint_id"] == "c0"
    session.commit()

    assert [record["checkpoint_id"] for record in records] == ["c1", "c2"]


def test_a_refusal_leaves_the_hosts_transaction_usable(
    session: Session, checkpointer: Checkpointer
) -> None:
    checkpointer.save({"n": 1}, "thread", "a")
    with pytest.raises(Conflict):
        checkpointer.save({"n": 2}, "thread", expected_parent="x", connection=session)
    checkpointer.save({"n": 3}, "thread", "c", expected_parent="a", connection=session)
    session.commit()

    assert checkpointer.list_checkpoints("thread") == ["c", "a"]


def test_a_drivers_error_on_the_hosts_connection_is_ours(
    checkpointer: Checkpointer, tmp_path: Any
) -> None:
    if not checkpointer.db.dialect.single_writer:
        pytest.skip("an empty database beside this one is a file here")
    empty = create_engine(f"sqlite:///{tmp_path}/empty.db")
    with Session(empty) as session, pytest.raises(SchemaOutdated):
        checkpointer.load("thread", connection=session)
    empty.dispose()


def test_threads_with_a_session_each_work_side_by_side(
    engine: Engine, checkpointer: Checkpointer
) -> None:
    errors: list[BaseException] = []

    def work(number: int) -> None:
        try:
            for n in range(3):
                with Session(engine) as own:
                    if engine.dialect.name == "sqlite":
                        own.execute(text("BEGIN IMMEDIATE"))
                    checkpointer.save({"n": n}, f"thread-{number}", f"c{n}", connection=own)
                    own.commit()
        except BaseException as error:  # noqa: BLE001 - looked at below
            errors.append(error)

    threads = [threading.Thread(target=work, args=(n,)) for n in range(6)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(A_WHILE)
        assert not thread.is_alive(), "a thread hangs"

    assert errors == []
    for number in range(6):
        assert checkpointer.list_checkpoints(f"thread-{number}") == ["c2", "c1", "c0"]


async def test_what_is_no_synchronous_connection_is_refused(
    engine: Engine, checkpointer: Checkpointer
) -> None:
    theirs = create_async_engine("sqlite+aiosqlite://")
    async with theirs.connect() as connection, AsyncSession(theirs) as session:
        for wrong in (connection, session, engine, "postgresql://", object()):
            with pytest.raises(TypeError, match="Connection or Session"):
                checkpointer.save({}, "thread", connection=wrong)
    await theirs.dispose()
    with pytest.raises(TypeError, match="URL"):
        Database(engine)


def test_a_connection_to_another_kind_of_database_is_refused(checkpointer: Checkpointer) -> None:
    if checkpointer.db.dialect.single_writer:
        pytest.skip("the connection that is wrong here is one to SQLite")
    other = create_engine("sqlite://")
    with other.connect() as connection, pytest.raises(ValueError, match="sqlite"):
        checkpointer.save({}, "thread", connection=connection)
    other.dispose()


def test_a_feature_needs_a_database_of_the_same_face() -> None:
    import memalchemy

    with pytest.raises(TypeError, match=r"memalchemy\.sync"):
        Checkpointer(memalchemy.Database("sqlite://"))
