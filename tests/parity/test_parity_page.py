"""README.md beside this is true: its names are there, and the tests of a row use what it names."""

from __future__ import annotations

import ast
import inspect
import pkgutil
import re
from collections.abc import Iterator
from functools import cache
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
PAGE = Path(__file__).parent / "README.md"

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
SKIPPING = {"skip", "skipif", "xfail", "importorskip"}


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


def complaints(page: str) -> list[str]:
    """What is wrong with the rows of a page, each with its row."""
    found: list[str] = []
    codes: list[str] = []
    there: list[tuple[str, str]] = []
    for section, head, rows in tables(page):
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
                there.append((section, cells["there"]))
                wrong += wrong_counterparts(cells.get("here", ""))
            if head == DEFECTS:
                codes.append(cells["code"])
                wrong += wrong_defect(cells["code"], cells.get("test", ""))
            if head != OUT:
                wrong += wrong_tests(cells.get("test", ""), cells.get("here", ""))
            found += [f"{complaint}: {row}" for complaint in wrong]
    found += [f"two rows are {row}" for row in {*there} if there.count(row) > 1]
    found += [
        f"{code} is there {codes.count(code)} times" for code in CODES if codes.count(code) != 1
    ]
    found += [f"there is no defect {code}" for code in codes if code not in CODES]
    named = {*QUOTED.findall(page)}
    found += [f"the page does not name {test}" for test in own_tests() - named]
    found += [
        f"in the text: {name}: {why}"
        for name in named
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


def wrong_tests(cell: str, here: str) -> Iterator[str]:
    """Tests that are missing or may be skipped, and what of *here* none of them uses."""
    quoted = QUOTED.findall(cell)
    if not quoted or ", ".join(f"`{name}`" for name in quoted) != cell:
        yield "a test is `file::function`, or several"
    used: set[str] = set()
    for name in quoted:
        file, _, function = name.partition("::")
        # pytest collects every function of this name in a file of this name.
        is_collected = re.fullmatch(r"tests/(?:\w+/)*test_\w+\.py", file)
        words = read_tests(ROOT / file).get(function) if is_collected else None
        if words is None:
            yield f"there is no test {name}"
        elif words & SKIPPING:
            yield f"{name} is a test that may be skipped"
        else:
            used |= words
    named = [part for name in QUOTED.findall(here) for part in NAME.findall(name)]
    wanted = {word for path, argument in named for word in (path.rpartition(".")[2], argument)}
    if missing := wanted - {""} - used:
        yield f"no test of the row uses {', '.join(sorted(missing))}"


def wrong_defect(code: str, cell: str) -> Iterator[str]:
    for name in QUOTED.findall(cell):
        if name not in own_tests() or f"::test_{code.lower()}_" not in name:
            yield f"{name} is not a test of {code}"
    for name in own_tests() - {*QUOTED.findall(cell)}:
        if f"::test_{code.lower()}_" in name:
            yield f"{code} does not name {name}"


@cache
def own_tests() -> frozenset[str]:
    """The tests beside this file, as the page names them."""
    return frozenset(
        f"{file.relative_to(ROOT).as_posix()}::{name}"
        for file in Path(__file__).parent.glob("test_*.py")
        if file != Path(__file__)
        for name in read_tests(file)
    )


@cache
def read_tests(file: Path) -> dict[str, frozenset[str]]:
    """The tests at the top of a file, each with the names and keywords of its code."""
    if not file.is_file():
        return {}
    body = ast.parse(file.read_text()).body
    marks = [words_of(node) for node in body if isinstance(node, ast.Assign | ast.Expr)]
    of_all = frozenset().union(*marks) & SKIPPING
    return {
        node.name: words_of(node) | of_all
        for node in body
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)
        and node.name.startswith("test_")
    }


def words_of(tree: ast.AST) -> frozenset[str]:
    words: set[str] = set()
    for node in ast.walk(tree):
        match node:
            case ast.Name(id=word) | ast.Attribute(attr=word) | ast.keyword(arg=str(word)):
                words.add(word)
    return frozenset(words)


def test_the_page_is_true() -> None:
    assert complaints(PAGE.read_text()) == []


def test_the_page_is_of_all_four_systems() -> None:
    heads = [head for _, head, _ in tables(PAGE.read_text())]
    rows = [row for _, head, rows in tables(PAGE.read_text()) if head == PARITY for row in rows]

    assert heads.count(DEFECTS) == 4
    assert heads.count(OUT) == 1
    assert len(rows) > 150


def test_a_test_that_may_be_skipped_is_seen(tmp_path: Path) -> None:
    here, everywhere = tmp_path / "test_here.py", tmp_path / "test_everywhere.py"
    here.write_text(
        "def test_a():\n    pytest.skip('no')\ndef test_b():\n    assert sorted(key=1)\n"
    )
    everywhere.write_text("pytestmark = pytest.mark.skipif(True)\ndef test_a(): ...\n")

    assert read_tests(here)["test_a"] & SKIPPING
    assert read_tests(here)["test_b"] == {"sorted", "key"}
    assert read_tests(everywhere)["test_a"] & SKIPPING


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
        ("behaviour/test_checkpoint_listings.py", "behaviour/test_looked.py", "there is no test"),
        (
            "behaviour/test_checkpoint_listings.py",
            "behaviour/write_operations.py",
            "there is no test",
        ),
        ("| `tests/behaviour/test_checkpoint_listings.py::test_existence` |", "| |", "no test"),
        ("| `BaseCheckpointer.exists` |", "| |", "no there"),
        ("| `BaseCheckpointer.exists` |", "| `BaseCheckpointer.load` |", "two rows are"),
        ("| `memalchemy.Store.put` |", "| `memalchemy.Store.sweep` |", "uses sweep"),
        ("`memalchemy.Store(metric=)`", "`memalchemy.Store(ttl=)`", "uses ttl"),
        ("| L7 |", "| L77 |", "there is no defect L77"),
        ("| L7 |", "| L6 |", "L6 is there 2 times"),
        ("| L7 |", "| B7 |", "is not a test of B7"),
        (", `tests/parity/test_locus_http.py::test_l8_a_", "`, `", "L8 does not name"),
        ("parity/test_locus_http.py::test_l8_a_", "x`, `", "the page does not name"),
        ("| B9 | a prefix that ends in U+D7FF raises |", "| B9 |", "2 cells"),
        ("| code | there | test |", "| code | there | tests |", "what table is this"),
    ],
)
def test_a_wrong_row_is_complained_about(right: str, wrong: str, complaint: str) -> None:
    page = PAGE.read_text()
    assert right in page

    assert [said for said in complaints(page.replace(right, wrong, 1)) if complaint in said]
