"""Vectors on PostgreSQL: pgvector's column, distances and indexes, or bytes without it.

How a search chooses among them is no business of this file.
"""

from __future__ import annotations

from typing import Any

import orjson
from sqlalchemy import (
    ClauseElement,
    ColumnClause,
    ColumnElement,
    Connection,
    Executable,
    Float,
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
from sqlalchemy.ext.compiler import compiles
from sqlalchemy.types import UserDefinedType

from memalchemy.codec import vectors
from memalchemy.column_types import PgVector
from memalchemy.dialects.base import Dialect, Failure, quoted, vector_index_name
from memalchemy.dialects.postgresql_upkeep import of_our_tables
from memalchemy.schema import Base

_OPERATORS = {"cosine": "<=>", "dot": "<#>", "l2": "<->"}
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


class Vectors(Dialect):
    """What PostgreSQL says about vectors."""

    def has_vector_type(self, connection: Connection) -> bool:
        installed = text("SELECT 1 FROM pg_extension WHERE extname = 'vector'")
        if connection.scalar(installed):
            return True
        available = text("SELECT 1 FROM pg_available_extensions WHERE name = 'vector'")
        if not connection.scalar(available):
            return False
        try:
            with connection.begin_nested():
                connection.execute(text("CREATE EXTENSION IF NOT EXISTS vector"))
        except Exception as error:
            if self.classify(error)[0] is Failure.PERMISSION:
                return False
            raise
        return True

    def adopt_vector_type(self, connection: Connection, schema: str | None) -> None:
        key: list[ColumnClause[Any]] = [
            column(name) for name in ("tenant", "namespace", "key", "field", "model", "part")
        ]
        old, new = column("vector", LargeBinary), column("native", Text)
        embeddings = table("embeddings", *key, old, new, schema=schema)
        stored_as = text(
            "SELECT data_type FROM information_schema.columns WHERE table_name = 'embeddings' "
            "AND column_name = 'vector' AND table_schema = coalesce(:schema, current_schema())"
        )
        if connection.scalar(stored_as, {"schema": schema}) != "bytea":
            return
        quote = connection.dialect.identifier_preparer.quote
        name = f"{quote(schema)}.embeddings" if schema else "embeddings"
        connection.exec_driver_sql(f"ALTER TABLE {name} ADD COLUMN native VECTOR")
        todo = select(*key, old).where(new.is_(None)).limit(1000)
        one = (
            update(embeddings)
            .where(*(c == bindparam(f"k_{c.name}") for c in key))
            .values({"native": cast(bindparam("floats", type_=Text), PgVector)})
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

    def vector_storage(self) -> Executable:
        return text(
            "SELECT data_type FROM information_schema.columns WHERE table_name = 'embeddings' "
            "AND column_name = 'vector' AND table_schema = coalesce(:p_schema, current_schema())"
        ).bindparams(bindparam("p_schema", type_=Text))

    def vector_in(self, name: str, native: bool) -> ColumnElement[Any]:
        if native:
            return _given(name)
        return bindparam(name, type_=LargeBinary)

    def vector_parameter(self, vector: bytes, native: bool) -> Any:
        return orjson.dumps(vectors.from_bytes(vector).tolist()).decode() if native else vector

    def vector_out(self, vector: ColumnElement[Any], native: bool) -> ColumnElement[Any]:
        # As text: a driver knows the native type only once it has been introduced to it.
        return cast(vector, Text) if native else type_coerce(vector, LargeBinary)

    def vector_distance(
        self, vector: ColumnElement[Any], name: str, metric: str
    ) -> ColumnElement[float]:
        return vector.op(_OPERATORS[metric], return_type=Float())(_once(_given(name)))

    def vector_index_distance(
        self, vector: ColumnElement[Any], name: str, metric: str, dimensions: int
    ) -> ColumnElement[float] | None:
        half = HalfVector(dimensions)
        wanted = _once(cast(_given(name), half))
        return cast(vector, half).op(_OPERATORS[metric], return_type=Float())(wanted)

    def query_vector(self, vector: Any) -> Any:
        # In the digits that single precision takes: half as many to send and to read.
        return orjson.dumps(vector, option=orjson.OPT_SERIALIZE_NUMPY).decode()

    def only_by_vector_index(self) -> Executable | None:
        # Of the ways to the order that is asked for, only the index's is left, whatever the planner
        # believes of the rows.
        set_ = ", ".join(f"set_config('{name}', :{bind}, true)" for bind, name in _SETTINGS.items())
        query = text(f"SELECT {set_}").bindparams(*(bindparam(b, type_=Text) for b in _SETTINGS))
        return query.columns(*(column(bind) for bind in _SETTINGS))

    def vector_index_settings(self, width: int) -> dict[str, str]:
        chosen = {"p_scan": "relaxed_order", "p_width": str(int(width))}
        return dict.fromkeys(_SETTINGS, "off") | chosen

    def current_vector_settings(self) -> Executable | None:
        now = ", ".join(f"current_setting('{n}', true) AS {bind}" for bind, n in _SETTINGS.items())
        return text(f"SELECT {now}").columns(*(column(bind) for bind in _SETTINGS))

    def build_vector_index(self, metric: str, dimensions: int) -> Executable | None:
        return BuildVectorIndex(metric, dimensions)

    def drop_vector_index(self, metric: str, dimensions: int) -> Executable | None:
        return DropVectorIndex(metric, dimensions)

    def vector_indexes(self) -> Executable | None:
        return of_our_tables(
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

    def vector_index_progress(self) -> Executable | None:
        return of_our_tables(
            "SELECT running.blocks_done AS done, running.blocks_total AS total "
            "FROM made JOIN pg_stat_progress_create_index AS running ON running.relid = made.oid "
            "WHERE made.relname = 'embeddings'"
        )

    def vector_index_commands(
        self, metric: str, dimensions: int, schema: str | None, *, drop: bool = False
    ) -> list[str]:
        name, table = vector_index_name(metric, dimensions), "embeddings"
        if drop:
            name = f"{quoted(schema)}.{name}" if schema else name
            return [f"DROP INDEX CONCURRENTLY {name};"]
        table = f"{quoted(schema)}.{table}" if schema else table
        return [f"{_vector_index(name, table, metric, dimensions)};"]


def _given(name: str) -> ColumnElement[Any]:
    """A vector that is bound as its text, so that no driver has to know the native type. An array
    of numbers would cost a driver more than the server saves by reading them in binary.
    """
    return cast(bindparam(name, type_=Text), PgVector)


def _once(value: ColumnElement[Any]) -> ColumnElement[Any]:
    """*value* as a query of its own: a generic plan would compute it again for each row."""
    return select(value).scalar_subquery()


class HalfVector(UserDefinedType[Any]):
    """pgvector's type of half the precision: what the vector indexes hold."""

    cache_ok = True

    def __init__(self, dimensions: int) -> None:
        self.dimensions = int(dimensions)

    def get_col_spec(self, **kw: Any) -> str:
        return f"HALFVEC({self.dimensions})"


class BuildVectorIndex(Executable, ClauseElement):
    """CREATE INDEX CONCURRENTLY, in the schema that the connection's tables are in."""

    inherit_cache = False

    def __init__(self, metric: str, dimensions: int) -> None:
        self.metric, self.dimensions = metric, dimensions
        self.table = Base.metadata.tables["embeddings"]


@compiles(BuildVectorIndex, "postgresql")
def _build_vector_index(element: BuildVectorIndex, compiler: Any, **kw: Any) -> str:
    name = vector_index_name(element.metric, element.dimensions)
    table = compiler.preparer.format_table(element.table)
    return _vector_index(name, table, element.metric, element.dimensions)


def _vector_index(name: str, table: str, metric: str, dimensions: int) -> str:
    return (
        f"CREATE INDEX CONCURRENTLY {name} ON {table} USING hnsw "
        f"((vector::halfvec({int(dimensions)})) {_OPERATOR_CLASSES[metric]}) "
        # Twice pgvector's own: with that, one in fifty of the ten nearest was missed where the
        # namespace is a fifth of the vectors; with this, one in a hundred and fifty.
        "WITH (ef_construction = 128) "
        f"WHERE dimensions = {int(dimensions)}"
    )


class DropVectorIndex(Executable, ClauseElement):
    """DROP INDEX CONCURRENTLY, in the schema that the connection's tables are in."""

    inherit_cache = False

    def __init__(self, metric: str, dimensions: int) -> None:
        self.index = Table(vector_index_name(metric, dimensions), MetaData())


@compiles(DropVectorIndex, "postgresql")
def _drop_vector_index(element: DropVectorIndex, compiler: Any, **kw: Any) -> str:
    return f"DROP INDEX CONCURRENTLY {compiler.preparer.format_table(element.index)}"
