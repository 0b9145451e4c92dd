"""`Database.transaction`: one transaction over several features, all of it or nothing."""

from __future__ import annotations

import asyncio
import sqlite3
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager, suppress
from typing import Any

import pytest
import sqlalchemy
import sqlalchemy.orm
from sqlalchemy import Engine, event, text
from sqlalchemy.exc import InvalidRequestError, OperationalError, SQLAlchemyError
from sqlalchemy.ext.asyncio import AsyncConnection

from memalchemy import Checkpointer, Conflict, Database, MemalchemyError, ThreadLog
from waiting import A_WHILE

Reopen = Callable[[], Database]


class Regret(Exception):
    """What a host raises to leave a transaction."""


@asynccontextmanager
async def undone(db: Database) -> AsyncIterator[AsyncConnection]:
    """A transaction that its host leaves with an exception."""
    with pytest.raises(Regret):  # noqa: PT012 - the block is what raises
        async with db.transaction() as tx:
            yield tx
            raise Regret


@pytest.fixture
def agents(db: Database) -> Checkpointer:
    return Checkpointer(db, namespace=("agents",))


@pytest.fixture
def tools(db: Database) -> Checkpointer:
    return Checkpointer(db, namespace=("tools",))


async def test_what_several_features_write_is_committed_together(
    db: Database, agents: Checkpointer, tools: Checkpointer
) -> None:
    async with db.transaction() as tx:
        await agents.save({"n": 1}, "thread", connection=tx)
        await tools.save({"n": 2}, "thread", connection=tx)
        await agents.save({"n": 3}, "thread", connection=tx)

    assert await agents.load("thread") == {"n": 3}
    assert await tools.load("thread") == {"n": 2}


STATEMENT = sqlalchemy.select(sqlalchemy.literal(1))
FIRST: dict[str, Callable[[sqlalchemy.Connection], Any]] = {
    "execute": lambda c: c.execute(STATEMENT).all(),
    "scalar": lambda c: c.scalar(STATEMENT),
    "scalars": lambda c: c.scalars(STATEMENT).all(),
    "exec_driver_sql": lambda c: c.exec_driver_sql("SELECT 1").all(),
    "inspect": lambda c: sqlalchemy.inspect(c).get_table_names(),
    "begin_nested": lambda c: c.begin_nested().commit(),
    "a session": lambda c: sqlalchemy.orm.Session(c).scalars(STATEMENT).all(),
    "a session's scalar": lambda c: sqlalchemy.orm.Session(c).scalar(STATEMENT),
    "create_all": lambda c: sqlalchemy.MetaData().create_all(c),
}


@pytest.mark.asyncio_only
@pytest.mark.parametrize("first", FIRST)
async def test_a_transaction_may_begin_with_any_method_of_its_connection(
    db: Database, agents: Checkpointer, first: str
) -> None:
    async with asyncio.timeout(A_WHILE), db.transaction() as tx:
        await tx.run_sync(FIRST[first])
        await tx.run_sync(FIRST[first])
        await agents.save({"n": 1}, "thread", connection=tx)
    assert await agents.load("thread") == {"n": 1}


async def test_an_exception_in_the_block_undoes_all_of_it_and_is_raised_as_it_is(
    db: Database, agents: Checkpointer, tools: Checkpointer
) -> None:
    await agents.save({"n": 0}, "thread", "before")

    async with undone(db) as tx:
        await agents.save({"n": 1}, "thread", connection=tx)
        await tools.save({"n": 2}, "thread", connection=tx)

    assert await agents.list_checkpoints("thread") == ["before"]
    assert not await tools.exists("thread")


async def test_a_transaction_sees_its_own_writes(db: Database, agents: Checkpointer) -> None:
    async with db.transaction() as tx:
        first = await agents.save(
            {"words": "crimson kettle"}, "thread", "a", {"k": 1}, connection=tx
        )
        await agents.save({"words": "crimson kettle", "n": 2}, "thread", "b", connection=tx)

        assert await agents.load("thread", connection=tx) == {"words": "crimson kettle", "n": 2}
        assert await agents.load("thread", first, connection=tx) == {"words": "crimson kettle"}
        assert await agents.list_checkpoints("thread", connection=tx) == ["b", "a"]
        infos = [info async for info in agents.history("thread", connection=tx)]
        assert [info.parent_id for info in infos] == ["a", None]
        found = await agents.search("kettle", connection=tx)
        seen = ["a"] if db.dialect.text.sees_uncommitted else []
        assert [hit["checkpoint_id"] for hit in found] == seen
        tagged = await agents.query_by_metadata("k", 1, connection=tx)
        assert [info["checkpoint_id"] for info in tagged] == ["a"]
        assert (await agents.diff("thread", "a", "b", connection=tx)).added == {"/n": 2}


async def test_nobody_else_sees_them_before_the_commit(
    db: Database, agents: Checkpointer, reopen: Reopen
) -> None:
    async with reopen() as other:
        elsewhere = Checkpointer(other, namespace=("agents",))
        async with db.transaction() as tx:
            await agents.save({"n": 1}, "thread", connection=tx)
            assert await elsewhere.load("thread") is None
            assert await agents.load("thread") is None
        assert await elsewhere.load("thread") == {"n": 1}


# Which state the next is encoded against depends on how many there were: the newest after two,
# the first after one or three.
@pytest.mark.parametrize("saves", [1, 2, 3])
async def test_a_rollback_leaves_nothing_in_the_cache_of_this_process(
    db: Database, agents: Checkpointer, saves: int
) -> None:
    long = {"text": "the same long beginning, " * 50}
    await agents.save(long | {"n": 0}, "thread", "kept")

    async with undone(db) as tx:
        for n in range(saves):
            await agents.save(long | {"n": n}, "thread", connection=tx)
        await agents.load("thread", connection=tx)

    await agents.save(long | {"n": 9}, "thread", "after")
    assert await agents.load("thread") == long | {"n": 9}
    assert await agents.load("thread", "kept") == long | {"n": 0}
    assert await agents.list_checkpoints("thread") == ["after", "kept"]


async def test_what_was_saved_after_a_rollback_loads_in_another_process(
    db: Database, agents: Checkpointer, reopen: Reopen
) -> None:
    long = {"text": "the same long beginning, " * 50}
    for thread in ("born in it", "born before it"):
        if thread == "born before it":
            await agents.save(long, thread)
        async with undone(db) as tx:
            for n in range(2):
                await agents.save(long | {"n": n}, thread, connection=tx)
        for n in range(2, 5):
            await agents.save(long | {"n": n}, thread, f"c{n}")

    async with reopen() as other:
        elsewhere = Checkpointer(other, namespace=("agents",))
        for thread in ("born in it", "born before it"):
            for n in range(2, 5):
                assert await elsewhere.load(thread, f"c{n}") == long | {"n": n}


async def test_a_deletion_that_is_rolled_back_did_not_happen(
    db: Database, agents: Checkpointer
) -> None:
    await agents.save({"n": 1}, "thread", "a")

    async with undone(db) as tx:
        assert await agents.delete("thread", connection=tx)
        assert not await agents.exists("thread", connection=tx)

    await agents.save({"n": 2}, "thread", "b", expected_parent="a")
    assert await agents.list_checkpoints("thread") == ["b", "a"]


@pytest.mark.asyncio_only("what gives a Transaction its block says so itself")
async def test_what_its_host_has_rolled_back_already_takes_no_save(
    db: Database, agents: Checkpointer
) -> None:
    with pytest.raises((InvalidRequestError, MemalchemyError)):  # noqa: PT012 - the block raises
        async with db.transaction() as tx:
            await agents.save({"n": 1}, "thread", connection=tx)
            await tx.rollback()
            await agents.save({"n": 2}, "thread", connection=tx)

    assert await agents.load("thread") is None
    assert await agents.save({"n": 3}, "thread")


@pytest.mark.asyncio_only("its host has no block for a savepoint")
async def test_a_savepoint_that_has_ended_inside_its_block_takes_no_write(db: Database) -> None:
    log = ThreadLog(db)
    with pytest.raises((InvalidRequestError, MemalchemyError)):  # noqa: PT012 - the block raises
        async with db.transaction() as tx, tx.begin_nested() as savepoint:
            await savepoint.rollback()
            await log.append("thread", "lost", connection=tx)

    assert await log.count("thread") == 0


async def test_what_is_rolled_back_to_a_savepoint_is_gone_alone(
    db: Database, agents: Checkpointer
) -> None:
    async with db.transaction() as tx:
        await agents.save({"n": 1}, "thread", "one", connection=tx)
        savepoint = await tx.begin_nested()
        await agents.save({"n": 2}, "thread", "two", connection=tx)
        await ThreadLog(db).append("thread", [{"n": 3}, {"n": 4}], connection=tx)
        await savepoint.rollback()
        assert await agents.load("thread", connection=tx) == {"n": 1}

    assert await agents.load("thread", "two") is None
    assert await agents.load("thread") == {"n": 1}
    assert await ThreadLog(db).count("thread") == 0


async def test_a_conflict_leaves_the_transaction_usable(db: Database, agents: Checkpointer) -> None:
    async with db.transaction() as tx:
        await agents.save({"n": 1}, "thread", "a", connection=tx)
        with pytest.raises(Conflict):
            await agents.save({"n": 2}, "thread", expected_parent="other", connection=tx)
        await agents.save({"n": 3}, "thread", "c", expected_parent="a", connection=tx)

    assert await agents.list_checkpoints("thread") == ["c", "a"]


async def test_a_cancelled_transaction_is_undone_and_frees_the_database(
    db: Database, agents: Checkpointer
) -> None:
    saved = asyncio.Event()

    async def never_ends() -> None:
        async with db.transaction() as tx:
            await agents.save({"n": 1}, "thread", connection=tx)
            saved.set()
            await asyncio.Event().wait()

    task = asyncio.create_task(never_ends())
    await saved.wait()
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task

    async with asyncio.timeout(A_WHILE):
        assert await agents.load("thread") is None
        await agents.save({"n": 2}, "thread", "only")
    assert await agents.list_checkpoints("thread") == ["only"]


async def test_saves_of_other_tasks_come_through_while_a_transaction_is_open_or_right_after(
    db: Database, agents: Checkpointer
) -> None:
    inside, go_on = asyncio.Event(), asyncio.Event()

    async def transaction() -> None:
        async with db.transaction() as tx:
            await agents.save({"n": 1}, "one", connection=tx)
            inside.set()
            await go_on.wait()

    holder = asyncio.create_task(transaction())
    await inside.wait()
    others = [asyncio.create_task(agents.save({"n": n}, f"other-{n}")) for n in range(5)]
    await asyncio.sleep(0)
    go_on.set()

    async with asyncio.timeout(A_WHILE):
        await asyncio.gather(holder, *others)
    assert [await agents.load(f"other-{n}") for n in range(5)] == [{"n": n} for n in range(5)]


async def test_a_save_outside_its_own_tasks_transaction_is_an_error_where_it_would_hang(
    db: Database, agents: Checkpointer
) -> None:
    async with asyncio.timeout(A_WHILE):
        async with db.transaction() as tx:
            if db.dialect.single_writer:
                with pytest.raises(MemalchemyError, match="connection=tx"):
                    await agents.save({"n": 1}, "forgotten")
            else:
                await agents.save({"n": 1}, "forgotten")
            await agents.save({"n": 2}, "thread", connection=tx)
        assert await agents.exists("thread")


async def test_a_transaction_inside_a_transaction_is_an_error_where_it_would_hang(
    db: Database, agents: Checkpointer
) -> None:
    async with asyncio.timeout(A_WHILE):
        async with db.transaction() as tx:
            await agents.save({"n": 1}, "outer", connection=tx)
            if db.dialect.single_writer:
                with pytest.raises(MemalchemyError, match="open transaction"):
                    async with db.transaction():
                        pass
            else:
                async with db.transaction() as inner:
                    await agents.save({"n": 2}, "inner", connection=inner)
        assert await agents.load("outer") == {"n": 1}


async def test_a_task_started_in_a_transaction_may_save_once_that_has_ended(
    db: Database, agents: Checkpointer
) -> None:
    ended = asyncio.Event()

    async def later() -> None:
        await ended.wait()
        await agents.save({"n": 2}, "later")

    async with db.transaction() as tx:
        await agents.save({"n": 1}, "now", connection=tx)
        background = asyncio.create_task(later())
    ended.set()

    await background
    assert await agents.load("later") == {"n": 2}


async def test_a_retention_and_a_branch_work_inside_a_transaction(
    db: Database, agents: Checkpointer
) -> None:
    async with db.transaction() as tx:
        for n in range(4):
            await agents.save({"n": n}, "thread", f"c{n}", connection=tx)
        await agents.save({"n": 9}, "thread", "side", parent_id="c1", connection=tx)
        assert await agents.prune("thread", keep_last=2, connection=tx) == 3

    assert await agents.list_checkpoints("thread") == ["side", "c3"]
    info = await agents.get_metadata("thread", "side")
    assert info is not None
    assert info["parent_id"] == "c1"


async def test_a_task_is_told_that_its_transaction_holds_the_only_writer(db: Database) -> None:
    assert not db.holds_writer
    async with db.transaction():
        assert db.holds_writer is db.dialect.single_writer
    assert not db.holds_writer


async def test_what_one_transaction_compiled_the_next_one_does_not(
    db: Database, agents: Checkpointer
) -> None:
    found: list[list[str]] = []

    def note(*sent: Any) -> None:
        if sent[4].compiled is not None:
            found[-1].append(sent[4].cache_hit.name)

    event.listen(Engine, "before_cursor_execute", note)
    try:
        for n in range(4):
            found.append([])
            async with db.transaction() as tx:
                await agents.save({"n": n}, "thread", connection=tx)
    finally:
        event.remove(Engine, "before_cursor_execute", note)

    # SQLAlchemy 2.0 has no key for what has an ON CONFLICT, and compiles it every time.
    known = {"CACHE_HIT"} if sqlalchemy.__version__ >= "2.1" else {"CACHE_HIT", "NO_CACHE_KEY"}
    assert set(found[-1]) <= known, "the first begin the thread and grow it"


@pytest.mark.asyncio_only("a block has one thread")
async def test_a_task_that_outlives_its_transaction_on_sqlite_writes_nothing_more(
    own_url: str,
) -> None:
    # A server's connection must not be used by two tasks at once.

    async def chatty(tx: AsyncConnection, block: int) -> None:
        for n in range(20):
            await log.append("thread", f"{block}.{n}", connection=tx)

    async with Database(own_url) as db:
        log = ThreadLog(db)
        for block in range(15):
            with pytest.raises(KeyError):  # noqa: PT012 - the block raises
                async with db.transaction() as tx:
                    writing = asyncio.ensure_future(chatty(tx, block))
                    for _ in range(3 * block):
                        await asyncio.sleep(0)
                    raise KeyError
            with suppress(MemalchemyError, SQLAlchemyError, ValueError):  # it is over, they say
                await writing

        assert await log.count("thread") == 0
        assert await log.append("thread", "after")


@pytest.mark.asyncio_only("a thread that waits is not cancelled")
async def test_a_write_that_was_cancelled_in_a_transaction_of_sqlite_is_not_committed(
    own_url: str,
) -> None:
    many = [f"cancelled {n}" for n in range(1_500)]
    async with Database(own_url) as db:
        log = ThreadLog(db)
        for steps in range(0, 40, 4):
            # Whether the block may still be committed depends on how far it came.
            with suppress(MemalchemyError):
                async with db.transaction() as tx:
                    writing = asyncio.ensure_future(log.append("thread", many, connection=tx))
                    for _ in range(steps):
                        await asyncio.sleep(0)
                    writing.cancel()
                    with suppress(asyncio.CancelledError):
                        await writing
                    await log.append("thread", "after", connection=tx)

        assert {entry.value for entry in await log.range("thread")} <= {"after"}


@pytest.mark.asyncio_only("the statement that takes too long is sent on the host's connection")
async def test_a_transaction_that_sqlite_rolled_back_is_not_taken_to_be_committed(
    own_url: str,
) -> None:
    endless = (
        "CREATE TABLE much AS WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n) "
        "SELECT i FROM n"
    )
    async with Database(own_url, statement_timeout=0.2) as db:
        log = ThreadLog(db)
        with pytest.raises(MemalchemyError, match="has ended"):  # noqa: PT012 - the block raises
            async with db.transaction() as tx:
                await log.append("thread", "before", connection=tx)
                with pytest.raises(OperationalError):
                    await tx.execute(text(endless))
        with pytest.raises(MemalchemyError, match="has ended"):  # noqa: PT012 - the block raises
            async with db.transaction() as tx:
                with pytest.raises(OperationalError):
                    await tx.execute(text(endless))
                await log.append("thread", "after", connection=tx)

        assert await log.count("thread") == 0


# --- Errors --------------------------------------------------------------------------------------


HOSTS_OWN = [FileNotFoundError("theirs"), TimeoutError("theirs"), ConnectionResetError("theirs")]


@pytest.mark.parametrize("theirs", HOSTS_OWN, ids=lambda error: type(error).__name__)
async def test_an_error_of_the_hosts_own_leaves_a_transaction_as_it_is(
    db: Database, agents: Checkpointer, theirs: OSError
) -> None:
    with pytest.raises(type(theirs)) as caught:  # noqa: PT012 - the block raises
        async with db.transaction() as tx:
            await agents.save({"n": 1}, "thread", connection=tx)
            raise theirs

    assert caught.value is theirs
    assert not await agents.exists("thread")


@pytest.mark.parametrize("theirs", HOSTS_OWN, ids=lambda error: type(error).__name__)
async def test_an_error_of_the_hosts_own_leaves_run_sync_as_it_is(
    db: Database, theirs: OSError, request: pytest.FixtureRequest
) -> None:
    def job(_: sqlalchemy.Connection) -> None:
        raise theirs

    with pytest.raises(type(theirs)) as caught:
        await db.run_sync(job)
    if isinstance(theirs, TimeoutError) and request.config.getoption("--face") == "sync":
        # asyncio copies the one that it hands to another thread.
        assert caught.value.args == theirs.args
    else:
        assert caught.value is theirs


def _deny_rollback(action: int, name: str | None, *_: object) -> int:
    is_rollback = action == sqlite3.SQLITE_TRANSACTION and name == "ROLLBACK"
    return sqlite3.SQLITE_DENY if is_rollback else sqlite3.SQLITE_OK


@pytest.mark.asyncio_only("the writer is the same")
async def test_a_rollback_that_fails_in_sqlites_writer_leaves_the_next_job_no_transaction(
    own_url: str,
) -> None:
    def refuse_rollback(connection: sqlalchemy.Connection) -> None:
        raw: Any = connection.connection.driver_connection
        raw.execute("INSERT INTO notes VALUES ('rolled back')")
        raw.set_authorizer(_deny_rollback)
        raise Regret

    def allow_rollback() -> None:
        # In memory the connection is the database, and cannot be closed.
        db._backend._executor._memory.set_authorizer(None)  # type: ignore[union-attr]

    def notes(connection: sqlalchemy.Connection) -> int:
        return int(connection.scalar(text("SELECT count(*) FROM notes")) or 0)

    async with Database(own_url) as db:
        log = ThreadLog(db)
        await db.run_sync(lambda c: c.execute(text("CREATE TABLE notes (note TEXT)")))
        with pytest.raises(Regret):
            await db.run_sync(refuse_rollback)
        if own_url == "sqlite://":
            with pytest.raises(MemalchemyError):
                await log.append("thread", "refused")
            allow_rollback()

        await log.append("thread", "innocent")
        assert await db.run_sync(notes) == 0
        assert await log.count("thread") == 1
