"""The page "Ask your data" describes the tables as they are, and its answers are those one gets.

With ``MEMALCHEMY_REGENERATE=1`` its list of columns and its answers are written anew.
"""

from __future__ import annotations

import os
import re
import runpy
from collections import Counter
from collections.abc import Iterable
from pathlib import Path

import pytest
from typer.testing import CliRunner

from memalchemy.analysis import TABLES, Column
from memalchemy.analysis.questions import read_questions
from memalchemy.cli.app import app
from memalchemy.usage import DIMENSION_KEYS, USAGE_KEYS
from pages import ROOT

PAGE = ROOT / "docs" / "ask-your-data.md"
LIST = re.compile(r"(<!-- tables -->\n).*?(<!-- end of tables -->\n)", re.S)
TYPES = {"number": "double", "integer": "bigint", "time": "timestamp", "json": "JSON"}


def list_of_columns() -> str:
    """Return the lists of the page: first the columns that several have, then each one's own."""
    times = Counter(column for table in TABLES.values() for column in table.columns)
    shared = [column for column, of in times.items() if of > 2]
    made = [list_of(shared)]
    for table in TABLES.values():
        has = [f"`{column.name}`" for column in table.columns if column in shared]
        lacks = [f"`{column.name}`" for column in shared if column not in table.columns]
        own = [column for column in table.columns if column not in shared]
        also = [written(column) for column in own if says_what_it_is(column)]
        also += [f"all of these but {' and '.join(lacks)}"] if len(lacks) < 3 else has
        made.append(f"**`{table.name}`**: one row is {table.row}. It has {', '.join(also)}, and:")
        made.append(list_of(column for column in own if not says_what_it_is(column)))
    return "\n\n".join(made) + "\n"


def list_of(columns: Iterable[Column]) -> str:
    return "\n".join(f"- {written(column)}: {column.meaning}" for column in columns)


def written(column: Column) -> str:
    kind = "" if column.kind == "text" else f" {TYPES.get(column.kind, column.kind)}"
    return f"`{column.name}`{kind}"


def says_what_it_is(column: Column) -> bool:
    """Return true if the meaning of a column has no other words than its name."""
    words = {*re.findall(r"\w+", column.meaning)} - {
        "the",
        "its",
        "own",
        "of",
        "number",
        "item",
        "s",
    }
    return words <= {*column.name.split("_")}


def test_the_page_lists_every_table_and_column() -> None:
    page = PAGE.read_text()
    if os.environ.get("MEMALCHEMY_REGENERATE"):
        PAGE.write_text(LIST.sub(lambda found: found[1] + list_of_columns() + found[2], page))
        page = PAGE.read_text()

    (found,) = LIST.finditer(page)
    assert found[0].removeprefix(found[1]).removesuffix(found[2]) == list_of_columns()


def test_the_page_names_every_key_of_metadata() -> None:
    (section,) = re.findall(r"^## Usage\n(.*?)(?=^## |\Z)", PAGE.read_text(), re.M | re.S)
    named = set(re.findall(r"`(\w+)`", section))

    assert {*USAGE_KEYS, *DIMENSION_KEYS} <= named


QUESTION = re.compile(r"^(### .+?\?)\n\n```sql\n(.*?)```\n(?:\n```\n(.*?)```\n)?", re.M | re.S)


@pytest.mark.own_keys
def test_the_ten_questions_have_the_answers_of_the_page(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    pytest.importorskip("duckdb")
    page = PAGE.read_text()
    monkeypatch.chdir(tmp_path)
    runpy.run_path(str(ROOT / "examples" / "agency.py"), run_name="__main__")

    def answer(query: str) -> str:
        ran = CliRunner().invoke(app, ["--db", "agency.db", "sql", query], catch_exceptions=False)
        assert ran.exit_code == 0, ran.stderr
        return ran.stdout

    if os.environ.get("MEMALCHEMY_REGENERATE"):
        page = QUESTION.sub(
            lambda found: f"{found[1]}\n\n```sql\n{found[2]}```\n\n```\n{answer(found[2])}```\n",
            page,
        )
        PAGE.write_text(page)
    questions = QUESTION.findall(page)
    assert len(questions) == 10
    asked = tuple((title.removeprefix("### "), query.rstrip()) for title, query, _ in questions)
    assert asked == read_questions()  # those that the inspector offers
    for title, query, printed in questions:
        assert answer(query) == printed, title
