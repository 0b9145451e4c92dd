"""Rows of tables as output: streamed in a format for programs, as a table, or as a Parquet file."""

from __future__ import annotations

from collections.abc import AsyncIterator, Sequence
from contextlib import ExitStack
from datetime import date, datetime
from decimal import Decimal
from pathlib import Path
from typing import Any, BinaryIO

from memalchemy._bounds import parse_json
from memalchemy.analysis.tables import AnalysisTable
from memalchemy.cli.context import Context
from memalchemy.cli.formatting import format_time
from memalchemy.cli.json_lines import open_output
from memalchemy.cli.tables import Column, Excerpt
from memalchemy.cli.usage_errors import UsageError

Row = dict[str, Any]

SHOWN = 100
"""Rows that a table for people has, unless ``--limit`` says otherwise."""


async def first_rows(batches: AsyncIterator[list[Row]], limit: int | None) -> AsyncIterator[Any]:
    """Yield batches until there were *limit* rows."""
    left = limit
    async for batch in batches:
        yield batch if left is None else batch[:left]
        left = None if left is None else left - len(batch)
        if left is not None and left <= 0:
            return


async def print_rows(
    ctx: Context, batches: AsyncIterator[list[Row]], json_columns: Sequence[str]
) -> None:
    """Print batches of rows for programs, as they come.

    Values of *json_columns* are documents, as they were stored.
    """
    with ctx.terminal.documents() as printed:
        async for batch in batches:
            printed.add([_with_documents(row, json_columns) for row in batch])


def _with_documents(row: Row, json_columns: Sequence[str]) -> Row:
    return row | {name: parse_json(row[name]) for name in json_columns if row[name] is not None}


def print_table(ctx: Context, rows: Sequence[Row]) -> None:
    """Print rows as a table for people: times to the second, long texts cut."""
    names = list(rows[0]) if rows else []
    numbers = {
        name
        for name in names
        if any(_is_number(row[name]) for row in rows)
        and all(row[name] is None or _is_number(row[name]) for row in rows)
    }
    columns = [Column(name, "number" if name in numbers else "text") for name in names]
    ctx.terminal.print_table(columns, ([_cell(row[name]) for name in names] for row in rows))


def _is_number(value: Any) -> bool:
    return isinstance(value, (int, float, Decimal)) and not isinstance(value, bool)


def _cell(value: Any) -> Any:
    if value is None:
        return ""
    if isinstance(value, datetime):
        return format_time(value)
    if isinstance(value, (date, Decimal)):
        return str(value)
    if isinstance(value, float):
        return f"{value:,.4f}".rstrip("0").rstrip(".")
    if isinstance(value, bool):
        return "yes" if value else ""
    return value if isinstance(value, int) else Excerpt(value)


async def write_parquet(file: Path, table: AnalysisTable, batches: AsyncIterator[list[Row]]) -> int:
    """Write batches of rows of a table to a Parquet file, which appears when it is complete."""
    from memalchemy.analysis.arrow import record_batch, schema_of

    with ParquetFile(file, schema_of(table)) as written:
        async for batch in batches:
            written.write(record_batch(table, batch))
    return written.rows


def write_rows_to_parquet(file: Path, rows: Sequence[Row]) -> int:
    """Write rows of any fields to a Parquet file."""
    from memalchemy.analysis.arrow import import_pyarrow

    made = import_pyarrow().Table.from_pylist(list(rows))
    with ParquetFile(file, made.schema) as written:
        for batch in made.to_batches():
            written.write(batch)
    return written.rows


class ParquetFile:
    """A Parquet file that appears when it is complete."""

    def __init__(self, file: Path, schema: Any) -> None:
        self._file = file
        self._opened = ExitStack()
        self._schema = schema
        self.rows: int = 0

    def __enter__(self) -> ParquetFile:
        from pyarrow import parquet

        with ExitStack() as stack:
            out = CountingWriter(stack.enter_context(open_output(self._file)))
            try:
                self._writer = stack.enter_context(parquet.ParquetWriter(out, self._schema))
            except NotImplementedError as error:  # of Arrow
                raise UsageError(
                    f"a Parquet file cannot hold this answer; cast the column in SQL: {error}"
                ) from error
            self._opened = stack.pop_all()
        return self

    def write(self, batch: Any) -> None:
        """Write a record batch."""
        self._writer.write_batch(batch)
        self.rows += batch.num_rows

    def __exit__(self, *error: Any) -> None:
        self._opened.__exit__(*error)


class CountingWriter:
    """The file that Arrow writes to: it asks for the position, which a FIFO cannot tell."""

    closed: bool = False

    def __init__(self, file: BinaryIO) -> None:
        self._file = file
        self._written = 0

    def write(self, data: Any) -> int:
        """Write bytes."""
        self._file.write(data)
        self._written += len(data)
        return len(data)

    def tell(self) -> int:
        """Return the number of bytes written."""
        return self._written

    def flush(self) -> None:
        """Write what is in the buffer."""
        self._file.flush()

    def close(self) -> None:
        """Do nothing: whoever opened the file closes it."""
