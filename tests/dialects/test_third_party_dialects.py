"""Dialects of third parties: registered in code or by a package, and what the schema asks of them.

`memalchemy_toy` is one in a file of its own. The behavioural suite runs on it by ``--databases
toy``, and a selection of it here, in a process of its own.
"""

from __future__ import annotations

import ast
import os
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from sqlalchemy import BINARY
from sqlalchemy.engine import URL
from sqlalchemy.ext.asyncio import create_async_engine

from installed_packages import install_package
from memalchemy import (
    CapabilityMissing,
    Checkpointer,
    Database,
    MemalchemyError,
    UnknownURL,
    migrate,
    space,
)
from memalchemy.column_types import ColumnTypes, Storage, uuid_bytes, uuid_of_bytes
from memalchemy.dialects import (
    DIALECTS,
    Dialect,
    Maintenance,
    Target,
    Vectors,
    base,
    column_types_on,
    dialect_of,
    parse_url,
    register_dialect,
)
from memalchemy.dialects.sqlite import SQLite, SQLiteMaintenance, SQLiteTextIndexes
from memalchemy.search.indexes import build_index
from private_names import private_names

ROOT = Path(__file__).parents[2]
TOY = Path(__file__).parent / "toy"

SELECTION = (
    "test_saving_and_loading.py",
    "test_checkpoint_search.py",
    "test_store_items.py",
    "test_store_vector_search.py",
    "test_store_filters.py",
    "test_verify_text_indexes.py",
    "test_space_and_vacuum.py",
)
"""Files of the behavioural suite that use each of the four parts."""

Package = Callable[..., None]


@pytest.fixture
def registered() -> Iterator[Callable[[type[Dialect]], None]]:
    """Register dialects for one test."""
    names: list[str] = []

    def register(dialect: type[Dialect]) -> None:
        register_dialect(dialect)
        names.append(dialect.name)

    yield register
    for name in names:
        DIALECTS.remove(name)


@pytest.fixture
def package(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Package:
    """Install a package of one module that has a dialect as its entry point."""

    def install(package: str, name: str, code: str) -> None:
        place = tmp_path / package
        install_package(place, package, "memalchemy.dialects", name, code, "Theirs")
        monkeypatch.syspath_prepend(place)

    return install


def derived(name: str, base: type[Dialect] = SQLite, **attributes: Any) -> type[Dialect]:
    """Return a dialect like *base* under another name."""
    return type(name.title(), (base,), {"name": name, **attributes})


# --- A dialect in one file -----------------------------------------------------------------------


def test_the_behavioural_suite_passes_on_a_dialect_in_one_file() -> None:
    files = [f"tests/behaviour/{name}" for name in SELECTION]
    command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "--databases", "toy"]

    ran = subprocess.run([*command, *files], cwd=ROOT, capture_output=True, text=True, check=False)

    assert ran.returncode == 0, ran.stdout[-5000:] + ran.stderr[-2000:]
    assert " passed" in ran.stdout


def test_the_command_line_takes_the_urls_of_an_installed_package(tmp_path: Path) -> None:
    paths = os.pathsep.join([str(TOY), os.environ.get("PYTHONPATH", "")])

    def run(*arguments: str) -> str:
        ran = subprocess.run(
            [sys.executable, "-m", "memalchemy", "--db", f"toy:///{tmp_path}/a.db", *arguments],
            env=os.environ | {"PYTHONPATH": paths},
            capture_output=True,
            text=True,
            check=True,
        )
        return ran.stdout

    run("upgrade")

    assert "ok" in run("check")
    assert "CREATE TABLE threads" in run("upgrade", "--sql")
    assert "no text index was compared with its rows" in run("verify")
    assert "no way to give space back on toy" in run("vacuum")


def test_the_dialect_in_one_file_borrows_nothing_and_is_short() -> None:
    code = (TOY / "memalchemy_toy.py").read_text()
    tree = ast.parse(code)
    imported = {
        node.module for node in ast.walk(tree) if isinstance(node, ast.ImportFrom) and node.module
    }

    assert {name for name in imported if name.startswith("memalchemy.")} == {
        "memalchemy.column_types",
        "memalchemy.dialects",
        "memalchemy.errors",
        "memalchemy.schema",
        "memalchemy.variants",
    }
    assert list(private_names(tree)) == []
    assert len(code.splitlines()) <= 300


# --- What a dialect need not have ----------------------------------------------------------------


@pytest.fixture
def toy(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Iterator[str]:
    """The URL of a new database of the dialect in one file."""
    monkeypatch.syspath_prepend(TOY)
    yield f"toy:///{tmp_path}/a.db"
    DIALECTS.remove("toy")


async def test_without_sizes_space_is_measured_by_rows_and_nothing_is_given_back(toy: str) -> None:
    async with Database(toy) as db:
        await Checkpointer(db).save({"step": 1}, "thread")

        found = await space.measure(db)
        reclaimed = await space.reclaim(db)

    assert (found.checkpoints, found.pieces, found.estimated) == (1, (), False)
    assert found.total_bytes == found.file_bytes
    assert (reclaimed.before, reclaimed.after) == (None, None)
    (advice,) = reclaimed.advice
    assert "no way to give space back on toy" in advice.reason


async def test_vectors_that_are_compared_here_have_no_index(toy: str) -> None:
    async with Database(toy) as db:
        with pytest.raises(CapabilityMissing, match="compared exactly on toy, by this process"):
            await build_index(db, metric="cosine", dimensions=3)


async def test_an_index_of_vectors_that_nobody_can_build_is_refused(
    registered: Any, tmp_path: Path
) -> None:
    registered(derived("scrapbook", vectors=Vectors()))

    async with Database(f"scrapbook:///{tmp_path}/a.db") as db:
        with pytest.raises(CapabilityMissing, match="there is no vector index on scrapbook"):
            await build_index(db, metric="cosine", dimensions=3)


async def test_without_an_isolation_level_there_is_no_snapshot(tmp_path: Path) -> None:
    engine = create_async_engine(f"sqlite+aiosqlite:///{tmp_path}/a.db")

    async with Database(engine, migrate="upgrade") as db:
        with pytest.raises(CapabilityMissing, match="sqlite has no isolation level"):
            async with db.snapshot():
                pass
    await engine.dispose()


@pytest.mark.parametrize("ask", ["backup_command", "distribution_commands"])
def test_a_command_that_is_not_known_is_a_missing_capability(ask: str) -> None:
    arguments: dict[str, tuple[Any, ...]] = {
        "backup_command": (URL.create("mysql"), "file", None, ()),
        "distribution_commands": (None, None),
    }

    with pytest.raises(CapabilityMissing):
        getattr(Maintenance(), ask)(*arguments[ask])


class _NeverAside(SQLiteTextIndexes):
    def is_aside(self, index: str) -> None:
        return None


class _NothingToMerge(SQLiteMaintenance):
    def step(self, what: str) -> Any:
        return None if what.split()[0] in ("changes", "start", "merge") else super().step(what)


async def test_text_indexes_that_are_never_set_aside_are_purged_and_need_no_merging(
    registered: Any, tmp_path: Path
) -> None:
    registered(derived("scrapbook", text=_NeverAside(), maintenance=_NothingToMerge()))

    async with Database(f"scrapbook:///{tmp_path}/a.db") as db:
        keep = Checkpointer(db)
        await keep.save({"said": "a secret"}, "thread")
        await keep.forget(tenant=db.tenant)
        reclaimed = await space.reclaim(db)

    assert reclaimed.advice == ()
    assert b"secret" not in (tmp_path / "a.db").read_bytes()


def test_the_page_names_all_that_a_dialect_must_have() -> None:
    page = (ROOT / "docs" / "dialects.md").read_text()
    needed = page.partition("## What a dialect must have")[2].partition("\n## ")[0]

    assert [name for name in _without_default() if f"{name}`" not in needed] == []


def _without_default() -> Iterator[str]:
    """The methods of a dialect and its parts that raise NotImplementedError."""
    tree = ast.parse(Path(base.__file__).read_text())
    whole = ("Dialect", "Statements", "TextIndexes", "Vectors", "Maintenance")
    for part in tree.body:
        if isinstance(part, ast.ClassDef) and part.name in whole:
            yield from (
                method.name
                for method in part.body
                if isinstance(method, ast.FunctionDef)
                and isinstance(last := method.body[-1], ast.Raise)
                and ast.unparse(last) == "raise NotImplementedError"
            )


# --- Registration --------------------------------------------------------------------------------


async def test_a_registered_dialect_reads_urls_of_its_scheme(
    registered: Any, tmp_path: Path
) -> None:
    registered(derived("scrapbook"))

    async with Database(f"scrapbook:///{tmp_path}/a.db") as db:
        await Checkpointer(db).save({"step": 1}, "thread")
        assert (await db.health())["dialect"] == "scrapbook"
        assert repr(db).startswith(f"Database('scrapbook:///{tmp_path}/a.db'")
    async with Database(f"sqlite:///{tmp_path}/a.db") as same:
        assert await Checkpointer(same).load("thread") == {"step": 1}


@pytest.mark.parametrize(
    ("dialect", "message"),
    [
        (object, "is not a subclass of memalchemy.dialects.Dialect"),
        (SQLite(), "is not a subclass of memalchemy.dialects.Dialect"),
        (
            type("Empty", (Dialect,), {"name": "empty", "sqlalchemy_name": "sqlite"}),
            "lacks statements, text, vectors, maintenance",
        ),
        (
            type("Typeless", (SQLite,), {"name": "typeless", "dynamic_types": False}),
            "stores columns otherwise than memalchemy's own dialect",
        ),
    ],
    ids=["a class of another kind", "an instance", "no parts", "other storage"],
)
def test_what_is_not_a_whole_dialect_is_refused(dialect: Any, message: str) -> None:
    with pytest.raises(TypeError, match=message):
        register_dialect(dialect)


def test_a_name_is_taken_once_unless_it_is_to_be_replaced(registered: Any) -> None:
    first, second = derived("scrapbook"), derived("scrapbook")
    registered(first)
    register_dialect(first)

    with pytest.raises(ValueError, match="'scrapbook' already"):
        register_dialect(second)
    with pytest.raises(ValueError, match="'sqlite' already"):
        register_dialect(derived("sqlite"))

    register_dialect(second, replace=True)
    assert type(DIALECTS["scrapbook"]) is second


def test_a_removed_dialect_is_unknown(registered: Any) -> None:
    register_dialect(derived("scrapbook"))
    DIALECTS.remove("scrapbook")

    with pytest.raises(UnknownURL, match="does not work on 'scrapbook'"):
        parse_url("scrapbook:///a.db")


# --- Installed packages --------------------------------------------------------------------------

THEIRS = """
from memalchemy.dialects.sqlite import SQLite

class Theirs(SQLite):
    name = "theirs"
"""


@pytest.fixture
def forgotten() -> Iterator[None]:
    """Forget the dialect that a test has loaded from a package."""
    yield
    if "theirs" in DIALECTS:
        DIALECTS.remove("theirs")


@pytest.mark.usefixtures("forgotten")
def test_a_package_brings_a_dialect_by_its_entry_point(package: Package) -> None:
    package("package_a", "theirs", THEIRS)

    assert "theirs" in DIALECTS
    assert parse_url("theirs:///a.db").dialect == "theirs"
    assert set(DIALECTS) >= {"sqlite", "postgresql", "oracle", "theirs"}


def test_a_package_cannot_replace_a_dialect_of_memalchemys(package: Package) -> None:
    package("package_b", "sqlite", THEIRS)

    assert list(DIALECTS).count("sqlite") == 1
    assert type(DIALECTS["sqlite"]).__module__ != "package_b_module"


@pytest.mark.parametrize(
    ("code", "message"),
    [
        ("import nowhere_to_be_found", "cannot be imported: ModuleNotFoundError"),
        ("class Theirs: pass", "is not a subclass"),
        (THEIRS.replace('"theirs"', '"other"'), "calls itself 'other'"),
    ],
    ids=["import", "class", "name"],
)
def test_an_error_names_the_package_that_cannot_be_used(
    code: str, message: str, package: Package
) -> None:
    package("package_c", "theirs", code)
    sys.modules.pop("package_c_module", None)

    with pytest.raises(MemalchemyError, match=f"of the package package_c .*{message}"):
        parse_url("theirs:///a.db")


def test_two_packages_with_one_name_are_both_named(package: Package) -> None:
    package("package_d", "theirs", THEIRS)
    package("package_e", "theirs", THEIRS)

    with pytest.raises(MemalchemyError, match="in several packages: package_d, package_e"):
        parse_url("theirs:///a.db")


# --- Engines of a host ---------------------------------------------------------------------------


class Elsewhere(SQLite):
    """A dialect on a SQLAlchemy dialect that memalchemy has none for."""

    name = "elsewhere"
    sqlalchemy_name = "mysql"


class _Bind:
    """A connection, of which `dialect_of` reads SQLAlchemy's name."""

    def __init__(self, name: str) -> None:
        self.dialect = type("_Dialect", (), {"name": name})()


def test_an_engine_is_of_the_dialect_of_its_name(registered: Any) -> None:
    registered(derived("scrapbook"))

    assert dialect_of(create_async_engine("sqlite+aiosqlite://")) is DIALECTS["sqlite"]


def test_an_engine_is_of_the_only_dialect_that_stands_on_its_own(registered: Any) -> None:
    with pytest.raises(UnknownURL, match="does not work on 'mysql'"):
        dialect_of(_Bind("mysql"))

    registered(Elsewhere)
    assert dialect_of(_Bind("mysql")) is DIALECTS["elsewhere"]

    registered(derived("beyond", Elsewhere))
    with pytest.raises(MemalchemyError, match="mysql': beyond, elsewhere; pass a URL"):
        dialect_of(_Bind("mysql"))


def test_dialects_that_store_columns_in_different_ways_exclude_each_other(registered: Any) -> None:
    registered(Elsewhere)
    registered(Maria)

    with pytest.raises(MemalchemyError, match=r"elsewhere, maria .* in different ways"):
        column_types_on("mysql")


# --- The schema on a database that no revision knows ---------------------------------------------


class _BinaryKeys(ColumnTypes):
    def log_key(self) -> Storage:
        return Storage(BINARY(16), uuid_bytes, uuid_of_bytes)


class _Extras(Maintenance):
    server_version = "SELECT version()"
    byte_literal = "X'2D'"

    def create_extras(self, revision: str, operations: Any, schema: str | None) -> bool:
        operations.execute(f"CREATE FULLTEXT INDEX words_{revision} ON deltas (search_text)")
        return True

    def drop_extras(self, revision: str, operations: Any, schema: str | None) -> bool:
        operations.execute(f"DROP INDEX words_{revision} ON deltas")
        return True


class Maria(Elsewhere):
    """Enough of a dialect to write the script of a migration."""

    name = "maria"
    column_types = _BinaryKeys()
    maintenance = _Extras()

    def read_url(self, url: URL, driver: str) -> Target:
        return Target(self.name, url.set(drivername="mysql"), "maria://")


def test_a_dialect_says_the_types_of_columns_and_what_else_the_schema_has(
    registered: Any,
) -> None:
    registered(Maria)

    up = migrate.offline("maria")
    down = migrate.offline("maria", start=migrate.head(), revision="base", down=True)

    assert "log_id BINARY(16) NOT NULL" in up
    assert "updated_at BIGINT NOT NULL" in up
    assert "CREATE FULLTEXT INDEX words_0001 ON deltas (search_text)" in up
    assert "fts5" not in up
    assert "DROP INDEX words_0001 ON deltas" in down
