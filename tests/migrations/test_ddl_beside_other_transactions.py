"""DDL on the tables waits for other transactions, and deadlocks with none, whatever they do."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from pathlib import Path

import asyncpg
import psycopg
import pytest
import sqlalchemy as sa
from programs import CHECKOUT, alembic
from releases import next_release, upgraded

from memalchemy import Checkpointer, Database, DatabaseUnreachable, migrate
from memalchemy._retry import Backoff
from memalchemy._version import __version__
from memalchemy.dialects.postgresql import maintenance
from memalchemy.maintenance import tenants
from memalchemy.migrate.chain import lock_tables
from servers import Postgres
from waiting import until

Job = Callable[[str, Database, Path], Awaitable[object]]


async def upgrade(url: str, db: Database, place: Path) -> None:
    release = next_release(place / "next", version="98.0.0", oldest_release=__version__)
    assert await asyncio.to_thread(upgraded, release, url)


async def downgrade(url: str, db: Database, place: Path) -> None:
    await db.run_sync(
        lambda connection: migrate.downgrade(connection, "base", schema=db.schema, delete_rows=True)
    )


async def downgrade_by_alembic(url: str, db: Database, place: Path) -> None:
    command = ("-x", f"url={url}", "-x", "delete-rows=yes", "downgrade", "base")
    await asyncio.to_thread(alembic, CHECKOUT / "alembic.ini", *command)


async def downgrade_by_script(url: str, db: Database, place: Path) -> None:
    script = migrate.offline("postgresql", down=True, revision="base")
    async with await psycopg.AsyncConnection.connect(url, autocommit=True) as connection:
        await connection.execute(script)


async def enforce(url: str, db: Database, place: Path) -> None:
    await tenants.enforce(db)


async def release(url: str, db: Database, place: Path) -> None:
    await tenants.release(db)


JOBS: list[Job] = [
    upgrade,
    downgrade,
    downgrade_by_alembic,
    downgrade_by_script,
    enforce,
    release,
]


@pytest.mark.parametrize("job", JOBS)
@pytest.mark.parametrize("first", migrate.TABLES)
async def test_a_transaction_takes_its_locks_in_any_order(
    first: str, job: Job, postgres: Postgres, fresh_postgres: str, tmp_path: Path
) -> None:
    rest = [table for table in migrate.TABLES if table != first]
    url = postgres.url(fresh_postgres)
    other = await asyncpg.connect(url.replace("+asyncpg", ""))
    async with Database(url, migrate="upgrade") as db:
        async with other.transaction():
            await other.execute(f"SELECT count(*) FROM {first}")
            running = asyncio.create_task(job(url, db, tmp_path))
            await until(lambda: running.done() or waits(postgres, fresh_postgres))
            for table in rest:
                await other.execute(f"SELECT count(*) FROM {table}")
            assert not running.done()
        await running
    await other.close()

    deadlocks = "SELECT deadlocks FROM pg_stat_database WHERE datname = current_database()"
    assert postgres.execute(deadlocks, fresh_postgres) == [(0,)]


def waits(postgres: Postgres, name: str) -> bool:
    waiting = "SELECT count(*) FROM pg_locks WHERE NOT granted AND mode = 'AccessExclusiveLock'"
    return postgres.execute(waiting, name) != [(0,)]


async def test_a_lock_that_never_comes_changes_nothing_and_others_go_on_meanwhile(
    postgres: Postgres, fresh_postgres: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    few = Backoff(tries=3, first_wait=0.1, growth=1, longest_wait=0.1)
    monkeypatch.setattr(maintenance, "TABLE_LOCKS", few)
    url = postgres.url(fresh_postgres)
    other = await asyncpg.connect(url.replace("+asyncpg", ""))
    async with Database(url, migrate="upgrade") as db, other.transaction():
        saved = await Checkpointer(db).save({"n": 1}, "t")
        await other.execute("SELECT count(*) FROM deltas")
        running = asyncio.create_task(downgrade(url, db, tmp_path))
        await until(lambda: running.done() or waits(postgres, fresh_postgres))
        again = await Checkpointer(db).save({"n": 2}, "t")
        with pytest.raises(DatabaseUnreachable, match="stayed locked") as refused:
            await running

        assert refused.value.busy
        assert not refused.value.maybe_applied
        assert [one.checkpoint_id async for one in Checkpointer(db).history("t")] == [again, saved]
    await other.close()


async def test_the_limit_that_the_host_has_set_for_locks_holds_afterwards(
    postgres: Postgres, fresh_postgres: str
) -> None:
    async with Database(postgres.url(fresh_postgres), migrate="upgrade") as db:

        def job(connection: sa.Connection) -> str | None:
            connection.exec_driver_sql("SET LOCAL lock_timeout = '7s'")
            lock_tables(connection, None, db.dialect)
            return connection.exec_driver_sql("SHOW lock_timeout").scalar()

        assert await db.run_sync(job) == "7s"


async def test_a_schema_may_have_any_name(postgres: Postgres, fresh_postgres: str) -> None:
    url = postgres.url(fresh_postgres)
    async with Database(url, schema="a $$ b ' c \" d", migrate="upgrade") as db:
        await tenants.enforce(db)
        await tenants.release(db)
        await downgrade(url, db, Path())
