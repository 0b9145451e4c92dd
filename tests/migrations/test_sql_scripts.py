"""``--sql``: scripts that do what an upgrade does, reviewed as files and run as a DBA would.

MEMALCHEMY_REGENERATE=1 rewrites the files under ``golden/``; read what changed.
"""

from __future__ import annotations

import re
import sqlite3
import subprocess
import sys
from contextlib import closing
from pathlib import Path

import catalog
import psycopg
import pytest
from programs import postgres_program

from memalchemy import Checkpointer, Database, migrate
from memalchemy.errors import SchemaOutdated
from servers import Postgres

STATE = {"messages": ["the red fox"]}

dialects = pytest.mark.parametrize("dialect", ["sqlite", "postgresql", "oracle"])


def downgrade_script(dialect: str, schema: str | None = None) -> str:
    return migrate.offline(dialect, schema=schema, down=True, revision="base")


@dialects
def test_the_upgrade_script_is_the_one_that_was_reviewed(dialect: str) -> None:
    script = migrate.offline(dialect)
    # That of SQLite is part of the package: a new file is made with it.
    ours = dialect == "sqlite"
    reviewed = str(migrate.sqlite_script()) if ours else f"upgrade.{dialect}.sql"
    assert script == catalog.golden(reviewed, script)


@dialects
def test_the_downgrade_script_is_the_one_that_was_reviewed(dialect: str) -> None:
    script = downgrade_script(dialect)
    assert script == catalog.golden(f"downgrade.{dialect}.sql", script)


@dialects
def test_a_script_from_the_head_changes_nothing(dialect: str) -> None:
    script = migrate.offline(dialect, start="head")
    assert set(re.findall(r"\w+", script)) <= {"BEGIN", "COMMIT"}


@dialects
def test_a_script_for_a_hosts_transaction_brings_none_of_its_own(dialect: str) -> None:
    assert not re.search(r"^(BEGIN|COMMIT)", migrate.offline(dialect, transaction=False), re.M)


async def use(url: str, schema: str | None = None) -> None:
    """Save, load, search: fails where the schema is not all there."""
    async with Database(url, schema=schema, migrate="check") as db:
        checkpointer = Checkpointer(db)
        await checkpointer.save(STATE, "thread", metadata={"colour": "red"})
        assert await checkpointer.load("thread") == STATE
        assert len(await checkpointer.search("fox")) == 1
        assert len(await checkpointer.query_by_metadata("colour", "red")) == 1


# --- SQLite --------------------------------------------------------------------------------------


def run_on_sqlite(path: Path, script: str) -> str:
    connection = sqlite3.connect(path)
    connection.executescript(script)
    listing = catalog.of_sqlite(connection)
    connection.close()
    return listing


async def test_the_sqlite_script_makes_what_an_upgrade_makes(tmp_path: Path) -> None:
    listing = run_on_sqlite(tmp_path / "agent.db", migrate.offline("sqlite"))
    assert listing == catalog.golden("catalog.sqlite.txt", listing)
    await use(f"sqlite:///{tmp_path}/agent.db")


async def test_a_new_file_is_what_alembic_makes_of_one_that_is_not_empty(tmp_path: Path) -> None:
    """The one is made with the script of the package, the other by the revisions."""
    listings = []
    for name in ("new", "hosts"):
        with closing(sqlite3.connect(tmp_path / name)) as connection:
            if name == "hosts":
                connection.execute("CREATE TABLE theirs (n INTEGER)")
        async with Database(f"sqlite:///{tmp_path}/{name}") as db:
            assert await db.current() == migrate.head()
        with closing(sqlite3.connect(tmp_path / name)) as connection:
            found = catalog.of_sqlite(connection)
            noted = connection.execute("SELECT * FROM memalchemy_version").fetchall()
            row = connection.execute("SELECT key, meta, value, updated_at > 0 FROM store_items")
            lines = [line for line in found.splitlines() if "theirs" not in line]
            listings.append((lines, noted, row.fetchall()))
    assert listings[0] == listings[1]


@pytest.mark.parametrize("turn", ["a new file", "an old file"])
def test_a_file_is_opened_without_alembic(tmp_path: Path, turn: str) -> None:
    program = (
        "import asyncio, sys\n"
        "from memalchemy import Checkpointer, Database\n"
        "async def main():\n"
        "    async with Database(sys.argv[1]) as db:\n"
        "        await Checkpointer(db).save({}, 't')\n"
        "asyncio.run(main())\n"
        "print('alembic' in sys.modules)\n"
    )
    command = [sys.executable, "-c", program, f"sqlite:///{tmp_path}/agent.db"]
    if turn == "an old file":
        subprocess.run(command, check=True)
    assert subprocess.run(command, check=True, capture_output=True).stdout == b"False\n"


async def test_the_sqlite_downgrade_script_undoes_it_and_an_upgrade_starts_anew(
    tmp_path: Path,
) -> None:
    path = tmp_path / "agent.db"
    run_on_sqlite(path, migrate.offline("sqlite"))
    left = run_on_sqlite(path, downgrade_script("sqlite"))
    assert "threads" not in left
    with pytest.raises(SchemaOutdated):
        await use(f"sqlite:///{path}")
    async with Database(f"sqlite:///{path}") as db:
        assert await db.current() == migrate.head()


# --- PostgreSQL ----------------------------------------------------------------------------------


def run_with_psql(server: Postgres, database: str, script: str) -> None:
    command = [postgres_program("psql"), "--no-psqlrc", "--quiet", "--set", "ON_ERROR_STOP=1"]
    subprocess.run(
        [*command, server.url(database)], input=script, text=True, check=True, capture_output=True
    )


def listing_of(server: Postgres, database: str, schema: str = "public") -> str:
    with psycopg.connect(server.url(database)) as connection:
        return catalog.of_postgresql(connection, schema)


async def test_the_postgresql_script_makes_what_an_upgrade_makes_run_by_psql(
    postgres: Postgres, fresh_postgres: str
) -> None:
    run_with_psql(postgres, fresh_postgres, migrate.offline("postgresql"))
    listing = listing_of(postgres, fresh_postgres)
    assert listing == catalog.golden("catalog.postgresql.txt", listing)
    await use(postgres.url(fresh_postgres))


async def test_the_postgresql_script_runs_as_one_string_through_a_driver(
    postgres: Postgres, fresh_postgres: str
) -> None:
    postgres.execute(migrate.offline("postgresql"), fresh_postgres)
    await use(postgres.url(fresh_postgres))


async def test_the_script_for_a_schema_makes_it(postgres: Postgres, fresh_postgres: str) -> None:
    run_with_psql(postgres, fresh_postgres, migrate.offline("postgresql", schema="agent memory"))
    assert listing_of(postgres, fresh_postgres) == ""
    await use(postgres.url(fresh_postgres), "agent memory")

    run_with_psql(postgres, fresh_postgres, downgrade_script("postgresql", "agent memory"))
    assert "threads" not in listing_of(postgres, fresh_postgres, "agent memory")


async def test_the_script_without_pgvector_needs_none(
    postgres: Postgres, fresh_postgres: str
) -> None:
    run_with_psql(postgres, fresh_postgres, migrate.offline("postgresql", pgvector=False))
    assert "column embeddings.vector: bytea" in listing_of(postgres, fresh_postgres)
    assert (
        postgres.execute("SELECT FROM pg_extension WHERE extname = 'vector'", fresh_postgres) == []
    )
    await use(postgres.url(fresh_postgres))


async def test_the_postgresql_downgrade_script_undoes_it_and_an_upgrade_starts_anew(
    postgres: Postgres, fresh_postgres: str
) -> None:
    run_with_psql(postgres, fresh_postgres, migrate.offline("postgresql"))
    run_with_psql(postgres, fresh_postgres, downgrade_script("postgresql"))
    assert "threads" not in listing_of(postgres, fresh_postgres)
    async with Database(postgres.url(fresh_postgres), migrate="off") as db:
        assert await db.current() is None
        await db.migrate()
    await use(postgres.url(fresh_postgres))


# --- Oracle: what SQL*Plus and SQLcl would make of it --------------------------------------------


@pytest.fixture(params=["upgrade", "downgrade"])
def oracle_statements(request: pytest.FixtureRequest) -> list[str]:
    """The script's statements as SQL*Plus splits them: at a line that is a slash."""
    way = request.param
    script = migrate.offline("oracle") if way == "upgrade" else downgrade_script("oracle")
    uncommented = re.sub(r"^--.*$", "", script, flags=re.M)
    *statements, rest = re.split(r"^/$", uncommented, flags=re.M)
    assert rest.strip() == "", "the last statement is never run"
    return [statement.strip() for statement in statements]


def test_every_oracle_statement_is_ended_once(oracle_statements: list[str]) -> None:
    """A semicolon runs it, and the slash after it would run it again."""
    assert not [text for text in oracle_statements if text.endswith(";") or not text]


def test_no_oracle_statement_holds_an_empty_line(oracle_statements: list[str]) -> None:
    """At an empty line SQL*Plus takes a statement to be finished."""
    assert not [text for text in oracle_statements if re.search(r"\n\s*\n", text)]


def test_every_line_of_an_oracle_statement_is_short_enough_for_sqlplus(
    oracle_statements: list[str],
) -> None:
    assert max(len(line) for text in oracle_statements for line in text.splitlines()) < 2500


def test_no_oracle_statement_waits_for_a_bind_or_asks_for_a_variable(
    oracle_statements: list[str],
) -> None:
    for text in oracle_statements:
        without_literals = re.sub(r"'[^']*'", "''", text)
        assert not re.search(r":\w|RETURNING", without_literals)
        assert "&" not in text


def test_every_oracle_text_column_has_a_length_in_characters_that_always_fits(
    oracle_statements: list[str],
) -> None:
    """4,000 bytes, of which a character takes up to four."""
    for text in oracle_statements:
        for length in re.findall(r"VARCHAR2?\b(\([^)]*\))?", text):
            assert re.fullmatch(r"\((\d{1,3}|1000) CHAR\)", length)


def test_oracle_times_keep_their_fractions(oracle_statements: list[str]) -> None:
    for text in oracle_statements:
        assert not re.search(r"^\s+\w+ (DATE|DATETIME)\b", text, re.M)


def test_the_oracle_script_ends_with_a_commit(oracle_statements: list[str]) -> None:
    assert oracle_statements[-1] == "COMMIT"
