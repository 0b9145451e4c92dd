"""Programs' statements straight to the driver, compiled once.

SQLAlchemy compiles a statement and knows how values are bound and read. What it does around each
execution, for drivers and hosts that differ, costs more than most of our statements take here; so
on connections of our own that is left out. `Prepared` is SQLite's, through the cursor;
`database.straight` has PostgreSQL's. Knows no table.
"""

from __future__ import annotations

import sqlite3
from collections import namedtuple
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import partial
from typing import Any, ClassVar
from weakref import WeakKeyDictionary

from sqlalchemy import Connection, Executable, Float
from sqlalchemy.exc import DBAPIError
from sqlalchemy.sql.compiler import SQLCompiler

from memalchemy.statements import NAMELESS, Answer, Parameters

Processor = Callable[[Any], Any] | None

_INFO = "memalchemy"


class Plan:
    """How one statement is sent, and its rows are read."""

    def __init__(self, statement: Any, compiled: SQLCompiler, dialect: Any) -> None:
        def processor(type_: Any, which: str, *more: Any) -> Processor:
            made: Processor = getattr(type_.dialect_impl(dialect), which)(dialect, *more)
            return made

        self.sql = str(compiled)
        self._constants: Mapping[str, Any] = compiled.params
        self._binds = [
            (name, processor(compiled.binds[name].type, "bind_processor"))
            for name in compiled.positiontup or ()
        ]
        columns = statement.exported_columns
        self.width = len(columns)
        names = [c.key for c in columns]
        self._named = partial(tuple.__new__, _row_type(names))
        self._nameless = NAMELESS in statement.get_execution_options()

        def reader(type_: Any) -> Processor:
            if isinstance(type_, Float):
                return _float  # SQLAlchemy's would want the code of the type that the server sends
            if hasattr(type_, "reader"):
                own: Processor = type_.reader(dialect)
                return own
            return processor(type_, "result_processor", None)

        readers = [reader(c.type) for c in columns]
        self._readers = [(at, read) for at, read in enumerate(readers) if read is not None]

    def values(self, given: Mapping[str, Any]) -> list[Any]:
        constants = self._constants
        found = []
        for name, process in self._binds:
            value = given[name] if name in given else constants[name]
            found.append(value if process is None else process(value))
        return found

    def rows(self, fetched: Iterable[Iterable[Any]]) -> list[Any]:
        given = map(self._read, fetched) if self._readers else fetched
        return list(given if self._nameless else map(self._named, given))

    def _read(self, raw: Iterable[Any]) -> list[Any]:
        values = list(raw)
        for at, read in self._readers:
            values[at] = read(values[at])
        return values


def _float(value: Any) -> float | None:
    return None if value is None else float(value)


def _row_type(names: list[str]) -> Any:
    """What SQLAlchemy's rows are to a program: tuples with names, and a mapping."""

    class Row(namedtuple("Row", names, rename=True)):  # type: ignore[misc]
        __slots__ = ()

        @property
        def _mapping(self) -> dict[str, Any]:
            return dict(zip(names, self, strict=True))

    return Row


class Plans:
    """How statements are sent, for as long as they live; those of the registry live for ever."""

    def __init__(self, schema: str | None = None, statement_timeout: float | None = None) -> None:
        self.schema = schema
        self.statement_timeout = statement_timeout
        self._compiling: dict[str, Any] = {}
        if schema is not None:
            self._compiling = {
                "schema_translate_map": {None: schema},
                "render_schema_translate": True,
            }
        self._plans: WeakKeyDictionary[Executable, Plan | None] = WeakKeyDictionary()

    def of(self, statement: Executable, dialect: Any) -> Plan | None:
        """How *statement* is sent; ``None`` if it takes SQLAlchemy itself."""
        if statement not in self._plans:
            self._plans[statement] = self._plan(statement, dialect)
        return self._plans[statement]

    def _plan(self, statement: Any, dialect: Any) -> Plan | None:
        if not hasattr(statement, "exported_columns"):
            return None
        compiled = statement.compile(dialect=dialect, **self._compiling)
        simple = (
            isinstance(compiled, SQLCompiler)
            # Values that change the text, and defaults that are computed at each execution.
            and not compiled.post_compile_params
            and not compiled.insert_prefetch
            and not compiled.update_prefetch
        )
        return Plan(statement, compiled, dialect) if simple else None


_OF_SQLITE = Plans()


class Prepared:
    """Runs statements on one connection that is in autocommit mode and used by one thread."""

    driver: ClassVar[str] = "sqlite3"

    def __init__(self, connection: Connection, plans: Plans = _OF_SQLITE) -> None:
        self.connection = connection
        self.dialect = connection.dialect
        self.raw: Any = connection.connection.driver_connection
        self._plans = plans

    @property
    def is_moved(self) -> bool:
        """Whether the texts name a schema."""
        return self._plans.schema is not None

    def keep(self) -> None:
        """Let `of` find it: the connection is lent to nobody else, for as long as it lives."""
        self.connection.info[_INFO] = self

    @staticmethod
    def of(connection: Connection) -> Prepared | None:
        """What was made for *connection*, if it is one of ours."""
        found: Prepared | None = connection.info.get(_INFO)
        return found

    def execute(self, statement: Executable, parameters: Parameters) -> Answer | None:
        """Run *statement*; ``None``, and nothing was done, if it takes SQLAlchemy itself."""
        if not isinstance(parameters, Mapping):
            return None
        plan = self._plans.of(statement, self.dialect)
        return None if plan is None else self._send(plan, plan.values(parameters))

    def give_way(self) -> Connection:
        """The connection, for SQLAlchemy to run on it what `execute` does not."""
        return self.connection

    def text_of(self, statement: Executable) -> str:
        """What is sent for *statement*."""
        plan = self._plans.of(statement, self.dialect)
        assert plan is not None
        return plan.sql

    def _send(self, plan: Plan, values: Sequence[Any]) -> Answer:
        cursor = self.raw.cursor()
        try:
            cursor.execute(plan.sql, values)
            rows = plan.rows(cursor.fetchall()) if plan.width else ()
            return Answer(rows, cursor.rowcount)
        except sqlite3.Error as error:
            raise DBAPIError.instance(
                plan.sql, None, error, sqlite3.Error, hide_parameters=True, dialect=self.dialect
            ) from error
        finally:
            cursor.close()
