"""PostgreSQL: one statement per save, row locks, JSONB, tsvector, advisory locks."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from hashlib import blake2b
from typing import Any, ClassVar

import numpy as np
import orjson
from sqlalchemy import (
    CTE,
    ClauseElement,
    ColumnClause,
    ColumnElement,
    Connection,
    Executable,
    FromClause,
    Insert,
    LargeBinary,
    Select,
    Table,
    Text,
    bindparam,
    cast,
    column,
    func,
    literal_column,
    select,
    table,
    text,
    update,
)
from sqlalchemy.dialects.postgresql import ARRAY, JSONB, insert  # noqa: TID251
from sqlalchemy.ext.compiler import compiles
from sqlalchemy.sql.compiler import SQLCompiler

from memalchemy.dialects.base import Dialect, Failure, original, quoted
from memalchemy.schema import Base, DeltaRow, PgVector

_BY_CLASS = {
    "08": Failure.DISCONNECTED,
    "28": Failure.AUTHENTICATION,
    "53": Failure.UNREACHABLE,
}
_BY_STATE = {
    "23505": Failure.UNIQUE,
    "3D000": Failure.UNREACHABLE,
    "3F000": Failure.MISSING_TABLE,
    "40001": Failure.ROLLED_BACK,
    "40P01": Failure.ROLLED_BACK,
    "42501": Failure.PERMISSION,
    "42P01": Failure.MISSING_TABLE,
    "53100": Failure.FULL,
    "53200": Failure.FULL,
    "55P03": Failure.BUSY,
    "57014": Failure.BUSY,
    "57P01": Failure.DISCONNECTED,
    "57P02": Failure.DISCONNECTED,
    "57P03": Failure.UNREACHABLE,
    "57P05": Failure.DISCONNECTED,
    "XX001": Failure.CORRUPT,
    "XX002": Failure.CORRUPT,
}


class PostgreSQL(Dialect):
    name: ClassVar[str] = "postgresql"
    single_statement_save: ClassVar[bool] = True
    vector_type_commands: ClassVar[tuple[str, ...]] = ("CREATE EXTENSION IF NOT EXISTS vector",)
    server_version: ClassVar[str] = "SHOW server_version"
    byte_literal: ClassVar[str] = "'\\x2d'"

    def upsert(
        self,
        table: Table,
        values: Mapping[str, Any],
        key: Sequence[str],
        set_: Mapping[str, Any],
        *,
        source: Select[Any] | None = None,
        where: ColumnElement[bool] | None = None,
    ) -> Insert:
        statement = insert(table)
        if source is None:
            statement = statement.values(values)
        else:
            statement = statement.from_select(list(values), source)
        return statement.on_conflict_do_update(index_elements=key, set_=set_, where=where)

    def excluded(self, table: Table, column: str) -> ColumnElement[Any]:
        return insert(table).excluded[column]

    def listed(self, parameter: str, columns: Sequence[str]) -> FromClause:
        # Of the collation of the key columns: two that differ cannot be compared.
        fields = ", ".join(
            f'(each.value ->> {at}) COLLATE "C" AS {name}' for at, name in enumerate(columns)
        )
        rows = text(
            f"SELECT {fields} FROM json_array_elements(CAST(:{parameter} AS json)) AS each(value)"  # noqa: S608
        ).bindparams(bindparam(parameter, type_=Text))
        return rows.columns(*(column(name) for name in columns)).subquery("listed")

    def once(self, rows: Select[Any], name: str) -> CTE:
        return rows.cte(name, nesting=True).prefix_with("MATERIALIZED")

    def json_equals(self, owner: Table, kind: str) -> ColumnElement[bool]:
        meta = owner.c.meta
        key = cast(bindparam("match_key", type_=Text), Text)
        value = cast(bindparam("match_value", type_=Text), JSONB)
        # Containment is what the GIN index answers; equality is what was asked.
        return meta.bool_op("@>")(func.jsonb_build_object(key, value)) & (
            func.jsonb_extract_path(meta, key) == value
        )

    def json_parameters(self, key: str, value: Any, kind: str) -> dict[str, Any]:
        return {"match_key": key, "match_value": orjson.dumps(value).decode()}

    def text_hits(self) -> FromClause:
        terms = (
            func.unnest(cast(bindparam("terms", type_=ARRAY(Text)), ARRAY(Text)))
            .table_valued("term", name="terms")
            .render_derived()
        )
        deltas = DeltaRow.__table__
        vector = func.to_tsvector(literal_column("'simple'"), deltas.c.search_text)
        query = func.to_tsquery(literal_column("'simple'"), terms.c.term)
        return (
            select(
                terms.c.term.label("term"),
                deltas.c.tenant,
                deltas.c.thread_id,
                deltas.c.namespace,
                deltas.c.seq,
            )
            .select_from(terms.join(deltas, vector.bool_op("@@")(query)))
            .where(deltas.c.search_text.is_not(None))
            .where(deltas.c.tenant == bindparam("k_tenant"))
            .where(deltas.c.namespace == bindparam("k_namespace"))
            .cte("hits")
        )

    def text_terms(self, terms: Sequence[Sequence[str]]) -> Any:
        # A quoted lexeme is data to to_tsquery; tokens hold neither quotes nor backslashes.
        return [" <-> ".join(f"'{token}'" for token in phrase) for phrase in terms]

    def sizes(self, exact: bool) -> Executable | None:
        if not exact:
            return None
        return _catalog(
            "SELECT made.relname AS name, made.relname AS owner, 'table' AS kind, "
            "pg_table_size(made.oid) AS bytes FROM made UNION ALL "
            "SELECT indexes.relname, made.relname, 'index', pg_relation_size(indexes.oid) "
            "FROM made JOIN pg_index ON pg_index.indrelid = made.oid "
            "JOIN pg_class AS indexes ON indexes.oid = pg_index.indexrelid"
        )

    def maintenance(self, what: str) -> Executable | None:
        if what != "tables":
            return None
        return _catalog(
            "SELECT made.relname AS name, coalesce(seen.n_live_tup, 0) AS live, "
            "coalesce(seen.n_dead_tup, 0) AS dead, pg_total_relation_size(made.oid) AS bytes, "
            "CASE WHEN pg_has_role(made.relowner, 'USAGE') THEN 1 ELSE 0 END AS owned "
            "FROM made LEFT JOIN pg_stat_all_tables AS seen ON seen.relid = made.oid"
        )

    def vacuum(self, table: Table, full: bool) -> Executable | None:
        return Vacuum(table, full)

    def shrink_commands(self, table: str, schema: str | None, full: bool) -> list[str]:
        name = f"{quoted(schema)}.{table}" if schema else table
        return [f"VACUUM ({'FULL, ' if full else ''}ANALYZE) {name};"]

    def classify(self, error: BaseException) -> tuple[Failure, str | None]:
        cause = original(error)
        state = getattr(cause, "sqlstate", None) or getattr(cause, "pgcode", None)
        if state is None and cause.__cause__ is not None:  # SQLAlchemy's asyncpg adapter
            state = getattr(cause.__cause__, "sqlstate", None)
        if state:
            return _BY_STATE.get(state) or _BY_CLASS.get(state[:2], Failure.OTHER), state
        if getattr(error, "connection_invalidated", False):
            return Failure.DISCONNECTED, None
        if isinstance(cause, (OSError, asyncio.TimeoutError)):
            return Failure.UNREACHABLE, None
        kinds = {cls.__name__ for cls in type(cause).__mro__}
        if not kinds & {"InterfaceError", "OperationalError", "ConnectionDoesNotExistError"}:
            return Failure.OTHER, None
        # psycopg keeps the connection attempt that failed. libpq gives no SQLSTATE for it: this is
        # the one place where text is read, and in another language it is merely "unreachable".
        attempt = getattr(cause, "pgconn", None)
        if attempt is not None and (
            "authentication failed" in str(cause) or attempt.needs_password
        ):
            return Failure.AUTHENTICATION, None
        return Failure.DISCONNECTED, None

    def migration_lock(self, connection: Connection, schema: str | None) -> None:
        # Held by the transaction, not the session: so it also holds behind PgBouncer.
        key = int.from_bytes(
            blake2b(f"memalchemy {schema or ''}".encode(), digest_size=8).digest(), signed=True
        )
        connection.execute(text("SELECT pg_advisory_xact_lock(:key)"), {"key": key})

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
                    | {"floats": str(np.frombuffer(bytes(row[-1]), "<f4").tolist())}
                    for row in rows
                ],
            )
        for change in (
            "ALTER COLUMN native SET NOT NULL",
            "DROP COLUMN vector",
            "RENAME COLUMN native TO vector",
        ):
            connection.exec_driver_sql(f"ALTER TABLE {name} {change}")

    def grants(self, role: str, schema: str | None, tables: Sequence[str]) -> list[str]:
        usage = [f"GRANT USAGE ON SCHEMA {quoted(schema or 'public')} TO {quoted(role)};"]
        return usage + super().grants(role, schema, tables)


class Vacuum(Executable, ClauseElement):
    """VACUUM of a table, in the schema that the connection's tables are in."""

    inherit_cache = False

    def __init__(self, table: Table, full: bool) -> None:
        self.table, self.full = table, full


@compiles(Vacuum)
def _vacuum(element: Vacuum, compiler: SQLCompiler, **_: Any) -> str:
    options = "FULL, ANALYZE" if element.full else "ANALYZE"
    return f"VACUUM ({options}) {compiler.preparer.format_table(element.table)}"


def _catalog(query: str) -> Executable:
    """*query* on ``made``: our tables in the schema ``:p_schema``, or in the connection's own."""
    names = ", ".join(f"'{name}'" for name in Base.metadata.tables)
    made = (
        "SELECT pg_class.oid, pg_class.relname, pg_class.relowner FROM pg_class "  # noqa: S608
        "JOIN pg_namespace ON pg_namespace.oid = pg_class.relnamespace "
        "WHERE pg_namespace.nspname = coalesce(CAST(:p_schema AS text), current_schema()) "
        f"AND pg_class.relkind IN ('r', 'p') AND pg_class.relname IN ({names})"
    )
    return text(f"WITH made AS ({made}) {query}").bindparams(bindparam("p_schema", type_=Text))
