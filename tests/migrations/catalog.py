"""What a migrated database looks like, read from its own catalogue, one line for each fact.

Autogenerate compares tables, columns and plain indexes. This also sees triggers, text indexes and
their options, expressions, predicates, collations, storage, fill factors and cascades.
"""

from __future__ import annotations

import os
import re
import sqlite3
from pathlib import Path

import psycopg

GOLDEN = Path(__file__).parent / "golden"


def golden(name: str, found: str) -> str:
    """The reviewed text of *name*; with MEMALCHEMY_REGENERATE=1, *found* becomes it."""
    path = GOLDEN / name
    if os.environ.get("MEMALCHEMY_REGENERATE"):
        path.write_text(found)
    return path.read_text()


def of_sqlite(connection: sqlite3.Connection) -> str:
    rows = connection.execute("SELECT type, name, sql FROM sqlite_master ORDER BY type, name")
    return "".join(
        f"{kind} {name}: {_on_a_line(sql or '(implied)')}\n"
        for kind, name, sql in rows
        if not _MADE_BY_FTS5.fullmatch(name)
    )


def of_postgresql(connection: psycopg.Connection, schema: str = "public") -> str:
    facts = [row[0] for query in _FACTS for row in connection.execute(query, {"schema": schema})]
    return "".join(f"{_on_a_line(fact)}\n" for fact in facts)


def _on_a_line(text: str) -> str:
    return re.sub(r"\s+", " ", text).strip()


_MADE_BY_FTS5 = re.compile(
    r"(deltas_search|checkpoints_meta|store_items_search)_(config|content|data|docsize|idx)"
)

_OURS = "FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace AND n.nspname = %(schema)s"

_FACTS = (
    # Tables, with their storage parameters.
    f"""SELECT format('table %%s%%s', c.relname, ' with ' || array_to_string(c.reloptions, ', '))
        {_OURS} WHERE c.relkind IN ('r', 'p', 'v', 'm') ORDER BY c.relname COLLATE "C" """,
    # Columns in order: type, null, default, collation where it is not the database's, and storage
    # where it is not the type's.
    f"""SELECT format('column %%s.%%s: %%s%%s%%s%%s%%s', c.relname, a.attname,
            format_type(a.atttypid, a.atttypmod), CASE WHEN a.attnotnull THEN ' not null' END,
            ' default ' || pg_get_expr(d.adbin, d.adrelid),
            CASE WHEN l.collname <> 'default' THEN ' collate ' || l.collname END,
            CASE WHEN a.attstorage <> t.typstorage THEN ' storage ' || a.attstorage::text END)
        {_OURS} JOIN pg_attribute a ON a.attrelid = c.oid AND a.attnum > 0 AND NOT a.attisdropped
        JOIN pg_type t ON t.oid = a.atttypid
        LEFT JOIN pg_attrdef d ON d.adrelid = c.oid AND d.adnum = a.attnum
        LEFT JOIN pg_collation l ON l.oid = a.attcollation
        WHERE c.relkind = 'r' ORDER BY c.relname COLLATE "C", a.attnum""",
    # Keys and foreign keys; NOT NULL is a constraint of its own from PostgreSQL 18 on.
    f"""SELECT format('constraint %%s: %%s', k.conname, pg_get_constraintdef(k.oid))
        {_OURS} JOIN pg_constraint k ON k.conrelid = c.oid AND k.contype <> 'n'
        ORDER BY k.conname COLLATE "C" """,
    # Indexes: method, expressions, operator classes, predicates.
    f"""SELECT format('index %%s: %%s', c.relname, pg_get_indexdef(c.oid))
        {_OURS} WHERE c.relkind = 'i' ORDER BY c.relname COLLATE "C" """,
    f"""SELECT format('trigger %%s', pg_get_triggerdef(t.oid))
        {_OURS} JOIN pg_trigger t ON t.tgrelid = c.oid AND NOT t.tgisinternal ORDER BY t.tgname""",
)
