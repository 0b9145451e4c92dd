"""PostgreSQL: pgvector's column, distances and indexes, or bytes without it."""

from __future__ import annotations

from typing import Any, ClassVar

import orjson
from sqlalchemy import (
    ClauseElement,
    ColumnClause,
    ColumnElement,
    Connection,
    Executable,
    LargeBinary,
    MetaData,
    Table,
    Text,
    bindparam,
    cast,
    column,
    select,
    table,
    text,
    type_coerce,
    update,
)
from sqlalchemy.exc import DBAPIError
from sqlalchemy.ext.compiler import compiles

from memalchemy.codec import vectors
from memalchemy.dialects.base import Failure, Vectors, quoted, vector_index_name
from memalchemy.dialects.postgresql.catalog import on_our_tables
from memalchemy.dialects.postgresql.column_types import pgvector
from memalchemy.dialects.postgresql.failures import classify
from memalchemy.dialects.postgresql.statements import computed_once
from memalchemy.errors import CapabilityMissing
from memalchemy.schema import Base

_DISTANCES = {"cosine": "cosine_distance", "dot": "max_inner_product", "l2": "l2_distance"}
"""The operators of a metric, as pgvector's comparators call them."""
_OPERATOR_CLASSES = {
    "cosine": "halfvec_cosine_ops",
    "dot": "halfvec_ip_ops",
    "l2": "halfvec_l2_ops",
}
_SETTINGS = {
    "p_scan": "hnsw.iterative_scan",
    "p_width": "hnsw.ef_search",
    "p_sort": "enable_sort",
    "p_sequential": "enable_seqscan",
    "p_bitmap": "enable_bitmapscan",
}


_EXTENSION_SCHEMA = """SELECT quote_ident(n.nspname) FROM pg_extension e
JOIN pg_namespace n ON n.oid = e.extnamespace WHERE e.extname = 'vector'"""
_TYPE = "SELECT to_regtype('vector')::text"
_HIDDEN = """SELECT 1 FROM pg_attribute a JOIN pg_class c ON c.oid = a.attrelid
JOIN pg_namespace n ON n.oid = c.relnamespace JOIN pg_type t ON t.oid = a.atttypid
WHERE n.nspname = coalesce(:schema, current_schema()) AND c.relname = 'embeddings'
AND a.attname = 'vector' AND t.typname = 'vector' AND to_regtype('vector') IS NULL"""


def hidden_vectors(connection: Connection) -> CapabilityMissing:
    """Return the error of a connection that does not find the type of pgvector."""
    place = connection.scalar(text(_EXTENSION_SCHEMA))
    path, database = connection.execute(
        text("SELECT current_setting('search_path'), quote_ident(current_database())")
    ).one()
    return CapabilityMissing(
        f"pgvector is installed in the schema {place}, which is not in the search_path of this "
        f"connection ({path}), so its type is not found. Run: ALTER DATABASE {database} SET "
        f"search_path = {path}, {place} (or ALTER ROLE … SET), and connect anew. pg_dump without "
        "--create leaves such a setting out",
        capability="semantic_search",
    )


def refuse_hidden_vectors(connection: Connection, schema: str | None) -> None:
    """Raise `CapabilityMissing` if the vectors have pgvector's type, and it is not found."""
    if connection.scalar(text(_HIDDEN), {"schema": schema}) is not None:
        raise hidden_vectors(connection)


class PostgreSQLVectors(Vectors):
    """pgvector's column, distances and HNSW indexes, or bytes without it."""

    install_commands: ClassVar[tuple[str, ...]] = ("CREATE EXTENSION IF NOT EXISTS vector",)
    may_be_bytes: ClassVar[bool] = True

    def ensure_type(self, connection: Connection) -> bool:
        if connection.scalar(text(_EXTENSION_SCHEMA)) is not None:
            if connection.scalar(text(_TYPE)) is None:
                raise hidden_vectors(connection)
            return True
        available = text("SELECT 1 FROM pg_available_extensions WHERE name = 'vector'")
        if not connection.scalar(available):
            return False
        try:
            with connection.begin_nested():
                connection.execute(text("CREATE EXTENSION IF NOT EXISTS vector"))
        except DBAPIError as error:
            if classify(error)[0] is Failure.PERMISSION:
                return False
            raise
        return True

    def convert_bytes(self, connection: Connection, schema: str | None) -> bool:
        key: list[ColumnClause[Any]] = [
            column(name) for name in ("tenant", "namespace", "key", "field", "model", "part")
        ]
        old, new = column("vector", LargeBinary), column("native", Text)
        embeddings = table("embeddings", *key, old, new, schema=schema)
        if self.is_native(connection, schema) is not False:
            return False
        quote = connection.dialect.identifier_preparer.quote
        name = f"{quote(schema)}.embeddings" if schema else "embeddings"
        forced = text(
            "SELECT relforcerowsecurity FROM pg_class WHERE oid = CAST(:name AS regclass)"
        )
        is_walled = connection.scalar(forced, {"name": name})
        if is_walled:
            # The owner alone may do this, and sees one tenant's rows while that is forced. Others
            # see nothing of it: the next statement locks the table until the end.
            connection.exec_driver_sql(f"ALTER TABLE {name} NO FORCE ROW LEVEL SECURITY")
        connection.exec_driver_sql(f"ALTER TABLE {name} ADD COLUMN native VECTOR")
        todo = select(*key, old).where(new.is_(None)).limit(1000)
        one = (
            update(embeddings)
            .where(*(c == bindparam(f"k_{c.name}") for c in key))
            .values({"native": cast(bindparam("floats", type_=Text), pgvector().VECTOR)})
        )
        while rows := connection.execute(todo).all():
            connection.execute(
                one,
                [
                    {f"k_{c.name}": value for c, value in zip(key, row, strict=False)}
                    | {"floats": str(vectors.from_bytes(bytes(row[-1])).tolist())}
                    for row in rows
                ],
            )
        for change in (
            "ALTER COLUMN native SET NOT NULL",
            "DROP COLUMN vector",
            "RENAME COLUMN native TO vector",
        ):
            connection.exec_driver_sql(f"ALTER TABLE {name} {change}")
        if is_walled:
            connection.exec_driver_sql(f"ALTER TABLE {name} FORCE ROW LEVEL SECURITY")
        return True

    def is_native(self, connection: Connection, schema: str | None) -> bool | None:
        found = connection.scalar(self.column_type(), {"p_schema": schema})
        return None if found is None else found != "bytea"

    def column_type(self) -> Executable:
        return text(
            "SELECT data_type FROM information_schema.columns WHERE table_name = 'embeddings' "
            "AND column_name = 'vector' AND table_schema = coalesce(:p_schema, current_schema())"
        ).bindparams(bindparam("p_schema", type_=Text))

    def bind(self, name: str, native: bool) -> ColumnElement[Any]:
        if native:
            return _bound_vector(name)
        return bindparam(name, type_=LargeBinary)

    def bind_value(self, vector: bytes, native: bool) -> Any:
        return orjson.dumps(vectors.from_bytes(vector).tolist()).decode() if native else vector

    def readable(self, vector: ColumnElement[Any], native: bool) -> ColumnElement[Any]:
        # As text: a driver reads the native type only after it was registered with it.
        return cast(vector, Text) if native else type_coerce(vector, LargeBinary)

    def distance(self, vector: ColumnElement[Any], name: str, metric: str) -> ColumnElement[float]:
        return _distance(vector, metric, _bound_vector(name))

    def index_distance(
        self, vector: ColumnElement[Any], name: str, metric: str, dimensions: int
    ) -> ColumnElement[float] | None:
        half = pgvector().HALFVEC(int(dimensions))
        return _distance(cast(vector, half), metric, cast(_bound_vector(name), half))

    def query_value(self, vector: Any) -> Any:
        # With the digits of single precision there is half as much to send and to read.
        return orjson.dumps(vector, option=orjson.OPT_SERIALIZE_NUMPY).decode()

    def force_index(self) -> Executable | None:
        # Whatever the planner estimates, only the index is left as a way to rows in their order.
        set_ = ", ".join(f"set_config('{name}', :{bind}, true)" for bind, name in _SETTINGS.items())
        query = text(f"SELECT {set_}").bindparams(*(bindparam(b, type_=Text) for b in _SETTINGS))
        return query.columns(*(column(bind) for bind in _SETTINGS))

    def index_settings(self, width: int) -> dict[str, str]:
        chosen = {"p_scan": "relaxed_order", "p_width": str(int(width))}
        return dict.fromkeys(_SETTINGS, "off") | chosen

    def current_settings(self) -> Executable | None:
        now = ", ".join(f"current_setting('{n}', true) AS {bind}" for bind, n in _SETTINGS.items())
        return text(f"SELECT {now}").columns(*(column(bind) for bind in _SETTINGS))

    def build_index(self, metric: str, dimensions: int) -> Executable | None:
        return _BuildVectorIndex(metric, dimensions)

    def drop_index(self, metric: str, dimensions: int) -> Executable | None:
        return _DropVectorIndex(metric, dimensions)

    def list_indexes(self) -> Executable | None:
        return on_our_tables(
            "SELECT indexes.relname AS name, CASE WHEN pg_index.indisvalid AND pg_index.indisready "
            "AND pg_index.indislive THEN 1 ELSE 0 END AS valid, CASE WHEN EXISTS (SELECT 1 "
            "FROM pg_stat_progress_create_index AS running "
            "WHERE running.index_relid = indexes.oid) THEN 1 ELSE 0 END AS building, "
            "pg_relation_size(indexes.oid) AS bytes FROM made "
            "JOIN pg_index ON pg_index.indrelid = made.oid "
            "JOIN pg_class AS indexes ON indexes.oid = pg_index.indexrelid "
            "JOIN pg_am ON pg_am.oid = indexes.relam "
            "WHERE made.relname = 'embeddings' AND pg_am.amname = 'hnsw' ORDER BY indexes.relname"
        )

    def build_progress(self) -> Executable | None:
        return on_our_tables(
            "SELECT running.blocks_done AS done, running.blocks_total AS total "
            "FROM made JOIN pg_stat_progress_create_index AS running ON running.relid = made.oid "
            "WHERE made.relname = 'embeddings'"
        )

    def index_commands(
        self, metric: str, dimensions: int, schema: str | None, *, drop: bool = False
    ) -> list[str]:
        name, table = vector_index_name(metric, dimensions), "embeddings"
        if drop:
            name = f"{quoted(schema)}.{name}" if schema else name
            return [f"DROP INDEX CONCURRENTLY {name};"]
        table = f"{quoted(schema)}.{table}" if schema else table
        return [f"{_create_index_command(name, table, metric, dimensions)};"]


def _bound_vector(name: str) -> ColumnElement[Any]:
    """Return a vector that is bound as its text, so that no driver has to know the native type.

    An array of numbers would cost a driver more than the server saves by reading them in binary.
    """
    return cast(bindparam(name, type_=Text), pgvector().VECTOR)


def _distance(vector: Any, metric: str, wanted: ColumnElement[Any]) -> ColumnElement[float]:
    # A subquery: a generic plan would compute the wanted vector again for each row.
    distance: ColumnElement[float] = getattr(vector, _DISTANCES[metric])(computed_once(wanted))
    return distance


class _BuildVectorIndex(Executable, ClauseElement):
    """CREATE INDEX CONCURRENTLY, in the schema that the connection's tables are in."""

    inherit_cache = False

    def __init__(self, metric: str, dimensions: int) -> None:
        self.metric, self.dimensions = metric, dimensions
        self.table = Base.metadata.tables["embeddings"]


@compiles(_BuildVectorIndex)
def _build_vector_index(element: _BuildVectorIndex, compiler: Any, **kw: Any) -> str:
    name = vector_index_name(element.metric, element.dimensions)
    table = compiler.preparer.format_table(element.table)
    return _create_index_command(name, table, element.metric, element.dimensions)


def _create_index_command(name: str, table: str, metric: str, dimensions: int) -> str:
    return (
        f"CREATE INDEX CONCURRENTLY {name} ON {table} USING hnsw "
        f"((vector::halfvec({int(dimensions)})) {_OPERATOR_CLASSES[metric]}) "
        # Twice pgvector's default. Where a namespace is a fifth of the vectors, the default missed
        # one in fifty of the ten nearest, and this misses one in a hundred and fifty.
        "WITH (ef_construction = 128) "
        f"WHERE dimensions = {int(dimensions)}"
    )


class _DropVectorIndex(Executable, ClauseElement):
    """DROP INDEX CONCURRENTLY, in the schema that the connection's tables are in."""

    inherit_cache = False

    def __init__(self, metric: str, dimensions: int) -> None:
        self.index = Table(vector_index_name(metric, dimensions), MetaData())


@compiles(_DropVectorIndex)
def _drop_vector_index(element: _DropVectorIndex, compiler: Any, **kw: Any) -> str:
    return f"DROP INDEX CONCURRENTLY {compiler.preparer.format_table(element.index)}"
