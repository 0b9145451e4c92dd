"""The ``alembic`` command in a checkout: for work on memalchemy, and for those who prefer it."""

from __future__ import annotations

import asyncio
import os
import sqlite3
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import psycopg
import pytest
from programs import CHECKOUT, alembic

from memalchemy import Checkpointer, Database, migrate
from memalchemy.dialects import parse_url
from servers import Postgres

INI = CHECKOUT / "alembic.ini"
STATE = {"messages": ["hello"]}


@pytest.fixture
def run(fresh_url: str) -> Callable[..., str]:
    return lambda *arguments: alembic(INI, "-x", f"url={fresh_url}", *arguments)


def use(url: str, schema: str | None = None) -> None:
    """Save and load on a database that must not need migrating."""

    async def main() -> None:
        async with Database(url, schema=schema, migrate="check") as db:
            await Checkpointer(db).save(STATE, "thread")
            assert await Checkpointer(db).load("thread") == STATE

    asyncio.run(main())


def execute(url: str, script: str) -> None:
    """Run a script without memalchemy, as a DBA would."""
    if url.startswith("sqlite"):
        connection = sqlite3.connect(url.removeprefix("sqlite:///"))
        connection.executescript(script)
        connection.close()
    else:
        with psycopg.connect(url, autocommit=True) as connection:
            connection.execute(script)


def test_it_runs_from_anywhere_with_the_url_in_the_environment(
    fresh_url: str, tmp_path: Path
) -> None:
    def run(*arguments: str) -> str:
        return subprocess.run(
            [sys.executable, "-m", "alembic", "-c", str(INI), *arguments],
            cwd=tmp_path,
            env=os.environ | {"MEMALCHEMY_URL": fresh_url},
            check=True,
            stdout=subprocess.PIPE,
            text=True,
        ).stdout

    run("upgrade", "head")
    assert run("current") == f"{migrate.head()} (head)\n"


@pytest.mark.parametrize("named_by", ["-x", "MEMALCHEMY_URL", "sqlalchemy.url", "DATABASE_URL"])
def test_a_url_wins_over_those_of_the_places_after_it(
    named_by: str, fresh_url: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    places = ["-x", "MEMALCHEMY_URL", "sqlalchemy.url", "DATABASE_URL"]
    after = places[places.index(named_by) :]
    wrong = f"sqlite:///{tmp_path}/wrong.db"
    urls = {place: fresh_url if place == named_by else wrong for place in after}
    for variable in ("MEMALCHEMY_URL", "DATABASE_URL"):
        monkeypatch.delenv(variable, raising=False)
        if variable in urls:
            monkeypatch.setenv(variable, urls[variable])
    ini = tmp_path / "alembic.ini"
    setting = f"sqlalchemy.url = {urls['sqlalchemy.url']}" if "sqlalchemy.url" in urls else ""
    ini.write_text(f"[alembic]\nscript_location = {migrate.script_location()}\n{setting}\n")

    alembic(ini, *(["-x", f"url={fresh_url}"] if "-x" in urls else []), "upgrade", "head")

    use(fresh_url)
    assert not (tmp_path / "wrong.db").exists()


def test_without_a_url_it_says_how_to_give_one(monkeypatch: pytest.MonkeyPatch) -> None:
    for variable in ("MEMALCHEMY_URL", "DATABASE_URL"):
        monkeypatch.delenv(variable, raising=False)
    with pytest.raises(SystemExit, match=r"MEMALCHEMY_URL, sqlalchemy\.url .* or DATABASE_URL"):
        alembic(INI, "current")


def test_it_says_what_it_did_and_where(run: Callable[..., str], fresh_url: str) -> None:
    place = parse_url(fresh_url).display
    chain = [script.revision for script in migrate.scripts().walk_revisions()][::-1]
    now = f"the database is at {chain[-1]}\n"
    moved = f"from no schema to {chain[-1]}, ran {', '.join(chain)}"
    assert run("upgrade", "head") == f"{place}: {moved}; {now}"
    assert run("upgrade", "head") == f"{place}: nothing to do; {now}"
    undone = f"from {chain[-1]} to no schema, ran {', '.join(reversed(chain))}"
    assert run("downgrade", "base") == f"{place}: {undone}; the database is at no schema\n"


def test_what_it_upgraded_the_library_accepts(run: Callable[..., str], fresh_url: str) -> None:
    assert run("current") == ""
    run("upgrade", "head")
    run("upgrade", "head")
    assert run("current") == f"{migrate.head()} (head)\n"
    use(fresh_url)


def test_what_the_library_upgraded_it_accepts(
    run: Callable[..., str], fresh_url: str, on_connection: Callable[..., Any]
) -> None:
    on_connection(fresh_url, migrate.upgrade)
    assert run("current") == f"{migrate.head()} (head)\n"


def test_autogenerate_sees_no_difference(run: Callable[..., str]) -> None:
    run("upgrade", "head")
    assert "No new upgrade operations detected" in run("check")


def test_autogenerate_sees_a_difference_and_not_somebody_elses_table(
    run: Callable[..., str], fresh_url: str, capsys: pytest.CaptureFixture[str]
) -> None:
    run("upgrade", "head")
    execute(fresh_url, "CREATE TABLE theirs (id INTEGER PRIMARY KEY)")
    run("check")
    execute(fresh_url, "DROP INDEX ix_deltas_base_seq")
    with pytest.raises(SystemExit):
        run("check")
    assert "ix_deltas_base_seq" in capsys.readouterr().out


def test_reading_commands_write_nothing(run: Callable[..., str], fresh_url: str) -> None:
    run("current")
    with pytest.raises(SystemExit):  # "Target database is not up to date"
        run("check")
    if fresh_url.startswith("sqlite"):
        connection = sqlite3.connect(fresh_url.removeprefix("sqlite:///"))
        assert connection.execute("SELECT name FROM sqlite_master").fetchall() == []
        connection.close()
    else:
        made = "SELECT oid::regclass FROM pg_class WHERE relnamespace = 'public'::regnamespace"
        with psycopg.connect(fresh_url) as connection:
            assert connection.execute(made).fetchall() == []
            installed = "SELECT extname FROM pg_extension WHERE extname = 'vector'"
            assert connection.execute(installed).fetchall() == []


def test_a_downgrade_over_rows_is_refused_unless_told(
    run: Callable[..., str], fresh_url: str, capsys: pytest.CaptureFixture[str]
) -> None:
    run("upgrade", "head")
    use(fresh_url)
    with pytest.raises(SystemExit):
        run("downgrade", "base")
    said = capsys.readouterr()
    assert "FAILED: [MA-DOWNGRADE-REFUSED] " in said.out + said.err
    use(fresh_url)

    run("-x", "delete-rows=yes", "downgrade", "base")
    assert run("current") == ""
    run("upgrade", "head")
    use(fresh_url)


def test_its_scripts_do_what_it_does(run: Callable[..., str], fresh_url: str) -> None:
    execute(fresh_url, run("upgrade", "head", "--sql"))
    use(fresh_url)
    execute(fresh_url, run("downgrade", f"{migrate.head()}:base", "--sql"))
    assert run("current") == ""
    run("upgrade", "head")
    use(fresh_url)


@pytest.mark.parametrize(
    ("url", "dialect"),
    [
        ("sqlite://", "sqlite"),
        ("postgresql://app@db.example/app", "postgresql"),
        ("oracle://app@db.example/app", "oracle"),
    ],
)
def test_its_scripts_are_memalchemys_and_need_no_connection(url: str, dialect: str) -> None:
    script = migrate.offline(dialect)
    assert alembic(INI, "-x", f"url={url}", "upgrade", "head", "--sql") == script
    script = migrate.offline(dialect, down=True, revision="base")
    steps = f"{migrate.head()}:base"
    assert alembic(INI, "-x", f"url={url}", "downgrade", steps, "--sql") == script


def test_its_script_for_a_server_without_pgvector_needs_none() -> None:
    url = "postgresql://app@db.example/app"
    script = alembic(INI, "-x", f"url={url}", "-x", "pgvector=no", "upgrade", "head", "--sql")
    assert script == migrate.offline("postgresql", pgvector=False)


def test_it_works_in_a_schema(postgres: Postgres, fresh_postgres: str) -> None:
    url = postgres.url(fresh_postgres)

    def run(*arguments: str) -> str:
        return alembic(INI, "-x", f"url={url}", "-x", "schema=agent memory", *arguments)

    run("upgrade", "head")
    use(url, "agent memory")
    assert "No new upgrade operations detected" in run("check")
    assert run("current") == f"{migrate.head()} (head)\n"
    run("-x", "delete-rows=yes", "downgrade", "base")
    assert run("current") == ""
