"""A database learns what its server is: once, before its first program, and for itself alone."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Iterator

import pytest
from sqlalchemy.ext.asyncio import create_async_engine

from memalchemy import Checkpointer, Database, Store
from memalchemy.dialects.postgresql.dialect import PostgreSQL
from memalchemy.dialects.postgresql.distributed import use_distribution
from memalchemy.errors import DatabaseUnreachable, StatementFailed
from memalchemy.events import StatementEvent, subscribe_statements
from servers import Citus, Postgres, migrated_database

QUESTION = "pg_dist_partition"


@pytest.fixture(scope="module")
def plain_url(postgres: Postgres) -> Iterator[str]:
    with migrated_database(postgres) as name:
        yield postgres.url(name)


@pytest.fixture(scope="module")
def distributed_url(citus: Citus) -> Iterator[str]:
    with migrated_database(citus) as name:
        citus.distribute(name)
        yield citus.url(name)


async def test_a_plain_server_is_asked_one_query_once(plain_url: str) -> None:
    sent: list[StatementEvent] = []
    end = subscribe_statements(sent.append)
    async with Database(plain_url) as db:
        await Checkpointer(db).save({"a": 1}, "thread")
        await Checkpointer(db).load("thread")
    end()

    assert len([event for event in sent if QUESTION in event.sql]) == 1
    assert not db.dialect.distributed
    assert not db.dialect.has_to_learn


def test_tables_that_are_not_distributed_are_those_of_a_plain_server(citus: Citus) -> None:
    async def save(url: str) -> Database:
        async with Database(url) as db:
            await Checkpointer(db).save({"a": 1}, "thread")
        return db

    with migrated_database(citus) as name:
        db = asyncio.run(save(citus.url(name)))

    assert not db.dialect.distributed


async def test_a_process_may_have_both_at_once(plain_url: str, distributed_url: str) -> None:
    plain, spread = Database(plain_url), Database(distributed_url)
    for db in (spread, plain, spread, plain):
        await Checkpointer(db).save({"a": 1}, "thread")

    assert (plain.dialect.distributed, spread.dialect.distributed) == (False, True)
    assert plain.dialect.single_statement_save
    await plain.close()
    await spread.close()


async def test_a_connection_of_the_hosts_is_asked_if_it_comes_first(distributed_url: str) -> None:
    engine = create_async_engine(distributed_url.replace("postgresql:", "postgresql+asyncpg:"))
    db = Database(distributed_url, tenant="host")
    async with engine.begin() as connection:
        await Checkpointer(db).save({"a": 1}, "thread", connection=connection)

    assert db.dialect.distributed
    assert await Checkpointer(db).load("thread") == {"a": 1}
    await db.close()
    await engine.dispose()


async def test_operations_that_begin_together_all_wait_for_the_answer(distributed_url: str) -> None:
    db = Database(distributed_url, tenant="together")
    saver, store = Checkpointer(db), Store(db)
    saves = (saver.save({"n": n}, f"thread-{n}") for n in range(8))
    puts = (store.put(("place",), str(n), n) for n in range(8))

    await asyncio.gather(*saves, *puts)

    assert sorted(await saver.list_threads()) == [f"thread-{n}" for n in range(8)]
    await db.close()


@pytest.fixture
async def as_distributed(plain_url: str) -> AsyncIterator[Database]:
    """A plain database on which the programs for a distributed one run."""
    async with Database(plain_url, tenant="as-distributed") as db:
        assert isinstance(db.dialect, PostgreSQL)
        use_distribution(db.dialect)
        yield db


@pytest.fixture
def failing_commit(postgres: Postgres, plain_url: str) -> Iterator[None]:
    """Each COMMIT that follows a save fails as if a node had been lost meanwhile."""
    name = plain_url.split("?")[0].rsplit("/", 1)[1]
    postgres.execute(
        "CREATE FUNCTION lose_node() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN RAISE "
        "'could not commit transaction for shard' USING ERRCODE = 'XX000'; END $$; "
        "CREATE CONSTRAINT TRIGGER lost AFTER INSERT ON deltas "
        "DEFERRABLE INITIALLY DEFERRED FOR EACH ROW EXECUTE FUNCTION lose_node()",
        name,
    )
    yield
    postgres.execute("DROP TRIGGER lost ON deltas; DROP FUNCTION lose_node()", name)


@pytest.mark.usefixtures("failing_commit")
async def test_a_commit_that_lost_a_node_may_have_been_applied(as_distributed: Database) -> None:
    with pytest.raises(DatabaseUnreachable) as of_a_save:
        await Checkpointer(as_distributed).save({"a": 1}, "thread")
    with pytest.raises(DatabaseUnreachable) as of_a_transaction:
        async with as_distributed.transaction() as transaction:
            await Checkpointer(as_distributed).save({"a": 1}, "thread", connection=transaction)

    assert of_a_save.value.maybe_applied
    assert of_a_transaction.value.maybe_applied


@pytest.mark.usefixtures("failing_commit")
async def test_on_one_server_a_refused_commit_has_changed_nothing(plain_url: str) -> None:
    async with Database(plain_url, tenant="one-server") as db:
        with pytest.raises(StatementFailed):
            await Checkpointer(db).save({"a": 1}, "thread")
