"""PostgreSQL: what is different where Citus has distributed the tables."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, ClassVar

from sqlalchemy import ColumnElement, Connection, Executable, FromClause, bindparam, text
from sqlalchemy.sql.selectable import NamedFromClause

from memalchemy.dialects.base import DISTRIBUTED_BY, Dialect, Statements, quoted
from memalchemy.dialects.postgresql.catalog import on_our_tables
from memalchemy.dialects.postgresql.maintenance import PostgreSQLMaintenance
from memalchemy.dialects.postgresql.statements import PostgreSQLStatements
from memalchemy.dialects.postgresql.text_indexes import (
    PostgreSQLTextIndexes,
    item_hits_where,
    items_in_scope_where,
)
from memalchemy.schema import StoreItemRow
from memalchemy.variants import CITUS


class _CitusStatements(PostgreSQLStatements):
    """Statements that Citus sends to one node.

    It pulls an INSERT … SELECT of arrays to the coordinator, and cannot infer the type of a bind
    in its ON CONFLICT. A subquery in a LIMIT is refused, and so is a LIMIT for each row of a join.
    """

    has_arrays: ClassVar[bool] = False
    has_custom_plans: ClassVar[bool] = False

    def join_by_key(
        self, rows: FromClause, table: NamedFromClause, same: ColumnElement[bool]
    ) -> tuple[FromClause, FromClause]:
        return Statements.join_by_key(self, rows, table, same)

    def hide_from_planner(self, value: ColumnElement[Any]) -> ColumnElement[Any]:
        return value


class _CitusTextIndexes(PostgreSQLTextIndexes):
    """Searches that name their namespace, and so are sent to the node that has it.

    The word by which the index knows the namespace is a text like any other to Citus. It refuses
    the subqueries in limits by which the rows that were stored last are found.
    """

    finds_last_stored: ClassVar[bool] = False

    def unindexed_rows(self, index: str) -> Executable | None:
        return None  # no setting of the coordinator's makes a node use an index

    def item_hits(self, below: bool, columns: Sequence[ColumnElement[Any]]) -> FromClause:
        return item_hits_where(columns, *self._routing_conditions(below))

    def items_in_scope(self, below: bool) -> FromClause:
        return items_in_scope_where(*self._routing_conditions(below))

    def _routing_conditions(self, below: bool) -> list[ColumnElement[bool]]:
        items = StoreItemRow.__table__
        here = bindparam("k_namespace", type_=items.c.namespace.type)
        return [] if below else [items.c.namespace == here]


_SIZES_OF_SHARD = (
    "SELECT json_agg(pieces) FROM ("
    "SELECT NULL AS name, ''table'' AS kind, pg_table_size(''%1$s'') AS bytes UNION ALL "
    "SELECT regexp_replace(relname, ''_[0-9]+$'', ''''), ''index'', pg_relation_size(pg_class.oid) "
    "FROM pg_index JOIN pg_class ON pg_class.oid = indexrelid "
    "WHERE indrelid = CAST(''%1$s'' AS regclass)) AS pieces"
)
_ROWS_OF_SHARD = (
    "SELECT json_agg(found) FROM (SELECT n_live_tup AS live, n_dead_tup AS dead, "
    "pg_total_relation_size(relid) AS bytes FROM pg_stat_all_tables "
    "WHERE relid = CAST(''%1$s'' AS regclass)) AS found"
)


class _CitusMaintenance(PostgreSQLMaintenance):
    """Sizes and numbers of rows that the nodes tell of their shards.

    The coordinator's own tables and indexes are empty. It passes VACUUM on.
    """

    def sizes(self, exact: bool) -> Executable | None:
        if not exact:
            return None
        return on_our_tables(
            "SELECT coalesce(piece.name, made.relname) AS name, "  # noqa: S608
            "made.relname AS owner, piece.kind, "
            "CAST(sum(piece.bytes) AS bigint) AS bytes FROM made, "
            f"{_of_shards(_SIZES_OF_SHARD, 'name text, kind text, bytes bigint')} "
            "GROUP BY piece.name, made.relname, piece.kind"
        )

    def step(self, what: str) -> Executable | None:
        if what != "tables":
            return None
        return on_our_tables(
            "SELECT made.relname AS name, CAST(sum(piece.live) AS bigint) AS live, "  # noqa: S608
            "CAST(sum(piece.dead) AS bigint) AS dead, CAST(sum(piece.bytes) AS bigint) AS bytes, "
            "CASE WHEN pg_has_role(made.relowner, 'USAGE') THEN 1 ELSE 0 END AS owned FROM made, "
            f"{_of_shards(_ROWS_OF_SHARD, 'live bigint, dead bigint, bytes bigint')} "
            "GROUP BY made.relname, made.relowner"
        )


def _of_shards(command: str, columns: str) -> str:
    """Return a source of ``piece``: the rows, as JSON, of a command on each shard of ``made``."""
    return (
        f"LATERAL run_command_on_shards(CAST(made.oid AS regclass), '{command}') AS shard, "
        f"LATERAL json_to_recordset(CAST(shard.result AS json)) AS piece({columns})"
    )


def is_distributed(connection: Connection, schema: str | None) -> bool:
    """Return whether Citus has distributed the tables in *schema*; one query on other servers."""
    if not connection.scalar(text("SELECT to_regclass('pg_catalog.pg_dist_partition')")):
        return False
    prefix = f"{quoted(schema)}." if schema else ""
    query = text(
        "SELECT count(*) FROM pg_catalog.pg_dist_partition "
        "WHERE partmethod = 'h' AND logicalrelid = to_regclass(:p_table)"
    )
    return any(
        connection.scalar(query, {"p_table": f"{prefix}{table}"}) for table in DISTRIBUTED_BY
    )


def use_distribution(dialect: Dialect) -> None:
    """Give *dialect* the variant and the parts for tables that Citus has distributed."""
    # Citus pulls a statement to the coordinator whose CTE writes, and lets no transaction of one
    # statement span two nodes without a commit of two phases.
    dialect.variants = (CITUS,)
    # A node was lost while it committed its part.
    dialect.unknown_commits = frozenset({"XX000"})
    dialect.statements = _CitusStatements()
    dialect.text = _CitusTextIndexes()
    dialect.maintenance = _CitusMaintenance()
