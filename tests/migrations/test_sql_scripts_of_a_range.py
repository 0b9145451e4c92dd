"""``upgrade --from REV --to REV --sql``: a DBA's second release is a script, without Python."""

from __future__ import annotations

import asyncio
import sqlite3
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest
from programs import postgres_program
from second_release import second_release
from typer.testing import CliRunner

from memalchemy import Checkpointer, Database
from memalchemy.cli.app import app

STATE = {"messages": ["hello"]}


@pytest.fixture
def later(tmp_path: Path) -> Iterator[None]:
    with second_release(tmp_path / "later"):
        yield


def script(url: str, *arguments: str) -> str:
    ended = CliRunner().invoke(app, ["--db", url, *arguments, "--sql"], catch_exceptions=False)
    assert ended.exit_code == 0, ended.stderr
    return ended.stdout


def execute(url: str, sql: str) -> None:
    """Run a script as a DBA does."""
    if url.startswith("sqlite"):
        connection = sqlite3.connect(url.removeprefix("sqlite:///"))
        connection.executescript(sql)
        connection.close()
    else:
        psql = [postgres_program("psql"), "--set", "ON_ERROR_STOP=1", "--quiet", url]
        subprocess.run(psql, input=sql, text=True, check=True, stdout=subprocess.DEVNULL)


def use(url: str, revision: str) -> None:
    """Check the revision; save and load."""

    async def main() -> None:
        async with Database(url, migrate="check") as db:
            assert await db.current() == revision
            await Checkpointer(db).save(STATE, "thread")
            assert await Checkpointer(db).load("thread") == STATE

    asyncio.run(main())


def releases(url: str) -> str:
    """What an older release reads about the schema."""

    async def main() -> str:
        async with Database(url, migrate="off") as db:
            query = "SELECT meta FROM store_items WHERE tenant = '~' AND key = 'schema'"
            return await db.run_sync(lambda c: str(c.exec_driver_sql(query).scalar_one()))

    return asyncio.run(main())


@pytest.mark.parametrize("given", [("--from", "0001", "--to", "0002"), ("--revision", "0001:head")])
def test_the_second_release_is_a_script_from_the_first(
    fresh_url: str, tmp_path: Path, given: tuple[str, ...]
) -> None:
    execute(fresh_url, script(fresh_url, "upgrade"))
    use(fresh_url, "0001")

    with second_release(tmp_path / "later"):
        sql = script(fresh_url, "upgrade", *given)
        assert "CREATE TABLE" not in sql
        assert "CREATE EXTENSION" not in sql
        execute(fresh_url, sql)
        use(fresh_url, "0002")
        assert "0002" in releases(fresh_url)

        execute(fresh_url, script(fresh_url, "downgrade", "0001", "--from", "0002"))
    use(fresh_url, "0001")
    assert "0001" in releases(fresh_url)


@pytest.mark.usefixtures("later")
def test_a_script_stops_where_it_is_told_to(fresh_url: str) -> None:
    execute(fresh_url, script(fresh_url, "upgrade", "--to", "0001"))
    assert "0001" in releases(fresh_url)
    execute(fresh_url, script(fresh_url, "upgrade", "--from", "0001"))
    use(fresh_url, "0002")


@pytest.mark.usefixtures("later")
def test_a_script_for_oracle_alters_only_what_is_new() -> None:
    sql = script("oracle://ada@host/service", "upgrade", "--from", "0001")
    assert "ALTER TABLE threads ADD mood VARCHAR2(20 CHAR)" in sql
    assert "CREATE TABLE" not in sql


@pytest.mark.usefixtures("later")
@pytest.mark.parametrize(
    ("arguments", "reason"),
    [
        (("upgrade", "--from", "0001"), "--from is for --sql"),
        (("downgrade", "base", "--from", "0001"), "--from is for --sql"),
        (("upgrade", "--from", "zz", "--sql"), "cannot go to revision 'zz:head'"),
        (("upgrade", "--from", "0001", "--to", "zz", "--sql"), "cannot go to revision '0001:zz'"),
        (("upgrade", "--from", "0002", "--to", "0001", "--sql"), "cannot go to revision"),
        (("downgrade", "0002", "--from", "0001", "--sql"), "cannot go to revision"),
    ],
)
def test_what_makes_no_sense_is_refused(arguments: tuple[str, ...], reason: str) -> None:
    answer = CliRunner().invoke(app, ["--db", "postgresql://ada@host/agents", *arguments])
    assert answer.exit_code == 2
    assert answer.stdout == ""
    assert answer.stderr.startswith("error [MA-USAGE]: ")
    assert reason in answer.stderr
