"""PostgreSQL: one statement per save, row locks, JSONB, tsvector, advisory locks."""

from __future__ import annotations

import asyncio
import json
import shlex
from collections.abc import Mapping, Sequence
from hashlib import blake2b
from typing import Any, ClassVar

import orjson
from sqlalchemy import (
    CTE,
    JSON,
    ClauseElement,
    ColumnClause,
    ColumnElement,
    Connection,
    Executable,
    Float,
    FromClause,
    Insert,
    LargeBinary,
    MetaData,
    Select,
    String,
    Table,
    Text,
    TypeDecorator,
    bindparam,
    cast,
    column,
    func,
    literal_column,
    or_,
    select,
    table,
    text,
    type_coerce,
    update,
)
from sqlalchemy.dialects.postgresql import ARRAY, JSONB, TSQUERY, array, insert  # noqa: TID251
from sqlalchemy.engine import URL
from sqlalchemy.ext.compiler import compiles
from sqlalchemy.sql.compiler import SQLCompiler
from sqlalchemy.types import UserDefinedType

from memalchemy.codec import vectors
from memalchemy.codec.items import OTHERS, FieldWords
from memalchemy.dialects.base import Dialect, Failure, original, quoted, vector_index_name
from memalchemy.keys import encode_id
from memalchemy.schema import (
    Base,
    CheckpointRow,
    DeltaRow,
    Json,
    PgVector,
    StoreItemRow,
)

_BY_CLASS = {
    "08": Failure.DISCONNECTED,
    "28": Failure.AUTHENTICATION,
    "53": Failure.UNREACHABLE,
}
_BY_STATE = {
    "23505": Failure.UNIQUE,
    "25006": Failure.READ_ONLY,
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


_INDEXES = {
    "deltas_search": "ix_deltas_search_text",
    "checkpoints_meta": "ix_checkpoints_meta",
    "store_items_search": "ix_store_items_search",
}


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


class Reindex(Executable, ClauseElement):
    """Build an index anew without keeping others from writing; not in a transaction."""

    inherit_cache = False

    def __init__(self, index: str) -> None:
        # As a table, because that is what a schema is put before when a statement is sent.
        self.index = Table(index, MetaData())


@compiles(Reindex, "postgresql")
def _reindex(element: Reindex, compiler: Any, **kw: Any) -> str:
    return f"REINDEX INDEX CONCURRENTLY {compiler.preparer.format_table(element.index)}"


class _Array(TypeDecorator[Any]):
    """A list of a column's values. Elements have no length and no collation, and JSON is text."""

    impl = ARRAY
    cache_ok = True

    def __init__(self, of: Any) -> None:
        super().__init__(Text)
        self.of = of

    def load_dialect_impl(self, dialect: Any) -> Any:
        own = self.of.dialect_impl(dialect)
        bare = getattr(own, "impl", own)
        element = Text() if isinstance(bare, (String, JSON)) else bare
        return dialect.type_descriptor(ARRAY(element))

    def process_bind_param(self, value: Any, dialect: Any) -> Any:
        if not isinstance(self.of, TypeDecorator):
            return value
        bound = [self.of.process_bind_param(one, dialect) for one in value]
        return [json.dumps(one) for one in bound] if isinstance(self.of, Json) else bound


class PostgreSQL(Dialect):
    name: ClassVar[str] = "postgresql"
    snapshot_isolation: ClassVar[str | None] = "REPEATABLE READ"
    vectors_may_be_bytes: ClassVar[bool] = True
    single_statement_save: ClassVar[bool] = True
    groups_saves: ClassVar[bool] = True
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

    def arrays(self, prefix: str, columns: Mapping[str, Any]) -> FromClause:
        lists = [bindparam(f"{prefix}_{name}", type_=_Array(t)) for name, t in columns.items()]
        names = [column(name, type_) for name, type_ in columns.items()]
        # Keys are compared with columns of one collation; an array's elements have the default.
        given = func.unnest(*lists).table_valued(*names).render_derived(name=f"{prefix}_given")
        read = [
            cast(given.c[name], JSONB).label(name) if isinstance(type_, Json) else given.c[name]
            for name, type_ in columns.items()
        ]
        return select(*read).cte(f"{prefix}_rows")

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
        vector = _vector(deltas)
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

    def item_hits(self, below: bool) -> FromClause:
        terms = (
            func.unnest(cast(bindparam("terms", type_=ARRAY(Text)), ARRAY(Text)))
            .table_valued("term", name="terms")
            .render_derived()
        )
        items = StoreItemRow.__table__
        query = _scope().op("&&")(func.to_tsquery(literal_column("'simple'"), terms.c.term))
        return (
            select(
                terms.c.term.label("term"),
                *(items.c[name] for name in ("namespace", "key", "updated_at", "expires_at")),
            )
            .select_from(terms.join(items, _item_vector(items).bool_op("@@")(query)))
            .cte("hits")
        )

    def items_within(self, below: bool) -> FromClause:
        items = StoreItemRow.__table__
        within = _item_vector(items).bool_op("@@")(_scope())
        # Materialized: below a limit that it does not know, a generic plan would scan the table.
        return self.once(select(items.c.namespace, items.c.key).where(within), "within")

    def item_scope(
        self, tenant: str, path: str, below: bool, fields: Sequence[FieldWords]
    ) -> Mapping[str, Any]:
        # As revision 0003 spells it; in a tsquery a lexeme in quotes is data.
        word = f"\x1f{encode_id(tenant)}\x1f{path}".replace("\\", "\\\\").replace("'", "''")
        conditions = [f"'{word}'{':*' if below else ''}"]
        conditions += (
            f"({' | '.join((*one.words, f'({OTHERS} & !{one.mark})'))})" for one in fields
        )
        return {"scope": " & ".join(conditions)}

    def text_terms(self, terms: Sequence[Sequence[str]]) -> Any:
        # A quoted lexeme is data to to_tsquery; tokens hold neither quotes nor backslashes.
        return [" <-> ".join(f"'{token}'" for token in phrase) for phrase in terms]

    def text_index_name(self, index: str, schema: str | None) -> str | None:
        return f"{quoted(schema)}.{_INDEXES[index]}" if schema else _INDEXES[index]

    def text_index_state(self) -> Executable | None:
        # Invalid is what a failed CREATE or REINDEX CONCURRENTLY leaves; no query uses it.
        return text(
            "SELECT CASE WHEN indisvalid AND indisready AND indislive THEN 1 ELSE 0 END "
            "AS in_use FROM pg_index WHERE indexrelid = to_regclass(:p_index)"
        )

    def text_unfindable(self, index: str) -> Executable | None:
        if index == "store_items_search":
            return _items_unfindable()
        owner = (DeltaRow if index == "deltas_search" else CheckpointRow).__table__
        row, found = owner.alias("row_here"), owner.alias("found")
        if index == "deltas_search":
            words = func.substring(row.c.search_text, literal_column("'^(?:\\S+ ){0,7}\\S+'"))
            query = func.plainto_tsquery(literal_column("'simple'"), words)
            there: list[Any] = [row.c.search_text.is_not(None), _vector(row).bool_op("@@")(query)]
            hit = [found.c.search_text.is_not(None), _vector(found).bool_op("@@")(query)]
        else:
            there = [row.c.meta != literal_column("'{}'::jsonb")]
            hit = [found.c.meta.bool_op("@>")(row.c.meta)]
        key = ("tenant", "thread_id", "namespace")
        # IS NOT DISTINCT FROM is no condition that the primary key could answer.
        same = [found.c[name].is_not_distinct_from(row.c[name]) for name in (*key, "seq")]
        return (
            select(row.c.seq)
            .where(*(row.c[name] == bindparam(f"k_{name}") for name in key))
            .where(row.c.seq.between(bindparam("p_low"), bindparam("p_high")), *there)
            .where(~select(literal_column("1")).where(*hit, *same).exists())
            .order_by(row.c.seq)
        )

    def only_by_text_index(self) -> Executable | None:
        kinds = ("seqscan", "indexscan", "indexonlyscan", "hashjoin", "mergejoin", "material")
        off = ", ".join(f"set_config('enable_{kind}', 'off', true)" for kind in kinds)
        return text(f"SELECT {off}")

    def rebuild_text_index(self, index: str) -> Sequence[Executable]:
        return (Reindex(_INDEXES[index]),)

    def text_index_advice(self, index: str, schema: str | None) -> str:
        return f"as the owner run: REINDEX INDEX CONCURRENTLY {self.text_index_name(index, schema)}"

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
        return _spelt(vectors.from_bytes(vector).tolist()) if native else vector

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

    def query_vector(self, vector: Sequence[float]) -> Any:
        return _spelt(vector)

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
        return _catalog(
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
        return _catalog(
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

    def backup_command(self, url: URL, file: str, schema: str | None, tables: Sequence[str]) -> str:
        query = {name: str(value) for name, value in url.query.items()}
        given = {
            "host": url.host or query.get("host"),
            "port": url.port or query.get("port"),
            "username": url.username,
            "dbname": url.database,
        }
        options = [f"--{name}={value}" for name, value in given.items() if value]
        prefix = f"{quoted(schema)}." if schema else ""
        chosen = [f"--table={prefix}{table}" for table in tables]
        return shlex.join(["pg_dump", "--format=custom", f"--file={file}", *options, *chosen])

    def grants(self, role: str, schema: str | None, tables: Sequence[str]) -> list[str]:
        usage = [f"GRANT USAGE ON SCHEMA {quoted(schema or 'public')} TO {quoted(role)};"]
        return usage + super().grants(role, schema, tables)


def _given(name: str) -> ColumnElement[Any]:
    """A vector that is bound as its text, so that no driver has to know the native type. An array
    of numbers would cost a driver more than the server saves by reading them in binary.
    """
    return cast(bindparam(name, type_=Text), PgVector)


def _spelt(vector: Sequence[float]) -> str:
    return orjson.dumps([float(number) for number in vector]).decode()


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


def _vector(deltas: Any) -> ColumnElement[Any]:
    """The expression that the text index is on."""
    return func.to_tsvector(literal_column("'simple'"), deltas.c.search_text)


def _item_vector(items: Any) -> ColumnElement[Any]:
    """The expression that revision 0003's index is on."""
    simple: ColumnElement[str] = literal_column("'simple'")
    nothing: ColumnElement[str] = literal_column("''")
    mark: ColumnElement[str] = literal_column("chr(31)")
    scope = mark.op("||")(items.c.tenant).op("||")(mark).op("||")(items.c.namespace)
    words = func.to_tsvector(simple, func.coalesce(items.c.search_text, nothing))
    fields = func.to_tsvector(simple, func.coalesce(items.c.field_terms, nothing))
    return words.op("||")(fields).op("||")(func.array_to_tsvector(array([scope])))


def _items_unfindable() -> Executable:
    """`Dialect.text_unfindable` of the index of items."""
    items = StoreItemRow.__table__
    row, found = items.alias("row_here"), items.alias("found")
    some: ColumnElement[str] = literal_column("'^(?:\\S+ ){0,7}\\S+'")
    space: ColumnElement[str] = literal_column("' '")
    words = func.concat_ws(
        space, func.substring(row.c.search_text, some), func.substring(row.c.field_terms, some)
    )
    # In a tsquery a lexeme in quotes is data.
    quote, backslash = (literal_column(f"'{c}'", Text) for c in ("''", "\\"))
    mark: ColumnElement[str] = literal_column("chr(31)")
    scope: ColumnElement[Any] = mark.op("||")(row.c.tenant).op("||")(mark).op("||")(row.c.namespace)
    for odd in (backslash, quote):
        scope = func.replace(scope, odd, odd.op("||")(odd))
    lexeme = cast(quote.op("||")(scope).op("||")(quote), TSQUERY)
    query = lexeme.op("&&")(func.plainto_tsquery(literal_column("'simple'"), words))
    there = or_(row.c.search_text.is_not(None), row.c.field_terms.is_not(None))
    same = [found.c[c].is_not_distinct_from(row.c[c]) for c in ("tenant", "namespace", "key")]
    hit: Select[Any] = select(literal_column("1")).where(
        _item_vector(found).bool_op("@@")(query), *same
    )
    low, high = (bindparam(name, type_=row.c.key.type) for name in ("p_low", "p_high"))
    return (
        select(row.c.key)
        .where(*(row.c[c] == bindparam(f"k_{c}") for c in ("tenant", "namespace")))
        .where(row.c.key.between(low, high), there, _item_vector(row).bool_op("@@")(query))
        .where(~hit.exists())
        .order_by(row.c.key)
    )


def _scope() -> ColumnElement[Any]:
    return cast(bindparam("scope", type_=Text), TSQUERY)


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
