"""docs/parity.md is true: what it names is there, and every defect it lists has its test.

Tests are looked up in the files' syntax trees; nothing of them is imported.
"""

from __future__ import annotations

import ast
import inspect
import pkgutil
import re
from collections.abc import Iterator
from functools import cache
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
PAGE = ROOT / "docs" / "parity.md"

PARITY = ["there", "here", "test", "what differs"]
DEFECTS = ["code", "there", "test"]
OUT = ["there", "why"]
MAY_BE_EMPTY = {"what differs"}

CODES = [
    f"{system}{number}"
    for system, last in {"L": 30, "B": 11, "C": 14, "D": 11}.items()
    for number in range(1, last + 1)
]

QUOTED = re.compile(r"`([^`]+)`")
NAME = re.compile(r"(memalchemy(?:\.[A-Za-z]\w*)*)(?:\((\w+)=\))?")
"""A public name, perhaps with one of its arguments: `memalchemy.Store(ttl=)`."""


def tables(page: str) -> Iterator[tuple[list[str], list[list[str]]]]:
    """The tables of a page: the cells of their heads, and of their rows."""
    for block in re.findall(r"(?:^\|.*\n)+", page, re.MULTILINE):
        head, _, *rows = (
            [cell.strip() for cell in line.strip().removeprefix("|").removesuffix("|").split("|")]
            for line in block.splitlines()
        )
        yield head, rows


def complaints(page: str) -> list[str]:
    """What is wrong with the rows of a page, each with its row."""
    found: list[str] = []
    codes: list[str] = []
    for head, rows in tables(page):
        if head not in (PARITY, DEFECTS, OUT):
            found.append(f"what table is this? {head}")
            continue
        for row in rows:
            cells = dict(zip(head, row, strict=False))
            wrong = [f"{len(row)} cells, not {len(head)}"] * (len(row) != len(head))
            wrong += [
                f"no {name}"
                for name in head
                if not {name, cells.get(name)} & MAY_BE_EMPTY and not cells.get(name)
            ]
            if head == PARITY:
                wrong += wrong_counterparts(cells.get("here", ""))
            if head == DEFECTS:
                codes.append(cells["code"])
                wrong += wrong_defect(cells["code"], cells.get("test", ""))
            if head != OUT:
                wrong += wrong_tests(cells.get("test", ""))
            found += [f"{complaint}: {row}" for complaint in wrong]
    found += [
        f"{code} is there {codes.count(code)} times" for code in CODES if codes.count(code) != 1
    ]
    found += [f"there is no defect {code}" for code in codes if code not in CODES]
    found += [
        f"in the text: {name}: {why}"
        for name in QUOTED.findall(page)
        if name.startswith("memalchemy.") and (why := unresolved(name))
    ]
    return found


def wrong_counterparts(cell: str) -> Iterator[str]:
    quoted = QUOTED.findall(cell)
    if ", ".join(f"`{name}`" for name in quoted) != cell:
        yield "a counterpart is one name or several, in backticks"
    for name in quoted:
        if why := unresolved(name):
            yield f"{name}: {why}"


def unresolved(name: str) -> str | None:
    """Why *name* is no public name of the library, or the argument none of what it names."""
    match = NAME.fullmatch(name)
    if match is None:
        return "not a public name of memalchemy"
    try:
        thing = pkgutil.resolve_name(match[1])
    except (ImportError, AttributeError) as error:
        return str(error)
    if match[2] and match[2] not in inspect.signature(thing).parameters:
        return f"takes no {match[2]}"
    return None


def wrong_tests(cell: str) -> Iterator[str]:
    quoted = QUOTED.findall(cell)
    if not quoted or ", ".join(f"`{name}`" for name in quoted) != cell:
        yield "a test is `file::function`, or several"
    for name in quoted:
        file, _, function = name.partition("::")
        if not re.fullmatch(r"tests/[\w/]+\.py", file) or function not in functions(ROOT / file):
            yield f"there is no test {name}"


def wrong_defect(code: str, cell: str) -> Iterator[str]:
    for name in QUOTED.findall(cell):
        file, _, function = name.partition("::")
        if not (file.startswith("tests/defects/") and function.startswith(f"test_{code.lower()}_")):
            yield f"{name} is not a test of {code}"


@cache
def functions(file: Path) -> frozenset[str]:
    """The tests at the top of a file, or no test if there is no file."""
    if not file.is_file():
        return frozenset()
    return frozenset(
        node.name
        for node in ast.parse(file.read_text()).body
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)
        and node.name.startswith("test_")
    )


def test_the_page_is_true() -> None:
    assert complaints(PAGE.read_text()) == []


def test_the_page_is_of_all_four_systems() -> None:
    heads = [head for head, _ in tables(PAGE.read_text())]
    rows = sum(len(rows) for head, rows in tables(PAGE.read_text()) if head == PARITY)

    assert heads.count(DEFECTS) == 4
    assert heads.count(OUT) == 1
    assert rows > 150


def test_every_test_of_a_defect_is_of_one_on_the_page() -> None:
    of_a_code = re.compile(r"test_([lbcd]\d+)_")
    tested = {
        match[1].upper()
        for file in (ROOT / "tests" / "defects").glob("*.py")
        for name in functions(file)
        if (match := of_a_code.match(name))
    }

    assert tested == set(CODES)


@pytest.mark.parametrize(
    ("right", "wrong", "complaint"),
    [
        ("| `memalchemy.Store.put` |", "| `memalchemy.Store.putt` |", "putt"),
        ("| `memalchemy.Store.put` |", "| `sqlalchemy.select` |", "not a public name"),
        ("| `memalchemy.Store.put` |", "| `memalchemy.Store._settings` |", "not a public name"),
        ("| `memalchemy.Store.put` |", "| see the store |", "in backticks"),
        ("| `memalchemy.Store.put` |", "| |", "no here"),
        ("`memalchemy.Store(metric=)`", "`memalchemy.Store(metre=)`", "takes no metre"),
        ("`memalchemy.sync`", "`memalchemy.synch`", "in the text"),
        ("::test_existence`", "::test_existential`", "there is no test"),
        ("behaviour/test_looking.py", "behaviour/test_looked.py", "there is no test"),
        ("| `tests/behaviour/test_looking.py::test_existence` |", "| |", "no test"),
        ("| `BaseCheckpointer.exists` |", "| |", "no there"),
        ("| L7 |", "| L77 |", "there is no defect L77"),
        ("| L7 |", "| L6 |", "L6 is there 2 times"),
        ("| L7 |", "| B7 |", "is not a test of B7"),
        ("| B9 | a prefix that ends in U+D7FF raises |", "| B9 |", "2 cells"),
        ("| code | there | test |", "| code | there | tests |", "what table is this"),
    ],
)
def test_a_wrong_row_is_complained_about(right: str, wrong: str, complaint: str) -> None:
    page = PAGE.read_text()
    assert right in page

    assert [said for said in complaints(page.replace(right, wrong, 1)) if complaint in said]
