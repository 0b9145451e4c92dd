"""Oracle's programs and Oracle's habits on the databases that run here.

``pytest --strict-oracle tests/behaviour`` runs the behavioural suite with them: the dialect takes
from Oracle every statement and capability that another database can run, so that what runs is
update, insert, look again, and not the upsert; and between SQLAlchemy and the driver stands what
Oracle does to values. On SQLite that includes Oracle's metadata and text conditions, over functions
written here; on PostgreSQL the programs meet real concurrent writers.

This is what its author believes of Oracle, and no more: a server knows better (README.md here).
"""

from __future__ import annotations

import json
import os
import re
import sqlite3
from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Any, NoReturn

import aiosqlite
from sqlalchemy import JSON, Engine, LargeBinary, Text, TypeDecorator, event

from memalchemy.database.direct_connection import DirectConnection
from memalchemy.database.executors import selection
from memalchemy.dialects import DIALECTS, Dialect, register_dialect
from memalchemy.dialects.oracle import MAX_TEXT_BIND, Oracle
from memalchemy.dialects.postgresql.dialect import PostgreSQL
from memalchemy.dialects.sqlite import SQLite
from memalchemy.migrate import TABLES, chain

VARIABLE = "MEMALCHEMY_STRICT_ORACLE"
"""Tells the processes that tests start."""
DATABASES = ("sqlite", "postgresql")
MAX_IN = 1000
"""ORA-01795."""
MAX_VARCHAR = 4000
"""Bytes, whatever the number of characters: ORA-12899, ORA-00910."""

PARTS = ("statements", "text", "vectors", "maintenance")

PROGRAMS = {
    "dialect": ("variants",),
    "statements": ("has_arrays", "compares_tuples", "max_list_bytes", "upsert", "lock"),
}
"""What of Oracle's runs on any database here, by the part of the dialect that has it."""
CONDITIONS = {
    "statements": ("json_equals", "json_may_equal", "json_equals_binds"),
    "text": (
        "log_hits",
        "term",
        "terms",
        "item_hits",
        "items_in_scope",
        "log_scope_binds",
        "item_scope_binds",
        "indexes_fields",
        "finds_last_stored",
    ),
}
"""What of Oracle's runs on SQLite, over the functions below."""


def _because(reason: str, part: str, *names: str) -> dict[tuple[str, str], str]:
    return {(part, name): reason for name in names}


UNLIKE = {
    **_because("the driver's", "dialect", "name", "sqlalchemy_name", "column_types"),
    **_because("SQLite has one; two at once are PostgreSQL's part", "dialect", "single_writer"),
    **_because("a matter of round trips", "dialect", "autocommits"),
    **_because("migrations are the database's own", "dialect", "transactional_ddl"),
    **_because("the server's", "dialect", "snapshot_isolation", "dynamic_types", "advice"),
    **_because("row-level security is PostgreSQL's", "dialect", "row_level_security"),
    **_because("Citus is PostgreSQL's: see tests/citus", "dialect", "cluster"),
    **_because(
        "whether Citus has distributed the tables is asked of the server",
        *("dialect", "for_database", "learn"),
    ),
    **_because(
        "the connections are the driver's that is there",
        "dialect",
        *("in_transaction", "interrupt", "at_work", "abandon", "close_without_loop"),
        *("is_lost", "has_said_farewell", "on_connect"),
        *("read_url", "engine_options", "connect_options", "read_only_options"),
    ),
    **_because(
        "the errors are the driver's: see test_errors", "dialect", "driver_errors", "classify"
    ),
    **_because("the errors are those of the index that there is", "text", "may_have_raised"),
    **_because("part of the upsert that there is not", "statements", "excluded", "is_as_seen"),
    **_because(
        "part of the search in the order of storing that there is not",
        *("text", "last_stored", "are_newest_checkpoints"),
    ),
    **_because(
        "part of the statements of many rows that there are not",
        *("statements", "rows_from_arrays", "array_binds"),
    ),
    **_because(
        "CYCLE is the server's; SQLite ends a recursion that goes round by itself",
        *("statements", "recursive_union"),
    ),
    **_because(
        "JSON_TABLE and hints: the server's",
        *("statements", "rows_from_list", "list_binds", "materialized", "computed_first"),
    ),
    **_because("the planner is the server's", "statements", "join_by_key"),
    **_because("the server's type keeps what is none out", "statements", "json_is_object"),
    **_because("SQLAlchemy does not look into Oracle's JSON", "statements", "json_is"),
    **_because(
        "how bytes are counted is the server's", "statements", "byte_length", "leading_bytes"
    ),
    **_because(
        "how rows are found is the server's",
        *("statements", "rowid", "has_custom_plans", "hide_from_planner"),
    ),
    **_because(
        "the text index that is there is the database's own",
        "text",
        *("sees_uncommitted", "purge", "index_name"),
        *("index_state", "repair_advice", "unindexed_rows", "force_index", "check_integrity"),
        *("rebuild", "is_aside", "set_aside_damaged"),
    ),
    **_because(
        "migrations are the database's own",
        *("vectors", "install_commands", "ensure_type", "convert_bytes", "is_native"),
    ),
    **_because(
        "vectors are the database's own: see test_binds",
        *("vectors", "bind", "readable", "bind_value", "column_type", "may_be_bytes"),
    ),
    **_because(
        "comparing vectors is the database's own",
        "vectors",
        *("computes_distances", "counts_changes", "distance", "query_value", "index_distance"),
        *("force_index", "index_settings", "current_settings", "build_index", "drop_index"),
        *("list_indexes", "build_progress", "index_commands"),
    ),
    **_because("DBMS_LOCK: see test_migrating", "maintenance", "lock_migrations"),
    **_because("DDL waits for no locks of tables there", "maintenance", "lock_commands"),
    **_because(
        "the server's",
        *("maintenance", "server_version", "utc_now", "byte_literal", "storage_faults"),
        *("schema_of_visible_table", "refuse_unusable", "takes_writes"),
    ),
    **_because(
        "what bytes are where, and giving them back, is the server's",
        *("maintenance", "sizes", "counts_pages", "step", "vacuum", "shrink_commands"),
    ),
    **_because(
        "printed, not run",
        *("maintenance", "grants", "backup_command", "restore_command", "distribution_commands"),
    ),
    **_because("views are the database's own: see tests/golden", "dialect", "views"),
    **_because("JSON of the database's own", "statements", "keys_with_value"),
    **_because("it has no index of fields", "text", "has_fields", "field_query"),
}
"""What of Oracle's cannot be run here, and why.

`test_strict_mode_is_complete` holds that nothing is forgotten.
"""


def _as_oracle(base: type[Dialect], *taken: Mapping[str, Sequence[str]]) -> type[Dialect]:
    """A subclass of *base* that has these attributes of Oracle's."""
    names: dict[str, list[str]] = {}
    for some in taken:
        for part, attributes in some.items():
            names.setdefault(part, []).extend(attributes)
    own: dict[str, Any] = {name: getattr(Oracle, name) for name in names.pop("dialect")}
    for part, attributes in names.items():
        theirs = type(getattr(Oracle, part))
        kind = type(getattr(base, part))
        own[part] = type(
            f"OracleOn{kind.__name__}",
            (kind,),
            {name: getattr(theirs, name) for name in attributes},
        )()
    return type(f"OracleOn{base.__name__}", (base,), own)


def _replace(owner: Any, name: str, function: Any) -> None:
    assert hasattr(owner, name), f"{owner} has no {name} any more"
    setattr(owner, name, function)


def install() -> None:
    """From here on SQLite and PostgreSQL are like Oracle, in this process and its workers."""
    if not DIALECTS["sqlite"].upserts:
        return
    os.environ[VARIABLE] = "1"
    # The habits are SQLAlchemy's hooks, which what goes straight to a driver passes by.
    _replace(DirectConnection, "execute", _leave_to_sqlalchemy)
    _replace(selection, "allows_direct_asyncpg", lambda *_: False)
    _replace(chain, "statement_subscribers", [lambda _: None])
    register_dialect(_as_oracle(SQLite, PROGRAMS, CONDITIONS), replace=True)
    register_dialect(_as_oracle(PostgreSQL, PROGRAMS), replace=True)
    event.listen(Engine, "do_execute", _execute)
    event.listen(Engine, "do_execute_no_params", _execute_without)
    event.listen(Engine, "do_executemany", _execute_many)
    event.listen(Engine, "connect", _connected)


async def _leave_to_sqlalchemy(*_: Any) -> None:
    """Take the place of `DirectConnection.execute`, which answers ``None`` for what it leaves."""


_SIZED = (str, bytes, bytearray, memoryview)
_OWN = ("match_key", "match_value", "terms", "scope")


# --- Between SQLAlchemy and the driver -----------------------------------------------------------


def _execute(cursor: Any, sql: str, parameters: Any, context: Any) -> bool:
    if sql.startswith("PRAGMA"):
        return False  # SQLite's own business
    values = _taken(sql, parameters, context)
    if context.dialect.name == "postgresql":
        _alone(cursor, sql, values, context)
    else:
        cursor.execute(_spelled(sql), values)
    return True


def _execute_without(cursor: Any, sql: str, context: Any) -> bool:
    cursor.execute(_spelled(sql) if context.dialect.name == "sqlite" else sql)
    return True


def _execute_many(cursor: Any, sql: str, parameters: Any, context: Any) -> bool:
    cursor.executemany(sql, [_taken(sql, row, context) for row in parameters])
    return True


def _alone(cursor: Any, sql: str, values: Any, context: Any) -> None:
    """On PostgreSQL a failed statement takes its transaction with it; on Oracle only itself."""
    if not context.isinsert or context.root_connection._is_autocommit_isolation():
        cursor.execute(sql, values)
        return
    cursor.execute("SAVEPOINT a_statement")
    try:
        cursor.execute(sql, values)
    except BaseException:
        cursor.execute("ROLLBACK TO SAVEPOINT a_statement")
        raise


def _taken(sql: str, parameters: Any, context: Any) -> Any:
    """The values as Oracle takes them; raises what it would."""
    for listed in re.findall(r"\bIN \(([^()]*)\)", sql):
        if listed.count(",") >= MAX_IN:
            refuse("ORA-01795: maximum number of expressions in a list is 1000", context)
    binds = _binds(context, parameters)
    if isinstance(parameters, Mapping):
        return {name: _value(v, binds.get(name), context) for name, v in parameters.items()}
    return tuple(_value(v, binds.get(at), context) for at, v in enumerate(parameters))


def _binds(context: Any, parameters: Any) -> dict[Any, Any]:
    """SQLAlchemy's bind of each value, by name or position; none where nobody knows it."""
    compiled = context.compiled
    if compiled is None or not compiled.is_sql:
        return {}
    if isinstance(parameters, Mapping):
        return {name: compiled.binds[name] for name in parameters if name in compiled.binds}
    names = compiled.positiontup or []
    if len(names) != len(parameters):  # an IN was expanded
        return {}
    return {at: compiled.binds[name] for at, name in enumerate(names)}


def _value(value: Any, bind: Any, context: Any) -> Any:
    type_ = None if bind is None else bind.type
    # A condition of PostgreSQL's own: see CONDITIONS.
    own = context.dialect.name == "postgresql" and bind is not None and bind.key in _OWN
    if isinstance(value, _SIZED) and len(value) == 0 and not own:
        return None
    if isinstance(value, datetime) and type_ is None:
        refuse("a datetime without a type is a DATE, which ends at seconds", context)
    if isinstance(value, _SIZED):
        size = len(value.encode(errors="replace") if isinstance(value, str) else value)
        if size > MAX_TEXT_BIND and not (
            (context.isinsert or context.isupdate) and _is_large(type_)
        ):
            refuse(f"ORA-01461: a value of {size} bytes can only be put into a LOB", context)
    return value


def _is_large(type_: Any) -> bool:
    inner = type_.impl if isinstance(type_, TypeDecorator) else type_
    return isinstance(inner, (Text, JSON, LargeBinary))


def refuse(message: str, context: Any) -> NoReturn:
    """Fail as the driver does, so that the library sees an error of the database."""
    raise context.dialect.loaded_dbapi.DatabaseError(message)


# --- On SQLite: widths, spelling and functions ---------------------------------------------------

_TABLE = re.compile(r"\s*CREATE TABLE \"?(\w+?)(?:_new)?\"?\s")
"""One that a revision puts into another's place is _new at first."""
_COLUMN = re.compile(r"^\s+(\"?\w+\"?) (VARCHAR\((\d+)\)|TEXT|BLOB)(?: NOT NULL)?", re.MULTILINE)


def _spelled(sql: str) -> str:
    """Oracle's spelling as SQLite's; tables with the limits that SQLite does not have."""
    if (table := _TABLE.match(sql)) and table[1] in TABLES:
        return _COLUMN.sub(_limited, sql)
    sql = sql.replace(" RETURNING JSON)", ")")
    return re.sub(
        r"SELECT listed\.term FROM JSON_TABLE\((\?|:\w+), '\$\[\*\]' COLUMNS "
        r"\(term VARCHAR2\(4000\) PATH '\$'\)\) listed",
        r"SELECT listed.value AS term FROM json_each(\1) listed",
        sql,
    )


def _limited(column: re.Match[str]) -> str:
    name, _, length = column.groups()
    conditions = [f"length(CAST({name} AS BLOB)) > 0"]  # what SQL computes may be empty, too
    if length:
        conditions += [
            f"length({name}) <= {length}",
            f"length(CAST({name} AS BLOB)) <= {MAX_VARCHAR}",
        ]
    return f"{column[0]} CHECK ({' AND '.join(conditions)})"


def _connected(connection: Any, record: Any) -> None:
    raw = getattr(connection, "driver_connection", connection)
    if not isinstance(raw, (sqlite3.Connection, aiosqlite.Connection)):
        return
    raw.row_factory = lambda cursor, row: tuple(None if v in ("", b"") else v for v in row)
    for name, arguments, function in (
        ("json_mergepatch", 2, _mergepatch),
        ("json_equal", 2, _equal),
        ("contains", 2, contains),
    ):
        connection.create_function(name, arguments, function)


def _mergepatch(target: Any, patch: Any) -> str | None:
    if target is None or patch is None:
        return None
    return json.dumps(merged(_document(target), _document(patch)))


def _document(cell: Any) -> Any:
    """The document of a cell, which on SQLite may be a number that somebody put there."""
    return json.loads(cell) if isinstance(cell, str) else cell


def merged(target: Any, patch: Any) -> Any:
    """RFC 7396, which JSON_MERGEPATCH does."""
    if not isinstance(patch, dict):
        return patch
    result = dict(target) if isinstance(target, dict) else {}
    for key, value in patch.items():
        if value is None:
            result.pop(key, None)
        else:
            result[key] = merged(result.get(key), value)
    return result


def _equal(a: Any, b: Any) -> bool | None:
    if a is None or b is None:
        return None
    return same(_document(a), _document(b))


def same(a: Any, b: Any) -> bool:
    """JSON_EQUAL: members in any order, numbers by value, true is not 1."""
    if isinstance(a, bool) or isinstance(b, bool):
        return a is b
    if isinstance(a, dict) and isinstance(b, dict):
        return a.keys() == b.keys() and all(same(a[key], b[key]) for key in a)
    if isinstance(a, list) and isinstance(b, list):
        return len(a) == len(b) and all(map(same, a, b))
    return bool(a == b)


# A word without quotes has none of the characters that are operators.
_TERM = re.compile(r"\{([^{}\s]+)\}|([^\s,&|=?{}\\()\[\];~$!>*%_-]+)%")


def contains(text: str | None, query: str) -> int:
    """CONTAINS of a quoted word or of a prefix; anything else in a query is an operator."""
    term = _TERM.fullmatch(query)
    if term is None:
        raise ValueError(f"DRG-50901: text query parser syntax error: {query!r}")
    words, (word, prefix) = (text or "").lower().split(), term.groups()
    if prefix is not None:
        return 100 * any(one.startswith(prefix.lower()) for one in words)
    return 100 * (word.lower() in words)
