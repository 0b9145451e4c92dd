"""docs/parity.md is true: each row does what it says, and every defect it lists has its test.

An example of each row is executed on a fresh SQLite database (see `parity_examples`). The tests
that rows name are collected by pytest, and none of them is skipped.
"""

from __future__ import annotations

import ast
import asyncio
import importlib
import inspect
import os
import pkgutil
import re
import shutil
import subprocess
import sys
import textwrap
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import Any

import pytest

import parity_examples
from memalchemy import Database
from parity_examples import EXAMPLES, Example

for _found in pkgutil.iter_modules(parity_examples.__path__):
    importlib.import_module(f"parity_examples.{_found.name}")

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


Row = tuple[str, str]
"""The headings above a row, as ``locus/Store``, and its first cell without backticks."""


def tables(page: str) -> Iterator[tuple[str, list[str], list[list[str]]]]:
    """The tables of a page: the headings above them, and the cells of their heads and rows."""
    headings = ["", ""]
    for part in re.findall(r"^#{2,3} .*\n|(?:^\|.*\n)+", page, re.MULTILINE):
        if part.startswith("## "):
            headings = [part[3:].strip(), ""]
        elif part.startswith("### "):
            headings[1] = part[4:].strip()
        else:
            head, _, *rows = (
                [one.strip() for one in line.strip().removeprefix("|").removesuffix("|").split("|")]
                for line in part.splitlines()
            )
            yield "/".join(filter(None, headings)), head, rows


def behaviours(page: str) -> list[tuple[Row, str]]:
    """The rows that an example stands for, each with what it names here."""
    return [
        ((section, cells[0].replace("`", "")), (*cells, "")[1])
        for section, head, rows in tables(page)
        if head == PARITY
        for cells in rows
    ]


def complaints(page: str) -> list[str]:
    """What is wrong with the rows of a page, each with its row."""
    found: list[str] = []
    codes: list[str] = []
    for _, head, rows in tables(page):
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
    found += wrong_examples(behaviours(page))
    found += [
        f"in the text: {name}: {why}"
        for name in QUOTED.findall(page)
        if name.startswith("memalchemy.") and (why := unresolved(name))
    ]
    return found


def wrong_examples(rows: list[tuple[Row, str]]) -> Iterator[str]:
    """Rows without an example, examples without a row, and what an example does not use."""
    there = [row for row, _ in rows]
    for row in {one for one in there if there.count(one) > 1}:
        yield f"two rows are {row}"
    for row in EXAMPLES.keys() - {*there}:
        yield f"an example without a row: {row}"
    for row, here in rows:
        example = EXAMPLES.get(row)
        if example is None:
            yield f"no example in tests/parity_examples for {row}"
            continue
        words, asserts = words_of(example)
        if not asserts:
            yield f"the example of {row} asserts nothing"
        for name in QUOTED.findall(here):
            wanted = {word for part in NAME.findall(name) for word in (last(part[0]), part[1])}
            if missing := wanted - {""} - words:
                yield f"the example of {row} does not use {', '.join(sorted(missing))}"


def last(name: str) -> str:
    return name.rpartition(".")[2]


@cache
def words_of(example: Example) -> tuple[frozenset[str], bool]:
    """The names and keywords in the code of an example, and whether it asserts anything."""
    tree = ast.parse(textwrap.dedent(inspect.getsource(example)))
    words: set[str] = set()
    for node in ast.walk(tree):
        match node:
            case ast.Name(id=word) | ast.Attribute(attr=word) | ast.keyword(arg=str(word)):
                words.add(word)
    asserts = any(isinstance(node, ast.Assert) for node in ast.walk(tree))
    return frozenset(words), asserts or "raises" in words


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
        elif function in unexecuted(ROOT / file):
            yield f"{name} is a test that may be skipped"


def wrong_defect(code: str, cell: str) -> Iterator[str]:
    for name in QUOTED.findall(cell):
        file, _, function = name.partition("::")
        if not (file.startswith("tests/parity/") and function.startswith(f"test_{code.lower()}_")):
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


SKIPPING = {"skip", "skipif", "xfail", "importorskip"}


@cache
def unexecuted(file: Path) -> frozenset[str]:
    """The tests of a file that say themselves that they are not always run, or may fail."""
    tree = ast.parse(file.read_text())

    def says_so(node: ast.AST) -> bool:
        names = (getattr(one, "attr", getattr(one, "id", "")) for one in ast.walk(node))
        return any(name in SKIPPING for name in names)

    whole = any(says_so(node) for node in tree.body if isinstance(node, ast.Assign | ast.Expr))
    return frozenset(
        node.name
        for node in tree.body
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef) and (whole or says_so(node))
    )


def test_the_page_is_true() -> None:
    assert complaints(PAGE.read_text()) == []


@pytest.fixture(scope="module")
def empty(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A SQLite file with the schema, and nothing in it."""
    file = tmp_path_factory.mktemp("parity") / "empty.db"

    async def migrate() -> None:
        async with Database(f"sqlite:///{file}"):
            pass

    asyncio.run(migrate())
    return file


ROWS = [row for row, _ in behaviours(PAGE.read_text())]


@pytest.mark.parametrize("row", ROWS, ids=[" | ".join(row) for row in ROWS])
async def test_a_row_does_what_it_says(row: Row, empty: Path, tmp_path: Path) -> None:
    example = EXAMPLES[row]
    takes = inspect.signature(example).parameters
    given: dict[str, Any] = {"tmp_path": tmp_path} if "tmp_path" in takes else {}
    if "db" not in takes:
        await example(**given)
        return
    (tmp_path / "of_the_row").mkdir()
    shutil.copy(empty, tmp_path / "of_the_row" / "agent.db")
    async with Database(f"sqlite:///{tmp_path}/of_the_row/agent.db") as db:
        await example(db=db, **given)


def test_the_tests_that_the_page_names_are_collected() -> None:
    named = {
        name
        for _, head, rows in tables(PAGE.read_text())
        if "test" in head
        for cells in rows
        for name in QUOTED.findall(cells[head.index("test")])
    }
    files = sorted({name.partition("::")[0] for name in named})
    options = ["--collect-only", "-q", "-p", "no:cacheprovider", "--databases", "sqlite,postgresql"]
    done = subprocess.run(
        [sys.executable, "-m", "pytest", *options, *files],
        cwd=ROOT,
        env={key: value for key, value in os.environ.items() if not key.startswith("PYTEST_")},
        capture_output=True,
        text=True,
        check=False,
    )
    collected = {line.partition("[")[0] for line in done.stdout.splitlines() if "::" in line}

    assert named - collected == set(), done.stdout[-2000:] + done.stderr[-2000:]


def test_the_page_is_of_all_four_systems() -> None:
    heads = [head for _, head, _ in tables(PAGE.read_text())]

    assert heads.count(DEFECTS) == 4
    assert heads.count(OUT) == 1
    assert len(ROWS) > 150


def test_every_test_of_a_defect_is_of_one_on_the_page() -> None:
    of_a_code = re.compile(r"test_([lbcd]\d+)_")
    tested = {
        match[1].upper()
        for file in (ROOT / "tests" / "parity").glob("*.py")
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
        ("| `BaseCheckpointer.exists` |", "| `BaseCheckpointer.is` |", "no example in"),
        ("| `BaseCheckpointer.exists` |", "| `BaseCheckpointer.is` |", "an example without a row"),
        ("| `BaseCheckpointer.exists` |", "| `BaseCheckpointer.load` |", "two rows are"),
        ("| `memalchemy.Store.put` |", "| `memalchemy.Store.sweep` |", "does not use sweep"),
        ("`memalchemy.Store(metric=)`", "`memalchemy.Store(ttl=)`", "does not use ttl"),
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
