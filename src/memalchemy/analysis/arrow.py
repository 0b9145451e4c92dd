"""Rows as record batches of Arrow."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from memalchemy.analysis.tables import AnalysisTable
from memalchemy.errors import DriverMissing

if TYPE_CHECKING:
    import pyarrow


def import_pyarrow() -> Any:
    """Return pyarrow.

    Raises:
        DriverMissing: it is not installed.
    """
    try:
        import pyarrow
    except ModuleNotFoundError as error:
        raise DriverMissing("pyarrow", "analysis", what="package") from error
    return pyarrow


def schema_of(table: AnalysisTable) -> pyarrow.Schema:
    """Return the schema of a table: JSON is text, and times are microseconds in UTC."""
    arrow = import_pyarrow()
    types = {
        "text": arrow.string(),
        "json": arrow.string(),
        "integer": arrow.int64(),
        "number": arrow.float64(),
        "boolean": arrow.bool_(),
        "time": arrow.timestamp("us", tz="UTC"),
    }
    return arrow.schema([(column.name, types[column.kind]) for column in table.columns])


def record_batch(table: AnalysisTable, rows: Sequence[Mapping[str, Any]]) -> pyarrow.RecordBatch:
    """Return rows of a table as a record batch."""
    return import_pyarrow().RecordBatch.from_pylist(list(rows), schema=schema_of(table))
