"""docs/schema.md has the tables, columns, keys, indexes and checks of the models, and no others.

``MEMALCHEMY_REGENERATE=1`` writes its diagram; the rest is written by hand.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterator
from typing import Any

import pytest
from sqlalchemy import (
    BigInteger,
    CheckConstraint,
    Column,
    ForeignKeyConstraint,
    Index,
    Integer,
    LargeBinary,
    PrimaryKeyConstraint,
    SmallInteger,
    String,
    Table,
    Text,
    UniqueConstraint,
)
from sqlalchemy.orm import RelationshipDirection
from sqlalchemy.sql.elements import ColumnElement

from memalchemy import migrate
from memalchemy.column_types import Json, Key, LogKey, Payload, UtcDateTime, Vector
from memalchemy.schema import Base
from pages import ROOT

PAGE = ROOT / "docs" / "schema.md"
BEGIN, END = "<!-- diagram:begin -->\n", "<!-- diagram:end -->"
GOLDEN = ROOT / "tests" / "migrations" / "golden"
UPGRADES = [migrate.sqlite_script(), *sorted(GOLDEN.glob("upgrade.*.sql"))]
TABLES = ("threads", "checkpoints", "deltas", "store_items", "embeddings")
TYPES: dict[type, str] = {
    LogKey: "uuid",
    Key: "string",
    UtcDateTime: "timestamp",
    Json: "json",
    Vector: "vector",
    Payload: "bytes",
    LargeBinary: "bytes",
    Text: "text",
    String: "string",
    SmallInteger: "smallint",
    BigInteger: "bigint",
    Integer: "integer",
}


def type_of(column: Column[Any]) -> str:
    name = next(name for kind, name in TYPES.items() if isinstance(column.type, kind))
    length = getattr(column.type, "length", None)
    return name if length is None else f"{name}({length})"


# --- The diagram ---------------------------------------------------------------------------------


def marks_of(column: Column[Any]) -> str:
    """The keys that a column is part of, as Mermaid spells them."""
    table = column.table
    keys = [key for key in table.constraints if isinstance(key, UniqueConstraint)]
    indexes = [index for index in table.indexes if index.unique]
    of_unique = any(column.name in one.columns for one in (*keys, *indexes))
    marks = {
        "PK": column.primary_key,
        "FK": bool(column.foreign_keys),
        "UK": of_unique,
    }
    return ", ".join(mark for mark, holds in marks.items() if holds)


def relations(base: type[Any]) -> list[str]:
    """Each pair of relationships, as a line that reads from the one to the many."""
    lines = []
    for mapper in base.registry.mappers:
        for one in mapper.relationships:
            if one.direction is RelationshipDirection.MANYTOONE:
                back = one.mapper.relationships[str(one.back_populates)]
                end = "o{" if back.uselist else "o|"
                columns = ", ".join(local.name for local, _ in one.local_remote_pairs or ())
                ends = one.mapper.local_table.name, mapper.local_table.name
                lines.append(f'    {ends[0]} ||--{end} {ends[1]} : "{columns}"')
    return sorted(lines)


def diagram(base: type[Any]) -> str:
    lines = ["```mermaid", "erDiagram", *relations(base)]
    for name in TABLES:
        lines.append(f"    {name} {{")
        for column in base.metadata.tables[name].columns:
            parts = (type_of(column), column.name, marks_of(column))
            null = '"may be NULL"' if column.nullable else ""
            lines.append("        " + " ".join(filter(None, (*parts, null))))
        lines.append("    }")
    return "\n".join((*lines, "```", ""))


def test_the_diagram_is_that_of_the_models() -> None:
    page = PAGE.read_text()
    before, rest = page.split(BEGIN)
    shown, after = rest.split(END)
    if os.environ.get("MEMALCHEMY_REGENERATE"):
        shown = diagram(Base)
        PAGE.write_text(before + BEGIN + shown + END + after)

    assert shown == diagram(Base)


def test_the_diagram_has_all_tables_and_relations() -> None:
    """So that it does not agree because it is empty."""
    shown = diagram(Base)

    assert set(TABLES) == set(Base.metadata.tables) == set(migrate.TABLES)
    assert shown.count("||--") == 4
    assert shown.count(" PK") == sum(len(table.primary_key) for table in all_tables())


def all_tables() -> list[Table]:
    return [Base.metadata.tables[name] for name in TABLES]


# --- The lists -----------------------------------------------------------------------------------


def rows_of(section: str, page: str, heading: str) -> Iterator[list[str]]:
    """The rows of the table in a section whose first column has a heading, without backticks."""
    (text,) = re.findall(rf"^## {section}\n(.*?)(?=^## |\Z)", page, re.MULTILINE | re.DOTALL)
    (table,) = re.findall(rf"^\| {heading} \|.*\n\|[-|]+\n((?:\|.*\n)+)", text, re.MULTILINE)
    for line in table.splitlines():
        yield [cell.strip().replace("`", "") for cell in line.strip("|").split("|")]


def listed_columns(table: Table) -> list[list[str]]:
    return [
        [column.name, type_of(column) + " or NULL" * bool(column.nullable)]
        for column in table.columns
    ]


def listed_rules(table: Table) -> set[tuple[str, str]]:
    """The keys, indexes and checks of a table, each by its name and what it is of."""
    found: set[tuple[str, str]] = set()
    for rule in (*table.constraints, *table.indexes):
        match rule:
            case CheckConstraint():
                of = str(rule.sqltext)
            case ForeignKeyConstraint():
                of = f"{', '.join(rule.column_keys)} to {rule.referred_table.name}"
            case PrimaryKeyConstraint() | UniqueConstraint():
                of = ", ".join(column.name for column in rule.columns)
            case Index():
                of = ", ".join(map(spelt, rule.expressions))
                where = rule.dialect_options["postgresql"]["where"]
                of += "" if where is None else f" where {where}"
            case _:
                raise AssertionError(rule)
        found.add((str(rule.name), of))
    return found


def spelt(expression: ColumnElement[Any] | str) -> str:
    """The column of an index; of a CASE that a column goes through, that column."""
    if isinstance(expression, Column):
        return expression.name
    return str(expression).removeprefix("CASE WHEN (entry_key IS NOT NULL) THEN ")[: -len(" END")]


@pytest.mark.parametrize("table", all_tables(), ids=lambda table: table.name)
def test_the_columns_of_a_table_are_listed_with_their_types(table: Table) -> None:
    rows = [*rows_of(table.name, PAGE.read_text(), "column")]

    assert [row[:2] for row in rows] == listed_columns(table)
    assert all(meaning and writer for _, _, meaning, writer in rows)


@pytest.mark.parametrize("table", all_tables(), ids=lambda table: table.name)
def test_the_keys_indexes_and_checks_of_a_table_are_listed(table: Table) -> None:
    rows = [*rows_of(table.name, PAGE.read_text(), "key, index or check")]

    assert len(rows) == len({name for name, *_ in rows})
    assert {(name, of) for name, of, _ in rows} == listed_rules(table)
    assert all(serves for name, _, serves in rows if not name.startswith("ck_"))


@pytest.mark.parametrize(
    ("written", "instead"),
    [
        ("| `epoch` | bigint |", "| `era` | bigint |"),
        ("| `epoch` | bigint |", "| `epoch` | integer |"),
        ("| `head_id` | string(255) or NULL |", "| `head_id` | string(255) |"),
        ("| `ix_threads_tenant_active_at` | `tenant, active_at` |", "| `ix` | `tenant` |"),
        ("next_seq > 0", "next_seq > 1"),
    ],
)
def test_a_line_that_is_not_true_is_seen(written: str, instead: str) -> None:
    page = PAGE.read_text()
    assert written in page
    page = page.replace(written, instead)
    (table,) = (table for table in all_tables() if table.name == "threads")

    columns = [row[:2] for row in rows_of("threads", page, "column")]
    rules = {(name, of) for name, of, _ in rows_of("threads", page, "key, index or check")}

    assert (columns, rules) != (listed_columns(table), listed_rules(table))


# --- What each database adds ---------------------------------------------------------------------


def made_by_upgrades() -> set[str]:
    """The names of all that the revisions make on any database."""
    made = (
        r"CREATE (?:UNIQUE )?(?:INDEX|TRIGGER|TABLE|VIRTUAL TABLE) (\w+)|"
        r"CONSTRAINT (\w+) (?:PRIMARY|UNIQUE|FOREIGN|CHECK)"
    )
    return {
        name
        for script in UPGRADES
        for names in re.findall(made, script.read_text())
        for name in names
        if name
    }


def test_all_that_the_upgrades_make_is_named() -> None:
    page = PAGE.read_text()
    same_endings = {
        f"{table}_{of}"
        for table in ("checkpoints_meta", "store_items_search")
        for of in ("insert", "update", "delete")
    }

    made = made_by_upgrades() - {"memalchemy_version_pkc"} - same_endings

    assert len(made) > 40
    assert {name for name in made if not re.search(rf"\b{name}\b", page)} == set()


def test_no_index_key_or_check_is_named_that_no_upgrade_makes() -> None:
    named = set(re.findall(r"\b(?:pk|uq|fk|ck|ix)_\w+", PAGE.read_text()))

    assert named - made_by_upgrades() == {"ix_embeddings_hnsw_384_cosine"}
