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
from contextlib import suppress
from datetime import datetime
from functools import partial
from typing import Any, ClassVar
from uuid import UUID
from weakref import WeakKeyDictionary

from sqlalchemy import (
    JSON,
    Connection,
    Executable,
    Float,
    Integer,
    LargeBinary,
    String,
    TypeDecorator,
)
from sqlalchemy.exc import DBAPIError
from sqlalchemy.sql.compiler import SQLCompiler

from memalchemy.column_types import Json, LogKey, UtcDateTime, Vector
from memalchemy.errors import Corrupt
from memalchemy.statements import NAMELESS, Answer, Parameters

Processor = Callable[[Any], Any] | None

WRONG = (ArithmeticError, AttributeError, LookupError, RecursionError, TypeError, ValueError)
"""What reading a value raises that is not of its column's type."""

_STORED: tuple[tuple[type, tuple[type, ...]], ...] = (
    (Float, (float, int)),
    (Integer, (int,)),
    (LargeBinary, (bytes,)),
    (JSON, (str,)),
    (String, (str,)),
)
"""The Python types that sqlite3 gives for what is stored in a column as it should be. SQLite itself
stores anything in any column.
"""

NAMING = ("thread_id", "namespace", "checkpoint_id", "seq", "key", "field", "model", "part")
"""Columns that say which row it is, where they are read."""


class UnreadableRows(Corrupt):
    """Cells of some rows are not of their columns' types.

    ``rows`` are all rows, with ``None`` in such cells; ``damaged`` has the places of those rows,
    and what is wrong with each. Both are empty where the driver did not say which they were.
    """

    def __init__(self, what: str, rows: list[Any], damaged: dict[int, str]) -> None:
        more = f", and {len(damaged) - 1:,} more rows" if len(damaged) > 1 else ""
        super().__init__(f"{what}{more}")
        self.rows, self.damaged = rows, damaged


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
        self._names = names
        self._stored = [_stored_as(c.type) for c in columns] if dialect.name == "sqlite" else None
        self._sound: set[tuple[type, ...]] = set()
        """The types of rows that were found to be as they should be."""

    def values(self, given: Mapping[str, Any]) -> list[Any]:
        constants = self._constants
        found = []
        for name, process in self._binds:
            value = given[name] if name in given else constants[name]
            found.append(value if process is None else process(value))
        return found

    def rows(self, fetched: Iterable[Iterable[Any]]) -> list[Any]:
        """The rows of what the driver gave.

        Raises:
            UnreadableRows: it gave what cannot be in such a column.
        """
        if self._stored is not None:
            fetched = list(fetched)
            if not all(map(self._is_sound, fetched)):
                raise self._unreadable(fetched)
        given = map(self._read, fetched) if self._readers else fetched
        with suppress(*WRONG):
            return list(given if self._nameless else map(self._named, given))
        # Here, where what was raised is forgotten: it shows what the cell holds.
        raise self._unreadable(fetched)

    def _is_sound(self, row: Iterable[Any]) -> bool:
        types = tuple(map(type, row))
        if types in self._sound:
            return True
        assert self._stored is not None
        for given, allowed in zip(types, self._stored, strict=True):
            if not (allowed is None or given is type(None) or given in allowed):
                return False
        self._sound.add(types)
        return True

    def _unreadable(self, fetched: Iterable[Iterable[Any]]) -> UnreadableRows:
        """Which cells they are."""
        readers = dict(self._readers)
        rows: list[Any] = []
        damaged: dict[int, str] = {}
        for raw in fetched:
            values, wrong = list(raw), []
            for at, value in enumerate(values):
                allowed = None if self._stored is None else self._stored[at]
                try:
                    if not (allowed is None or value is None or type(value) in allowed):
                        raise TypeError
                    values[at] = readers[at](value) if at in readers else value
                except WRONG:
                    values[at] = None
                    wrong.append(f"{self._names[at]} is {_shown(value)}")
            if wrong:
                damaged[len(rows)] = _sentence(self._names, values, wrong)
            rows.append(values if self._nameless else self._named(values))
        return UnreadableRows(next(iter(damaged.values()), "a row cannot be read"), rows, damaged)

    def _read(self, raw: Iterable[Any]) -> list[Any]:
        values = list(raw)
        for at, read in self._readers:
            values[at] = read(values[at])
        return values


def executed(
    connection: Connection, statement: Any, parameters: Parameters, options: dict[str, Any]
) -> Answer:
    """What SQLAlchemy itself gets for a statement.

    Raises:
        UnreadableRows: a cell is not of its column's type.
    """
    embedded, result, rows = connection.dialect.name == "sqlite", None, None
    try:
        result = connection.execute(statement, parameters, execution_options=options)
        rows = result.all() if result.returns_rows else ()
    except WRONG as error:
        # Some drivers read the rows while they execute. What cannot be bound is SQLAlchemy's own
        # error, but for numbers that SQLite has not.
        if result is None and (embedded or not isinstance(error, (ArithmeticError, ValueError))):
            raise
        what = _undecoded(error)
    if result is None or rows is None:
        raise UnreadableRows(what, [], {})
    if rows and embedded and hasattr(statement, "exported_columns"):
        _check_rows(statement, rows)
    return Answer(rows, result.rowcount)


def _check_rows(statement: Any, rows: Sequence[Any]) -> None:
    """What SQLAlchemy made of SQLite's rows."""
    columns = [(column.key, _read_as(column.type)) for column in statement.exported_columns]
    for row in rows:
        for (name, allowed), value in zip(columns, row, strict=True):
            if not (allowed is None or value is None or type(value) in allowed):
                what = _sentence([c for c, _ in columns], row, [f"{name} is {_shown(value)}"])
                raise UnreadableRows(what, [], {})


def _stored_as(type_: Any) -> tuple[type, ...] | None:
    """What sqlite3 gives for a column of a type; ``None`` if that may be anything."""
    if isinstance(type_, UtcDateTime):
        return (int,)
    if isinstance(type_, LogKey):
        return (bytes,)
    while isinstance(type_, TypeDecorator):
        type_ = type_.impl_instance
    return next((given for kind, given in _STORED if isinstance(type_, kind)), None)


def _read_as(type_: Any) -> tuple[type, ...] | None:
    """What a value of a type is once it was read."""
    if isinstance(type_, Json):
        return (dict,)
    if isinstance(type_, UtcDateTime):
        return (datetime,)
    if isinstance(type_, Vector):
        return (list,)
    if isinstance(type_, LogKey):
        return (UUID,)
    return _stored_as(type_)


def _shown(value: Any) -> str:
    """What a cell holds, without what it says."""
    size = ""
    if isinstance(value, (str, bytes, memoryview)):
        size = f" of {len(value):,} {'characters' if isinstance(value, str) else 'bytes'}"
    return f"not what it should be: {type(value).__name__}{size}"


def _sentence(names: Sequence[str], values: Sequence[Any], wrong: Sequence[str]) -> str:
    place = [
        f"{name} {value!r}"
        for name, value in zip(names, values, strict=True)
        if name in NAMING and isinstance(value, (str, int))
    ]
    return f"a row cannot be read ({', '.join(place) or 'its key was not read'}): " + "; ".join(
        wrong
    )


def _undecoded(error: Exception) -> str:
    return f"the driver cannot read a row of the database ({type(error).__name__})"


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
        if plan is None:
            return None
        values = plan.values(parameters)
        try:
            return self._send(plan, values)
        except (ArithmeticError, ValueError) as error:
            if self.driver == "sqlite3":
                raise  # of a value that was bound: it decodes nothing that could fail so
            what = _undecoded(error)
        raise UnreadableRows(what, [], {})

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
            if str(error).startswith("Could not decode to UTF-8"):
                return self._send_text(plan, values)
            raise DBAPIError.instance(
                plan.sql, None, error, sqlite3.Error, hide_parameters=True, dialect=self.dialect
            ) from error
        finally:
            cursor.close()

    def _send_text(self, plan: Plan, values: Sequence[Any]) -> Answer:
        """`_send` where a text is not UTF-8: such a one is read as bytes, which is no text."""

        def decoded(raw: bytes) -> Any:
            try:
                return raw.decode()
            except UnicodeDecodeError:
                return raw

        if not plan.sql.lstrip().upper().startswith(("SELECT", "WITH")):
            raise UnreadableRows("a text of a row is not UTF-8", [], {})
        before, self.raw.text_factory = self.raw.text_factory, decoded
        cursor = self.raw.cursor()
        try:
            cursor.execute(plan.sql, values)
            return Answer(plan.rows(cursor.fetchall()), cursor.rowcount)
        finally:
            cursor.close()
            self.raw.text_factory = before
