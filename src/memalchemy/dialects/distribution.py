"""The tables spread over the nodes of Citus or the partitions of Oracle, as statements to run.

Read off the mapped tables: rows of a log stay together by ``log_id``, items and their vectors by
``namespace``, and every key has that column in it. Nothing here is executed.
"""

from __future__ import annotations

from typing import Any

from sqlalchemy import Column, Index, Table, UniqueConstraint, create_mock_engine
from sqlalchemy.schema import CreateIndex

from memalchemy.dialects.base import quoted
from memalchemy.schema import Base

ROOTS = {"threads": "log_id", "store_items": "namespace"}
"""The tables that others belong to by foreign key, and what their rows are spread by."""

_TEXT_INDEXES = {"ix_deltas_search_text": "deltas", "ix_store_items_search": "store_items"}
ORACLE_TEXT_INDEXES = {
    name: f"CREATE INDEX {name} ON {table} (search_text) INDEXTYPE IS CTXSYS.CONTEXT "
    "PARAMETERS ('STOPLIST CTXSYS.EMPTY_STOPLIST SYNC (ON COMMIT)')"
    for name, table in _TEXT_INDEXES.items()
}
"""As the migrations make them."""


def placement() -> list[tuple[Table, Table, str]]:
    """Each table with the one it stays with (itself, if a root) and the column both are spread by.

    Referred tables come before those that refer to them.
    """
    placed: list[tuple[Table, Table, str]] = []
    for table in Base.metadata.sorted_tables:
        root = table
        while root.name not in ROOTS:
            (foreign,) = root.foreign_key_constraints
            root = foreign.referred_table
        placed.append((table, root, ROOTS[root.name]))
    return placed


def citus(schema: str | None = None, *, shards: int | None = None) -> list[str]:
    """What distributes the tables of an upgraded database, on Citus' coordinator.

    *shards* is the number of shards of each of the two groups; without it, Citus' own setting.
    """
    prefix = f"{quoted(schema)}." if schema else ""
    count = f", shard_count => {shards:d}" if shards else ""
    return [
        f"SELECT create_distributed_table({_literal(prefix + table.name)}, '{column}', "
        + ("colocate_with => 'none'" + count if table is root else _with(prefix + root.name))
        + ");"
        for table, root, column in placement()
    ]


def oracle_partitions(schema: str | None = None, *, parts: int = 16) -> list[str]:
    """What partitions the tables of an upgraded Oracle database by hash.

    *parts* is a power of two, or the last partitions are half as large. Text indexes are dropped
    and made again: the conversion of a table does not take them along.
    """
    if parts < 2 or parts & (parts - 1):
        raise ValueError(f"the number of partitions is a power of two, not {parts}")
    statements = [f"ALTER SESSION SET CURRENT_SCHEMA = {quoted(schema)};"] if schema else []
    statements += [f"DROP INDEX {name};" for name in ORACLE_TEXT_INDEXES]
    extra = _indexes_on_oracle()
    for table, _, column in placement():
        keys = {
            str(constraint.name): [c.name for c in constraint.columns]
            for constraint in (table.primary_key, *table.constraints)
            if constraint is table.primary_key or isinstance(constraint, UniqueConstraint)
        }
        indexes = [f"{name} {_place(True, columns, column)}" for name, columns in keys.items()]
        indexes += [
            f"{index.name} {_place(bool(index.unique), _columns(index), column)}"
            for index in extra
            if index.table is table
        ]
        statements.append(
            f"ALTER TABLE {table.name} MODIFY PARTITION BY HASH ({column}) PARTITIONS {parts:d} "
            f"UPDATE INDEXES ({', '.join(indexes)});"
        )
    return [*statements, *(f"{made};" for made in ORACLE_TEXT_INDEXES.values())]


def _place(unique: bool, columns: list[str], spread_by: str) -> str:
    # ORA-14039: what is unique within each partition is unique only with the partition's column.
    return "GLOBAL" if unique and spread_by not in columns else "LOCAL"


def _columns(index: Index) -> list[str]:
    return [e.name for e in index.expressions if isinstance(e, Column)]


def _indexes_on_oracle() -> list[Index]:
    """The indexes of the mapped tables that are made on Oracle, in the order of their names."""
    made: list[Index] = []

    def collect(ddl: Any, *_: Any, **__: Any) -> None:
        if isinstance(ddl, CreateIndex):
            made.append(ddl.element)

    Base.metadata.create_all(create_mock_engine("oracle://", collect), checkfirst=False)
    return sorted(made, key=lambda index: str(index.name))


def _with(table: str) -> str:
    return f"colocate_with => {_literal(table)}"


def _literal(text: str) -> str:
    return "'" + text.replace("'", "''") + "'"
