"""The column types of the schema: what databases store otherwise than Python has it.

Knows no table.
"""

from __future__ import annotations

import json
import math
import re
from collections.abc import Callable, Sequence
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from typing import Any
from uuid import UUID

from sqlalchemy import (
    JSON,
    BigInteger,
    DateTime,
    Dialect,
    LargeBinary,
    String,
    TypeDecorator,
    Uuid,
)
from sqlalchemy.types import TypeEngine, UserDefinedType

from memalchemy.codec import vectors
from memalchemy.keys import decode_id, encode_id

# A dialect's own types are imported where they are needed: most processes need one database's.


Reader = Callable[[Any], Any] | None
"""What makes a value of what a driver gives, without what SQLAlchemy puts around it: it is called
for each value of each row. ``None`` if the driver gives the value itself.
"""


class Key(TypeDecorator[str]):
    """An id column: any Python string, compared byte by byte."""

    impl = String
    cache_ok = True

    def __init__(self, length: int) -> None:
        super().__init__(length)
        self.length = length

    def load_dialect_impl(self, dialect: Dialect) -> TypeEngine[Any]:
        if dialect.name == "postgresql":
            return dialect.type_descriptor(String(self.length, collation="C"))
        return dialect.type_descriptor(String(self.length))

    def process_bind_param(self, value: str | None, dialect: Dialect) -> str | None:
        return None if value is None else encode_id(value)

    def process_result_value(self, value: str | None, dialect: Dialect) -> str | None:
        return None if value is None else decode_id(value)

    def reader(self, dialect: Dialect) -> Reader:
        """The same as `process_result_value`."""
        return _id


class Path(Key):
    """A namespace column: already encoded as ``/a/b/``, so only the byte order matters."""

    cache_ok = True

    def process_bind_param(self, value: str | None, dialect: Dialect) -> str | None:
        return value

    def process_result_value(self, value: str | None, dialect: Dialect) -> str | None:
        return value

    def reader(self, dialect: Dialect) -> Reader:
        """The same as `process_result_value`."""
        return None


class LogKey(TypeDecorator[UUID]):
    """The key of a log (`memalchemy.keys.log_key`): ``uuid`` on PostgreSQL, 16 bytes elsewhere."""

    impl = Uuid
    cache_ok = True

    def load_dialect_impl(self, dialect: Dialect) -> TypeEngine[Any]:
        if dialect.name == "postgresql":
            return dialect.type_descriptor(Uuid())
        if dialect.name == "oracle":
            from sqlalchemy.dialects import oracle  # noqa: TID251

            return dialect.type_descriptor(oracle.RAW(16))
        return dialect.type_descriptor(LargeBinary())

    def process_bind_param(self, value: UUID | None, dialect: Dialect) -> Any:
        return value if value is None or dialect.name == "postgresql" else value.bytes

    def process_result_value(self, value: Any, dialect: Dialect) -> UUID | None:
        return value if value is None or dialect.name == "postgresql" else UUID(bytes=bytes(value))

    def reader(self, dialect: Dialect) -> Reader:
        """Read a value as `process_result_value` does."""
        return None if dialect.name == "postgresql" else _uuid


_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_MICROSECOND = timedelta(microseconds=1)


class UtcDateTime(TypeDecorator[datetime]):
    """An aware UTC datetime to the microsecond, in and out, on every database.

    SQLite has no type for times: it stores whole microseconds since 1970. Oracle's DATE ends at
    seconds and its driver drops time zones, so it stores a naive TIMESTAMP.
    """

    impl = DateTime
    cache_ok = True

    def load_dialect_impl(self, dialect: Dialect) -> TypeEngine[Any]:
        if dialect.name == "postgresql":
            from sqlalchemy.dialects import postgresql  # noqa: TID251

            return dialect.type_descriptor(postgresql.TIMESTAMP(timezone=True))
        if dialect.name == "oracle":
            from sqlalchemy.dialects import oracle  # noqa: TID251

            return dialect.type_descriptor(oracle.TIMESTAMP())
        return dialect.type_descriptor(BigInteger())

    def process_bind_param(self, value: datetime | None, dialect: Dialect) -> Any:
        if value is None:
            return None
        if value.tzinfo is None:
            raise ValueError("datetimes must be aware; got a naive one")
        if dialect.name == "sqlite":
            return (value - _EPOCH) // _MICROSECOND
        value = value.astimezone(UTC)
        return value if dialect.name == "postgresql" else value.replace(tzinfo=None)

    def process_result_value(self, value: Any, dialect: Dialect) -> datetime | None:
        if value is None:
            return None
        if dialect.name == "sqlite":
            return _EPOCH + timedelta(microseconds=value)
        if dialect.name == "postgresql":
            _aware(value)
        read: datetime = value
        return read.replace(tzinfo=UTC) if read.tzinfo is None else read.astimezone(UTC)

    def reader(self, dialect: Dialect) -> Reader:
        """Read a value as `process_result_value` does."""
        return _aware if dialect.driver == "asyncpg" else _processed(self, dialect)


class Json(TypeDecorator[Any]):
    """Filterable metadata: JSONB, native JSON or text; sorted keys, so equal values are equal.

    Numbers come back equal and of their own type; on Oracle, where JSON has one kind of number, a
    whole float of up to 64 bits comes back as an int.
    """

    impl = JSON
    cache_ok = True

    def load_dialect_impl(self, dialect: Dialect) -> TypeEngine[Any]:
        if dialect.name == "postgresql":
            from sqlalchemy.dialects import postgresql  # noqa: TID251

            return dialect.type_descriptor(postgresql.JSONB())
        return dialect.type_descriptor(JSON())

    def bind_processor(self, dialect: Dialect) -> Reader:
        """Spell the JSON here on PostgreSQL, whatever serialiser the engine has: see `to_jsonb`."""
        if dialect.name != "postgresql":
            made: Reader = super().bind_processor(dialect)
            return made
        if dialect.driver.startswith("psycopg") and dialect.driver != "psycopg2":
            from psycopg.types.json import Jsonb

            return lambda value: Jsonb(value, dumps=to_jsonb)
        return to_jsonb

    def process_bind_param(self, value: Any, dialect: Dialect) -> Any:
        return _sorted(value)

    def process_result_value(self, value: Any, dialect: Dialect) -> Any:
        return _object(_without_decimals(value) if dialect.name == "oracle" else value)

    def reader(self, dialect: Dialect) -> Reader:
        """The same as `process_result_value`."""
        return _object if dialect.driver == "asyncpg" else _processed(self, dialect)


class Payload(TypeDecorator[bytes]):
    """Bytes of the codec; never empty, because Oracle reads an empty value as NULL."""

    impl = LargeBinary
    cache_ok = True

    def process_bind_param(self, value: bytes | None, dialect: Dialect) -> bytes | None:
        return None if value is None else bytes(value)


class PgVector(UserDefinedType[Any]):
    """pgvector's type without a dimension: one column holds every size."""

    cache_ok = True

    def get_col_spec(self, **kw: Any) -> str:
        return "VECTOR"


class Vector(TypeDecorator[Sequence[float]]):
    """A float32 vector of any dimension: ``vector`` on PostgreSQL and Oracle, bytes on SQLite.

    PostgreSQL without pgvector has a bytea column instead (see the first revision); `search` asks
    the database which one it has.
    """

    impl = LargeBinary
    cache_ok = True

    def load_dialect_impl(self, dialect: Dialect) -> TypeEngine[Any]:
        if dialect.name == "postgresql":
            return dialect.type_descriptor(PgVector())
        if dialect.name == "oracle":
            from sqlalchemy.dialects import oracle  # noqa: TID251

            float32 = oracle.VectorStorageFormat.FLOAT32
            return dialect.type_descriptor(oracle.VECTOR(storage_format=float32))  # type: ignore[no-untyped-call]
        return dialect.type_descriptor(LargeBinary())

    def process_bind_param(self, value: Any, dialect: Dialect) -> Any:
        if value is None:
            return None
        stored = vectors.to_bytes(value)
        if dialect.name == "sqlite":
            return stored
        # The driver takes an array, never a list: SQLAlchemy's own conversion is bypassed here.
        vector = vectors.from_bytes(stored)
        return vector if dialect.name == "oracle" else str(vector.tolist())

    def process_result_value(self, value: Any, dialect: Dialect) -> Any:
        if value is None:
            return None
        if isinstance(value, (bytes, memoryview)):
            return vectors.from_bytes(value).tolist()
        if isinstance(value, str):
            return [float(number) for number in value[1:-1].split(",")]
        return list(value)


def _aware(value: Any) -> Any:
    """PostgreSQL's times are aware, but for infinity, which asyncpg makes a naive one."""
    if value is not None and value.tzinfo is None:
        raise ValueError("a time without end is no time")
    return value


def _object(value: Any) -> Any:
    """Metadata is an object, or not there."""
    if value is not None and not isinstance(value, dict):
        raise TypeError(f"metadata is an object, not {type(value).__name__}")
    return value


def _uuid(stored: bytes | None) -> UUID | None:
    return None if stored is None else UUID(bytes=stored)


def _id(stored: str | None) -> str | None:
    return None if stored is None else decode_id(stored)


def _processed(type_: TypeEngine[Any], dialect: Dialect) -> Reader:
    made: Reader = type_.dialect_impl(dialect).result_processor(dialect, None)
    return made


_LARGE = 1e16
"""From here on Python writes floats with an exponent."""
_LARGE_MARK = "\0"
_LARGE_SPELT = re.compile(r'"\\u0000(-?[0-9.]+e\+[0-9]+)"')


def to_jsonb(value: Any) -> str:
    """JSON whose floats are floats when PostgreSQL gives them back.

    It writes a number that was given with an exponent without one: 1e300 as a whole number of 301
    digits. A point and the zero behind it are kept, so large floats are written with them.
    """
    return _LARGE_SPELT.sub(_in_full, json.dumps(_marked(value)))


def _marked(value: Any) -> Any:
    """*value* with sorted keys; large floats as texts, marked by a character that JSONB refuses."""
    if isinstance(value, dict):
        return {key: _marked(value[key]) for key in sorted(value)}
    if isinstance(value, list):
        return [_marked(item) for item in value]
    if isinstance(value, float) and abs(value) >= _LARGE and math.isfinite(value):
        return f"{_LARGE_MARK}{value!r}"
    return value


def _in_full(match: re.Match[str]) -> str:
    return f"{Decimal(match[1]):f}.0"


def _sorted(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: _sorted(value[key]) for key in sorted(value)}
    return [_sorted(item) for item in value] if isinstance(value, list) else value


def _without_decimals(value: Any) -> Any:
    if isinstance(value, Decimal):
        # Whole numbers of over 64 bits were floats: `metadata.check_metadata` refuses such ints.
        whole = value == value.to_integral_value() and -(2**63) <= value < 2**63
        return int(value) if whole else float(value)
    if isinstance(value, dict):
        return {key: _without_decimals(item) for key, item in value.items()}
    return [_without_decimals(item) for item in value] if isinstance(value, list) else value
