"""Programs' statements straight to SQLite's cursor, compiled once.

SQLAlchemy compiles a statement and knows how values are bound and read. What it does around each
execution, for drivers and hosts that differ, costs more than most of our statements take here; so
on connections of our own that is left out. Knows no table.
"""

from __future__ import annotations

import sqlite3
from collections import namedtuple
from collections.abc import Callable, Mapping
from functools import partial
from typing import Any
from weakref import WeakKeyDictionary

from sqlalchemy import Connection, Executable
from sqlalchemy.exc import DBAPIError
from sqlalchemy.sql.compiler import SQLCompiler

from memalchemy.statements import Answer, Parameters

Processor = Callable[[Any], Any] | None

_INFO = "memalchemy"


class _Plan:
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
        self._row = _row_type(names)
        readers = [processor(c.type, "result_processor", None) for c in columns]
        self._readers = readers if any(readers) else None

    def values(self, given: Mapping[str, Any]) -> list[Any]:
        constants = self._constants
        found = []
        for name, process in self._binds:
            value = given[name] if name in given else constants[name]
            found.append(value if process is None else process(value))
        return found

    def rows(self, fetched: list[tuple[Any, ...]]) -> list[Any]:
        make = partial(tuple.__new__, self._row)
        if self._readers is None:
            return list(map(make, fetched))
        return [
            make(
                value if read is None else read(value)
                for value, read in zip(raw, self._readers, strict=True)
            )
            for raw in fetched
        ]


def _row_type(names: list[str]) -> Any:
    """What SQLAlchemy's rows are to a program: tuples with names, and a mapping."""

    class Row(namedtuple("Row", names, rename=True)):  # type: ignore[misc]
        __slots__ = ()

        @property
        def _mapping(self) -> dict[str, Any]:
            return dict(zip(names, self, strict=True))

    return Row


# For as long as the statement lives; those of the registry live as long as the process.
_plans: WeakKeyDictionary[Executable, _Plan | None] = WeakKeyDictionary()


class Prepared:
    """Runs statements on one connection that is in autocommit mode and used by one thread."""

    def __init__(self, connection: Connection) -> None:
        self._dialect = connection.dialect
        self.raw: Any = connection.connection.dbapi_connection
        connection.info[_INFO] = self

    @staticmethod
    def of(connection: Connection) -> Prepared | None:
        """What was made for *connection*, if it is one of ours."""
        found: Prepared | None = connection.info.get(_INFO)
        return found

    def execute(self, statement: Executable, parameters: Parameters) -> Answer | None:
        """Run *statement*; ``None``, and nothing was done, if it takes SQLAlchemy itself."""
        if not isinstance(parameters, Mapping):
            return None
        if statement not in _plans:
            _plans[statement] = self._plan(statement)
        plan = _plans[statement]
        if plan is None:
            return None
        cursor = self.raw.cursor()
        try:
            cursor.execute(plan.sql, plan.values(parameters))
            rows = plan.rows(cursor.fetchall()) if plan.width else ()
            return Answer(rows, cursor.rowcount)
        except sqlite3.Error as error:
            raise DBAPIError.instance(
                plan.sql, None, error, sqlite3.Error, hide_parameters=True, dialect=self._dialect
            ) from error
        finally:
            cursor.close()

    def text_of(self, statement: Executable) -> str:
        """What is sent for *statement*, once it has been run."""
        plan = _plans[statement]
        assert plan is not None
        return plan.sql

    def _plan(self, statement: Any) -> _Plan | None:
        compiled = statement.compile(dialect=self._dialect)
        simple = (
            isinstance(compiled, SQLCompiler)
            and hasattr(statement, "exported_columns")
            # Values that change the text, and defaults that are computed at each execution.
            and not compiled.post_compile_params
            and not compiled.insert_prefetch
            and not compiled.update_prefetch
        )
        return _Plan(statement, compiled, self._dialect) if simple else None
