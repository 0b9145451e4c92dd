"""PostgreSQL: one statement per save, row locks, JSONB, tsvector, pgvector, advisory locks.

Without pgvector vectors are stored as bytes. Tables may be spread over the nodes of Citus.
"""

from __future__ import annotations

import os
import select
import socket
import uuid
from collections.abc import Callable, Mapping
from copy import copy
from functools import partial
from typing import Any, ClassVar

from sqlalchemy import Connection
from sqlalchemy.engine import URL

from memalchemy._bounds import parse_metadata
from memalchemy.column_types import ColumnTypes
from memalchemy.dialects.base import (
    Cluster,
    Dialect,
    Failure,
    Maintenance,
    RowLevelSecurity,
    Statements,
    TextIndexes,
    Vectors,
)
from memalchemy.dialects.postgresql.cluster import Citus
from memalchemy.dialects.postgresql.column_types import PostgreSQLColumnTypes
from memalchemy.dialects.postgresql.distributed import is_distributed, use_distribution
from memalchemy.dialects.postgresql.ended_loops import (
    close_asyncpg_in_loop,
    close_asyncpg_without_loop,
)
from memalchemy.dialects.postgresql.failures import DATE_STYLE, classify
from memalchemy.dialects.postgresql.maintenance import PostgreSQLMaintenance
from memalchemy.dialects.postgresql.row_level_security import PostgreSQLRowLevelSecurity
from memalchemy.dialects.postgresql.statements import PostgreSQLStatements
from memalchemy.dialects.postgresql.text_indexes import PostgreSQLTextIndexes
from memalchemy.dialects.postgresql.urls import read_postgresql_url
from memalchemy.dialects.postgresql.vectors import PostgreSQLVectors
from memalchemy.dialects.urls import Target
from memalchemy.dialects.views import PostgreSQLViews, Views
from memalchemy.variants import ONE_STATEMENT

_READ_ONLY = "default_transaction_read_only"

_NAME_PGBOUNCER = (
    "If the URL leads to PgBouncer in transaction mode, add pgbouncer=true to the URL, or open "
    "Database(url, pgbouncer=True)."
)

_DISTRIBUTED_SINCE = (
    "If Citus has distributed the tables since this process opened the database, open it again. "
    "`memalchemy check` says whether all of them are distributed."
)

_NEEDED = {"DateStyle": "ISO", "client_encoding": "UTF8", "standard_conforming_strings": "on"}
"""Settings without which drivers do not read or write what is stored.

A role or a database may have others. psycopg reads times in ISO's style alone.
"""


def _is_set(reported: Callable[[str], str | None], name: str, value: str) -> bool:
    """Return whether the server has reported a setting to be *value*, or has not reported it."""
    try:
        found = reported(name)
    except AttributeError:  # asyncpg, of a setting that it was not told
        return True
    return found is None or found.startswith(value)


_ISO_ALONE = (
    "psycopg reads times only in the DateStyle ISO, and this connection has another one. Of an "
    "engine of yours: connect_args={'options': '-c DateStyle=ISO'}; or ALTER ROLE … SET DateStyle "
    "= 'ISO'"
)
_HIDDEN_TYPE = (
    "A type is not found: pgvector's may be in a schema that is not in the search_path. "
    "`memalchemy check` says so, and what to do."
)


class PostgreSQL(Dialect):
    """PostgreSQL through asyncpg or psycopg."""

    name: ClassVar[str] = "postgresql"
    sqlalchemy_name: ClassVar[str] = "postgresql"
    variants: tuple[str, ...] = (ONE_STATEMENT,)
    snapshot_isolation: ClassVar[str | None] = "REPEATABLE READ"
    advice: ClassVar[Mapping[str, str]] = {
        "3D000": "The server runs, and has no database of that name: create it.",
        # A startup parameter that PgBouncer does not take; a prepared statement that is not on the
        # server's connection, or that another client's has.
        **dict.fromkeys(("08P01", "26000", "42P05"), _NAME_PGBOUNCER),
        **dict.fromkeys(("0A000", "42P18"), _DISTRIBUTED_SINCE),
        "42704": _HIDDEN_TYPE,
        DATE_STYLE: _ISO_ALONE,
    }

    column_types: ColumnTypes = PostgreSQLColumnTypes()
    statements: Statements = PostgreSQLStatements()
    text: TextIndexes = PostgreSQLTextIndexes()
    vectors: Vectors = PostgreSQLVectors()
    maintenance: Maintenance = PostgreSQLMaintenance()
    views: Views = PostgreSQLViews()
    row_level_security: RowLevelSecurity | None = PostgreSQLRowLevelSecurity()
    cluster: Cluster | None = Citus()

    def for_database(self) -> Dialect:
        own = copy(self)
        own.has_to_learn = True
        return own

    def learn(self, connection: Connection, schema: str | None) -> None:
        if self.has_to_learn and is_distributed(connection, schema):
            use_distribution(self)
        self.has_to_learn = False

    def read_url(self, url: URL, driver: str) -> Target:
        return read_postgresql_url(self.name, self.sqlalchemy_name, url, driver)

    def engine_options(
        self,
        target: Target,
        *,
        pgbouncer: bool,
        connect_timeout: float,
        statement_timeout: float | None,
    ) -> dict[str, Any]:
        options: dict[str, Any] = {"json_deserializer": parse_metadata}
        connect_args, driver = dict(target.connect_args), target.url.get_driver_name()
        if driver == "asyncpg":
            connect_args.setdefault("timeout", connect_timeout)
            if statement_timeout is not None:
                connect_args["command_timeout"] = statement_timeout
            if pgbouncer:
                # In transaction mode a statement may run on another server connection than the one
                # that prepared it: no caches, and names that never meet.
                connect_args["statement_cache_size"] = 0
                connect_args["prepared_statement_cache_size"] = 0
                connect_args["prepared_statement_name_func"] = _new_statement_name
        elif driver == "psycopg":
            connect_args.setdefault("connect_timeout", max(1, round(connect_timeout)))
            if pgbouncer:
                connect_args["prepare_threshold"] = None
            elif statement_timeout is not None:
                timeout = f"-c statement_timeout={round(statement_timeout * 1000)}"
                connect_args["options"] = f"{connect_args.get('options', '')} {timeout}".strip()
        return options | {"connect_args": connect_args}

    def read_only_options(
        self, options: dict[str, Any], target: Target, *, pgbouncer: bool
    ) -> dict[str, Any]:
        if pgbouncer:  # which takes no server options; every statement is in a transaction there
            return options | {"execution_options": {"postgresql_readonly": True}}
        connect_args = dict(options["connect_args"])
        if target.url.get_driver_name() == "asyncpg":
            settings = connect_args.get("server_settings", {})
            connect_args["server_settings"] = settings | {_READ_ONLY: "on"}
        else:
            given = connect_args.get("options", "")
            connect_args["options"] = f"{given} -c {_READ_ONLY}=on".strip()
        return options | {"connect_args": connect_args}

    def on_connect(self, connection: Any) -> None:
        raw = connection.driver_connection
        if hasattr(raw, "is_in_transaction"):  # asyncpg
            reported = partial(getattr, raw.get_settings())
        else:
            reported = raw.info.parameter_status
        changes = [f"SET {name} = {value}" for name, value in _NEEDED.items()]
        if all(_is_set(reported, name, value) for name, value in _NEEDED.items()):
            return
        cursor = connection.cursor()
        for change in changes:
            cursor.execute(change)
        cursor.close()
        connection.commit()

    def in_transaction(self, raw: Any) -> bool:
        if hasattr(raw, "is_in_transaction"):  # asyncpg
            return not raw.is_closed() and bool(raw.is_in_transaction())
        return raw.info.transaction_status.name in ("ACTIVE", "INTRANS", "INERROR")

    def is_lost(self, raw: Any, error: BaseException) -> bool:
        closed = raw.is_closed() if hasattr(raw, "is_closed") else raw.closed
        failure, code = classify(error)
        # Without a code the error may be that of a wrong argument.
        farewell = code is not None or type(error).__name__ == "InternalClientError"
        return closed or (failure is Failure.DISCONNECTED and farewell)

    def has_said_farewell(self, raw: Any) -> bool:
        if hasattr(raw, "is_closed"):  # asyncpg, which has no public way to its socket
            transport = raw._transport
            end = None if transport is None else transport.get_extra_info("socket")
            if raw.is_closed() or end is None:
                return bool(raw.is_closed())
            return _has_ended(end.fileno())
        return raw.closed or _has_ended(raw.fileno())

    def interrupt(self, raw: Any) -> None:
        if hasattr(raw, "terminate"):  # asyncpg: the connection is lost for its user
            raw.terminate()
        else:
            raw.cancel()

    def abandon(self, raw: Any) -> bool:
        if hasattr(raw, "terminate"):  # asyncpg
            close_asyncpg_in_loop(raw)
        elif self.at_work(raw):
            raw.cancel()  # to close it under a statement crashes psycopg
        else:
            raw.pgconn.finish()
        return True

    def close_without_loop(self, raw: Any, *, is_over: bool) -> None:
        if hasattr(raw, "terminate"):
            close_asyncpg_without_loop(raw, is_over=is_over)
        else:
            raw.pgconn.finish()

    def at_work(self, raw: Any) -> bool:
        return not hasattr(raw, "terminate") and raw.info.transaction_status.name == "ACTIVE"

    def classify(self, error: BaseException) -> tuple[Failure, str | None]:
        return classify(error)


def _has_ended(descriptor: int) -> bool:
    """Return whether the socket of an idle connection is at its end, or at an error before it.

    The first byte of such a message is E. What is encrypted cannot be told from a session's ticket.
    """
    if not hasattr(select, "poll"):  # Windows
        return False
    waiting = select.poll()
    waiting.register(descriptor, select.POLLIN)
    if not waiting.poll(0):
        return False
    end = socket.socket(fileno=os.dup(descriptor))
    try:
        return end.recv(1, socket.MSG_PEEK | socket.MSG_DONTWAIT) in (b"", b"E")
    except BlockingIOError:
        return False
    except OSError:
        return True
    finally:
        end.close()


def _new_statement_name() -> str:
    return f"__asyncpg_{uuid.uuid4()}__"
