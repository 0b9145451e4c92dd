"""docs/schema.md has the tables, columns, keys, indexes and checks of the models, and no others.

``MEMALCHEMY_REGENERATE=1`` draws its diagram, docs/images/schema.svg, and writes its lists: the
meaning of a column is the beginning of its docstring.
"""

from __future__ import annotations

import ast
import inspect
import itertools
import os
import re
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import pytest
from sqlalchemy import (
    BigInteger,
    Column,
    Integer,
    LargeBinary,
    SmallInteger,
    String,
    Table,
    Text,
    UniqueConstraint,
)
from sqlalchemy.orm import RelationshipDirection

from memalchemy import migrate
from memalchemy.column_types import Json, Key, LogKey, Payload, UtcDateTime, Vector
from memalchemy.schema import Base
from pages import ROOT, regenerates

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


def meanings(table: Table) -> dict[str, str]:
    """The first sentences of the docstring of each column in the source of its class."""
    (mapper,) = (one for one in Base.registry.mappers if one.local_table is table)
    source = ast.parse(Path(inspect.getfile(mapper.class_)).read_text())
    (found,) = (
        node
        for node in source.body
        if isinstance(node, ast.ClassDef) and node.name == mapper.class_.__name__
    )
    meant: dict[str, str] = {}
    for node, after in itertools.pairwise(found.body):
        if not isinstance(node, ast.AnnAssign) or not isinstance(after, ast.Expr):
            continue
        if isinstance(after.value, ast.Constant) and isinstance(node.target, ast.Name):
            columns = getattr(mapper.attrs[node.target.id], "columns", ())
            first = inspect.cleandoc(str(after.value.value)).partition("\n\n")[0]
            meant |= {one.name: first.replace("``", "`").removesuffix(".") for one in columns}
    return meant


def in_all_tables() -> list[str]:
    """The names of the columns that every table has."""
    every = [{column.name for column in table.columns} for table in all_tables()]
    return [
        column.name
        for column in all_tables()[0].columns
        if all(column.name in one for one in every)
    ]


def listed_columns(table: Table, *, shared: bool = False) -> str:
    """The table's columns, or those of them that every table has."""
    meant = meanings(table)
    lines = []
    for column in table.columns:
        if (column.name in in_all_tables()) == shared:
            kind = type_of(column) + ", NULL" * bool(column.nullable)
            lines.append(f"- `{column.name}` {kind}: {meant[column.name]}")
    return "\n".join(lines)


def generated(page: str) -> str:
    """The page with the lists that are made from the classes."""
    lists = {f"columns of {table.name}": listed_columns(table) for table in all_tables()}
    lists["columns of all tables"] = listed_columns(all_tables()[0], shared=True)
    for name, text in lists.items():
        begin, end = f"<!-- {name} -->\n", "\n<!-- end -->"
        before, _, rest = page.partition(begin)
        _, there, after = rest.partition(end)
        assert there, name
        page = before + begin + text + end + after
    return page


def test_the_lists_of_columns_are_those_of_the_classes() -> None:
    if regenerates():
        PAGE.write_text(generated(PAGE.read_text()))

    assert generated(PAGE.read_text()) == PAGE.read_text()


@pytest.mark.parametrize("table", all_tables(), ids=lambda table: table.name)
def test_each_column_has_a_meaning(table: Table) -> None:
    assert {*meanings(table)} == {column.name for column in table.columns}
    assert all(meanings(table).values())


def test_a_column_of_all_tables_is_the_same_in_each() -> None:
    assert in_all_tables() == ["tenant", "signature"]
    for name in in_all_tables():
        columns = [table.columns[name] for table in all_tables()]
        assert len({(type_of(one), one.nullable) for one in columns}) == 1


@pytest.mark.parametrize(
    ("written", "instead"),
    [
        ("- `epoch` bigint:", "- `era` bigint:"),
        ("- `tenant` string(64):", "- `tenant` string(65):"),
        ("- `epoch` bigint:", "- `epoch` integer:"),
        ("- `head_id` string(255), NULL:", "- `head_id` string(255):"),
        ("The position that the next row of the log takes", "A position"),
    ],
)
def test_a_line_that_is_not_true_is_seen(written: str, instead: str) -> None:
    page = PAGE.read_text()
    assert written in page
    page = page.replace(written, instead)

    assert generated(page) != page


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


def test_all_that_the_upgrades_make_beside_the_classes_is_named() -> None:
    page = PAGE.read_text()
    of_classes = {
        rule.name for table in all_tables() for rule in (*table.constraints, *table.indexes)
    }
    same_endings = {
        f"{table}_{of}"
        for table in ("checkpoints_meta", "store_items_search")
        for of in ("insert", "update", "delete")
    }

    made = made_by_upgrades() - {"memalchemy_version_pkc"} - same_endings - of_classes

    assert len(made) > 15
    unique_keys = {name for name in made if name.startswith("uq_")}  # in place of primary keys
    assert {name for name in made - unique_keys if not re.search(rf"\b{name}\b", page)} == set()


def test_no_index_key_or_check_is_named_that_no_upgrade_makes() -> None:
    named = set(re.findall(r"\b(?:pk|uq|fk|ck|ix)_\w+", PAGE.read_text()))

    assert named - made_by_upgrades() == {"ix_embeddings_hnsw_384_cosine"}
