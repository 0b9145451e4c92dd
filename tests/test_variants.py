"""Variants: what some databases do otherwise is chosen by what the database says that it takes."""

from __future__ import annotations

import ast
from pathlib import Path
from typing import Any

import pytest
from sqlalchemy import Executable, literal_column, select

import memalchemy
from memalchemy.dialects import DIALECTS, Dialect
from memalchemy.dialects.sqlite import SQLite
from memalchemy.statements import REGISTRY, Statement, statement
from memalchemy.variants import varies

SOURCE = Path(memalchemy.__file__).parent
CAPABILITIES = {"distributed", "upserts", "single_statement_save", "groups_saves", "variants"}
MAY_ASK = ("dialects", "database", "variants.py", "statements.py")
"""Where a dialect is asked for what it is: it says so once, and everybody else is given."""


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
        for node in ast.walk(ast.parse(path.read_text()))
        if isinstance(node, ast.Attribute) and node.attr in CAPABILITIES
    ]

    assert asking == []
