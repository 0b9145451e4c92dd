"""Every error where it should appear, saying what to do; the causes here are real."""

from __future__ import annotations

import contextlib
import inspect
import os
import re
import shutil
import sqlite3
import stat
import tempfile
from collections.abc import Iterator
from pathlib import Path

import psycopg
import pytest

import memalchemy
from memalchemy import (
    AuthenticationFailed,
    Checkpointer,
    Corrupt,
    Database,
    DatabaseUnreachable,
    MemalchemyError,
    SchemaOutdated,
    errors,
)
from servers import Postgres, free_port
from waiting import A_WHILE, wait_until

CLASSES = [
    found
    for _, found in inspect.getmembers(errors, inspect.isclass)
    if issubclass(found, MemalchemyError)
]

drivers = pytest.mark.parametrize("driver", ["asyncpg", "psycopg"])


async def error_of(url: str) -> MemalchemyError:
    """What the first use of a database raises."""
    db = Database(url, connect_timeout=A_WHILE)
    try:
        with pytest.raises(MemalchemyError) as caught:
            await Checkpointer(db).load("thread")
    finally:
        await db.close()
    assert isinstance(caught.value.__cause__, Exception), "the driver's error stays in __cause__"
    return caught.value


@pytest.mark.parametrize("error", CLASSES)
def test_every_error_has_a_code_of_its_own_and_a_sentence_that_explains_it(
    error: type[MemalchemyError],
) -> None:
    assert error.code.startswith("MA-")
    assert [other for other in CLASSES if other.code == error.code] == [error]
    assert (error.__doc__ or "").strip().endswith(".")


def test_the_errors_that_a_caller_must_tell_apart_are_public() -> None:
    public = {name for name in memalchemy.__all__ if name in vars(errors)}

    assert public >= {
        "AuthenticationFailed",
        "CapabilityMissing",
        "Conflict",
        "Corrupt",
        "DatabaseUnreachable",
        "DriverMissing",
        "MemalchemyError",
        "NotSerialisable",
        "SchemaOutdated",
        "SchemaTooNew",
        "ThreadDeleted",
        "TooLarge",
        "UnknownURL",
    }


# --- A server ------------------------------------------------------------------------------------


@drivers
async def test_a_server_that_is_not_there_is_unreachable(driver: str) -> None:
    port = free_port()

    error = await error_of(f"postgresql+{driver}://ada:hush@127.0.0.1:{port}/agents")

    assert isinstance(error, DatabaseUnreachable)
    assert f"cannot reach postgresql+{driver}://ada:***@127.0.0.1:{port}/agents" in str(error)
    assert "Check that the server runs" in str(error)
    assert not error.maybe_applied


@drivers
async def test_a_host_that_does_not_resolve_is_unreachable(driver: str) -> None:
    error = await error_of(f"postgresql+{driver}://ada:hush@nowhere.invalid/agents")

    assert isinstance(error, DatabaseUnreachable)
    assert "cannot reach" in str(error)
    assert "hush" not in str(error)


@drivers
async def test_a_database_that_is_not_there_is_unreachable(postgres: Postgres, driver: str) -> None:
    error = await error_of(postgres.url("no_such_database", driver=driver))

    assert isinstance(error, DatabaseUnreachable)
    assert "cannot reach" in str(error)
    assert "no_such_database" in str(error)


@drivers
async def test_a_database_without_the_schema_is_outdated(postgres: Postgres, driver: str) -> None:
    db = Database(postgres.url(driver=driver))

    with pytest.raises(SchemaOutdated, match="memalchemy --db URL upgrade"):
        await Checkpointer(db).load("thread")

    await db.close()


@pytest.fixture
def guarded(postgres: Postgres) -> Iterator[Postgres]:
    """The server as a role sees it that must give a password, ``right``."""
    role = "ma_guarded"
    postgres.execute(f"DROP ROLE IF EXISTS {role}")
    postgres.execute(f"CREATE ROLE {role} LOGIN PASSWORD 'right'")
    with contextlib.ExitStack() as stack:
        stack.callback(postgres.execute, f"DROP ROLE {role}")
        if "POSTGRES_URL" not in os.environ:  # the suite's own server trusts everyone
            rules = Path(postgres.execute("SHOW hba_file")[0][0])
            before = rules.read_text()

            def put(text: str) -> None:
                rules.write_text(text)
                postgres.execute("SELECT pg_reload_conf()")

            put(f"local all {role} scram-sha-256\n{before}")
            stack.callback(put, before)
        yield Postgres(postgres.host, postgres.port, role, "right", postgres.database)


def refused(server: Postgres, password: str) -> bool:
    try:
        with psycopg.connect(
            host=server.host,
            port=server.port,
            user=server.user,
            password=password,
            dbname=server.database,
        ):
            return False
    except psycopg.OperationalError:
        return True


@drivers
async def test_a_wrong_password_is_an_authentication_failure(
    guarded: Postgres, driver: str
) -> None:
    # The server reads its rules in its own time.
    wait_until(lambda: refused(guarded, "wrong"), "the server takes any password")

    error = await error_of(guarded.url(driver=driver, user=f"{guarded.user}:wr0ng-hush"))

    assert isinstance(error, AuthenticationFailed)
    assert "refused the user or the password" in str(error)
    assert "hush" not in str(error)
    assert not refused(guarded, "right")


@drivers
async def test_a_user_without_rights_is_told_how_to_be_given_them(
    postgres: Postgres, driver: str
) -> None:
    name = postgres.create_database()
    owner = Database(postgres.url(name))
    await owner.migrate()
    await owner.close()
    postgres.execute("DROP ROLE IF EXISTS ma_powerless")
    postgres.execute("CREATE ROLE ma_powerless LOGIN")
    try:
        db = Database(postgres.url(name, driver=driver, user="ma_powerless"), migrate="off")
        with pytest.raises(AuthenticationFailed, match="memalchemy grants"):
            await Checkpointer(db).load("thread")
        await db.close()
    finally:
        postgres.drop_database(name)
        postgres.execute("DROP ROLE ma_powerless")


# --- A file --------------------------------------------------------------------------------------


async def test_a_file_that_is_not_a_database_is_corrupt_and_stays_as_it_is(tmp_path: Path) -> None:
    file = tmp_path / "notes.txt"
    text = "Not a database, but somebody's notes. " * 100
    file.write_text(text)

    error = await error_of(f"sqlite:///{file}")

    assert isinstance(error, Corrupt)
    assert str(file) in str(error)
    assert file.read_text() == text


async def test_a_damaged_database_is_corrupt(tmp_path: Path) -> None:
    file = tmp_path / "agent.db"
    async with Database(f"sqlite:///{file}") as db:
        await Checkpointer(db).save({"text": "x" * 100_000}, "thread")
    with sqlite3.connect(file) as connection:
        connection.execute("PRAGMA wal_checkpoint(TRUNCATE)")
    connection.close()
    pages = bytearray(file.read_bytes())
    pages[4096:] = os.urandom(len(pages) - 4096)
    file.write_bytes(pages)

    assert isinstance(await error_of(f"sqlite:///{file}"), Corrupt)


async def test_a_file_in_a_directory_that_is_not_there_is_unreachable(tmp_path: Path) -> None:
    error = await error_of(f"sqlite:///{tmp_path}/missing/agent.db")

    assert isinstance(error, DatabaseUnreachable)
    assert f"{tmp_path}/missing/agent.db" in str(error)


async def test_a_directory_in_place_of_a_file_is_unreachable(tmp_path: Path) -> None:
    assert isinstance(await error_of(f"sqlite:///{tmp_path}"), DatabaseUnreachable)


@pytest.fixture
def read_only() -> Iterator[Path]:
    """A directory that this process can read and cannot write, with a database in it."""
    place = Path(tempfile.mkdtemp(prefix="ma-ro-"))
    connection = sqlite3.connect(place / "agent.db")
    connection.execute("CREATE TABLE something (id INTEGER)")
    connection.close()
    (place / "agent.db").chmod(stat.S_IRUSR | stat.S_IRGRP | stat.S_IROTH)
    place.chmod(0o555)
    root = os.geteuid() == 0
    if root:  # whom no permission stops
        os.seteuid(65534)
    try:
        yield place
    finally:
        if root:
            os.seteuid(0)
        place.chmod(0o700)
        shutil.rmtree(place)


async def test_a_new_file_in_a_read_only_directory_is_unreachable(read_only: Path) -> None:
    error = await error_of(f"sqlite:///{read_only}/new.db")

    assert isinstance(error, DatabaseUnreachable)
    assert f"{read_only}/new.db" in str(error)


async def test_a_read_only_file_is_a_lack_of_rights_on_that_file(read_only: Path) -> None:
    error = await error_of(f"sqlite:///{read_only}/agent.db")

    assert isinstance(error, AuthenticationFailed | DatabaseUnreachable)
    assert f"{read_only}/agent.db" in str(error)
    assert "grants" not in str(error), "there are no GRANTs on a file"


def test_every_code_that_the_sources_spell_is_on_a_page_for_users() -> None:
    root = Path(__file__).parents[1]
    pages = "".join(
        root.joinpath("docs", page).read_text("utf-8")
        for page in ("errors.md", "command-line.md", "reference/cli.md", "http.md")
    )
    sources = "".join(path.read_text("utf-8") for path in root.joinpath("src").rglob("*.py"))
    spelt = set(re.findall(r"\b(?:MA-[A-Z]+(?:-[A-Z]+)*|HTTP-(?={))", sources))

    assert {"MA-USAGE", "MA-OUTPUT", "MA-ARGUMENT", "HTTP-"} <= spelt
    assert [code for code in sorted(spelt) if f"`{code}" not in pages] == []
