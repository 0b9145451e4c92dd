"""docs/schema.md has the tables, columns, keys, indexes and checks of the models, and no others.

``MEMALCHEMY_REGENERATE=1`` draws its diagram, docs/images/schema.svg, and lists the columns with
their types; their meaning, and the lists of keys and indexes, are written by hand.
"""

from __future__ import annotations

import os
import re
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any
from xml.etree import ElementTree

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
from pages import ROOT, regenerates, with_rows

PAGE = ROOT / "docs" / "schema.md"
DIAGRAM = ROOT / "docs" / "images" / "schema.svg"
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

ROWS = (("checkpoints", "threads", "deltas"), ("store_items", "embeddings"))
WIDTH, GAP, LINE, HEAD = 256, 100, 16, 28
STYLE = """<style>
  text { font: 11px ui-monospace, monospace; fill: #1f2328 }
  .b { font-weight: 600; font-size: 13px }
  .s { font: 11px system-ui, sans-serif; fill: #59636e }
  .t { fill: #59636e }
  .row { fill: #ffffff; stroke: #c8d1da } .hi { fill: #eeecfc; stroke: #5746d8 }
  .line { stroke: #59636e; stroke-width: 1.4; fill: none }
  @media (prefers-color-scheme: dark) {
    text { fill: #f0f6fc } .s, .t { fill: #9198a1 }
    .row { fill: #161b22; stroke: #3d444d } .hi { fill: #262243; stroke: #8b7cf7 }
    .line { stroke: #9198a1 }
  }
</style>"""


@dataclass(frozen=True)
class Relation:
    """Two classes that are related; *many* says whether one row of *parent* has several."""

    parent: str
    child: str
    many: bool
    columns: tuple[str, ...]


def marks_of(column: Column[Any]) -> str:
    """The keys that a column is part of, and whether it may be NULL."""
    table = column.table
    keys = [key for key in table.constraints if isinstance(key, UniqueConstraint)]
    indexes = [index for index in table.indexes if index.unique]
    of_unique = any(column.name in one.columns for one in (*keys, *indexes))
    marks = {
        "PK": column.primary_key,
        "FK": bool(column.foreign_keys),
        "UK": of_unique,
        "NULL": bool(column.nullable),
    }
    return " ".join(mark for mark, holds in marks.items() if holds)


def relations(base: type[Any]) -> list[Relation]:
    """Each pair of relationships, from the one to the many."""
    found = []
    for mapper in base.registry.mappers:
        for one in mapper.relationships:
            if one.direction is RelationshipDirection.MANYTOONE:
                back = one.mapper.relationships[str(one.back_populates)]
                columns = tuple(local.name for local, _ in one.local_remote_pairs or ())
                parent, child = one.mapper.local_table.name, mapper.local_table.name
                found.append(Relation(parent, child, bool(back.uselist), columns))
    return sorted(found, key=lambda one: (one.parent, one.child))


def diagram(base: type[Any]) -> str:
    """The picture of the tables: their columns, keys and relations."""
    places: dict[str, tuple[int, int, int]] = {}
    top = 10
    for row in ROWS:
        heights = [HEAD + LINE * len(base.metadata.tables[name].columns) + 6 for name in row]
        for at, (name, height) in enumerate(zip(row, heights, strict=True)):
            places[name] = (10 + at * (WIDTH + GAP), top, height)
        top += max(heights) + 50
    width, height = 20 + 3 * WIDTH + 2 * GAP, top - 40
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}" '
        f'width="{width}" height="{height}" role="img" aria-labelledby="title">',
        '<title id="title">The five tables with their columns, keys and relations</title>',
        STYLE,
    ]
    for name, (x, y, tall) in places.items():
        kind = "hi" if name == "threads" else "row"
        parts.append(
            f'<rect class="{kind}" x="{x}" y="{y}" width="{WIDTH}" height="{tall}" rx="6"/>'
        )
        parts.append(f'<text class="b" x="{x + 10}" y="{y + 19}">{name}</text>')
        for number, column in enumerate(base.metadata.tables[name].columns, 1):
            line = y + HEAD + LINE * number - 4
            parts.append(f'<text x="{x + 10}" y="{line}">{column.name}</text>')
            parts.append(f'<text class="t" x="{x + 106}" y="{line}">{type_of(column)}</text>')
            if marks := marks_of(column):
                end = x + WIDTH - 8
                parts.append(
                    f'<text class="s" x="{end}" y="{line}" text-anchor="end">{marks}</text>'
                )
    for one in relations(base):
        parts += _drawn(one, places)
    return "\n".join((*parts, "</svg>", ""))


def _drawn(one: Relation, places: dict[str, tuple[int, int, int]]) -> Iterator[str]:
    """A line from the parent to the child, with the number at each end and its columns."""
    (x, y, tall), (to, _, other) = places[one.parent], places[one.child]
    number = "0..n" if one.many else "0..1"
    if abs(x - to) == WIDTH + GAP:
        level, right = y + 44, x < to
        start, end = (x + WIDTH, to) if right else (x, to + WIDTH)
        yield f'<path class="line" d="M{start} {level} H{end}"/>'
        for at, text, outward in ((start, "1", right), (end, number, not right)):
            place = f'x="{at + (6 if outward else -6)}" y="{level + 14}"'
            anchor = "start" if outward else "end"
            yield f'<text class="s" {place} text-anchor="{anchor}">{text}</text>'
        for line, name in enumerate(reversed(one.columns)):
            place = f'x="{(start + end) // 2}" y="{level - 6 - 13 * line}"'
            yield f'<text class="s" {place} text-anchor="middle">{name}</text>'
        return
    # Around the table between them.
    level = 10 + max(places[name][2] for name in ROWS[0]) + 18
    low, other_low = y + tall, y + other
    start, end = x + WIDTH // 2, to + WIDTH // 2
    yield f'<path class="line" d="M{start} {low} V{level} H{end} V{other_low}"/>'
    for at, bottom, text in ((start, low, "1"), (end, other_low, number)):
        yield f'<text class="s" x="{at + 6}" y="{bottom + 14}">{text}</text>'
    middle = f'x="{(start + end) // 2}" y="{level + 14}"'
    yield f'<text class="s" {middle} text-anchor="middle">{", ".join(one.columns)}</text>'


def test_the_diagram_is_that_of_the_models() -> None:
    if os.environ.get("MEMALCHEMY_REGENERATE"):
        DIAGRAM.write_text(diagram(Base))

    assert DIAGRAM.read_text() == diagram(Base)
    assert "](images/schema.svg)" in PAGE.read_text()


def test_the_diagram_has_all_tables_columns_and_relations() -> None:
    """So that it does not agree because it is empty."""
    shown = ElementTree.fromstring(diagram(Base))
    space = "{http://www.w3.org/2000/svg}"
    texts = Counter(text.text for text in shown.iter(f"{space}text"))
    columns = Counter(column.name for table in all_tables() for column in table.columns)

    assert {name for row in ROWS for name in row} == set(TABLES)
    assert set(TABLES) == set(Base.metadata.tables) == set(migrate.TABLES)
    assert not Counter({*TABLES}) + columns - texts
    assert len([*shown.iter(f"{space}path")]) == len(relations(Base)) == 4


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


def with_columns(table: Table, page: str) -> str:
    """The page with the columns of a table and their types; each keeps its meaning."""
    before, heading, section = page.partition(f"\n## {table.name}\n")
    section, next_heading, after = section.partition("\n## ")
    rows = [(f"`{name}`", kind) for name, kind in listed_columns(table)]
    section = with_rows(section, "| column | type |", rows)
    return before + heading + section + next_heading + after


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
    if regenerates():
        PAGE.write_text(with_columns(table, PAGE.read_text()))
    rows = [*rows_of(table.name, PAGE.read_text(), "column")]

    assert [row[:2] for row in rows] == listed_columns(table)
    assert all(meaning for _, _, meaning in rows)
    assert with_columns(table, PAGE.read_text()) == PAGE.read_text()


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
