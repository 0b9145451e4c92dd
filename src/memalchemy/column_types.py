"""The column types of the schema: values that databases store otherwise than Python has them.

Each type is a `TypeDecorator`; a `ColumnTypes` says how one database stores it. The one here serves
SQLite and every database that nobody knows better; PostgreSQL's and Oracle's are in their dialects.
"""

from __future__ import annotations

import abc
from collections.abc import Callable, Iterable, Sequence
from datetime import UTC, datetime, timedelta
from functools import cache
from importlib import import_module
from typing import Any, NoReturn, TypeVar
from uuid import UUID

from sqlalchemy import (
    JSON,
    BigInteger,
    Cast,
    ClauseElement,
    ColumnElement,
    DateTime,
    Dialect,
    LargeBinary,
    String,
    TypeDecorator,
    Uuid,
    and_,
)
from sqlalchemy.exc import CompileError
from sqlalchemy.ext.compiler import compiles
from sqlalchemy.sql import operators
from sqlalchemy.types import TypeEngine

from memalchemy._bounds import parse_metadata, parse_plain_json
from memalchemy._wiring import wired
from memalchemy.codec import vectors
from memalchemy.errors import CapabilityMissing, Corrupt, InvalidArgument
from memalchemy.keys import (
    ESCAPE,
    beyond_namespace,
    check_namespace,
    decode_id,
    decode_namespace,
    encode_id,
    encode_namespace,
)
from memalchemy.row_conditions import MetadataComparator

T = TypeVar("T")

MAX_INDEXED_DIMENSIONS = 4000
"""The most numbers of a vector that an HNSW index of PostgreSQL has, in half precision."""

Processor = Callable[[Any], Any] | None
"""A function of one value; ``None`` leaves values as they are."""

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_MICROSECOND = timedelta(microseconds=1)


class Storage:
    """The way in which a database stores the values of one column type.

    *write* converts a value to one that *type_* takes, *read* converts one that it returns. Both
    are called for each value of each row, ``None`` included.
    """

    def __init__(
        self, type_: TypeEngine[Any], write: Processor = None, read: Processor = None
    ) -> None:
        self.type = type_
        self.write = write
        self.read = read

    def bind_processor(self, type_: TypeEngine[Any], dialect: Dialect) -> Processor:
        """Return `write` followed by the bind processor of *type_*, the type on *dialect*."""
        return _compose(self.write, _bind_processor_of(type_, dialect))

    def result_processor(
        self, type_: TypeEngine[Any], dialect: Dialect, coltype: object
    ) -> Processor:
        """Return the result processor of *type_*, the type on *dialect*, followed by `read`."""
        return _compose(type_.result_processor(dialect, coltype), self.read)


class _JsonStorage(Storage):
    """JSON as the engine's serialiser spells it; most rows have no metadata, which is ``{}``."""

    def bind_processor(self, type_: TypeEngine[Any], dialect: Dialect) -> Processor:
        spell = super().bind_processor(type_, dialect)
        return spell and (
            lambda value: NO_METADATA if type(value) is dict and not value else spell(value)
        )

    def result_processor(
        self, type_: TypeEngine[Any], dialect: Dialect, coltype: object
    ) -> Processor:
        if type_.result_processor(dialect, coltype) is None:  # the driver has read it
            return self.read
        return _metadata_of_text


def is_no_metadata(value: Any) -> bool:
    """Return whether *value* is the empty object."""
    return type(value) is dict and not value


def _metadata_of_text(value: Any) -> Any:
    if value is None or value == NO_METADATA:
        return None if value is None else {}
    return json_object(parse_metadata(value))


NO_METADATA = "{}"
"""The JSON of no metadata, as the conditions of indexes and triggers spell it, too."""


def _bind_processor_of(type_: TypeEngine[Any], dialect: Dialect) -> Processor:
    """Return the bind processor of *type_*, without one that wraps bytes for sqlite3.

    Bytes are what it stores of a `memoryview`, too.
    """
    if isinstance(type_, LargeBinary) and getattr(dialect.dbapi, "Binary", None) is memoryview:
        return None
    return type_.bind_processor(dialect)


def _compose(first: Processor, then: Processor) -> Processor:
    if first is None or then is None:
        return first or then
    return lambda value: then(first(value))


class ColumnTypes:
    """Storage of the schema's values in types that every database has."""

    def string(self, length: int) -> TypeEngine[Any]:
        """Return the type of ids and namespaces, which are compared byte by byte."""
        return String(length)

    def log_key(self) -> Storage:
        """Return the storage of keys of logs: 16 bytes."""
        return Storage(LargeBinary(), uuid_bytes, uuid_of_bytes)

    def time(self) -> Storage:
        """Return the storage of times: whole microseconds since 1970."""
        return Storage(BigInteger(), _microseconds, _time_of_microseconds)

    def json(self) -> Storage:
        """Return the storage of metadata: JSON with sorted keys."""
        return _JsonStorage(JSON(), sorted_json, json_object)

    def vector(self) -> Storage:
        """Return the storage of vectors: float32 in bytes."""
        return Storage(LargeBinary(), vector_bytes, vector_floats)


_PORTABLE = ColumnTypes()


def column_types_on(sqlalchemy_name: str) -> ColumnTypes:
    """Return the column types on SQLAlchemy's dialect of that name; portable ones if unknown.

    memalchemy's dialect for it is loaded if it was not yet: a host that maps the tables with an
    engine of its own has asked for no dialect.
    """
    find: Callable[[str], ColumnTypes | None] = wired("column_types")
    return find(sqlalchemy_name) or _PORTABLE


class StoredType(TypeDecorator[T]):
    """A column type whose `Storage` is its database's."""

    cache_ok: bool | None = True
    __abstract__ = True

    @abc.abstractmethod
    def storage(self, types: ColumnTypes) -> Storage:
        """Return the storage of this type among those of a database."""

    def load_dialect_impl(self, dialect: Dialect) -> TypeEngine[Any]:
        return dialect.type_descriptor(self._storage_on(dialect).type)

    def process_bind_param(self, value: T | None, dialect: Dialect) -> Any:
        write = self.writer(dialect)
        return value if write is None else write(value)

    def writer(self, dialect: Dialect) -> Processor:
        """Return the function that `process_bind_param` calls, for many values."""
        return self._storage_on(dialect).write

    def process_result_value(self, value: Any | None, dialect: Dialect) -> T | None:
        read = self._storage_on(dialect).read
        return value if read is None else read(value)

    def bind_processor(self, dialect: Dialect) -> Processor:
        """Return the function that SQLAlchemy's own would be, with one call for each value."""
        return self._storage_on(dialect).bind_processor(self.impl_instance, dialect)

    def result_processor(self, dialect: Dialect, coltype: object) -> Processor:
        """Return the function that SQLAlchemy's own would be, with one call for each value."""
        return self._storage_on(dialect).result_processor(self.impl_instance, dialect, coltype)

    def _storage_on(self, dialect: Dialect) -> Storage:
        return self.storage(column_types_on(dialect.name))


class Key(StoredType[str]):
    """An id column: any Python string, compared byte by byte."""

    impl: type[TypeEngine[Any]] = String
    cache_ok: bool | None = True

    def __init__(self, length: int) -> None:
        super().__init__(length)
        self.length = length

    def storage(self, types: ColumnTypes) -> Storage:
        return Storage(types.string(self.length), _encode_optional_id, _decode_optional_id)


class Path(Key):
    """A namespace column: already encoded as ``/a/b/``, so only the byte order matters."""

    cache_ok: bool | None = True

    def storage(self, types: ColumnTypes) -> Storage:
        return Storage(types.string(self.length))


class Namespace(TypeDecorator[tuple[str, ...]]):
    """A namespace as the tuple of its parts, over a `Path` column; a text is a path already."""

    impl: type[TypeEngine[Any]] = String
    cache_ok: bool | None = True

    def process_bind_param(
        self, value: tuple[str, ...] | str | None, dialect: Dialect
    ) -> str | None:
        return value if value is None or isinstance(value, str) else encode_namespace(value)

    def process_result_value(self, value: str | None, dialect: Dialect) -> tuple[str, ...] | None:
        return None if value is None else decode_namespace(value)

    class Comparator(TypeDecorator.Comparator[tuple[str, ...]]):
        """Comparisons with tuples, or with a path such as ``/users/ada/``."""

        def operate(self, op: Any, *other: Any, **kwargs: Any) -> ColumnElement[Any]:
            if op in (operators.eq, operators.ne):
                other = tuple(map(_checked_namespace, other))
            elif op in (operators.in_op, operators.not_in_op) and _is_collection(other[0]):
                other = ([_checked_namespace(one) for one in other[0]],)
            return super().operate(op, *other, **kwargs)

        def below(self, namespace: Iterable[str]) -> ColumnElement[bool]:
            """Return the condition that a row is in *namespace* or under it: a range of an index.

            ``StoreItemRow.namespace.below(("users",))`` is true of ``("users",)`` and of
            ``("users", "ada")``, and not of ``("users2",)``.
            """
            path = encode_namespace(namespace)
            return and_(self.expr >= path, self.expr < beyond_namespace(path))

    comparator_factory: Any = Comparator


def _checked_namespace(given: Any) -> Any:
    """Return what a namespace is compared with; refuse a text that is no path."""
    if isinstance(given, str) and not (given.startswith("/") and given.endswith("/")):
        raise InvalidArgument(f"a namespace is a tuple of texts, not {given!r}: write ({given!r},)")
    is_sql = isinstance(given, ClauseElement) or hasattr(given, "__clause_element__")
    return given if given is None or is_sql or isinstance(given, str) else check_namespace(given)


def _is_collection(given: Any) -> bool:
    return isinstance(given, (list, tuple, set, frozenset))


class LogKey(StoredType[UUID]):
    """The key of a log (`memalchemy.keys.log_key`): ``uuid`` on PostgreSQL, 16 bytes elsewhere."""

    impl: type[TypeEngine[Any]] = Uuid
    cache_ok: bool | None = True

    def storage(self, types: ColumnTypes) -> Storage:
        return types.log_key()


class UtcDateTime(StoredType[datetime]):
    """An aware UTC datetime to the microsecond, in and out, on every database.

    SQLite has no type for times: it stores whole microseconds since 1970.
    """

    impl: type[TypeEngine[Any]] = DateTime
    cache_ok: bool | None = True

    def storage(self, types: ColumnTypes) -> Storage:
        return types.time()


class Json(StoredType[Any]):
    """Filterable metadata: JSONB, native JSON or text; sorted keys, so equal values are equal.

    Numbers come back equal and of their own type; on Oracle, where JSON has one kind of number, a
    whole float of up to 64 bits comes back as an int.
    """

    impl: type[TypeEngine[Any]] = JSON
    cache_ok: bool | None = True

    comparator_factory: Any = MetadataComparator

    def storage(self, types: ColumnTypes) -> Storage:
        return types.json()


class Payload(TypeDecorator[bytes]):
    """Bytes of the codec; never empty, because Oracle reads an empty value as NULL."""

    impl: type[TypeEngine[Any]] = LargeBinary
    cache_ok: bool | None = True

    def process_bind_param(self, value: bytes | None, dialect: Dialect) -> bytes | None:
        return _bytes_or_null(value)

    def bind_processor(self, dialect: Dialect) -> Processor:
        """Return the function that SQLAlchemy's own would be, with one call for each value."""
        return _compose(_bytes_or_null, _bind_processor_of(self.impl_instance, dialect))


class Vector(StoredType[Sequence[float]]):
    """A float32 vector of any dimension: ``vector`` on PostgreSQL and Oracle, bytes on SQLite.

    PostgreSQL without pgvector has a bytea column instead (see the first revision); `search` asks
    the database which one it has. Where the package pgvector is installed, its operators work on
    the column of PostgreSQL and Oracle: ``EmbeddingRow.vector.cosine_distance([0.1, 0.2])``. On
    PostgreSQL ``cosine_distance``, ``l2_distance`` and ``max_inner_product`` compare with up to
    4,000 numbers as the HNSW indexes do, in half precision, and use one for
    ``EmbeddingRow.dimensions == n``. On SQLite an operator raises
    `sqlalchemy.exc.CompileError`.
    """

    impl: type[TypeEngine[Any]] = LargeBinary
    cache_ok: bool | None = True

    def storage(self, types: ColumnTypes) -> Storage:
        return types.vector()

    @property
    def comparator_factory(self) -> Any:  # type: ignore[override]
        """Return the class of pgvector's operators, imported when an expression needs it."""
        return _vector_comparator()


@cache
def _vector_comparator() -> type:
    try:
        native = import_module("pgvector.sqlalchemy").VECTOR
    except ImportError:
        return _NoOperators
    exact = native.comparator_factory

    def distance(name: str) -> Callable[[Any, Any], Any]:
        def compare(self: Any, other: Any) -> Any:
            is_column = isinstance(other, ClauseElement) or hasattr(other, "__clause_element__")
            if is_column or len(other) > MAX_INDEXED_DIMENSIONS:
                return getattr(exact, name)(self, other)
            return getattr(_AsIndexed(self.expr, len(other)), name)(other)

        return compare

    names = ("cosine_distance", "l2_distance", "max_inner_product")
    methods = {name: distance(name) for name in names}
    return type("VectorComparator", (TypeDecorator.Comparator, exact), methods)


class _NoOperators(TypeDecorator.Comparator[Any]):
    """Operators of vectors without the package that has them."""

    def cosine_distance(self, other: Any) -> NoReturn:
        raise CapabilityMissing(
            "to compare vectors in SQL needs PostgreSQL and the package pgvector: pip install "
            "pgvector. On SQLite, which has no operators for vectors, search by "
            "Store.search(embedding=[…])"
        )

    l2_distance = max_inner_product = l1_distance = cosine_distance


class _AsIndexed(Cast[Any]):
    """The column of vectors as PostgreSQL's HNSW indexes have it: with its size, in 16 bits."""

    inherit_cache = True

    def __init__(self, column: Any, dimensions: int) -> None:
        super().__init__(column, import_module("pgvector.sqlalchemy").HALFVEC(dimensions))


@compiles(_AsIndexed, "sqlite")
def _no_operators(element: _AsIndexed, compiler: Any, **kw: Any) -> str:
    raise CompileError(
        "SQLite has no operators for vectors, which are bytes there: search by "
        "Store.search(embedding=[…]), or compute distances of the vectors that you read"
    )


@compiles(_AsIndexed, "oracle")
def _column_alone(element: _AsIndexed, compiler: Any, **kw: Any) -> str:
    return str(compiler.process(element.clause, **kw))


def utc(value: datetime) -> datetime:
    """Return a time in UTC, or refuse one whose time zone nobody knows."""
    if value.tzinfo is None:
        raise ValueError("datetimes must be aware; got a naive one")
    return value if value.tzinfo is UTC else value.astimezone(UTC)


def _microseconds(value: datetime | None) -> int | None:
    if value is None:
        return None
    return ((value if value.tzinfo is UTC else utc(value)) - _EPOCH) // _MICROSECOND


def _time_of_microseconds(stored: int | None) -> datetime | None:
    return None if stored is None else _EPOCH + timedelta(microseconds=stored)


def _bytes_or_null(value: bytes | None) -> bytes | None:
    return value if value is None or type(value) is bytes else bytes(value)


def uuid_bytes(value: UUID | None) -> bytes | None:
    """Return the 16 bytes of a UUID."""
    return None if value is None else value.bytes


def uuid_of_bytes(stored: bytes | None) -> UUID | None:
    """Return the UUID of 16 bytes."""
    return None if stored is None else UUID(bytes=bytes(stored))


def _encode_optional_id(value: str | None) -> str | None:
    if value is None or (value.isascii() and value.isprintable() and value):
        return value
    return encode_id(value)


def _decode_optional_id(stored: str | None) -> str | None:
    if stored is None or ESCAPE not in stored:
        return stored
    return decode_id(stored)


def sorted_json(value: Any) -> Any:
    """Return *value* with the keys of its objects in order."""
    if isinstance(value, dict):
        return {key: sorted_json(value[key]) for key in sorted(value)}
    return [sorted_json(item) for item in value] if isinstance(value, list) else value


def json_object(value: Any) -> Any:
    """Return metadata, which is an object or not there; raise `TypeError` for anything else."""
    if value is not None and not isinstance(value, dict):
        raise TypeError(f"metadata is an object, not {type(value).__name__}")
    return value


def vector_bytes(value: Any) -> bytes | None:
    """Return a vector as little-endian float32."""
    return None if value is None else vectors.to_bytes(value)


def stored_vector_bytes(stored: Any) -> bytes:
    """Return a vector that was read without conversion as little-endian float32.

    Raises:
        Corrupt: it is no vector.
    """
    if isinstance(stored, (bytes, memoryview)):
        return bytes(stored)
    try:
        return vectors.to_bytes(vector_floats(stored))
    except (ArithmeticError, TypeError, ValueError):
        raise Corrupt("a stored vector is no vector") from None


def vector_floats(stored: Any) -> Any:
    """Return the numbers of a stored vector: bytes, a text as ``[1,2]``, or any row of numbers."""
    if stored is None:
        return None
    if isinstance(stored, (bytes, memoryview)):
        return vectors.from_bytes(stored).tolist()
    if isinstance(stored, str):
        # As JSON, which is read in C; there -0 is an integer, and has no sign.
        signed = stored.replace("-0,", "-0.0,").replace("-0]", "-0.0]")
        return list(map(float, parse_plain_json(signed)))
    return list(stored)
