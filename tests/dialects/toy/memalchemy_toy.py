"""A third party's dialect in one file, to copy from: `docs/dialects.md` explains it.

A toy is a file of SQLite's format, so SQLAlchemy's "sqlite" compiles the statements. All else is
written here, of the base classes alone, and as little of it as the contract allows: there is no
upsert, no array, no text index and no distance in SQL. The directory of this file stands on
`sys.path` as an installed package does, with its entry point beside it.
``pytest --databases toy tests/behaviour`` runs the behavioural suite on it.
"""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Mapping, Sequence
from typing import Any, ClassVar
from uuid import UUID

from sqlalchemy import (
    ColumnElement,
    Connection,
    Executable,
    FromClause,
    Integer,
    LargeBinary,
    Select,
    String,
    Table,
    bindparam,
    case,
    cast,
    column,
    func,
    literal_column,
    or_,
    select,
    text,
    update,
)
from sqlalchemy.engine import URL

from memalchemy.column_types import LogKey
from memalchemy.dialects import (
    LOCKS,
    Dialect,
    Failure,
    Maintenance,
    Statements,
    Target,
    Term,
    TextIndexes,
    Vectors,
    in_namespace,
    original,
)
from memalchemy.errors import UnknownURL
from memalchemy.schema import DeltaRow, StoreItemRow, ThreadRow
from memalchemy.variants import NO_UPSERT

_DELTAS, _ITEMS, _THREADS = (row.__table__ for row in (DeltaRow, StoreItemRow, ThreadRow))

# --- Statements ----------------------------------------------------------------------------------


class ToyStatements(Statements):
    """JSON functions of SQLite, and a write as the lock. There is no upsert, and no array."""

    def lock(
        self,
        table: Table,
        where: ColumnElement[bool],
        columns: Sequence[Any],
        *,
        skip_locked: bool = False,
    ) -> Executable:
        # SQLite has no FOR UPDATE: a write that changes nothing locks the file. Nobody else has
        # locked a row of it then, so there is nothing to skip.
        same = table.c.version
        locking = update(table).where(where).values({same: same}).returning(*columns)
        return locking.execution_options(**{LOCKS: True})

    def rows_from_list(self, parameter: str, columns: Sequence[str]) -> FromClause:
        # JSON has no bytes, and a key of a log is 16 of them: the keys are bound beside the rows.
        fields = ", ".join(
            f"substr(:{parameter}_keys, 16 * each.key + 1, 16) AS log_id"
            if name == "log_id"
            else f"json_extract(each.value, '$[{at}]') AS {name}"
            for at, name in enumerate(columns)
        )
        rows = text(f"SELECT {fields} FROM json_each(:{parameter}) AS each")
        named = (column(name, LogKey if name == "log_id" else None) for name in columns)
        return rows.columns(*named).subquery("listed")

    def list_binds(self, parameter: str, rows: Sequence[Sequence[Any]]) -> dict[str, Any]:
        binds = super().list_binds(parameter, rows)
        keys = [value.bytes for row in rows for value in row if isinstance(value, UUID)]
        return binds | ({f"{parameter}_keys": b"".join(keys)} if keys else {})

    def json_equals(self, table: Table, kind: str) -> ColumnElement[bool]:
        each = func.json_each(table.c.meta).table_valued("key", "type", "value", name="each")
        types = {"number": ("integer", "real"), "container": ("object", "array")}.get(kind, (kind,))
        is_kind = or_(*(each.c.type == literal_column(f"'{one}'") for one in types))
        conditions = [each.c.key == bindparam("match_key"), is_kind]
        if kind in ("text", "number"):
            conditions.append(each.c.value == bindparam("match_value"))
        elif kind == "container":
            stored, wanted = _nodes_of(each.c.value), _nodes_of(bindparam("match_value"))
            conditions += [~stored.except_(wanted).exists(), ~wanted.except_(stored).exists()]
        return select(literal_column("1")).select_from(each).where(*conditions).exists()

    def json_equals_binds(self, key: str, value: Any, kind: str) -> dict[str, Any]:
        if kind == "container":
            value = json.dumps(value)
        return {"match_key": key} | ({"match_value": value} if kind in _COMPARED else {})

    def json_is_object(self, column: ColumnElement[Any]) -> ColumnElement[int]:
        one, none = literal_column("1", Integer), literal_column("0", Integer)
        is_object = func.json_type(column) == literal_column("'object'")
        # The type of what is no JSON is an error, so it is asked for last.
        return case((func.json_valid(column) == none, none), (is_object, one), else_=none)

    def byte_length(self, value: ColumnElement[Any]) -> ColumnElement[int]:
        of_bytes = isinstance(value.type, LargeBinary)
        return func.length(value if of_bytes else cast(value, LargeBinary))


def _nodes_of(container: ColumnElement[Any]) -> Select[Any]:
    """Select what tells a container of JSON from others; SQLite has two types for its numbers."""
    tree = func.json_tree(container).table_valued("path", "key", "type", "atom")
    kind = func.replace(tree.c.type, literal_column("'integer'"), literal_column("'real'"))
    return select(tree.c.path, tree.c.key, kind, tree.c.atom)


_COMPARED = ("text", "number", "container")
"""The kinds of JSON values of which there are several, so that the value is compared as well."""

# --- Words ---------------------------------------------------------------------------------------


class ToyTextIndexes(TextIndexes):
    """No index: a search reads the words of all rows of its namespace."""

    indexes_fields: ClassVar[bool] = False

    def term(self, term: Term) -> str:
        return f" {term.text}" if term.prefix else f" {term.text} "

    def log_hits(self, below: bool = False) -> FromClause:
        terms = _asked_terms()
        rows = terms.join(_DELTAS, _holds(_DELTAS.c.search_text, terms.c.term))
        return (
            select(terms.c.term, _DELTAS.c.log_id, _DELTAS.c.seq)
            .select_from(rows.join(_THREADS, _THREADS.c.log_id == _DELTAS.c.log_id))
            .where(in_namespace(_THREADS, below))
            .cte("hits")
        )

    def item_hits(self, below: bool, columns: Sequence[ColumnElement[Any]]) -> FromClause:
        terms = _asked_terms()
        return (
            select(terms.c.term, *columns)
            .select_from(terms.join(_ITEMS, _holds(_ITEMS.c.search_text, terms.c.term)))
            .where(in_namespace(_ITEMS, below))
            .cte("hits")
        )

    def items_in_scope(self, below: bool) -> FromClause:
        columns = (_ITEMS.c[name] for name in ("namespace", "key", "updated_at"))
        return select(*columns).where(in_namespace(_ITEMS, below)).cte("within")

    def item_scope_binds(
        self, tenant: str, path: str, below: bool, fields: Sequence[Any]
    ) -> Mapping[str, Any]:
        return {}  # those of `in_namespace` are bound in any case


def _asked_terms() -> FromClause:
    """Return the terms of ``:terms``, one a row."""
    listed = text("SELECT value AS term FROM json_each(:terms)")
    return listed.columns(column("term", String)).subquery("asked")


def _holds(words: ColumnElement[str], term: ColumnElement[str]) -> ColumnElement[bool]:
    """Return the condition that a row has a term: its words have one space between them."""
    space = literal_column("' '", String)
    return func.instr(space + func.lower(words) + space, term) > 0


# --- Vectors -------------------------------------------------------------------------------------


class ToyVectors(Vectors):
    """Bytes, which this process compares; nothing tells a cache of them that they have changed."""

    computes_distances: ClassVar[bool] = False


# --- Maintenance ---------------------------------------------------------------------------------


class ToyMaintenance(Maintenance):
    """The schema's extras, and the lock of migrations; sizes and the like are not to be had."""

    server_version: ClassVar[str] = "SELECT sqlite_version() || ' as a toy'"
    utc_now: ClassVar[str] = "CAST(strftime('%s', 'now') AS INTEGER) * 1000000"
    byte_literal: ClassVar[str] = "X'2D'"

    def lock_migrations(self, connection: Connection, schema: str | None) -> None:
        driver_connection: Any = connection.connection.driver_connection
        if not driver_connection.in_transaction:  # Python's driver begins one before DML only
            connection.exec_driver_sql("BEGIN IMMEDIATE")

    def create_extras(self, revision: str, operations: Any, schema: str | None) -> bool:
        # A connection of the host's does not heed foreign keys, unless it asked SQLite to.
        for name, table, condition in _DEPENDENT:
            operations.execute(
                f"CREATE TRIGGER {table}_follow_{name} AFTER DELETE ON {name} "
                f"BEGIN DELETE FROM {table} WHERE {condition}; END"
            )
        return True

    def drop_extras(self, revision: str, operations: Any, schema: str | None) -> bool:
        return True  # triggers go with their tables

    def grants(self, role: str, schema: str | None, tables: Sequence[str]) -> list[str]:
        return []  # a file has no roles


_OF_LOG = "log_id = old.log_id"
_OF_ITEM = "tenant = old.tenant AND namespace = old.namespace AND key = old.key"
_DEPENDENT = (
    ("threads", "checkpoints", _OF_LOG),
    ("threads", "deltas", _OF_LOG),
    ("store_items", "embeddings", _OF_ITEM),
)
"""Tables, those whose rows go with theirs, and which rows these are."""

# --- The dialect ---------------------------------------------------------------------------------

_FAILURES = {
    sqlite3.SQLITE_BUSY: Failure.BUSY,
    sqlite3.SQLITE_LOCKED: Failure.BUSY,
    sqlite3.SQLITE_INTERRUPT: Failure.BUSY,
    sqlite3.SQLITE_CANTOPEN: Failure.UNREACHABLE,
    sqlite3.SQLITE_READONLY: Failure.PERMISSION,
    sqlite3.SQLITE_PERM: Failure.PERMISSION,
    sqlite3.SQLITE_FULL: Failure.FULL,
    sqlite3.SQLITE_CORRUPT: Failure.CORRUPT,
    sqlite3.SQLITE_NOTADB: Failure.CORRUPT,
    sqlite3.SQLITE_CONSTRAINT_UNIQUE: Failure.UNIQUE,
    sqlite3.SQLITE_CONSTRAINT_PRIMARYKEY: Failure.UNIQUE,
}


class Toy(Dialect):
    """A database in a file: ``toy:///path/to/file``."""

    name: ClassVar[str] = "toy"
    sqlalchemy_name: ClassVar[str] = "sqlite"
    variants: tuple[str, ...] = (NO_UPSERT,)
    single_writer: ClassVar[bool] = True
    dynamic_types: ClassVar[bool] = True
    driver_errors: ClassVar[tuple[type[Exception], ...]] = (sqlite3.Error,)

    statements = ToyStatements()
    text = ToyTextIndexes()
    vectors = ToyVectors()
    maintenance = ToyMaintenance()

    def read_url(self, url: URL, driver: str) -> Target:
        if driver or url.host or url.query or not url.database:
            raise UnknownURL("a toy is a file: toy:///path/to/file")
        shown = f"toy:///{url.database}"
        return Target(self.name, URL.create("sqlite", database=url.database), shown, url.database)

    def in_transaction(self, raw: Any) -> bool:
        try:
            return bool(raw.in_transaction)
        except ValueError:  # aiosqlite: it is closed
            return False

    def abandon(self, raw: Any) -> bool:
        raw.stop()  # aiosqlite closes the connection in its own thread
        return True

    def classify(self, error: BaseException) -> tuple[Failure, str | None]:
        cause = original(error)
        if not isinstance(cause, sqlite3.Error):
            return Failure.OTHER, None
        code = getattr(cause, "sqlite_errorcode", 0)
        name = getattr(cause, "sqlite_errorname", None)
        if code == sqlite3.SQLITE_ERROR and "no such table" in str(cause):
            return Failure.MISSING_TABLE, name  # there is no code for it
        return _FAILURES.get(code, _FAILURES.get(code & 0xFF, Failure.OTHER)), name
