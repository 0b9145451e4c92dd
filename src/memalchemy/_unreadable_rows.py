"""Rows whose cells are not of their columns' types: the error, and how it describes them."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from typing import Any
from uuid import UUID

from sqlalchemy import JSON, Float, Integer, LargeBinary, String, TypeDecorator

from memalchemy.column_types import Json, LogKey, UtcDateTime, Vector
from memalchemy.errors import Corrupt

DECODING_ERRORS = (
    ArithmeticError,
    AttributeError,
    LookupError,
    RecursionError,
    TypeError,
    ValueError,
)
"""Errors that reading a value raises if it is not of its column's type."""

_CELL_TYPES: tuple[tuple[type, tuple[type, ...]], ...] = (
    (Float, (float, int)),
    (Integer, (int,)),
    (LargeBinary, (bytes,)),
    (JSON, (str,)),
    (String, (str,)),
)

_IDENTIFYING = ("thread_id", "namespace", "checkpoint_id", "seq", "key", "field", "model", "part")
"""Columns that say which row it is."""


class UnreadableRows(Corrupt):
    """Cells of some rows are not of their columns' types.

    ``rows`` are all rows, with ``None`` in such cells; ``damaged`` maps the index of each such row
    to a description. Both are empty where the driver did not say which rows they were.
    """

    def __init__(self, what: str, rows: list[Any], damaged: dict[int, str]) -> None:
        more = f", and {len(damaged) - 1:,} more rows" if len(damaged) > 1 else ""
        super().__init__(f"{what}{more}")
        self.rows: list[Any] = rows
        self.damaged: dict[int, str] = damaged


def cell_types(type_: Any) -> tuple[type, ...] | None:
    """Return the Python types sqlite3 gives for a valid cell of *type_*; ``None``: any."""
    if isinstance(type_, UtcDateTime):
        return (int,)
    if isinstance(type_, LogKey):
        return (bytes,)
    while isinstance(type_, TypeDecorator):
        type_ = type_.impl_instance
    return next((given for kind, given in _CELL_TYPES if isinstance(type_, kind)), None)


def loaded_types(type_: Any) -> tuple[type, ...] | None:
    """Return the Python types that SQLAlchemy loads for *type_*; ``None``: any."""
    if isinstance(type_, Json):
        return (dict,)
    if isinstance(type_, UtcDateTime):
        return (datetime,)
    if isinstance(type_, Vector):
        return (list,)
    if isinstance(type_, LogKey):
        return (UUID,)
    return cell_types(type_)


def cell_description(value: Any) -> str:
    """Describe the value of a cell without quoting it."""
    size = ""
    if isinstance(value, (str, bytes, memoryview)):
        size = f" of {len(value):,} {'characters' if isinstance(value, str) else 'bytes'}"
    return f"not what it should be: {type(value).__name__}{size}"


def row_description(names: Sequence[str], values: Sequence[Any], wrong: Sequence[str]) -> str:
    """Describe a row by the columns that identify it, and what is *wrong* with its cells."""
    key = [
        f"{name} {value!r}"
        for name, value in zip(names, values, strict=True)
        if name in _IDENTIFYING and isinstance(value, (str, int))
    ]
    return f"a row cannot be read ({', '.join(key) or 'its key was not read'}): " + "; ".join(wrong)


def describe_driver_error(error: Exception) -> str:
    """Describe an error of a driver that could not decode a row."""
    return f"the driver cannot read a row of the database ({type(error).__name__})"
