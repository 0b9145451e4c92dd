"""Statements compiled once: their text, how values are bound, and how rows are read and checked.

SQLAlchemy compiles a statement and knows how its types bind and read values. Its work around each
execution, which serves drivers and hosts of every kind, costs more than most of memalchemy's
statements take; `database.direct_connection` leaves it out on memalchemy's own connections.
"""

from __future__ import annotations

import time
from collections import namedtuple
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from functools import lru_cache, partial
from operator import itemgetter
from typing import Any

from sqlalchemy import Connection, Executable, Float
from sqlalchemy.sql import visitors
from sqlalchemy.sql.compiler import SQLCompiler
from sqlalchemy.sql.dml import UpdateBase
from sqlalchemy.sql.selectable import SelectBase

from memalchemy._unreadable_rows import (
    DECODING_ERRORS,
    UnreadableRows,
    cell_description,
    cell_types,
    describe_driver_error,
    loaded_types,
    row_description,
)
from memalchemy.dialects import has_dynamic_types
from memalchemy.events import StatementEvent, publish_statement, statement_subscribers
from memalchemy.statements import NAMELESS, Answer, Parameters

Processor = Callable[[Any], Any] | None

SENT = "memalchemy_sent"
"""The execution option of a text that is sent once more: the statement whose text it is."""


class CompiledStatement:
    """The text of one statement, with its bind processors and the readers of its columns."""

    def __init__(self, statement: Any, compiled: SQLCompiler, dialect: Any) -> None:
        def processor(type_: Any, which: str, *more: Any) -> Processor:
            made: Processor = getattr(type_.dialect_impl(dialect), which)(dialect, *more)
            return made

        self.sql: str = str(compiled)
        self._constants: Mapping[str, Any] = compiled.params
        in_order = compiled.positiontup or ()
        places: dict[str, list[int]] = {}
        for place, name in enumerate(in_order):
            places.setdefault(name, []).append(place)
        self._processors: list[tuple[int, list[int], Callable[[Any], Any], bool]] = []
        """The place of a bind and its other places, what converts its value, and whether its type
        has a value for None, as JSON has, or refuses it."""
        for name, (first, *others) in places.items():
            process = processor(compiled.binds[name].type, "bind_processor")
            if process is not None:
                self._processors.append((first, others, process, not _is_null(process)))
        self._in_order = _getter_of_values(in_order)
        columns = statement.exported_columns
        self.width: int = len(columns)
        names = [c.key for c in columns]
        self._named = partial(tuple.__new__, _row_type(tuple(names)))
        self._nameless = NAMELESS in statement.get_execution_options()

        def reader(type_: Any) -> Processor:
            if isinstance(type_, Float):
                return (
                    _to_float  # SQLAlchemy's would want the code of the type that the server sends
                )
            return processor(type_, "result_processor", None)

        readers = [reader(c.type) for c in columns]
        self._readers = [(at, read) for at, read in enumerate(readers) if read is not None]
        self._names = names
        # Where a column holds values of any type, its cells are checked before they are read.
        allowed = [cell_types(c.type) for c in columns] if has_dynamic_types(dialect.name) else []
        self._cell_types = allowed if any(allowed) else None
        self._checked: set[tuple[type, ...]] = set()
        """The combinations of types that rows were found to have, and may have."""

    def values(self, given: Mapping[str, Any]) -> list[Any]:
        """Return the values to send, in the order of the text's placeholders."""
        try:
            values = list(self._in_order(given))
        except KeyError:  # of a constant, which need not be given
            values = list(self._in_order({**self._constants, **given}))
        for place, others, process, takes_none in self._processors:
            value = values[place]
            if value is not None or takes_none:
                value = values[place] = process(value)
                for other in others:
                    values[other] = value
        return values

    def rows(self, fetched: Iterable[Iterable[Any]]) -> list[Any]:
        """Read the rows that the driver fetched.

        Raises:
            UnreadableRows: a cell is not of its column's type.
        """
        if self._cell_types is not None:
            fetched = list(fetched)
            for row in fetched:
                types = tuple(map(type, row))
                if types not in self._checked and not self._are_valid_types(types):
                    raise self._unreadable_error(fetched)
        given = map(self._read_row, fetched) if self._readers else fetched
        try:
            return list(given if self._nameless else map(self._named, given))
        except DECODING_ERRORS:
            pass
        # Outside of the block, so that the error does not carry the one that quotes the cell.
        raise self._unreadable_error(fetched)

    def _are_valid_types(self, types: tuple[type, ...]) -> bool:
        """Return whether a row may have cells of these types, and remember that it may."""
        assert self._cell_types is not None
        for given, allowed in zip(types, self._cell_types, strict=True):
            if not (allowed is None or given is type(None) or given in allowed):
                return False
        self._checked.add(types)
        return True

    def _read_row(self, raw: Iterable[Any]) -> list[Any]:
        values = list(raw)
        for at, read in self._readers:
            if values[at] is not None:  # which every type reads as None
                values[at] = read(values[at])
        return values

    def _unreadable_error(self, fetched: Iterable[Iterable[Any]]) -> UnreadableRows:
        """Return the error that says which cells of which rows cannot be read."""
        readers = dict(self._readers)
        rows: list[Any] = []
        damaged: dict[int, str] = {}
        for raw in fetched:
            values, wrong = list(raw), []
            for at, value in enumerate(values):
                if value is None:  # which every type reads as None
                    continue
                allowed = None if self._cell_types is None else self._cell_types[at]
                try:
                    if not (allowed is None or type(value) in allowed):
                        raise TypeError
                    values[at] = readers[at](value) if at in readers else value
                except DECODING_ERRORS:
                    values[at] = None
                    wrong.append(f"{self._names[at]} is {cell_description(value)}")
            if wrong:
                damaged[len(rows)] = row_description(self._names, values, wrong)
            rows.append(values if self._nameless else self._named(values))
        return UnreadableRows(next(iter(damaged.values()), "a row cannot be read"), rows, damaged)


class CompiledStatements:
    """Compiled statements for tables in *schema*, which live as long as the registry's do.

    Databases may share them whose SQLAlchemy dialects are alike.
    """

    def __init__(self, schema: str | None = None) -> None:
        self.schema = schema
        self._options: dict[str, Any] = {}
        if schema is not None:
            self._options = {
                "schema_translate_map": {None: schema},
                "render_schema_translate": True,
            }
        self.known: dict[Executable, CompiledStatement | None] = {}
        """The results of `get`, by its statements."""

    def get(self, statement: Executable, dialect: Any) -> CompiledStatement | None:
        """Return *statement* compiled; ``None`` if only SQLAlchemy itself can execute it."""
        if statement not in self.known:
            self.known[statement] = self._compile(statement, dialect)
        return self.known[statement]

    def _compile(self, statement: Any, dialect: Any) -> CompiledStatement | None:
        if not hasattr(statement, "exported_columns"):
            return None
        compiled = statement.compile(dialect=dialect, **self._options)
        simple = (
            isinstance(compiled, SQLCompiler)
            # Values that change the text, and defaults that are computed at each execution.
            and not compiled.post_compile_params
            and not compiled.insert_prefetch
            and not compiled.update_prefetch
        )
        return CompiledStatement(statement, compiled, dialect) if simple else None


def execute_with_sqlalchemy(
    connection: Connection, statement: Any, parameters: Parameters, options: dict[str, Any]
) -> Answer:
    """Execute *statement* through SQLAlchemy and return its rows.

    Raises:
        UnreadableRows: a cell is not of its column's type. Of a statement that writes, and where
            the driver itself could not read a row, it does not say which rows they are.
    """
    result, rows, failure = None, None, None
    started = time.perf_counter()
    try:
        result = connection.execute(statement, parameters, execution_options=options)
        rows = result.all() if result.returns_rows else ()
    except DECODING_ERRORS as error:
        # Some drivers decode the rows while they execute. For a value that cannot be bound
        # SQLAlchemy raises an error of its own, except for integers too large for SQLite.
        if result is None and (
            not isinstance(error, (ArithmeticError, ValueError))
            or has_dynamic_types(connection.dialect.name)
        ):
            raise
        what = describe_driver_error(error)
    except Exception as error:
        failure = error
        raise
    finally:
        if statement_subscribers:
            _publish_statement(
                connection, statement, result, failure, time.perf_counter() - started
            )
    if result is not None and rows is not None:
        wrong = _describe_wrong_row(connection, statement, rows)
        if wrong is None:
            answer = Answer(rows)
            answer.touched = result.rowcount
            return answer
        what = wrong
    if result is None or not _only_reads(statement):
        raise UnreadableRows(what, [], {})
    return _read_again(connection, statement, result.context, options)


def _read_again(
    connection: Connection, statement: Any, context: Any, options: dict[str, Any]
) -> Answer:
    """Execute a query that was executed in *context* once more, and read its rows cell by cell.

    SQLAlchemy reads all rows or none.

    Raises:
        UnreadableRows: a cell is not of its column's type.
    """
    started = time.perf_counter()
    result = connection.exec_driver_sql(
        context.statement, context.parameters[0], execution_options=options | {SENT: statement}
    )
    fetched = result.all()
    if statement_subscribers:
        seconds = time.perf_counter() - started
        _publish_statement(connection, statement, result, None, seconds)
    readable = CompiledStatement(statement, context.compiled, connection.dialect)
    return Answer(readable.rows(fetched))


def _only_reads(statement: Any) -> bool:
    """Return whether a statement is a query without parts that write."""
    return isinstance(statement, SelectBase) and not any(
        isinstance(part, UpdateBase) for part in visitors.iterate(statement)
    )


def _publish_statement(
    connection: Connection, statement: Any, result: Any, failure: Any, seconds: float
) -> None:
    """Publish a statement that SQLAlchemy executed; if it failed, the error has its text."""
    sql = getattr(failure, "statement", None) if result is None else result.context.statement
    dialect, error = connection.dialect, None if failure is None else type(failure).__name__
    publish_statement(
        StatementEvent(sql or "", dialect.name, dialect.driver, seconds, error, statement)
    )


def _describe_wrong_row(connection: Connection, statement: Any, rows: Sequence[Any]) -> str | None:
    """Describe the first row that SQLAlchemy read with a cell of another type than its column's.

    Only a database with dynamic types has such cells.
    """
    exported = getattr(statement, "exported_columns", None)
    if not rows or exported is None or not has_dynamic_types(connection.dialect.name):
        return None
    columns = [(column.key, loaded_types(column.type)) for column in exported]
    for row in rows:
        for (name, allowed), value in zip(columns, row, strict=True):
            if not (allowed is None or value is None or type(value) in allowed):
                wrong = [f"{name} is {cell_description(value)}"]
                return row_description([c for c, _ in columns], row, wrong)
    return None


def _is_null(process: Callable[[Any], Any]) -> bool:
    """Return whether None stays None, and is NULL in the database."""
    with suppress(TypeError, AttributeError):  # a list or a text is needed
        return process(None) is None
    return False


def _getter_of_values(names: Sequence[str]) -> Callable[[Mapping[str, Any]], tuple[Any, ...]]:
    """Return a function that returns the values of *names*, in their order."""
    if len(names) > 1:
        return itemgetter(*names)
    return lambda values: tuple(values[name] for name in names)


def _to_float(value: Any) -> float | None:
    return None if value is None else float(value)


@lru_cache(maxsize=1024)  # a class takes 7 kB, which the garbage collector frees
def _row_type(names: tuple[str, ...]) -> Any:
    """Return a named tuple that has ``_mapping``, as SQLAlchemy's rows have."""

    class Row(namedtuple("Row", names, rename=True)):  # type: ignore[misc]
        __slots__ = ()

        @property
        def _mapping(self) -> dict[str, Any]:
            return dict(zip(names, self, strict=True))

    return Row
