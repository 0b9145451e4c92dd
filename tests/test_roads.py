"""What is written takes a road to its database that one module chooses: read in the sources."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

import pytest

import memalchemy
from source_trees import parsed

SOURCES = Path(memalchemy.__file__).parent
TREES = {
    path.relative_to(SOURCES).as_posix(): parsed(path.read_text())
    for path in sorted(SOURCES.rglob("*.py"))
}
MAY_CHOOSE = {"checkpoints/roads.py", "threads/roads.py", "store/roads.py", "log/memory.py"}
"""The roads of saves, of entries and of items, and the memory that they ask."""


def functions(tree: ast.AST) -> Iterator[ast.FunctionDef | ast.AsyncFunctionDef]:
    for node in ast.walk(tree):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            yield node


def named(node: ast.expr | None) -> str | None:
    return node.id if isinstance(node, ast.Name) else None


def questions() -> dict[str, str]:
    """The functions by which a database says what it can, each with the module that has it."""
    return {
        function.name: module
        for module, tree in TREES.items()
        for function in functions(tree)
        if named(function.returns) == "bool"
        and any(named(mark) == "varies" for mark in function.decorator_list)
    }


def test_there_are_questions() -> None:
    assert {"appends_at_once", "puts_at_once", "saves_to_known_heads"} <= questions().keys()


@pytest.mark.parametrize("question", sorted(questions()))
def test_only_what_chooses_a_road_asks_what_a_database_can(question: str) -> None:
    askers = {
        module
        for module, tree in TREES.items()
        for node in ast.walk(tree)
        if isinstance(node, ast.Call)
        and question in (named(node.func), getattr(node.func, "attr", None))
    }
    assert askers, "nobody asks it"
    assert askers <= MAY_CHOOSE


def test_the_memory_of_logs_is_made_once_for_an_object() -> None:
    made = [
        (module, function.name)
        for module, tree in TREES.items()
        for function in functions(tree)
        for node in ast.walk(function)
        if isinstance(node, ast.Call) and named(node.func) == "LogMemory"
    ]
    assert made
    assert {name for _, name in made} == {"__init__"}
