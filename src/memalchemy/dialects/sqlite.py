"""SQLite: one writer, FTS5, JSON as text, and a lock that is a write."""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Mapping, Sequence
from typing import Any, ClassVar

import orjson
from sqlalchemy import (
    ColumnElement,
    Connection,
    Executable,
    FromClause,
    Insert,
    Select,
    Table,
    and_,
    bindparam,
    column,
    func,
    literal_column,
    or_,
    select,
    table,
    text,
    update,
)
from sqlalchemy.dialects.sqlite import insert  # noqa: TID251
from sqlalchemy.exc import DBAPIError

from memalchemy.dialects.base import Dialect, Failure, original
from memalchemy.schema import TENANT

BUSY_TIMEOUT_SECONDS = 30


class SQLite(Dialect):
    name: ClassVar[str] = "sqlite"
    single_writer: ClassVar[bool] = True
    server_version: ClassVar[str] = "SELECT sqlite_version()"
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
            statement = statement.from_select(list(values), source)
        return statement.on_conflict_do_update(index_elements=key, set_=set_, where=where)

    def excluded(self, table: Table, column: str) -> ColumnElement[Any]:
        return insert(table).excluded[column]

    def lock(self, table: Table, where: ColumnElement[bool], columns: Sequence[Any]) -> Executable:
        # There is no FOR UPDATE, and a deferred transaction that reads before it writes cannot be
        # upgraded once somebody else has written. A write that changes nothing locks first.
        same = table.c.next_seq
        return update(table).where(where).values({same: same}).returning(*columns)

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
        # The same spelling as in the first revision's triggers. The value is looked at again, so
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

    def text_hits(self) -> FromClause:
        return (
            text(
                "SELECT terms.value AS term, deltas.tenant AS tenant, "
                "deltas.thread_id AS thread_id, deltas.namespace AS namespace, deltas.seq AS seq "
                "FROM json_each(:terms) AS terms CROSS JOIN deltas_search "
                "ON deltas_search MATCH terms.value "
                "CROSS JOIN deltas ON deltas.rowid = deltas_search.rowid "
                "WHERE deltas.tenant = :k_tenant AND deltas.namespace = :k_namespace"
            )
            .bindparams(bindparam("k_tenant", type_=TENANT))
            .columns(
                column("term"),
                column("tenant"),
                column("thread_id"),
                column("namespace"),
                column("seq"),
            )
            .cte("hits")
        )

    def text_terms(self, terms: Sequence[Sequence[str]]) -> Any:
        # A quoted string is a phrase to FTS5; tokens hold no quotes.
        return json.dumps([f'"{" ".join(phrase)}"' for phrase in terms], ensure_ascii=False)

    def purge_text_index(self, index: str) -> Executable | None:
        # FTS5 only marks words as deleted; they stay in its segments until those are merged.
        return text(f"INSERT INTO {index}({index}) VALUES ('optimize')")  # noqa: S608

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


def prepare(connection: sqlite3.Connection, *, synchronous: str, read_only: bool = False) -> None:
    """Set up a connection that memalchemy owns.

    auto_vacuum can be chosen only before the first page is written, so before WAL too.
    """
    if sqlite3.sqlite_version_info < (3, 35, 0):
        raise sqlite3.NotSupportedError(
            f"SQLite {sqlite3.sqlite_version} is too old: memalchemy needs 3.35 (RETURNING)"
        )
    connection.execute(f"PRAGMA busy_timeout = {BUSY_TIMEOUT_SECONDS * 1000}")
    connection.execute("PRAGMA foreign_keys = ON")
    if read_only:
        connection.execute("PRAGMA query_only = ON")
        return
    if connection.execute("PRAGMA page_count").fetchone() == (0,):
        connection.execute("PRAGMA auto_vacuum = INCREMENTAL")
    connection.execute("PRAGMA journal_mode = WAL")
    connection.execute(f"PRAGMA synchronous = {synchronous}")
    connection.execute("PRAGMA secure_delete = FAST")
