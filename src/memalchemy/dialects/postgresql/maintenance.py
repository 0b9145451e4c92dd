"""PostgreSQL: migrations of one process at a time, sizes, VACUUM, backups and roles."""

from __future__ import annotations

import shlex
from collections.abc import Sequence
from hashlib import blake2b
from typing import Any, ClassVar

from sqlalchemy import ClauseElement, Connection, Executable, Table, text
from sqlalchemy.engine import URL
from sqlalchemy.ext.compiler import compiles

from memalchemy._retry import TABLE_LOCKS
from memalchemy.dialects.base import Maintenance, quoted
from memalchemy.dialects.postgresql import cluster
from memalchemy.dialects.postgresql.catalog import on_our_tables
from memalchemy.dialects.postgresql.vectors import refuse_hidden_vectors
from memalchemy.errors import ReplicationIncomplete

_NOT_FILLED = """SELECT c.relname AS name FROM pg_subscription_rel s
JOIN pg_class c ON c.oid = s.srrelid JOIN pg_namespace n ON n.oid = c.relnamespace
WHERE s.srsubstate NOT IN ('r', 's') AND n.nspname = coalesce(:schema, current_schema())
AND c.relname IN ('threads', 'checkpoints', 'deltas', 'store_items', 'embeddings',
'memalchemy_version') ORDER BY 1"""
"""Tables that a subscription has begun to copy, or is to."""


_LOCK_ALL = """
DECLARE
  usual text := current_setting('lock_timeout');
  patience text := (
    SELECT greatest(setting::int / 2, 1) || 'ms' FROM pg_settings WHERE name = 'deadlock_timeout');
BEGIN
  FOR number IN 1..{tries} LOOP
    BEGIN
      PERFORM set_config('lock_timeout', patience, true);
      LOCK TABLE {names} IN ACCESS EXCLUSIVE MODE;
      PERFORM set_config('lock_timeout', usual, true);
      RETURN;
    EXCEPTION WHEN lock_not_available THEN
      IF number = {tries} THEN RAISE; END IF;
    END;
    PERFORM pg_sleep({pause});
  END LOOP;
END"""
"""A block of PL/pgSQL, so that scripts can have it, too.

Statements lock the tables in any order, so whoever waits for one and holds another can make a
deadlock. This gives all locks back before the server would find one, and tries again: others then
get on. An error undoes the inner block, and so gives its locks back.
"""


class PostgreSQLMaintenance(Maintenance):
    """Advisory locks, the catalogue's sizes, VACUUM, pg_dump and roles."""

    server_version: ClassVar[str] = "SHOW server_version"
    takes_writes: ClassVar[str | None] = "current_setting('transaction_read_only') = 'off'"
    byte_literal: ClassVar[str] = "'\\x2d'"

    def refuse_unusable(self, connection: Connection, schema: str | None) -> None:
        refuse_hidden_vectors(connection, schema)
        places = {"schema": schema}
        waiting = [str(row.name) for row in connection.execute(text(_NOT_FILLED), places)]
        if waiting:
            raise ReplicationIncomplete(waiting, schema)

    def lock_migrations(self, connection: Connection, schema: str | None) -> None:
        # Held by the transaction and not by the session, so that it holds behind PgBouncer, too.
        key = int.from_bytes(
            blake2b(f"memalchemy {schema or ''}".encode(), digest_size=8).digest(), signed=True
        )
        connection.execute(text("SELECT pg_advisory_xact_lock(:key)"), {"key": key})

    def lock_commands(self, schema: str | None, names: Sequence[str]) -> list[str]:
        if not names:
            return []
        prefix = f"{quoted(schema)}." if schema else ""
        places = ", ".join(prefix + name for name in names)
        tries, pause = TABLE_LOCKS.tries, TABLE_LOCKS.longest_wait
        block = _LOCK_ALL.format(names=places, tries=tries, pause=pause)
        return ["DO '{}'".format(block.replace("'", "''"))]

    def schema_of_visible_table(self, connection: Connection, table: str) -> str | None:
        query = text(
            "SELECT n.nspname FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace "
            "WHERE c.relname = :table AND pg_table_is_visible(c.oid)"
        )
        schema: str | None = connection.scalar(query, {"table": table})
        return schema

    def sizes(self, exact: bool) -> Executable | None:
        if not exact:
            return None
        return on_our_tables(
            "SELECT made.relname AS name, made.relname AS owner, 'table' AS kind, "
            "pg_table_size(made.oid) AS bytes FROM made UNION ALL "
            "SELECT indexes.relname, made.relname, 'index', pg_relation_size(indexes.oid) "
            "FROM made JOIN pg_index ON pg_index.indrelid = made.oid "
            "JOIN pg_class AS indexes ON indexes.oid = pg_index.indexrelid"
        )

    def step(self, what: str) -> Executable | None:
        if what != "tables":
            return None
        return on_our_tables(
            "SELECT made.relname AS name, coalesce(seen.n_live_tup, 0) AS live, "
            "coalesce(seen.n_dead_tup, 0) AS dead, pg_total_relation_size(made.oid) AS bytes, "
            "CASE WHEN pg_has_role(made.relowner, 'USAGE') THEN 1 ELSE 0 END AS owned "
            "FROM made LEFT JOIN pg_stat_all_tables AS seen ON seen.relid = made.oid"
        )

    def vacuum(self, table: Table, full: bool) -> Executable | None:
        return _Vacuum(table, full)

    def shrink_commands(self, table: str, schema: str | None, full: bool) -> list[str]:
        name = f"{quoted(schema)}.{table}" if schema else table
        return [f"VACUUM ({'FULL, ' if full else ''}ANALYZE) {name};"]

    def restore_command(self, url: URL, file: str) -> str:
        how = ["--exit-on-error", "--single-transaction", "--no-owner"]
        return shlex.join(["pg_restore", *how, *_connection_options(url), file])

    def backup_command(self, url: URL, file: str, schema: str | None, tables: Sequence[str]) -> str:
        options = _connection_options(url)
        prefix = f"{quoted(schema)}." if schema else ""
        chosen = [f"--table={prefix}{table}" for table in tables]
        return shlex.join(["pg_dump", "--format=custom", f"--file={file}", *options, *chosen])

    def grants(self, role: str, schema: str | None, tables: Sequence[str]) -> list[str]:
        usage = [f"GRANT USAGE ON SCHEMA {quoted(schema or 'public')} TO {quoted(role)};"]
        return usage + super().grants(role, schema, tables)

    def distribution_commands(self, schema: str | None, parts: int | None) -> list[str]:
        return cluster.distribution_commands(schema, parts)


class _Vacuum(Executable, ClauseElement):
    """VACUUM of a table, in the schema that the connection's tables are in."""

    inherit_cache = False

    def __init__(self, table: Table, full: bool) -> None:
        self.table, self.full = table, full


@compiles(_Vacuum)
def _vacuum(element: _Vacuum, compiler: Any, **_: Any) -> str:
    options = "FULL, ANALYZE" if element.full else "ANALYZE"
    return f"VACUUM ({options}) {compiler.preparer.format_table(element.table)}"


def _connection_options(url: URL) -> list[str]:
    """Return the options by which PostgreSQL's tools reach the database of a URL."""
    query = {name: str(value) for name, value in url.query.items()}
    given = {
        "host": url.host or query.get("host"),
        "port": url.port or query.get("port"),
        "username": url.username,
        "dbname": url.database,
    }
    return [f"--{name}={value}" for name, value in given.items() if value]
