"""SQLite: one writer, FTS5, JSON as text, and a lock that is a write.

What keeps a file whole and small is in `dialects.sqlite_upkeep`.
"""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Iterable, Mapping, Sequence
from itertools import accumulate
from typing import Any, ClassVar
from uuid import UUID

import orjson
from sqlalchemy import (
    ColumnClause,
    ColumnElement,
    Connection,
    Executable,
    FromClause,
    Insert,
    Integer,
    LargeBinary,
    Select,
    Table,
    and_,
    bindparam,
    case,
    column,
    func,
    literal_column,
    or_,
    select,
    table,
    text,
    update,
)
from sqlalchemy.dialects.sqlite import insert, pysqlite  # noqa: TID251
from sqlalchemy.exc import DBAPIError

from memalchemy.codec.field_terms import OTHERS, FieldTerms
from memalchemy.column_types import LogKey
from memalchemy.dialects.base import Failure, original
from memalchemy.dialects.sqlite_upkeep import Upkeep
from memalchemy.keys import encode_id
from memalchemy.schema import NAME, NAMESPACE, TENANT

BUSY_TIMEOUT_SECONDS = 30
ITEM_PATH: ColumnClause[str] = column("namespace", NAMESPACE)
ITEM_NAME: ColumnClause[str] = column("key", NAME)


_DIALECT = pysqlite.dialect()


class SQLite(Upkeep):
    name: ClassVar[str] = "sqlite"
    single_writer: ClassVar[bool] = True
    driver_errors: ClassVar[tuple[type[Exception], ...]] = (sqlite3.Error,)
    counts_vector_changes: ClassVar[bool] = True
    takes_arrays: ClassVar[bool] = True
    utc_now: ClassVar[str] = "CAST(strftime('%s', 'now') AS INTEGER) * 1000000"
    server_version: ClassVar[str] = "SELECT sqlite_version()"
    compares_vectors: ClassVar[bool] = False
    byte_literal: ClassVar[str] = "X'2D'"

    def upsert(
        self,
        table: Table,
        values: Mapping[str, Any],
        key: Sequence[str],
        set_: Mapping[str, Any],
        *,
        source: Select[Any] | None = None,
        where: ColumnElement[bool] | None = None,
    ) -> Insert:
        statement = insert(table)
        if source is None:
            statement = statement.values(values)
        else:
            # Without a condition ON CONFLICT would be read as one of a join.
            statement = statement.from_select(list(values), source.where(literal_column("1")))
        return statement.on_conflict_do_update(index_elements=key, set_=set_, where=where)

    def arrays(self, prefix: str, columns: Mapping[str, Any]) -> FromClause:
        # JSON has no bytes: they are sent in one piece, and each row says where its own are.
        read = []
        for at, (name, type_) in enumerate(columns.items()):
            value = f"json_extract(each.value, '$[{at}]')"
            if _is_bytes(type_):
                place = ", ".join(f"json_extract(each.value, '$[{at}][{n}]')" for n in (0, 1))
                value = f"substr(:{prefix}_bytes, {place})"
            read.append(f"{value} AS {name}")
        rows = text(f"SELECT {', '.join(read)} FROM json_each(:{prefix}_rows) AS each")  # noqa: S608
        named = (column(name, type_) for name, type_ in columns.items())
        return rows.columns(*named).subquery(f"{prefix}_given")

    def array_binds(
        self, prefix: str, columns: Mapping[str, Any], lists: Mapping[str, Sequence[Any]]
    ) -> dict[str, Any]:
        given: list[Iterable[Any]] = []
        pieces: list[bytes] = []
        end = 0
        for name, type_ in columns.items():
            values = lists[name]
            if _is_bytes(type_):
                ends = list(accumulate(map(len, values), initial=end))
                given.append(
                    (start + 1, len(one)) for start, one in zip(ends, values, strict=False)
                )
                pieces += values
                end = ends[-1]
            else:
                bind = type_.dialect_impl(_DIALECT).bind_processor(_DIALECT)
                given.append(values if bind is None else map(bind, values))
        rows = orjson.dumps(list(zip(*given, strict=True))).decode()
        return {f"{prefix}_rows": rows, f"{prefix}_bytes": b"".join(pieces)}

    def excluded(self, table: Table, column: str) -> ColumnElement[Any]:
        return insert(table).excluded[column]

    def lock(
        self,
        table: Table,
        where: ColumnElement[bool],
        columns: Sequence[Any],
        *,
        skip_locked: bool = False,
    ) -> Executable:
        # One writer: while it has the database, nobody else has locked anything. There is no
        # FOR UPDATE, and a deferred transaction that reads before it writes cannot be upgraded once
        # somebody else has written. A write that changes nothing locks first.
        same = table.c.version
        return update(table).where(where).values({same: same}).returning(*columns)

    def listed(self, parameter: str, columns: Sequence[str]) -> FromClause:
        # JSON has no bytes: keys of logs are sent in one piece beside it, 16 bytes each.
        fields = ", ".join(
            f"substr(:{parameter}_logs, 16 * each.key + 1, 16) AS log_id"
            if name == "log_id"
            else f"json_extract(each.value, '$[{at}]') AS {name}"
            for at, name in enumerate(columns)
        )
        rows = text(f"SELECT {fields} FROM json_each(:{parameter}) AS each")  # noqa: S608
        # Made once and first: the planner believes that any table is shorter than a list.
        made = (column(name, LogKey if name == "log_id" else None) for name in columns)
        names = rows.columns(*made).subquery("each_listed")
        return self.once(select(names), "listed").prefix_with("MATERIALIZED")

    def list_binds(self, parameter: str, rows: Sequence[Sequence[Any]]) -> dict[str, Any]:
        binds: dict[str, Any] = {parameter: orjson.dumps(rows).decode()}
        keys = [value.bytes for row in rows for value in row if isinstance(value, UUID)]
        return binds | ({f"{parameter}_logs": b"".join(keys)} if keys else {})

    def json_equals(self, owner: Table, kind: str) -> ColumnElement[bool]:
        each = func.json_each(owner.c.meta).table_valued(
            "key", "type", "atom", "value", name="each"
        )
        types = {"text": ["text"], "number": ["integer", "real"], "container": ["object", "array"]}
        match = [
            each.c.key == bindparam("match_key"),
            or_(*(each.c.type == literal_column(f"'{t}'") for t in types.get(kind, [kind]))),
        ]
        if kind in ("text", "number"):
            match.append(each.c.atom == bindparam("match_value"))
        elif kind == "container":
            match.append(each.c.value == func.json(bindparam("match_value")))
        index = table("checkpoints_meta", column("rowid"))
        wanted = select(index.c.rowid).where(
            literal_column("checkpoints_meta").bool_op("MATCH")(self._meta_term(kind))
        )
        rowid: ColumnElement[int] = literal_column(f"{owner.name}.rowid")
        return and_(
            rowid.in_(wanted), select(literal_column("1")).select_from(each).where(*match).exists()
        )

    def _meta_term(self, kind: str) -> ColumnElement[str]:
        # The same spelling as in the triggers. The value is looked at again, so
        # a number's lost digits or a text's lost tail only widen the search.
        value: Any
        if kind == "text":
            value = literal_column("'t'").op("||")(func.substr(bindparam("match_value"), 1, 120))
        elif kind == "number":
            value = literal_column("'n'").op("||")(func.printf("%.12g", bindparam("match_value")))
        elif kind == "container":
            value = func.json_type(bindparam("match_value"))
        else:
            value = literal_column(f"'{kind}'")
        separated = bindparam("match_key").op("||")(func.char(31)).op("||")(value)
        return (
            literal_column("'\"'")
            .op("||")(func.lower(func.hex(separated)))
            .op("||")(literal_column("'\"'"))
        )

    def json_parameters(self, key: str, value: Any, kind: str) -> dict[str, Any]:
        parameters: dict[str, Any] = {"match_key": key}
        if kind == "container":
            parameters["match_value"] = orjson.dumps(value, option=orjson.OPT_SORT_KEYS).decode()
        elif kind in ("text", "number"):
            parameters["match_value"] = value
        return parameters

    def text_hits(self, below: bool = False) -> FromClause:
        within = "= :k_namespace"
        if below:
            within = ">= :k_namespace AND threads.namespace < :k_beyond"
        return (
            text(
                "SELECT terms.value AS term, deltas.log_id AS log_id, deltas.seq AS seq "  # noqa: S608
                "FROM json_each(:terms) AS terms CROSS JOIN deltas_search "
                "ON deltas_search MATCH :log_scope || ' AND search_text : ' || terms.value "
                "CROSS JOIN deltas ON deltas.rowid = deltas_search.rowid "
                "CROSS JOIN threads ON threads.log_id = deltas.log_id "
                f"WHERE threads.tenant = :k_tenant AND threads.namespace {within}"
            )
            .bindparams(bindparam("k_tenant", type_=TENANT))
            .columns(column("term"), column("log_id", LogKey), column("seq", Integer))
            .cte("hits")
        )

    def log_scope(self, tenant: str) -> Mapping[str, Any]:
        return {"log_scope": f'scope : "x{encode_id(tenant).encode().hex()}"'}

    def item_hits(self, below: bool) -> FromClause:
        return (
            text(
                "SELECT terms.value AS term, store_items_search.rowid AS row_at "
                "FROM json_each(:terms) AS terms CROSS JOIN store_items_search "
                "ON store_items_search MATCH :scope || ' AND search_text : ' || terms.value"
            )
            .columns(column("term"), column("row_at"))
            .cte("hits")
        )

    def items_within(self, below: bool) -> FromClause:
        return (
            text(
                "SELECT store_items.namespace AS namespace, store_items.key AS key "
                "FROM store_items_search "
                "CROSS JOIN store_items ON store_items.rowid = store_items_search.rowid "
                "WHERE store_items_search MATCH :scope"
            )
            .columns(ITEM_PATH, ITEM_NAME)
            .cte("within")
        )

    def item_scope(
        self, tenant: str, path: str, below: bool, fields: Sequence[FieldTerms]
    ) -> Mapping[str, Any]:
        # As the triggers spell it. What lies below begins alike: hex keeps that.
        word = f"{encode_id(tenant)}\x1f{path}".encode().hex()
        conditions = [f'scope : "x{word}"{" *" if below else ""}']
        conditions += (
            f"field_terms : ({' OR '.join((*_quoted(one.words), _not(OTHERS, one.mark)))})"
            for one in fields
        )
        return {"scope": " AND ".join(conditions)}

    def text_terms(self, terms: Sequence[Sequence[str]]) -> Any:
        # A quoted string is a phrase to FTS5; tokens hold no quotes.
        return json.dumps([f'"{" ".join(phrase)}"' for phrase in terms], ensure_ascii=False)

    def json_readable(self, column: ColumnElement[Any]) -> ColumnElement[int]:
        one, none = literal_column("1", Integer), literal_column("0", Integer)
        is_object = func.json_type(column) == literal_column("'object'")
        # The type is asked for only where it is JSON: of anything else it is an error.
        return case((func.json_valid(column) == none, none), (is_object, one), else_=none)

    def row_position(self, table: Table) -> ColumnElement[int] | None:
        # Kept by VACUUM too, where a table has an index; and rows lie in this order.
        return literal_column(f"{table.name}.rowid", Integer)

    def in_transaction(self, raw: Any) -> bool:
        try:
            return bool(raw.in_transaction)
        except ValueError:  # aiosqlite: it is closed
            return False

    def abandon(self, raw: Any) -> bool:
        if not hasattr(raw, "stop"):  # aiosqlite before 0.22.1
            return False
        raw.stop()  # it closes the connection in its own thread, behind what was asked of it
        return True

    def classify(self, error: BaseException) -> tuple[Failure, str | None]:
        cause = original(error)
        if not isinstance(cause, sqlite3.Error):
            return Failure.OTHER, None
        code = getattr(cause, "sqlite_errorcode", 0) or 0
        name = getattr(cause, "sqlite_errorname", None)
        primary = code & 0xFF
        if code in (sqlite3.SQLITE_CONSTRAINT_UNIQUE, sqlite3.SQLITE_CONSTRAINT_PRIMARYKEY):
            return Failure.UNIQUE, name
        if code == sqlite3.SQLITE_IOERR_SHMSIZE:  # no room for the -shm file: opening wants 32 KB
            return Failure.FULL, name
        failure = {
            sqlite3.SQLITE_BUSY: Failure.BUSY,
            sqlite3.SQLITE_LOCKED: Failure.BUSY,
            sqlite3.SQLITE_INTERRUPT: Failure.BUSY,
            sqlite3.SQLITE_CANTOPEN: Failure.UNREACHABLE,
            sqlite3.SQLITE_READONLY: Failure.PERMISSION,
            sqlite3.SQLITE_PERM: Failure.PERMISSION,
            sqlite3.SQLITE_AUTH: Failure.PERMISSION,
            sqlite3.SQLITE_FULL: Failure.FULL,
            sqlite3.SQLITE_CORRUPT: Failure.CORRUPT,
            sqlite3.SQLITE_NOTADB: Failure.CORRUPT,
        }.get(primary)
        if failure is not None:
            return failure, name
        # SQLITE_ERROR covers every mistake in SQL; only the text tells a missing table apart.
        if isinstance(error, DBAPIError) and "no such table" in str(cause):
            return Failure.MISSING_TABLE, name
        return Failure.OTHER, name

    def migration_lock(self, connection: Connection, schema: str | None) -> None:
        # BEGIN IMMEDIATE is the lock. The writer's transactions start with it; a host's driver may
        # not have begun at all yet: Python's begins before DML only.
        if not connection.connection.driver_connection.in_transaction:  # type: ignore[union-attr]
            connection.exec_driver_sql("BEGIN IMMEDIATE")

    def grants(self, role: str, schema: str | None, tables: Sequence[str]) -> list[str]:
        return []


def _is_bytes(type_: Any) -> bool:
    return isinstance(getattr(type_, "impl", type_), LargeBinary)


def _not(word: str, other: str) -> str:
    return f'("{word}" NOT "{other}")'


def _quoted(words: Iterable[str]) -> Iterable[str]:
    return (f'"{word}"' for word in words)


def prepare(
    connection: sqlite3.Connection,
    *,
    synchronous: str,
    read_only: bool = False,
    busy_timeout: float | None = None,
) -> None:
    """Set up a connection that memalchemy owns; *busy_timeout* is in seconds.

    auto_vacuum can be chosen only before the first page is written, so before WAL too.
    """
    if sqlite3.sqlite_version_info < (3, 35, 0):
        raise sqlite3.NotSupportedError(
            f"SQLite {sqlite3.sqlite_version} is too old: memalchemy needs 3.35 (RETURNING)"
        )
    seconds = BUSY_TIMEOUT_SECONDS if busy_timeout is None else busy_timeout
    connection.execute(f"PRAGMA busy_timeout = {max(1, round(seconds * 1000))}")
    connection.execute("PRAGMA foreign_keys = ON")
    if read_only:
        connection.execute("PRAGMA query_only = ON")
        return
    if connection.execute("PRAGMA page_count").fetchone() == (0,):
        connection.execute("PRAGMA auto_vacuum = INCREMENTAL")
    connection.execute("PRAGMA journal_mode = WAL")
    connection.execute(f"PRAGMA synchronous = {synchronous}")
    # Deleted rows are overwritten in pages that are written anyway. ON would overwrite pages that
    # become free, too, and makes a prune a quarter slower: `forget` cuts them off instead.
    connection.execute("PRAGMA secure_delete = FAST")
