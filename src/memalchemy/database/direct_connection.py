"""Connections on which compiled statements go straight to the driver.

`DirectConnection` is the contract, `SQLiteDirectConnection` the one for the standard library's
sqlite3; `database.executors.asyncpg` has PostgreSQL's.
"""

from __future__ import annotations

import abc
import sqlite3
import time
from collections.abc import Callable, Mapping, Sequence
from typing import Any, ClassVar, TypeVar

from sqlalchemy import Connection, Executable
from sqlalchemy.engine import Dialect as SQLAlchemyDialect
from sqlalchemy.exc import DBAPIError

from memalchemy._unreadable_rows import UnreadableRows, describe_driver_error
from memalchemy.database.compiled import CompiledStatement, CompiledStatements
from memalchemy.events import StatementEvent, publish_statement, statements_are_observed
from memalchemy.statements import Answer, Parameters

T = TypeVar("T")

_INFO_KEY = "memalchemy_direct"


class DirectConnection(abc.ABC):
    """Executes statements on one connection in autocommit mode that one thread or task uses.

    *connection* is SQLAlchemy's connection; ``raw`` is the driver's below it.
    """

    driver: ClassVar[str]
    """The name of the driver below SQLAlchemy's."""

    _binding_errors_are_ours = False
    """The driver raises ValueError for a value it cannot bind, and for no row it cannot decode."""

    def __init__(self, connection: Connection, compiled: CompiledStatements) -> None:
        self.connection = connection
        self.dialect: SQLAlchemyDialect = connection.dialect
        self.raw: Any = connection.connection.driver_connection
        self._compiled = compiled

    @property
    def names_schema(self) -> bool:
        """True if the texts of statements name a schema."""
        return self._compiled.schema is not None

    def register(self) -> None:
        """Let `registered_for` find this one, as long as the connection lives."""
        self.connection.info[_INFO_KEY] = self

    @staticmethod
    def registered_for(connection: Connection) -> DirectConnection | None:
        """Return the direct connection that was registered for *connection*, if there is one."""
        found: DirectConnection | None = connection.info.get(_INFO_KEY)
        return found

    async def execute(self, statement: Executable, parameters: Parameters) -> Answer | None:
        """Execute *statement*; ``None``, and nothing was done, if only SQLAlchemy itself can."""
        if type(parameters) is not dict and not isinstance(parameters, Mapping):
            return None
        compiled = self._compiled.get(statement, self.dialect)
        if compiled is None:
            return None
        values = compiled.values(parameters)
        try:
            if statements_are_observed():
                return await self._send_observed(compiled, values, statement)
            return await self._send(compiled, values)
        except (ArithmeticError, ValueError) as error:
            if self._binding_errors_are_ours:
                raise
            what = describe_driver_error(error)
        raise UnreadableRows(what, [], {})

    async def run_sync(self, job: Callable[[Connection], T]) -> T:
        """Run *job* on SQLAlchemy's connection: for what `execute` does not take."""
        return job(self.connection)

    async def _send_observed(
        self, compiled: CompiledStatement, values: Sequence[Any], statement: Executable
    ) -> Answer:
        """Send a statement and publish its `StatementEvent`."""
        started, error = time.perf_counter(), None
        try:
            return await self._send(compiled, values)
        except Exception as raised:
            error = type(raised).__name__
            raise
        finally:
            seconds = time.perf_counter() - started
            publish_statement(
                StatementEvent(
                    compiled.sql, self.dialect.name, self.driver, seconds, error, statement
                )
            )

    @abc.abstractmethod
    async def _send(self, compiled: CompiledStatement, values: Sequence[Any]) -> Answer: ...


_sqlite_statements = CompiledStatements()


class SQLiteDirectConnection(DirectConnection):
    """Executes statements on a connection of the standard library's sqlite3."""

    driver = "sqlite3"
    _binding_errors_are_ours = True

    def __init__(self, connection: Connection) -> None:
        super().__init__(connection, _sqlite_statements)

    async def _send(self, compiled: CompiledStatement, values: Sequence[Any]) -> Answer:
        cursor = self.raw.cursor()
        try:
            cursor.execute(compiled.sql, values)
            rows = compiled.rows(cursor.fetchall()) if compiled.width else ()
            return Answer(rows, cursor.rowcount)
        except sqlite3.Error as error:
            if str(error).startswith("Could not decode to UTF-8"):
                return self._send_with_undecodable_text(compiled, values)
            raise DBAPIError.instance(
                compiled.sql, None, error, sqlite3.Error, hide_parameters=True, dialect=self.dialect
            ) from error
        finally:
            cursor.close()

    def _send_with_undecodable_text(
        self, compiled: CompiledStatement, values: Sequence[Any]
    ) -> Answer:
        """Execute a query again with text that is not UTF-8 read as bytes, to say which row it is.

        Raises:
            UnreadableRows: always, as bytes are not text.
        """

        def decoded(raw: bytes) -> Any:
            try:
                return raw.decode()
            except UnicodeDecodeError:
                return raw

        if not compiled.sql.lstrip().upper().startswith(("SELECT", "WITH")):
            raise UnreadableRows("a text of a row is not UTF-8", [], {})
        before, self.raw.text_factory = self.raw.text_factory, decoded
        cursor = self.raw.cursor()
        try:
            cursor.execute(compiled.sql, values)
            return Answer(compiled.rows(cursor.fetchall()), cursor.rowcount)
        finally:
            cursor.close()
            self.raw.text_factory = before
