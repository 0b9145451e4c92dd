"""Variants: what some databases do otherwise is chosen by what the database says that it takes."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from sqlalchemy import Executable, literal_column, select

import memalchemy
from memalchemy.dialects import DIALECTS, Dialect
from memalchemy.dialects.sqlite import SQLite
from memalchemy.statements import REGISTRY, Statement, statement
from memalchemy.variants import varies
from source_trees import parsed

SOURCE = Path(memalchemy.__file__).parent
CAPABILITIES = {"distributed", "upserts", "single_statement_save", "groups_saves", "variants"}
MAY_ASK = ("dialects", "database", "variants.py", "statements.py")
"""Where a dialect is asked for what it is: it says so once, and everybody else is given."""


DATABASES = {"sqlite", "postgresql", "postgres", "oracle", "citus"}
DRIVERS = {"sqlite3", "aiosqlite", "asyncpg", "psycopg", "oracledb"}
CLASSES = {"Dialect", "SQLite", "PostgreSQL", "Oracle"}

NAMES_ASKED: dict[tuple[str, str], str] = {
    ("schema.py", "dialect.name != 'oracle'"): "DDL of SQLAlchemy's, which knows its own name",
    (
        "migrate/environment.py",
        "autogenerate.dialect.name == 'oracle'",
    ): "a host's autogenerate, which has SQLAlchemy's dialect alone",
    (
        "migrate/chain.py",
        "dialect is not DIALECTS['sqlite']",
    ): "the script that makes a file at once is of memalchemy's own SQLite",
    ("migrate/chain.py", "DIALECTS['sqlite']"): "the same, which is a comparison of this",
    (
        "database/executors/host.py",
        "connection.dialect.name != dialect.sqlalchemy_name",
    ): "a connection of another of SQLAlchemy's dialects is refused, whichever they are",
    (
        "database/backend.py",
        "primary.dialect.name != dialect.name",
    ): "a replica shares the dialect of its primary, whichever it is",
    (
        "integrations/langgraph/_source_tables.py",
        "url.startswith('sqlite:')",
    ): "where LangGraph's own tables are, which it keeps in one way a database",
    (
        "integrations/langgraph/_source_tables.py",
        "scheme.startswith('postgres')",
    ): "where LangGraph's own tables are, which it keeps in one way a database",
    (
        "database/sqlite/executor.py",
        "from memalchemy.dialects.sqlite import prepare_connection",
    ): "the package of SQLite's files",
    (
        "database/sqlite/backup.py",
        "from memalchemy.dialects.sqlite_text_tables import names_text_index",
    ): "the package of SQLite's files",
}
"""The places outside of dialects that ask which database it is, each with the reason."""


class Plain(SQLite):
    variants = ()


class Odd(SQLite):
    variants = ("odd",)


class Odder(SQLite):
    variants = ("odder", "odd")


@varies
def greeting(dialect: Dialect, name: str) -> str:
    return f"hello {name}"


@greeting.on("odd")
def _greeting(dialect: Dialect, name: str) -> str:
    return f"odd {greeting.general(dialect, name)}"


@pytest.fixture
def numbers() -> Any:
    before = dict(REGISTRY)

    @statement(high=(False, True))
    def number(dialect: Dialect, high: bool) -> Executable:
        return select(literal_column("2" if high else "1"))

    @number.on("odd")
    def _number(dialect: Dialect, high: bool) -> Executable | None:
        return None if high else select(literal_column("3"))

    yield number
    REGISTRY.clear()
    REGISTRY.update(before)


def texts(family: Statement[Any], dialect: Dialect) -> list[str]:
    return [str(built) for _, built in family.enumerate(dialect)]


def test_a_variant_has_a_function_of_its_own_and_others_the_general_one() -> None:
    assert greeting(Plain(), "you") == "hello you"
    assert greeting(Odd(), "you") == "odd hello you"


def test_the_first_variant_of_a_database_that_has_one_decides() -> None:
    assert greeting(Odder(), "you") == "odd hello you"

    @greeting.on("odder")
    def _greeting(dialect: Dialect, name: str) -> str:
        return f"odder {name}"

    assert greeting(Odder(), "you") == "odder you"
    assert greeting(Odd(), "you") == "odd hello you"


def test_a_variant_has_statements_of_its_own(numbers: Statement[Any]) -> None:
    assert texts(numbers, Plain()) == ["SELECT 1", "SELECT 2"]
    assert texts(numbers, Odd()) == ["SELECT 3"]
    with pytest.raises(AssertionError, match="is not a statement of sqlite on odd"):
        numbers(Odd(), high=True)


def test_a_statement_of_one_variant_is_no_other_database_s() -> None:
    before = dict(REGISTRY)

    @statement(only_on="odd")
    def oddity(dialect: Dialect) -> Executable:
        return select(literal_column("1"))

    assert texts(oddity, Odd()) == texts(oddity, Odder()) == ["SELECT 1"]
    assert texts(oddity, Plain()) == []
    REGISTRY.clear()
    REGISTRY.update(before)


def test_a_function_has_one_form_on_a_variant() -> None:
    with pytest.raises(AssertionError, match="has one on odd"):
        greeting.on("odd")(_greeting)


def test_modules_are_named_after_the_variants_of_each_dialect() -> None:
    modules = {path.stem for path in SOURCE.rglob("*.py")}

    assert {variant for name in DIALECTS for variant in DIALECTS[name].variants} <= modules


def test_nothing_above_the_databases_asks_what_a_database_is() -> None:
    asking = [
        f"{path.relative_to(SOURCE)}:{node.lineno} asks for {node.attr}"
        for path in sorted(SOURCE.rglob("*.py"))
        if not str(path.relative_to(SOURCE)).startswith(MAY_ASK)
        for node in ast.walk(parsed(path.read_text()))
        if isinstance(node, ast.Attribute) and node.attr in CAPABILITIES
    ]

    assert asking == []


def test_nothing_outside_of_dialects_asks_which_database_it_is() -> None:
    asked = {
        (str(path.relative_to(SOURCE)), question)
        for path in sorted(SOURCE.rglob("*.py"))
        # A revision spells out what it does on each database; the wheel has the revisions, too.
        if path.relative_to(SOURCE).parts[0] not in ("dialects", "migrations")
        for question in questions(parsed(path.read_text()))
    }

    assert asked == NAMES_ASKED.keys()


@pytest.mark.parametrize(
    "code",
    [
        "db.dialect.name == theirs",
        "'x' if dialect.name in names else 'y'",
        "d.name != other",
        "engine.url.get_backend_name() == 'sqlite'",
        "scheme in ('postgresql', 'oracle')",
        "kinds['sqlite']",
        "kinds[dialect.name]",
        "kinds.get(dialect.name)",
        "url.startswith('oracle+oracledb:')",
        "isinstance(self.dialect, dialects.SQLite)",
        "issubclass(kind, (int, Dialect))",
        "type(dialect) is SQLite",
        "from memalchemy.dialects.oracle import Oracle",
        "match scheme:\n    case 'oracle': pass",
    ],
)
def test_each_way_to_ask_is_seen(code: str) -> None:
    assert list(questions(parsed(code)))


def questions(tree: ast.AST) -> Iterator[str]:
    """Yield the code of a module that asks which database it is."""
    for node in ast.walk(tree):
        match node:
            case ast.Compare():
                sides = [node.left, *node.comparators]
                if any(map(_is_name_of_dialect, sides)) or any(map(_names_a_database, sides)):
                    yield ast.unparse(node)
            case ast.Call(func=ast.Name(id="isinstance" | "issubclass"), args=[_, kinds]):
                if {_last_name(one) for one in ast.walk(kinds)} & CLASSES:
                    yield ast.unparse(node)
            case ast.Call(func=ast.Attribute(attr="get"), args=[key, *_]):
                if _is_name_of_dialect(key):
                    yield ast.unparse(node)
            case ast.Call(func=ast.Attribute(attr="startswith"), args=[start]):
                if any(
                    str(one.value).startswith((*DATABASES, *DRIVERS))
                    for one in ast.walk(start)
                    if isinstance(one, ast.Constant)
                ):
                    yield ast.unparse(node)
            case ast.Subscript(slice=key, ctx=ast.Load()):
                is_constant = isinstance(key, ast.Constant) and _names_a_database(key)
                if _is_name_of_dialect(key) or is_constant:
                    yield ast.unparse(node)
            case ast.MatchValue(value=value):
                if _names_a_database(value):
                    yield ast.unparse(node)
            case ast.ImportFrom(module=str(module)):
                first = module.removeprefix("memalchemy.dialects.").split(".")[0]
                if first != module.split(".")[0] and first.split("_")[0] in DATABASES:
                    yield ast.unparse(node)


def _is_name_of_dialect(node: ast.AST) -> bool:
    return (
        isinstance(node, ast.Attribute)
        and node.attr in ("name", "sqlalchemy_name")
        and (_last_name(node.value) or "").strip("_") in ("d", "dialect", "ours", "theirs")
    )


def _names_a_database(node: ast.AST) -> bool:
    """Whether an operand has the name or the class of a database, or of a driver."""
    return any(
        (isinstance(one, ast.Constant) and one.value in DATABASES | DRIVERS)
        or (_last_name(one) in CLASSES)
        for one in ast.walk(node)
    )


def _last_name(node: ast.AST) -> str | None:
    match node:
        case ast.Name(id=name) | ast.Attribute(attr=name):
            return name
        case ast.Call(func=function):
            return _last_name(function)
    return None
