"""The page "Ask your data" describes the tables as they are.

With ``MEMALCHEMY_REGENERATE=1`` its list of columns is written anew.
"""

from __future__ import annotations

import os
import re
from pathlib import Path

from memalchemy.analysis import TABLES
from memalchemy.usage import DIMENSION_KEYS, USAGE_KEYS

PAGE = Path(__file__).parents[2] / "docs" / "ask-your-data.md"
LIST = re.compile(r"(<!-- tables -->\n).*?(<!-- end of tables -->\n)", re.S)
TYPES = {"number": "double", "integer": "bigint", "time": "timestamp", "json": "varchar, JSON"}


def list_of_columns() -> str:
    """Return the tables of the page."""
    made = []
    for table in TABLES.values():
        made.append(
            f"**`{table.name}`**: one row is {table.row}.\n\n| column | type | is |\n|---|---|---|"
        )
        for column in table.columns:
            kind = TYPES.get(column.kind, column.kind.replace("text", "varchar"))
            made[-1] += f"\n| `{column.name}` | {kind} | {column.meaning} |"
    return "\n\n".join(made) + "\n"


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
