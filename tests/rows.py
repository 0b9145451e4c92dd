"""Rows of logs, for tests that look at them, damage them, or need many of them."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from typing import Any

from sqlalchemy import Column, Connection, MetaData, Table, insert, inspect, select

from memalchemy.log import CHECKPOINTS, DELTAS, THREADS, Log
from memalchemy.verify import Finding, Report


def of_thread(thread_id: str, namespace: str | None = None) -> str:
    """A condition on ``checkpoints`` and ``deltas``: the rows of a thread, in all its namespaces or
    in one, as it is stored.
    """
    where = f"thread_id = '{thread_id}'"
    if namespace is not None:
        where += f" AND namespace = '{namespace}'"
    return f"log_id IN (SELECT log_id FROM threads WHERE {where})"


@contextmanager
def without_checks(connection: Connection, table: str) -> Iterator[None]:
    """Let a table take what its CHECKs forbid: until the end on SQLite, for good on a server."""
    if connection.dialect.name != "sqlite":
        for check in inspect(connection).get_check_constraints(table):
            connection.exec_driver_sql(f"ALTER TABLE {table} DROP CONSTRAINT {check['name']}")
        yield
        return
    connection.exec_driver_sql("PRAGMA ignore_check_constraints = ON")
    try:
        yield
    finally:
        connection.exec_driver_sql("PRAGMA ignore_check_constraints = OFF")


def beside_checks(report: Report) -> list[Finding]:
    """The findings but that of SQLite's own check, which names rows that a CHECK forbids."""
    broken = [f for f in report.findings if f.code == "storage" and "CHECK" in f.sentence]
    return [f for f in report.findings if f not in broken]


def logs_of(connection: Connection, tenant: str, thread_id: str | None = None) -> list[Log]:
    """The logs of a tenant, or of one thread of it."""
    query = select(*(THREADS.c[name] for name in Log._fields)).where(THREADS.c.tenant == tenant)
    if thread_id is not None:
        query = query.where(THREADS.c.thread_id == thread_id)
    return [Log(*row) for row in connection.execute(query)]


def copy_logs(connection: Connection, copies: Iterable[tuple[Log, Log]]) -> None:
    """Copy logs, each to another, inside the database and as they are."""
    key = THREADS.c.log_id.type
    names = (Column(f"to_{name}", THREADS.c[name].type) for name in Log._fields)
    made = Table(
        "copies", MetaData(), Column("of", key), Column("to", key), *names, prefixes=["TEMPORARY"]
    )
    made.create(connection)
    connection.execute(
        insert(made),
        [
            {"of": source.key, "to": target.key}
            | {f"to_{name}": value for name, value in target._asdict().items()}
            for source, target in copies
        ],
    )
    for table in (THREADS, CHECKPOINTS, DELTAS):
        changed = {"log_id": made.c.to} | {name: made.c[f"to_{name}"] for name in Log._fields}
        columns = {column.name: changed.get(column.name, column) for column in table.columns}
        rows = select(*columns.values()).join(made, made.c.of == table.c.log_id)
        connection.execute(insert(table).from_select(list(columns), rows))
    made.drop(connection)


def differences_of(execute: Callable[[str], Any]) -> list[Any]:
    """The words that the index of search texts in a SQLite file has and should not have, or should
    have and has not; *execute* runs a statement.

    FTS5's own check looks at the words of an index, and at no rows if the index keeps none. So an
    index is made anew of the rows, and the two are compared.
    """
    (made,) = execute("SELECT sql FROM sqlite_master WHERE name = 'deltas_search'").fetchone()
    execute(made.replace("TABLE deltas_search ", "TABLE temp.made_anew "))
    execute(
        "INSERT INTO temp.made_anew(rowid, search_text, scope) SELECT rowid, search_text, "
        "'x' || lower(hex(tenant)) FROM deltas WHERE search_text IS NOT NULL"
    )
    for name, of in (("is_there", "main, deltas_search"), ("should_be", "temp, made_anew")):
        execute(f"CREATE VIRTUAL TABLE temp.{name} USING fts5vocab({of}, instance)")
    pairs = (("is_there", "should_be"), ("should_be", "is_there"))
    queries = (f"SELECT * FROM temp.{a} EXCEPT SELECT * FROM temp.{b}" for a, b in pairs)
    found = [row for query in queries for row in execute(query).fetchall()]
    for name in ("is_there", "should_be", "made_anew"):
        execute(f"DROP TABLE temp.{name}")
    return found
