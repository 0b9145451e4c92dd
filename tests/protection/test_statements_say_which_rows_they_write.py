"""Each statement that inserts or changes rows says of which kind they are.

Sealing and signing go by that, and by no name of a bind.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from sqlalchemy import Insert, Table, Update, bindparam, insert, select, update
from sqlalchemy.sql import visitors

import golden
import memalchemy
from memalchemy import rows
from memalchemy.dialects import LOCKS
from memalchemy.log.tables import CHECKPOINTS, DELTAS, THREADS
from memalchemy.protection.key_registry import writes_payloads
from memalchemy.rows import AS_STORED, RowKind
from memalchemy.schema import Base
from memalchemy.statements import REGISTRY, WRITES, Statement, Written

DATABASES = ("sqlite", "postgresql", "citus", "oracle")
KINDS = {name: one for name, one in vars(rows).items() if isinstance(one, RowKind)}
TABLES = {table.name: table for table in Base.metadata.tables.values()}
PROTECTION = Path(memalchemy.__file__).parent / "protection"


def tables_written_by(statement: Any) -> set[str]:
    """The tables into which a statement inserts rows, or of which it changes rows."""
    options = statement.get_execution_options()
    parts = visitors.iterate(statement)
    written = {part.table for part in parts if isinstance(part, Insert | Update)}
    return set() if options.get(LOCKS) else {one.name for one in written if isinstance(one, Table)}


def wrong(families: dict[str, Statement[Any]]) -> list[str]:
    """The statements that do not say which rows they write, or name others, or bind a payload
    without saying whose it is.
    """
    have_no_seal = {rows.VECTOR, AS_STORED}
    found = []
    for dialect in map(golden.dialect_called, DATABASES):
        for family in families.values():
            for name, statement in family.enumerate(dialect):
                written = statement.get_execution_options().get(WRITES, Written((), False))
                told = {kind.table for kind in written.kinds}
                tables = tables_written_by(statement)
                is_known = written.sealed or have_no_seal & {*written.kinds}
                if (AS_STORED not in written.kinds and told != tables) or (
                    tables and not is_known and writes_payloads(statement)
                ):
                    found.append(f"{name} on {dialect.name}")
    return found


def own(query: Any, **declared: Any) -> dict[str, Statement[Any]]:
    made: Statement[Any] = Statement(lambda dialect: query, {})
    for name, value in declared.items():
        setattr(made, name, value)
    return {made.name: made}


def test_each_statement_says_which_rows_it_writes_and_whose_payload_it_binds() -> None:
    assert wrong(REGISTRY) == []


OTHERS: dict[str, Any] = {
    "an insert": insert(DELTAS),
    "an update": update(DELTAS),
    "a CTE": select(insert(DELTAS).returning(DELTAS.c.seq).cte("put")),
    "two CTEs": select(insert(DELTAS).returning(DELTAS.c.seq).cte("put").c.seq).add_cte(
        update(THREADS).values(version=1).cte("also")
    ),
}


@pytest.mark.parametrize("what", OTHERS)
def test_a_new_statement_that_does_not_say_it_is_noticed(what: str) -> None:
    query = OTHERS[what]
    assert wrong(own(query))
    assert wrong(own(query, writes=rows.CHECKPOINT))
    kinds = tuple(KINDS.values()) if what == "two CTEs" else (rows.STATE,)
    named = tuple(one for one in kinds if one.table in tables_written_by(query))
    assert wrong(own(query, writes=named)) == wrong(own(query, changes=named)) == []
    assert wrong(own(query, writes=lambda: named)) == []


def test_one_that_writes_nothing_and_says_so_is_noticed() -> None:
    assert wrong(own(select(CHECKPOINTS.c.seq), writes=rows.STATE))
    assert wrong(own(select(CHECKPOINTS.c.seq))) == []


def test_a_payload_of_which_nobody_says_whose_it_is_is_noticed() -> None:
    items = insert(TABLES[rows.ITEM.table])
    query = items.values(value=bindparam("i_value", required=True))
    assert wrong(own(query, writes=rows.OWN_ITEM))
    assert wrong(own(query, writes=rows.ITEM)) == wrong(own(items, writes=rows.OWN_ITEM)) == []


@pytest.mark.parametrize("name", KINDS)
def test_a_kind_has_columns_of_its_table(name: str) -> None:
    kind = KINDS[name]
    if kind is AS_STORED:
        return
    columns = TABLES[kind.table].c
    for names in (kind.key, kind.place, kind.columns, kind.signed, kind.words, kind.shared):
        vector_has_its_items = {"version"} if kind is rows.VECTOR else set()
        assert set(names) - vector_has_its_items <= set(columns.keys())
    assert kind.payload is None or kind.payload in columns


def asked_names(source: str) -> Iterator[str]:
    """The constants that are looked for in something, and are names of binds."""
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Compare) and isinstance(node.ops[0], ast.In | ast.NotIn):
            for part in ast.walk(node.left):
                if isinstance(part, ast.Constant) and str(part.value)[1:2] == "_":
                    yield str(part.value)
        if isinstance(node, ast.Attribute) and node.attr in ("issuperset", "issubset"):
            yield ast.unparse(node)


@pytest.mark.parametrize("module", sorted(one.name for one in PROTECTION.glob("*.py")))
def test_nothing_that_protects_rows_asks_for_the_name_of_a_bind(module: str) -> None:
    assert list(asked_names((PROTECTION / module).read_text())) == []


def test_a_question_for_the_name_of_a_bind_is_noticed() -> None:
    for source in ('"p_kind" in binds', 'x if "e_payload" not in b else y', "w.issuperset(a)"):
        assert list(asked_names(source))
    assert not list(asked_names('"tenant" in names'))
