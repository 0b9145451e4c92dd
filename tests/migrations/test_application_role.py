"""An application that may read and write rows and nothing else: what `grants` prints is enough."""

from __future__ import annotations

from collections.abc import AsyncIterator

import psycopg
import pytest

from memalchemy import Checkpointer, Database, migrate
from memalchemy.errors import AuthenticationFailed
from servers import Postgres

STATE = {"messages": ["the red fox"]}


@pytest.fixture(params=[None, "memory"])
def schema(request: pytest.FixtureRequest) -> str | None:
    return request.param


@pytest.fixture
async def role(postgres: Postgres, fresh_postgres: str, schema: str | None) -> AsyncIterator[str]:
    """A role that got what `grants` says, on a database that somebody else migrated."""
    name = f"app_{fresh_postgres}"
    postgres.execute(f"CREATE ROLE {name} LOGIN")
    # Until PostgreSQL 14 everybody might create tables in "public".
    postgres.execute("REVOKE CREATE ON SCHEMA public FROM PUBLIC", fresh_postgres)
    async with Database(postgres.url(fresh_postgres), schema=schema, migrate="off") as db:
        await db.migrate()
        for grant in db.dialect.maintenance.grants(
            name, schema, (*migrate.TABLES, migrate.VERSION_TABLE)
        ):
            postgres.execute(grant, fresh_postgres)
    yield name
    postgres.execute(f"DROP OWNED BY {name}", fresh_postgres)
    postgres.execute(f"DROP ROLE {name}")


@pytest.fixture
async def db(
    postgres: Postgres, fresh_postgres: str, role: str, schema: str | None
) -> AsyncIterator[Database]:
    async with Database(postgres.url(fresh_postgres, user=role), schema=schema) as db:
        yield db


async def test_it_passes_the_check_and_does_everything(db: Database) -> None:
    checkpointer = Checkpointer(db)
    first = await checkpointer.save(STATE, "thread", metadata={"colour": "red"})
    await checkpointer.save({"messages": [*STATE["messages"], "and the dog"]}, "thread")
    await checkpointer.save({"branch": True}, "thread", parent_id=first)

    assert await checkpointer.load("thread", first) == STATE
    assert await checkpointer.load("thread") == {"branch": True}
    assert len([info async for info in checkpointer.history("thread")]) >= 2
    assert len(await checkpointer.search("fox")) == 1
    assert len(await checkpointer.list_threads()) == 1

    await checkpointer.copy_thread("thread", "copy")
    await checkpointer.fork("thread", first, new_thread_id="fork")
    assert await checkpointer.prune("thread", keep_last=1) > 0
    await checkpointer.rewrite("thread")
    await checkpointer.delete("copy")
    await checkpointer.vacuum(0)
    await checkpointer.forget(thread_id="fork")
    assert await checkpointer.load("fork") is None
    await checkpointer.forget(tenant=db.tenant)
    assert await checkpointer.list_threads() == []


async def test_it_reads_health_and_revision(db: Database) -> None:
    assert (await db.health())["revision"] == migrate.head()


async def test_a_migrate_that_finds_nothing_to_do_needs_no_rights(db: Database) -> None:
    assert await db.migrate() == []


async def test_it_has_no_right_to_change_tables_or_their_version(
    postgres: Postgres, fresh_postgres: str, role: str, db: Database, schema: str | None
) -> None:
    prefix = f'"{schema}".' if schema else ""
    with psycopg.connect(postgres.url(fresh_postgres, user=role), autocommit=True) as connection:
        for statement in (
            f"CREATE TABLE {prefix}mine (id integer)",
            f"ALTER TABLE {prefix}threads ADD COLUMN mine integer",
            f"DROP TABLE {prefix}threads CASCADE",
            f"TRUNCATE {prefix}threads CASCADE",
            f"INSERT INTO {prefix}memalchemy_version VALUES ('9999')",
            f"UPDATE {prefix}memalchemy_version SET version_num = '9999'",
            f"DELETE FROM {prefix}memalchemy_version",
        ):
            with pytest.raises(psycopg.errors.InsufficientPrivilege):
                connection.execute(statement)
    with pytest.raises(AuthenticationFailed, match="memalchemy grants"):
        await db.run_sync(lambda c: migrate.downgrade(c, "base", schema=schema, delete_rows=True))


async def test_without_the_grants_it_is_told_which_command_prints_them(
    postgres: Postgres, fresh_postgres: str
) -> None:
    name = f"poor_{fresh_postgres}"
    postgres.execute(f"CREATE ROLE {name} LOGIN")
    async with Database(postgres.url(fresh_postgres), migrate="off") as owner:
        await owner.migrate()
    db = Database(postgres.url(fresh_postgres, user=name))
    with pytest.raises(AuthenticationFailed, match="memalchemy grants"):
        await Checkpointer(db).save(STATE, "thread")
    await db.close()
    postgres.execute(f"DROP ROLE {name}")


async def test_names_that_need_quotes_get_their_grants(
    postgres: Postgres, fresh_postgres: str
) -> None:
    name, schema = f"app-{fresh_postgres}", "Agent Memory"
    postgres.execute(f'CREATE ROLE "{name}" LOGIN')
    async with Database(postgres.url(fresh_postgres), schema=schema, migrate="off") as db:
        await db.migrate()
        for grant in db.dialect.maintenance.grants(
            name, schema, (*migrate.TABLES, migrate.VERSION_TABLE)
        ):
            postgres.execute(grant, fresh_postgres)
    async with Database(postgres.url(fresh_postgres, user=name), schema=schema) as db:
        await Checkpointer(db).save(STATE, "thread")
    postgres.execute(f'DROP OWNED BY "{name}"', fresh_postgres)
    postgres.execute(f'DROP ROLE "{name}"')
