"""PostgreSQL: how columns are stored, and how values are bound and read."""

from __future__ import annotations

import json
import math
import re
from datetime import UTC, datetime
from decimal import Decimal
from functools import cache
from typing import Any

from sqlalchemy import Dialect as SQLAlchemyDialect
from sqlalchemy import String, Uuid
from sqlalchemy.dialects.postgresql import JSONB, TIMESTAMP  # noqa: TID251
from sqlalchemy.types import TypeEngine

from memalchemy.codec import vectors
from memalchemy.column_types import (
    NO_METADATA,
    ColumnTypes,
    Processor,
    Storage,
    is_no_metadata,
    json_object,
    sorted_json,
    utc,
    vector_bytes,
    vector_floats,
)
from memalchemy.errors import DriverMissing


class PostgreSQLColumnTypes(ColumnTypes):
    """Columns in PostgreSQL's own types, keys in the byte order of collation C."""

    def string(self, length: int) -> TypeEngine[Any]:
        return String(length, collation="C")

    def log_key(self) -> Storage:
        return Storage(Uuid())

    def time(self) -> Storage:
        return Storage(TIMESTAMP(timezone=True), _utc, _utc_of_server)

    def json(self) -> Storage:
        return _JsonbStorage(JSONB(), sorted_json, json_object)

    def vector(self) -> Storage:
        return _VectorStorage(pgvector().VECTOR(), _vector_list, _vector_of_driver)


class _JsonbStorage(Storage):
    """JSON spelt by memalchemy, whatever serialiser the engine has: see `to_jsonb`."""

    def bind_processor(self, type_: TypeEngine[Any], dialect: SQLAlchemyDialect) -> Processor:
        if dialect.driver.startswith("psycopg") and dialect.driver != "psycopg2":
            from psycopg.types.json import Jsonb

            return lambda value: Jsonb(value, dumps=to_jsonb)
        return to_jsonb


class _VectorStorage(Storage):
    """pgvector's type, or the bytea column of a database without it."""

    def result_processor(
        self, type_: TypeEngine[Any], dialect: SQLAlchemyDialect, coltype: object
    ) -> Processor:
        return self.read


@cache
def pgvector() -> Any:
    """Return the module of pgvector's types, imported by the first statement that needs one."""
    try:
        from pgvector import sqlalchemy as types
    except ImportError as error:
        what = "package for vectors on PostgreSQL"
        raise DriverMissing("pgvector", "postgres", what=what) from error
    return types


def _utc(value: datetime | None) -> datetime | None:
    return value if value is None or value.tzinfo is UTC else utc(value)


def _utc_of_server(value: datetime | None) -> datetime | None:
    if value is None or value.tzinfo is UTC:
        return value
    if value.tzinfo is None:  # asyncpg makes infinity a naive time
        raise ValueError("a time without end is no time")
    return utc(value)


def _vector_list(value: Any) -> list[float] | None:
    stored = vector_bytes(value)
    return None if stored is None else vectors.from_bytes(stored).tolist()


def _vector_of_driver(value: Any) -> list[float] | None:
    # pgvector's own class or numpy's, where a host has registered pgvector with its driver.
    as_list = getattr(value, "to_list", None) or getattr(value, "tolist", None)
    numbers: list[float] | None = as_list() if as_list is not None else vector_floats(value)
    return numbers


_LARGE = 1e16
"""From here on Python writes floats with an exponent."""
_LARGE_MARK = "\0"
_LARGE_SPELT = re.compile(r'"\\u0000(-?[0-9.]+e\+[0-9]+)"')


def to_jsonb(value: Any) -> str:
    """Return JSON whose floats are floats when PostgreSQL gives them back.

    It writes a number that was given with an exponent without one: 1e300 as a whole number of 301
    digits. A point and the zero behind it are kept, so large floats are written with them.
    """
    if is_no_metadata(value):
        return NO_METADATA
    return _LARGE_SPELT.sub(_write_float_in_full, json.dumps(_mark_large_floats(value)))


def _mark_large_floats(value: Any) -> Any:
    """Return *value* with sorted keys, and with large floats as marked texts.

    The mark is a character that JSONB refuses.
    """
    if isinstance(value, dict):
        return {key: _mark_large_floats(value[key]) for key in sorted(value)}
    if isinstance(value, list):
        return [_mark_large_floats(item) for item in value]
    if isinstance(value, float) and abs(value) >= _LARGE and math.isfinite(value):
        return f"{_LARGE_MARK}{value!r}"
    return value


def _write_float_in_full(match: re.Match[str]) -> str:
    return f"{Decimal(match[1]):f}.0"
