"""An Oracle that records: SQLAlchemy's real async dialect and the real driver's types, no server.

`Recorder.engine` is an `AsyncEngine` whose connections write down every statement with its binds,
as the driver would get them, and answer what a test has put into `Recorder.answers`. Each bind goes
through the driver's own type check. What the text means to a server is beyond it.
"""

from __future__ import annotations

import array
import datetime
import itertools
import re
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache
from typing import Any, NoReturn

import oracledb
from oracledb import errors, thin_impl
from oracledb.cursor import AsyncCursor
from sqlalchemy.ext.asyncio import AsyncEngine, create_async_engine

from golden import normalised, statements


@dataclass
class Answer:
    """What the server says to one statement."""

    rows: Sequence[Mapping[str, Any]] = ()
    """Rows of a query, or what RETURNING returns; keys are in the order of the columns."""
    touched: int | None = None
    """The row count; without it, the number of rows."""
    error: int | None = None
    """An ORA number to fail with."""


@dataclass
class Call:
    """One statement as the driver got it."""

    name: str
    """The registered statement's; of other statements, the text."""
    sql: str
    binds: dict[str, Any]
    types: dict[str, Any]
    """The driver's type of each bind: what SQLAlchemy asked for, or what the driver infers."""
    asked: set[str] = field(default_factory=set)
    """The binds whose type SQLAlchemy asked for."""
    out: set[str] = field(default_factory=set)


class Recorder:
    """What happened on all connections, in order; and what to answer, by statement."""

    def __init__(self) -> None:
        self.calls: list[Call] = []
        self.log: list[str] = []
        """Names of statements, and ``commit``, ``rollback``: what crossed the wire."""
        self.connected: list[oracledb.ConnectParams] = []
        """The driver's own reading of the arguments of each `connect`."""
        self.arguments: list[dict[str, Any]] = []
        """The arguments themselves: the driver shows no password that it has been given."""
        self.answers: dict[str, list[Answer]] = defaultdict(list)

    def engine(self) -> AsyncEngine:
        async def connect() -> Connection:
            return Connection(self)

        return create_async_engine("oracle+oracledb_async://", async_creator=connect)

    async def connect(self, dsn: str | None = None, **given: Any) -> Connection:
        """In place of the driver's ``connect_async``; tnsnames.ora is read as the driver does."""
        parameters = oracledb.ConnectParams(**given)
        if dsn is not None:
            parameters.parse_connect_string(dsn)
        self.connected.append(parameters)
        self.arguments.append(given | {"dsn": dsn})
        return Connection(self)

    def answer(self, name: str, *answers: Answer) -> None:
        """Answer the next executions of a statement; after those it finds and touches nothing."""
        assert name in {family.partition("(")[0] for family in _names().values()}, name
        self.answers[name] += answers

    def sent(self) -> list[str]:
        """The registered statements that were sent, by family."""
        return [call.name for call in self.calls]

    def last(self, name: str) -> Call:
        """The last execution of a statement."""
        return next(call for call in reversed(self.calls) if call.name == name)

    def forget(self) -> None:
        self.calls.clear()
        self.log.clear()

    async def execute(self, cursor: Cursor, sql: str, parameters: dict[str, Any]) -> None:
        if (setup := _setup_rows(sql, parameters)) is not None:
            self.log.append("set-up")
            cursor.result(setup)
            return
        call = self._record(cursor, sql, parameters)
        answer = self.answers[call.name].pop(0) if self.answers[call.name] else Answer()
        if answer.error is not None:
            raise_oracle(answer.error)
        cursor.rowcount = len(answer.rows) if answer.touched is None else answer.touched
        if sql.startswith("UPDATE memalchemy_version"):  # Alembic wants its row to be there
            cursor.rowcount = 1
        if call.out:
            for position, column in enumerate(sorted(call.out, key=lambda n: int(n[4:]))):
                values = [tuple(row.values())[position] for row in answer.rows]
                parameters[column].values = [[parameters[column].out(v) for v in values]]
        elif sql.lstrip().upper().startswith(("SELECT", "WITH")):
            names = list(answer.rows[0]) if answer.rows else ["NOTHING"]
            cursor.result([tuple(row.values()) for row in answer.rows], names)

    def _record(self, cursor: Cursor, sql: str, parameters: dict[str, Any]) -> Call:
        name = _names().get(normalised(sql), " ".join(sql.split()))
        call = Call(name.partition("(")[0] if name in _names().values() else name, sql, {}, {})
        for bind, value in parameters.items():
            if isinstance(value, OutVariable):
                call.out.add(bind)
                continue
            asked = cursor.sizes.get(bind)
            call.binds[bind] = value
            call.types[bind] = asked or inferred(value)
            if asked:
                call.asked.add(bind)
            cursor.driver.var(call.types[bind]).setvalue(0, value)  # the driver's own check
        self.calls.append(call)
        self.log.append(call.name)
        return call


class OutVariable:
    """A RETURNING variable: the driver's own, with values that a test has given."""

    def __init__(self, real: Any, type_: Any, outconverter: Any) -> None:
        self.real, self.type, self.outconverter = real, type_, outconverter
        self.values: list[list[Any]] = [[]]

    def out(self, value: Any) -> Any:
        if self.type in (oracledb.STRING, oracledb.DB_TYPE_VARCHAR) and value is not None:
            value = str(value)
        self.real.setvalue(0, value)
        # The driver converts when it reads the answer off the wire, which there is none of.
        return value if self.outconverter is None or value is None else self.outconverter(value)

    def getvalue(self) -> str:
        return "1.2.3"  # a transaction id, when SQLAlchemy looks for the isolation level


class Cursor:
    """What SQLAlchemy's adapter needs of an ``AsyncCursor``."""

    arraysize = 100
    lastrowid = None
    outputtypehandler: Any = None

    def __init__(self, connection: Connection) -> None:
        self._recorder = connection.recorder
        self.driver = AsyncCursor(connection)
        self.sizes: dict[str, Any] = {}
        self.rowcount = 0
        self.description: list[tuple[Any, ...]] | None = None
        self._rows: list[tuple[Any, ...]] = []

    async def __aenter__(self) -> Cursor:
        return self

    def var(self, type_: Any, *args: Any, outconverter: Any = None, **kw: Any) -> OutVariable:
        real = self.driver.var(type_, *args, outconverter=outconverter, **kw)
        return OutVariable(real, type_, outconverter)

    def setinputsizes(self, **sizes: Any) -> None:
        self.sizes = sizes

    async def execute(self, sql: str, parameters: dict[str, Any] | None = None) -> None:
        self.description = None
        await self._recorder.execute(self, sql, parameters or {})

    def result(self, rows: list[tuple[Any, ...]], names: Sequence[str] = ("VALUE",)) -> None:
        self.description = [(name, None, None, None, None, None, True) for name in names]
        self._rows = rows

    async def fetchall(self) -> list[tuple[Any, ...]]:
        return self._rows

    def close(self) -> None:
        return None


class Connection:
    """What SQLAlchemy's adapter needs of an ``AsyncConnection``."""

    version = "23.26.0.0.0"
    max_identifier_length = 128
    stmtcachesize = 20
    outputtypehandler: Any = None

    def __init__(self, recorder: Recorder) -> None:
        self.recorder = recorder
        self._autocommit = False
        # Private, and never asked to execute: without a connection under it that is a crash.
        self._impl = thin_impl.ThinConnImpl(
            oracledb.ConnectParams(host="localhost", service_name="none")._impl
        )

    def _verify_connected(self) -> None:
        return None

    @property
    def autocommit(self) -> bool:
        return self._autocommit

    @autocommit.setter
    def autocommit(self, value: bool) -> None:
        self._autocommit = value

    def cursor(self) -> Cursor:
        return Cursor(self)

    async def commit(self) -> None:
        self.recorder.log.append("commit")

    async def rollback(self) -> None:
        self.recorder.log.append("rollback")

    async def close(self) -> None:
        return None

    def terminate(self) -> None:
        return None


_INFERRED: dict[type, Any] = {
    type(None): oracledb.DB_TYPE_VARCHAR,
    str: oracledb.DB_TYPE_VARCHAR,
    int: oracledb.DB_TYPE_NUMBER,
    float: oracledb.DB_TYPE_NUMBER,
    bytes: oracledb.DB_TYPE_RAW,
    array.array: oracledb.DB_TYPE_VECTOR,
    datetime.datetime: oracledb.DB_TYPE_DATE,  # to the second: what an untyped bind loses
}


def inferred(value: Any) -> Any:
    """The type that the driver gives a value by itself."""
    assert type(value) in _INFERRED, f"nobody gave a {type(value).__name__} a type of the driver's"
    return _INFERRED[type(value)]


def oracle_error(number: int) -> oracledb.Error:
    """The exception that the driver raises for an ORA number, rewritten as the driver does."""
    detail = errors._Error(message=f"ORA-{number:05}: said the server", code=number)
    return detail.exc_type(detail)


def driver_error(number: int, **values: Any) -> oracledb.Error:
    """The exception that the driver raises of itself (DPY)."""
    try:
        errors._raise_err(number, **values)
    except oracledb.Error as error:
        return error
    raise AssertionError("the driver did not raise")


def raise_oracle(number: int) -> NoReturn:
    raise oracle_error(number)


@cache
def _names() -> dict[str, str]:
    """The registered statement of each normalised text; alike texts have the first one's name."""
    return {normalised(sql): name for name, sql in reversed(list(statements("oracle")))}


def _setup_rows(sql: str, parameters: dict[str, Any]) -> list[tuple[Any, ...]] | None:
    """What SQLAlchemy asks on a new connection."""
    if re.search("local_transaction_id", sql):
        return []
    for pattern, row in (
        (r"v\$transaction", "READ COMMITTED"),
        (r"SELECT 1\.1 FROM DUAL", "1.1"),
        (r"(?i)current_schema", "MEM"),
        (r"compatible", "23.0.0"),
    ):
        if re.search(pattern, sql):
            return [(row,)]
    return None


def bound(calls: Sequence[Call]) -> Iterator[tuple[str, str, Any]]:
    """Every (statement, bind, value) of *calls*."""
    return itertools.chain.from_iterable(
        ((call.name, name, value) for name, value in call.binds.items()) for call in calls
    )
