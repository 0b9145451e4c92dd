"""`SQLConnection`: SQL over the tables of an analysis, in a DuckDB that reaches nothing else."""

from __future__ import annotations

import re
import sys
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from os import PathLike
from pathlib import Path
from typing import Any, Self

from memalchemy.analysis.arrow import import_pyarrow, record_batch
from memalchemy.analysis.tables import TABLES, AnalysisTable
from memalchemy.errors import DriverMissing, InvalidArgument, StatementFailed

MEMORY = "1GB"
"""Memory that a connection uses at most, unless it is told otherwise."""

_TYPES = {
    "text": "VARCHAR",
    "json": "VARCHAR",
    "integer": "BIGINT",
    "number": "DOUBLE",
    "boolean": "BOOLEAN",
    "time": "TIMESTAMP",
}

_CLOSED_OFF = {
    "enable_external_access": "false",
    "allow_community_extensions": "false",
    "autoinstall_known_extensions": "false",
    "autoload_known_extensions": "false",
    "python_enable_replacements": "false",
    "temp_directory": "",
}
"""Settings under which SQL reaches no file, no network, no extension and no variable of Python."""

_READS = ("SELECT", "EXPLAIN")
"""Types of statements that are run. Some of them can write, so they run in a transaction that
reads only: a common table expression may insert."""


def import_duckdb() -> Any:
    """Return duckdb.

    Raises:
        DriverMissing: it is not installed.
    """
    try:
        import duckdb
    except ModuleNotFoundError as error:
        raise DriverMissing("duckdb", "analysis", what="package") from error
    return duckdb


def open_duckdb(
    file: str | PathLike[str], memory: str, *, read_only: bool = False, attaches: bool = False
) -> Any:
    """Open a DuckDB file, or ``":memory:"``, that SQL cannot get out of.

    Args:
        attaches: other files can be attached: for SQL of our own alone.

    Raises:
        InvalidArgument: *memory* is no size.
    """
    duckdb = import_duckdb()
    settings = {**_CLOSED_OFF, "memory_limit": memory}
    if attaches:
        del settings["enable_external_access"]
    try:
        return duckdb.connect(str(file), read_only=read_only, config=settings)
    except (duckdb.InvalidInputException, duckdb.ParserException) as error:
        if "memory" not in str(error).lower():
            raise
        raise InvalidArgument(f"{memory!r} is no size of memory; write 500MB or 2GB") from error


def create_table(duck: Any, table: AnalysisTable) -> None:
    """Create an empty table."""
    columns = ", ".join(f'"{one.name}" {_TYPES[one.kind]}' for one in table.columns)
    duck.execute(f'CREATE TABLE "{table.name}" ({columns})')


def insert_rows(duck: Any, table: AnalysisTable, rows: Sequence[Mapping[str, Any]]) -> None:
    """Insert rows into a table; times are stored without a zone, in UTC."""
    insert_batch(duck, table, record_batch(table, rows))


def insert_batch(duck: Any, table: AnalysisTable, batch: Any) -> None:
    """Insert a record batch into a table, as `insert_rows` does."""
    arrow = import_pyarrow()
    zoneless = [
        field.with_type(arrow.timestamp("us")) if arrow.types.is_timestamp(field.type) else field
        for field in batch.schema
    ]
    made = arrow.Table.from_batches([batch])
    duck.register("incoming_rows", made.cast(arrow.schema(zoneless)))
    duck.execute(f'INSERT INTO "{table.name}" SELECT * FROM incoming_rows')  # noqa: S608
    duck.unregister("incoming_rows")


class SQLConnection:
    """SQL over the tables `memalchemy.analysis.TABLES`, as they were when it was made.

        with await connect(db) as connection:
            frame = connection.execute("select name, count(*) from tool_calls group by 1").df()

    It is a DuckDB that runs one query at a time, which only reads: no file, no network, no
    extension and no variable of Python is reached from SQL.

    Attributes:
        unreadable: descriptions of what could not be read of the database.
    """

    def __init__(self, duck: Any, unreadable: Sequence[str] = ()) -> None:
        self._duck = duck
        self.unreadable: list[str] = list(unreadable)
        duck.execute("SET lock_configuration = true")

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *error: object) -> None:
        self.close()

    def __repr__(self) -> str:
        return f"SQLConnection({', '.join(TABLES)})"

    def close(self) -> None:
        """Close the connection."""
        self._duck.close()

    @property
    def memory_bytes(self) -> int:
        """The most memory that DuckDB uses for a query, in bytes."""
        (found,) = self._duck.execute("SELECT current_setting('memory_limit')").fetchone()
        number, unit = str(found).split(" ")
        powers = {"bytes": 0, "KiB": 1, "MiB": 2, "GiB": 3, "TiB": 4, "PiB": 5}
        return int(float(number) * 1024 ** powers[unit])

    def interrupt(self) -> None:
        """Stop the query that runs in another thread."""
        self._duck.interrupt()

    def execute(
        self,
        sql: str,
        parameters: Sequence[Any] | Mapping[str, Any] | None = None,
        *,
        timeout: float | None = None,
    ) -> QueryResult:
        """Check a query, with values for its ``?`` or ``$name``; the result runs it.

        Args:
            timeout: seconds that the query may take until its last row was fetched.

        Raises:
            InvalidArgument: the query is none, or one that does not only read.
            StatementFailed: it took longer than *timeout*, or more memory than the connection has.
        """
        limit = _Limit(self._duck, timeout)
        with suppress(Exception):  # nothing is begun
            self._duck.execute("ROLLBACK")
        with limit.held():
            self._check(sql)
            self._duck.execute("BEGIN TRANSACTION READ ONLY")
            return QueryResult(self._duck, sql, parameters, limit)

    def _check(self, sql: str) -> None:
        statements = self._duck.extract_statements(sql)
        if len(statements) != 1:
            raise InvalidArgument(f"one query is run at a time, not {len(statements)}")
        kind = str(statements[0].type).rpartition(".")[2]
        if kind not in _READS:
            raise InvalidArgument(f"only queries are run, and this is {kind}")


def limit_process_memory(connection: SQLConnection) -> Callable[[], None]:
    """Let the process have so much more memory as the connection may use, where Linux can.

    Values that a function makes, such as lists, do not count in DuckDB's own limit. Returns a
    function that takes the limit back.
    """
    if not sys.platform.startswith("linux"):
        return lambda: None
    import resource

    before = resource.getrlimit(resource.RLIMIT_DATA)
    used = int(re.findall(r"VmData:\s+(\d+)", Path("/proc/self/status").read_text())[0]) * 1024
    allowed = used + connection.memory_bytes + 512 * 1024 * 1024
    if before[0] == resource.RLIM_INFINITY or allowed < before[0]:
        resource.setrlimit(resource.RLIMIT_DATA, (allowed, before[1]))
    return lambda: resource.setrlimit(resource.RLIMIT_DATA, before)


class QueryResult:
    """The result of a query, which ends with the next query of its connection.

    Each method runs the query, but for `fetchmany`, which goes on with it.
    """

    def __init__(self, duck: Any, sql: str, parameters: Any, limit: _Limit) -> None:
        self._duck = duck
        self._query = sql, parameters
        self._relation = duck.sql(sql, params=parameters)
        self._limit = limit
        self._is_begun = False
        self.columns: list[str] = list(self._relation.columns)

    @property
    def types(self) -> list[str]:
        """DuckDB's names of the columns' types."""
        return [str(one) for one in self._relation.types]

    def fetchmany(self, number: int) -> list[tuple[Any, ...]]:
        """Return the next rows, at most *number*; none if there are no more."""
        with self._limit.held():
            if not self._is_begun:
                self._duck.execute(*self._query)
                self._is_begun = True
            found: list[tuple[Any, ...]] = self._duck.fetchmany(number)
            return found

    def fetchall(self) -> list[tuple[Any, ...]]:
        """Return all rows."""
        with self._limit.held():
            found: list[tuple[Any, ...]] = self._relation.fetchall()
            return found

    def rows(self) -> list[dict[str, Any]]:
        """Return all rows as dicts."""
        return [dict(zip(self.columns, row, strict=True)) for row in self.fetchall()]

    def arrow(self) -> Any:
        """Return all rows as a table of Arrow."""
        with self._limit.held():
            return self._relation.to_arrow_table()

    def df(self) -> Any:
        """Return all rows as a data frame of pandas, which must be installed."""
        with self._limit.held():
            return self._relation.df()


class _Limit:
    """The time that a query may take."""

    def __init__(self, duck: Any, seconds: float | None) -> None:
        if seconds is not None and seconds <= 0:
            raise InvalidArgument("timeout is a number of seconds above 0")
        self._duck = duck
        self._seconds = seconds
        self._end = None if seconds is None else time.monotonic() + seconds

    @contextmanager
    def held(self) -> Iterator[None]:
        """Interrupt the block at the end of the time, and raise memalchemy's errors."""
        duckdb = import_duckdb()
        timer = None
        if self._end is not None:
            left = max(self._end - time.monotonic(), 0)
            timer = threading.Timer(left, self._duck.interrupt)
            timer.daemon = True
            timer.start()
        try:
            yield
        except duckdb.InterruptException as error:
            took = f"longer than {self._seconds:g} seconds" if self._seconds else "too long"
            raise StatementFailed(f"the query took {took} and was stopped") from error
        except (duckdb.OutOfMemoryException, MemoryError) as error:
            raise StatementFailed(
                "the query needs more memory than the connection has; allow more, or ask for less"
            ) from error
        except duckdb.Error as error:
            raise InvalidArgument(f"the query cannot be run: {error}") from error
        finally:
            if timer is not None:
                timer.cancel()
