"""`database/` knows no table, and names no database outside of `sqlite/` and `executors/`.

The names are those of the schema, of the dialects, and of the drivers that the package asks for.
Comments and docstrings may name a database as an example.
"""

from __future__ import annotations

import ast
import re
import tomllib
from collections.abc import Iterator
from pathlib import Path

import pytest

from memalchemy import schema
from memalchemy.database.executors.asyncpg import AsyncpgExecutor
from memalchemy.database.executors.base import Executor
from memalchemy.database.sqlite.executor import SQLiteExecutor
from memalchemy.dialects import DIALECTS
from pages import ROOT
from source_trees import parsed
from words_of_code import code_of

DATABASE = ROOT / "src" / "memalchemy" / "database"
WHOLE = sorted(DATABASE.rglob("*.py"))
SHARED = [
    path for path in WHOLE if path.relative_to(DATABASE).parts[0] not in ("sqlite", "executors")
]
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
DRIVERS = ("aiosqlite", "asyncpg", "psycopg", "oracledb")
TABLES = sorted(schema.Base.metadata.tables)
ROWS = sorted(mapper.class_.__name__ for mapper in schema.Base.registry.mappers)


def executors() -> set[str]:
    """The names of all executors."""
    found, left = {Executor}, [Executor]
    while left:
        left = [below for one in left for below in one.__subclasses__()]
        found |= {*left}
    return {one.__name__ for one in found}


def names_of_databases() -> set[str]:
    return {"sqlite", "postgresql", "oracle", "citus", "sqlite3", *DRIVERS}


NAME = re.compile("|".join(sorted(names_of_databases(), key=len, reverse=True)))


def named_in(path: Path) -> set[str]:
    """The databases and drivers that a file's code names."""
    return {found for words in code_of(path) for found in NAME.findall(words.lower())}


def asks_which_executor(code: str) -> Iterator[str]:
    """The questions in *code* which executor one is."""
    for node in ast.walk(parsed(code)):
        if not isinstance(node, ast.Call) or not isinstance(node.func, ast.Name):
            continue
        if node.func.id in ("isinstance", "issubclass", "type"):
            words = {*re.findall(r"\w+", " ".join(map(ast.unparse, node.args)))}
            if words & executors() or "_executor" in words:
                yield ast.unparse(node)


def test_the_names_are_those_of_all_dialects_and_drivers() -> None:
    assert {SQLiteExecutor.__name__, AsyncpgExecutor.__name__} < executors()
    assert {name for name in DIALECTS if name in ("sqlite", "postgresql", "oracle")} <= (
        names_of_databases()
    )
    required = [PROJECT["dependencies"], *PROJECT["optional-dependencies"].values()]
    packages = {re.split(r"[^\w-]", one)[0].lower() for some in required for one in some}
    assert {*DRIVERS} <= packages


@pytest.mark.parametrize("path", SHARED, ids=lambda path: path.stem)
def test_what_all_databases_share_names_none_of_them(path: Path) -> None:
    assert named_in(path) == set()


@pytest.mark.parametrize("path", WHOLE, ids=lambda path: path.relative_to(DATABASE).as_posix())
def test_no_table_is_named(path: Path) -> None:
    table = re.compile(rf"\b(?:{'|'.join([*TABLES, *ROWS])})\b")

    assert {found for words in code_of(path) for found in table.findall(words)} == set()


@pytest.mark.parametrize("path", WHOLE, ids=lambda path: path.relative_to(DATABASE).as_posix())
def test_executors_answer_what_is_asked_of_them(path: Path) -> None:
    assert list(asks_which_executor(path.read_text())) == []


@pytest.mark.parametrize(
    "code",
    [
        "isinstance(self._executor, SQLiteExecutor)",
        "isinstance(backend._executor, kinds)",
        "issubclass(kind, AsyncpgExecutor)",
        "type(executor) is SQLAlchemyExecutor or type(self._executor) is kind",
    ],
)
def test_a_question_which_executor_one_is_is_found(code: str) -> None:
    assert len(list(asks_which_executor(code))) == 1


@pytest.mark.parametrize("name", sorted(names_of_databases()))
def test_a_database_is_found_in_code_alone(name: str, tmp_path: Path) -> None:
    place = tmp_path / "module.py"

    place.write_text(f'"""{name}"""\n\nlimit = 1  # {name}\n"""As in {name}."""\n')
    assert named_in(place) == set()
    for code in (f"is_{name} = 1", f"x = 'of {name.upper()}'", f"import {name}"):
        place.write_text(code)
        assert named_in(place)
