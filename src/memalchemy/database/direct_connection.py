"""Connections on which compiled statements go straight to the driver.

`DirectConnection` is the contract. SQLite's is in `database.sqlite.connections`, and
PostgreSQL's in `database.executors.asyncpg`.
"""

from __future__ import annotations

import abc
import time
from collections.abc import Callable, Mapping, Sequence
from typing import Any, ClassVar, TypeVar

from sqlalchemy import Connection, Executable
from sqlalchemy.engine import Dialect as SQLAlchemyDialect

from memalchemy._unreadable_rows import UnreadableRows, describe_driver_error
from memalchemy.database.compiled import CompiledStatement, CompiledStatements
from memalchemy.events import StatementEvent, publish_statement, statement_subscribers
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
        compiled = self._compiled.known.get(statement) or self._compiled.get(
            statement, self.dialect
        )
        if compiled is None:
            return None
        values = compiled.values(parameters)
        try:
            if statement_subscribers:
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
