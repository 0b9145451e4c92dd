"""Citus: the tables in shards on the nodes of a cluster.

A table of one of two groups is distributed by hash of a column, a log's or a namespace's rows stay
in one shard. The version table is a reference table, so that a worker can be asked, too. Statements
that change the distribution go to the coordinator.
"""

from __future__ import annotations

from collections.abc import Collection
from typing import Any

from sqlalchemy import Connection, Text, bindparam, text

from memalchemy.dialects.base import (
    VERSION_TABLE,
    Cluster,
    DistributedTable,
    Distribution,
    placement,
    quoted,
)
from memalchemy.dialects.postgresql.row_level_security import POLICY
from memalchemy.schema import Base

_NAMES = ", ".join(f"'{name}'" for name in (*Base.metadata.tables, VERSION_TABLE))
_OURS = (
    "SELECT pg_class.oid, pg_class.relname, pg_class.relrowsecurity FROM pg_class "  # noqa: S608
    "JOIN pg_namespace ON pg_namespace.oid = pg_class.relnamespace "
    "WHERE pg_namespace.nspname = coalesce(CAST(:p_schema AS text), current_schema()) "
    f"AND pg_class.relkind IN ('r', 'p') AND pg_class.relname IN ({_NAMES})"
)

_CLUSTER = (
    "SELECT (SELECT groupid FROM pg_dist_local_group) = 0 AS is_coordinator, "
    # A server without other nodes joins its own cluster when it makes the first shard.
    "(SELECT CAST(greatest(count(*), 1) AS integer) FROM pg_dist_node "
    "WHERE noderole = 'primary' AND isactive AND shouldhaveshards) AS nodes"
)

_TABLES = (
    f"WITH made AS ({_OURS}) SELECT made.relname AS name, "  # noqa: S608
    "CASE WHEN spread.partkey IS NOT NULL "
    "THEN column_to_column_name(made.oid, spread.partkey) END AS spread_by, "
    "(SELECT CAST(count(*) AS integer) FROM pg_dist_shard "
    "WHERE pg_dist_shard.logicalrelid = made.oid) AS shards, "
    "(SELECT CAST(count(DISTINCT pg_dist_placement.groupid) AS integer) FROM pg_dist_shard "
    "JOIN pg_dist_placement ON pg_dist_placement.shardid = pg_dist_shard.shardid "
    "WHERE pg_dist_shard.logicalrelid = made.oid) AS nodes, "
    "CAST(spread.colocationid AS integer) AS colocation, "
    # 't' is of tables that are written on all nodes in two phases; a local table that only was
    # made known to the cluster has another.
    "coalesce(spread.partmethod = 'n' AND spread.repmodel = 't', false) AS is_reference, "
    "coalesce(spread.partmethod = 'n' AND spread.repmodel <> 't' AND spread.colocationid = 0, "
    "false) AS is_known_only, "
    "CASE WHEN spread.logicalrelid IS NULL THEN 0 "
    "ELSE CAST(pg_relation_size(made.oid) AS bigint) END AS old_bytes "
    "FROM made LEFT JOIN pg_dist_partition AS spread ON spread.logicalrelid = made.oid"
)

_REFERRING = (
    f"WITH made AS ({_OURS}) SELECT DISTINCT "  # noqa: S608
    "CAST(CAST(pg_constraint.conrelid AS regclass) AS text) AS name "
    "FROM pg_constraint JOIN made ON made.oid = pg_constraint.confrelid "
    "WHERE pg_constraint.contype = 'f' AND pg_constraint.conrelid NOT IN (SELECT oid FROM made) "
    "ORDER BY name"
)

_WALLED = (
    f"WITH made AS ({_OURS}) SELECT count(*) AS tables FROM made JOIN pg_policy "  # noqa: S608
    f"ON pg_policy.polrelid = made.oid AND pg_policy.polname = '{POLICY}'"
)

_HIDDEN = (
    f"WITH made AS ({_OURS}) SELECT made.relname, CAST(current_user AS text) AS role "  # noqa: S608
    "FROM made WHERE row_security_active(made.oid) ORDER BY made.relname"
)


class Citus(Cluster):
    """Distributed tables and reference tables."""

    def read(self, connection: Connection, schema: str | None) -> Distribution | None:
        installed = "SELECT extversion FROM pg_extension WHERE extname = 'citus'"
        version = connection.scalar(text(installed))
        if version is None:
            return None
        cluster = connection.execute(text(_CLUSTER)).one()
        rows = {row.name: row for row in _query_schema(connection, _TABLES, schema)}
        order = (*(table.name for table, _, _ in placement()), VERSION_TABLE)
        return Distribution(
            software=f"Citus {version}",
            is_coordinator=cluster.is_coordinator,
            nodes=cluster.nodes,
            tables=tuple(_to_distributed_table(rows[name]) for name in order if name in rows),
        )

    def begin(self, connection: Connection, schema: str | None) -> None:
        prefix = f"{quoted(schema)}." if schema else ""
        names = ", ".join(prefix + table.name for table, _, _ in placement())
        # Readers go on. All at once, or writers that hold one table would wait for another.
        connection.exec_driver_sql(f"LOCK TABLE {names} IN EXCLUSIVE MODE")
        # Foreign keys reach shards that another connection of the same transaction has made.
        connection.exec_driver_sql("SET LOCAL citus.multi_shard_modify_mode = 'sequential'")

    def spread_commands(
        self, schema: str | None, parts: int | None, tables: Collection[str]
    ) -> dict[str, str]:
        prefix = f"{quoted(schema)}." if schema else ""
        count = f", shard_count => {parts:d}" if parts else ""
        commands = {
            table.name: f"SELECT create_distributed_table({_quote_literal(prefix + table.name)}, "
            + f"'{column}', "
            + (
                f"colocate_with => 'none'{count}"
                if table is root
                else f"colocate_with => {_quote_literal(prefix + root.name)}"
            )
            + ");"
            for table, root, column in placement()
        }
        version = _quote_literal(prefix + VERSION_TABLE)
        commands[VERSION_TABLE] = f"SELECT create_reference_table({version});"
        return {name: command for name, command in commands.items() if name in tables}

    def obstacles(self, connection: Connection, schema: str | None) -> list[str]:
        found = [
            f"{row.name} has a foreign key to a table of memalchemy's, and Citus takes none from a "
            "table that is not distributed: drop the key first"
            for row in _query_schema(connection, _REFERRING, schema)
        ]
        (walled,) = _query_schema(connection, _WALLED, schema)
        hidden = _query_schema(connection, _HIDDEN, schema)
        if walled.tables:
            found.append(
                "the tenants are walled, and Citus refuses policies with a subquery, as these are: "
                "take the wall down before (`memalchemy tenants release`)"
            )
        elif hidden:
            found.append(
                f"row-level security hides rows of {', '.join(row.relname for row in hidden)} from "
                f"the role {hidden[0].role}, and only what it sees would be moved: run this as a "
                "superuser or a role with BYPASSRLS"
            )
        return found

    def drop_old_copies(self, connection: Connection, schema: str | None) -> None:
        for command in _drop_commands(schema):
            connection.exec_driver_sql(command)


def distribution_commands(schema: str | None, parts: int | None) -> list[str]:
    """Return the statements that distribute the tables, each group in *parts* shards.

    They run on the coordinator.

    Without *parts* their number is Citus' own setting. The last of them drop the old copies of the
    rows, which Citus refuses while a table is not distributed that refers to them.
    """
    tables = (*Base.metadata.tables, VERSION_TABLE)
    return [*Citus().spread_commands(schema, parts, tables).values(), *_drop_commands(schema)]


def _drop_commands(schema: str | None) -> list[str]:
    prefix = f"{quoted(schema)}." if schema else ""
    # The other tables go with these, by their foreign keys.
    roots = [table.name for table, root, _ in placement() if table is root]
    return [
        f"SELECT truncate_local_data_after_distributing_table({_quote_literal(prefix + name)});"
        for name in (*roots, VERSION_TABLE)
    ]


def _query_schema(connection: Connection, query: str, schema: str | None) -> Any:
    found = text(query).bindparams(bindparam("p_schema", type_=Text))
    return connection.execute(found, {"p_schema": schema}).all()


def _to_distributed_table(row: Any) -> DistributedTable:
    if not row.shards or row.is_known_only:
        return DistributedTable(row.name)
    return DistributedTable(
        name=row.name,
        column=row.spread_by,
        shards=row.shards,
        nodes=row.nodes,
        group=row.colocation,
        is_replicated=row.is_reference,
        old_bytes=row.old_bytes,
    )


def _quote_literal(text: str) -> str:
    return "'" + text.replace("'", "''") + "'"
