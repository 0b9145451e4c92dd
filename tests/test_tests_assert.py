"""A lint of the tests themselves: each must be able to fail."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

import pytest

from pages import ROOT

TESTS = ROOT / "tests"
CHECKS = {"raises", "fail", "warns", "exit"}
"""Attributes of ``pytest`` that end a test."""
PROVERS = ("assert_", "check", "expect", "prove", "must_", "run_page")
"""How a function or method is called that asserts for others, beside those found to do so."""

Function = ast.FunctionDef | ast.AsyncFunctionDef


def findings(tree: ast.Module, provers: set[str]) -> Iterator[str]:
    """What of *tree* asserts nothing."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Assert):
            test = node.test
            if isinstance(test, ast.IfExp):
                yield f"{node.lineno}: `assert a if b else c`: put the choice in parentheses"
            elif isinstance(test, ast.Tuple):
                yield f"{node.lineno}: `assert (a, b)` is always true"
            elif isinstance(test, ast.Constant) and test.value is not False:
                yield f"{node.lineno}: an assertion of a constant"
            elif isinstance(test, ast.GeneratorExp | ast.Lambda | ast.JoinedStr):
                yield f"{node.lineno}: this is true whatever it says"
            elif (
                isinstance(test, ast.BoolOp)
                and isinstance(test.op, ast.Or)
                and any(isinstance(one, ast.Constant) and one.value for one in test.values)
            ):
                yield f"{node.lineno}: `or` with a constant that is true"
        elif isinstance(node, ast.Expr) and isinstance(
            node.value, ast.Compare | ast.BoolOp | ast.UnaryOp | ast.IfExp
        ):
            if not any(isinstance(n, ast.Call | ast.Await) for n in ast.walk(node.value)):
                yield f"{node.lineno}: an expression without an effect"
            elif isinstance(node.value, ast.Compare):
                yield f"{node.lineno}: a comparison that nobody looks at"
        elif isinstance(node, ast.Call) and _takes_any_error(node):
            yield f"{node.lineno}: `raises` of any exception without match= takes any mistake"
    for function in _tests(tree):
        if not asserts(function, provers):
            yield f"{function.lineno}: {function.name} asserts nothing"


def _takes_any_error(call: ast.Call) -> bool:
    return (
        _name(call.func) == "raises"
        and bool(call.args)
        and _name(call.args[0]) in ("Exception", "BaseException")
        and not any(keyword.arg == "match" for keyword in call.keywords)
    )


def _tests(tree: ast.Module) -> Iterator[Function]:
    for node in ast.walk(tree):
        if isinstance(node, Function) and node.name.startswith("test_"):
            yield node


def asserts(function: ast.AST, provers: set[str]) -> bool:
    """Whether *function* can fail by its own words, or hands the question to one that can."""
    for node in ast.walk(function):
        if isinstance(node, ast.Assert | ast.Raise):
            return True
        if isinstance(node, ast.Attribute) and node.attr in CHECKS:
            return True
        if isinstance(node, ast.Call):
            name = _name(node.func)
            if name in provers or name.startswith(PROVERS):
                return True
    return False


def _name(function: ast.expr) -> str:
    if isinstance(function, ast.Name):
        return function.id
    return function.attr if isinstance(function, ast.Attribute) else ""


def provers_of(trees: list[ast.Module]) -> set[str]:
    """Functions and methods of the tests that assert, and those that call one of them."""
    functions = [
        node
        for tree in trees
        for node in ast.walk(tree)
        if isinstance(node, Function) and not node.name.startswith("test_")
    ]
    found: set[str] = set()
    while True:
        more = {f.name for f in functions if f.name not in found and asserts(f, found)}
        if not more:
            return found
        found |= more


def parse_tests() -> dict[Path, ast.Module]:
    """The trees of all tests. They take 200 MB, so nobody keeps them."""
    return {path: ast.parse(path.read_text()) for path in sorted(TESTS.rglob("*.py"))}


def test_every_test_can_fail() -> None:
    parsed = parse_tests()
    provers = provers_of(list(parsed.values()))
    found = [
        f"{path.relative_to(ROOT)}:{finding}"
        for path, tree in parsed.items()
        for finding in findings(tree, provers)
    ]
    assert found == []


@pytest.mark.parametrize(
    ("source", "why"),
    [
        ("def test_a(): assert x == 1 if y else 3", "put the choice in parentheses"),
        ("def test_a(): assert (x == 1, 'message')", "always true"),
        ("def test_a(): assert 'text'", "constant"),
        ("def test_a(): assert (n for n in x)", "true whatever"),
        ("def test_a(): assert x or True", "`or` with a constant"),
        ("def test_a(): x == 1", "without an effect"),
        ("def test_a(): f() == 1", "nobody looks at"),
        ("def test_a():\n with pytest.raises(Exception): f()", "takes any mistake"),
        ("async def test_a(): await f()", "asserts nothing"),
        ("class TestA:\n def test_a(self): f()", "asserts nothing"),
    ],
)
def test_what_cannot_fail_is_seen(source: str, why: str) -> None:
    assert any(why in finding for finding in findings(ast.parse(source), set())), source


@pytest.mark.parametrize(
    "source",
    [
        "def test_a(): assert x == (1 if y else 3)",
        "def test_a():\n with pytest.raises(Exception, match='no'): f()",
        "def test_a(): f()\ndef f(): g()\ndef g(): assert x",
        "def test_a(): assert False, 'not to be reached'",
        "def test_a(): assert f() == f()",
    ],
)
def test_what_can_fail_is_left_alone(source: str) -> None:
    tree = ast.parse(source)
    assert list(findings(tree, provers_of([tree]))) == []
