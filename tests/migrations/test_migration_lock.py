"""Eight processes that find one fresh database at the same moment: one migrates, all succeed."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import psycopg
import pytest
import sqlalchemy as sa

from memalchemy import Checkpointer, Database, migrate
from servers import Postgres

SIZE = 8
CHAIN = [script.revision for script in migrate.scripts().walk_revisions()][::-1]
MEMBER = Path(__file__).with_name("crew_member.py")


class Crew:
    """Processes that wait for work, so that they start on it together."""

    def __init__(self) -> None:
        self.members = [
            subprocess.Popen(
                [sys.executable, str(MEMBER), str(number)],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                text=True,
                bufsize=1,
            )
            for number in range(SIZE)
        ]
        assert self._answers() == ["ready"] * SIZE

    def upgrade(self, url: str, *, pgbouncer: bool = False, first_use: bool = False) -> list[Any]:
        """What `Database.migrate` returned in each process, or its traceback.

        With *first_use* each has opened it with ``migrate="upgrade"`` instead.
        """
        order = {"url": url, "pgbouncer": pgbouncer, "first_use": first_use}
        for member in self.members:
            assert member.stdin is not None
            member.stdin.write(json.dumps(order) + "\n")
        return self._answers()

    def dismiss(self) -> None:
        for member in self.members:
            member.communicate()

    def _answers(self) -> list[Any]:
        return [json.loads(member.stdout.readline()) for member in self.members]  # type: ignore[union-attr]


@pytest.fixture(scope="module")
def crew() -> Iterator[Crew]:
    crew = Crew()
    yield crew
    crew.dismiss()


async def expect_one_upgrade(answers: list[Any], url: str) -> None:
    assert [answer for answer in answers if isinstance(answer, str)] == []
    assert sorted(answers) == [[]] * (SIZE - 1) + [CHAIN]
    async with Database(url, migrate="check") as db:
        assert len(await Checkpointer(db).list_threads()) == SIZE


async def test_on_a_sqlite_file(crew: Crew, tmp_path: Path) -> None:
    url = f"sqlite:///{tmp_path}/agent.db"
    await expect_one_upgrade(crew.upgrade(url), url)


async def test_on_postgresql(crew: Crew, postgres: Postgres, fresh_postgres: str) -> None:
    url = postgres.url(fresh_postgres)
    await expect_one_upgrade(crew.upgrade(url), url)


@pytest.mark.parametrize("road", ["sqlite", "asyncpg", "psycopg"])
async def test_processes_that_upgrade_on_first_use(
    crew: Crew, postgres: Postgres, fresh_postgres: str, road: str, tmp_path: Path
) -> None:
    url = f"sqlite:///{tmp_path}/agent.db"
    if road != "sqlite":
        url = postgres.url(fresh_postgres, driver=road)

    assert crew.upgrade(url, first_use=True) == [[]] * SIZE

    async with Database(url, migrate="check") as db:
        assert await db.current() == migrate.head()
        assert len(await Checkpointer(db).list_threads()) == SIZE


async def test_on_postgresql_through_pgbouncer(
    crew: Crew, postgres: Postgres, bouncer: Postgres, fresh_postgres: str
) -> None:
    answers = crew.upgrade(bouncer.url(fresh_postgres), pgbouncer=True)
    await expect_one_upgrade(answers, postgres.url(fresh_postgres))


async def test_the_lock_is_given_back_with_the_transaction(
    postgres: Postgres, bouncer: Postgres, fresh_postgres: str
) -> None:
    """A lock of the session would stay behind on a server connection of PgBouncer's."""
    async with Database(bouncer.url(fresh_postgres), migrate="off", pgbouncer=True) as db:
        await db.migrate()
    held = "SELECT count(*) FROM pg_locks WHERE locktype = 'advisory'"
    assert postgres.execute(held, fresh_postgres) == [(0,)]


def test_a_second_upgrade_waits_for_the_first(postgres: Postgres, fresh_postgres: str) -> None:
    engine = sa.create_engine(postgres.url(fresh_postgres, driver="psycopg"))
    with engine.begin() as first, engine.connect() as second:
        migrate.upgrade(first)
        second.exec_driver_sql("SET lock_timeout = '200ms'")
        with pytest.raises(sa.exc.OperationalError) as caught:
            migrate.upgrade(second)
        assert isinstance(caught.value.orig, psycopg.errors.LockNotAvailable)
    engine.dispose()
