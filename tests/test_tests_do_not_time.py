"""A lint of the tests themselves: how fast the machine is decides none of them.

It refuses comparisons of what was read from a clock, outside tests that are marked ``alone``; and
everywhere limits of less than `waiting.A_WHILE` on what a test waits for, and sleeps that are no
pause between two looks. A line with the comment ``# timed: why`` is let be: the comment says why it
decides nothing.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator

import pytest

from pages import ROOT
from test_tests_assert import parse_tests
from waiting import A_WHILE

MARK = "# timed: "
CLOCKS = {
    "monotonic", "perf_counter", "process_time", "thread_time", "time",
    "monotonic_ns", "perf_counter_ns", "process_time_ns", "thread_time_ns", "time_ns",
}  # fmt: skip
KEEPERS = {"max", "min", "sum", "abs", "round", "sorted", "float", "int", "ceil", "median", "mean"}
"""Functions whose result is a time if their argument is one."""
WAITERS = {"timeout", "wait_for", "wait", "join", "result", "communicate", "get", "settimeout"}
"""Functions and methods with a limit in seconds: ``timeout=``, or a number."""
CONNECTING = {"create_connection", "urlopen"}
SLEEPS = {"asyncio.sleep", "time.sleep", "page.wait_for_timeout"}
PROGRAMS = {"run", "check_call", "check_output", "call"}
"""Functions of `subprocess`, and in tests of httpx whatever is called there."""

Function = ast.FunctionDef | ast.AsyncFunctionDef


def name_of(node: ast.expr) -> str:
    if isinstance(node, ast.Name):
        return node.id
    return node.attr if isinstance(node, ast.Attribute) else ""


def owner_of(node: ast.expr) -> str:
    return name_of(node.value) if isinstance(node, ast.Attribute) else ""


def numbers_of(trees: list[ast.Module]) -> dict[str, float]:
    """The constants of all modules that are numbers; of two with one name the smaller."""
    found: dict[str, float] = {}
    for tree in trees:
        for node in tree.body:
            if isinstance(node, ast.Assign) and isinstance(node.targets[0], ast.Name):
                number = value_of(node.value, found)
                if number is not None:
                    name = node.targets[0].id
                    found[name] = min(number, found.get(name, number))
    return found


def value_of(node: ast.expr, numbers: dict[str, float]) -> float | None:
    """The number that an expression is, as far as that can be read."""
    if isinstance(node, ast.Constant) and type(node.value) in (int, float):
        return float(node.value)
    if isinstance(node, ast.Name):
        return numbers.get(node.id)
    if isinstance(node, ast.BinOp):
        left, right = value_of(node.left, numbers), value_of(node.right, numbers)
        if left is None or right is None:
            return None
        if isinstance(node.op, ast.Add):
            return left + right
        if isinstance(node.op, ast.Mult):
            return left * right
    return None


class Times:
    """What is a time that was read from a clock, in a function or a statement of a module."""

    def __init__(self, body: ast.AST, functions: set[str]) -> None:
        self._functions = functions
        self.names: set[str] = set()
        self._returned = False
        nodes = list(ast.walk(body))
        if not any(isinstance(n, ast.Call) and self.has(n) for n in nodes):
            return
        before = -1
        while before != len(self.names):
            before = len(self.names)
            for node in nodes:
                self._take(node)

    @property
    def is_returned(self) -> bool:
        return self._returned

    def _take(self, node: ast.AST) -> None:
        if isinstance(node, ast.Assign | ast.AnnAssign | ast.AugAssign | ast.NamedExpr):
            if node.value is not None and self.has(node.value):
                targets = node.targets if isinstance(node, ast.Assign) else [node.target]
                for target in targets:
                    self.names |= {n.id for n in ast.walk(target) if isinstance(n, ast.Name)}
        elif isinstance(node, ast.Return):
            self._returned |= node.value is not None and self.has(node.value)
        elif (
            isinstance(node, ast.Call)
            and isinstance(node.func, ast.Attribute)
            and node.func.attr == "append"
            and isinstance(node.func.value, ast.Name)
            and any(map(self.has, node.args))
        ):
            self.names.add(node.func.value.id)

    def has(self, node: ast.AST) -> bool:
        """Whether the value of *node* is a time, or made of one."""
        if isinstance(node, ast.Name):
            return node.id in self.names
        if isinstance(node, ast.Call):
            name = name_of(node.func)
            if name in self._functions or self._is_clock(node.func):
                return True
            return name in KEEPERS and any(map(self.has, node.args))
        if isinstance(node, ast.Await | ast.Starred | ast.Subscript):
            return self.has(node.value)
        parts = (ast.BinOp, ast.UnaryOp, ast.Tuple, ast.List, ast.NamedExpr, ast.IfExp)
        comprehensions = (ast.GeneratorExp, ast.ListComp)
        if isinstance(node, comprehensions):
            return self.has(node.elt)
        return isinstance(node, parts) and any(map(self.has, ast.iter_child_nodes(node)))

    @staticmethod
    def _is_clock(function: ast.expr) -> bool:
        if not isinstance(function, ast.Attribute) or function.attr not in CLOCKS:
            return isinstance(function, ast.Name) and function.id in CLOCKS - {"time"}
        of = function.value
        return owner_of(function) in ("time", "loop") or (
            isinstance(of, ast.Call) and name_of(of.func).endswith("_loop")
        )


def units(tree: ast.Module) -> Iterator[ast.AST]:
    """Each function, with those inside it, and the other statements."""
    for node in tree.body:
        if isinstance(node, ast.ClassDef):
            yield from node.body
        else:
            yield node


def is_alone(node: ast.AST) -> bool:
    """Whether a test, or by ``pytestmark`` a module, is marked so."""
    found: list[ast.AST] = []
    if isinstance(node, Function):
        found = list(node.decorator_list)
    elif isinstance(node, ast.Module):
        found = [
            one.value
            for one in node.body
            if isinstance(one, ast.Assign) and name_of(one.targets[0]) == "pytestmark"
        ]
    return any(
        isinstance(one, ast.Attribute) and one.attr == "alone"
        for mark in found
        for one in ast.walk(mark)
    )


def functions_that_return_times(trees: list[ast.Module]) -> set[str]:
    found: set[str] = set()
    while True:
        more = {
            unit.name
            for tree in trees
            for unit in units(tree)
            if isinstance(unit, Function)
            and unit.name not in found
            and Times(unit, found).is_returned
        }
        if not more:
            return found
        found |= more


def findings(
    source: str, tree: ast.Module, numbers: dict[str, float], functions: set[str]
) -> Iterator[str]:
    """What of a module depends on the machine's speed."""
    lines = source.splitlines()

    def is_marked(node: ast.expr) -> bool:
        return any(MARK in line for line in lines[node.lineno - 1 : node.end_lineno])

    for unit in units(tree):
        if not is_alone(tree) and not is_alone(unit):
            times = Times(unit, functions)
            for node in ast.walk(unit):
                if (
                    isinstance(node, ast.Compare)
                    and any(map(times.has, (node.left, *node.comparators)))
                    and not is_marked(node)
                ):
                    yield f"{node.lineno}: a time is compared: count instead, or wait_until"
    numbers = numbers | numbers_of([tree])
    looping = {
        id(inner)
        for node in ast.walk(tree)
        if isinstance(node, ast.While | ast.For | ast.AsyncFor)
        for inner in ast.walk(node)
    }
    for node in ast.walk(tree):
        if isinstance(node, ast.Call) and not is_marked(node):
            limit = limit_of(node, numbers)
            if limit is not None and 0 < limit < A_WHILE:
                yield f"{node.lineno}: a limit of {limit:g} s: it is A_WHILE, or more"
            if f"{owner_of(node.func)}.{name_of(node.func)}" in SLEEPS:
                seconds = value_of(node.args[0], numbers)
                if seconds and id(node) not in looping:
                    yield f"{node.lineno}: a sleep: wait until it has happened"
        elif isinstance(node, ast.Constant) and isinstance(node.value, str) and not is_marked(node):
            yield from (
                f"{node.lineno}: in this text, {finding}"
                for finding in findings_in_text(node.value, numbers, functions)
            )


def limit_of(call: ast.Call, numbers: dict[str, float]) -> float | None:
    """The seconds for which a call waits at most, if it is one that waits."""
    name, owner = name_of(call.func), owner_of(call.func)
    places = {"wait_for": 1, "create_connection": 1, "asyncio.wait": 99}
    is_waiter = name in WAITERS and (name != "timeout" or owner == "asyncio")
    if not (
        is_waiter
        or name in CONNECTING
        or (owner == "subprocess" and name in PROGRAMS)
        or (owner == "httpx" and name != "Timeout")
    ):
        return None
    named = [keyword.value for keyword in call.keywords if keyword.arg == "timeout"]
    at = places.get(f"{owner}.{name}", places.get(name, 0))
    takes_number = is_waiter and name not in ("get", "communicate")
    placed = call.args[at : at + 1] if takes_number or name in CONNECTING else []
    for given in (*named, *placed):
        return value_of(given, numbers)
    return None


def findings_in_text(text: str, numbers: dict[str, float], functions: set[str]) -> Iterator[str]:
    """The same of a program that a test runs in a process of its own."""
    if "\n" not in text or not re.search(r"^import |^from ", text, re.M):
        return
    try:
        tree = ast.parse(text)
    except SyntaxError:
        return
    yield from findings(text, tree, numbers, functions)


def test_no_test_depends_on_how_fast_the_machine_is() -> None:
    parsed = parse_tests()
    numbers = numbers_of(list(parsed.values()))
    functions = functions_that_return_times(list(parsed.values()))
    found = [
        f"{path.relative_to(ROOT)}:{finding}"
        for path, tree in parsed.items()
        for finding in findings(path.read_text(), tree, numbers, functions)
    ]
    assert found == []


def found_in(source: str) -> list[str]:
    tree = ast.parse(source)
    numbers = {"A_WHILE": float(A_WHILE)} | numbers_of([tree])
    return list(findings(source, tree, numbers, functions_that_return_times([tree])))


@pytest.mark.parametrize(
    ("source", "why"),
    [
        ("def test_a():\n t = time.monotonic()\n f()\n assert time.monotonic() - t < 5", "a time"),
        ("def test_a():\n t = time.time()\n took = time.time() - t\n assert 1 < took", "a time"),
        ("def test_a():\n w = []\n w.append(perf_counter())\n assert max(w) < 5", "a time"),
        ("def took(): return time.monotonic() - t\ndef test_a(): assert took() < 5", "a time"),
        ("def test_a():\n if (t := time.process_time() - b) > S: no(t)", "a time"),
        ("async def test_a():\n e = asyncio.get_running_loop().time()\n assert e < 9", "a time"),
        ("class A:\n def a(self):\n  while time.monotonic() < end: f()", "a time"),
        ("async def test_a():\n async with asyncio.timeout(20): await f()", "a limit of 20 s"),
        ("async def test_a(): await asyncio.wait_for(f(), 5)", "a limit of 5 s"),
        ("async def test_a(): await asyncio.wait([t], timeout=0.2)", "a limit of 0.2 s"),
        ("def test_a(): assert go_on.wait(10)", "a limit of 10 s"),
        ("def test_a(): thread.join(timeout=5)", "a limit of 5 s"),
        ("SHORT = 2\ndef test_a(): process.communicate(timeout=3 * SHORT)", "a limit of 6 s"),
        ("def test_a(): subprocess.run(['a'], timeout=30)", "a limit of 30 s"),
        ("def test_a(): httpx.Client(timeout=9)", "a limit of 9 s"),
        ("async def test_a(): await asyncio.sleep(0.1)", "a sleep"),
        ("RUN = '''\nimport time\ntime.sleep(2)\n'''", "a sleep"),  # timed: an example
    ],
)
def test_what_depends_on_it_is_seen(source: str, why: str) -> None:
    assert any(why in finding for finding in found_in(source)), source


@pytest.mark.parametrize(
    "source",
    [
        "@pytest.mark.alone\ndef test_a():\n t = time.time()\n assert time.time() - t < 5",
        "pytestmark = [pytest.mark.alone]\ndef test_a(): assert time.monotonic() < 5",
        "def test_a():\n while time.monotonic() < end: f()  # timed: it decides nothing",
        "def test_a():\n print(time.monotonic())\n assert f() < 5",
        "async def test_a():\n async with asyncio.timeout(2 * A_WHILE): await f()",
        "async def test_a(): await asyncio.sleep(0)",
        "async def test_a():\n while not f(): await asyncio.sleep(0.1)",
        "def test_a(): assert ', '.join(f()) == store.get('a', 5)",
        "def test_a(): client = HTTPCheckpointer(url, timeout=0.1)",
    ],
)
def test_what_does_not_is_let_be(source: str) -> None:
    assert found_in(source) == []
