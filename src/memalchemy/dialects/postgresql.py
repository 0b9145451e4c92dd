"""PostgreSQL: one statement per save, row locks, JSONB, tsvector, pgvector, advisory locks.

Without pgvector vectors are stored as bytes. Tables may be spread over the nodes of Citus.
"""

from __future__ import annotations

import asyncio
import json
import math
import re
import shlex
import uuid
from collections.abc import Iterator, Mapping, Sequence
from copy import copy
from datetime import datetime
from decimal import Decimal
from functools import cache, partial
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
    FromClause,
    Insert,
    Integer,
    LargeBinary,
    MetaData,
    Select,
    String,
    Subquery,
    Table,
    Text,
    TypeDecorator,
    Uuid,
    and_,
    bindparam,
    case,
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
from sqlalchemy import Dialect as SQLAlchemyDialect
from sqlalchemy.dialects.postgresql import (  # noqa: TID251
    ARRAY,
    JSONB,
    TIMESTAMP,
    TSQUERY,
    array,
    insert,
)
from sqlalchemy.engine import URL
from sqlalchemy.exc import DBAPIError
from sqlalchemy.ext.compiler import compiles
from sqlalchemy.sql.visitors import InternalTraversal
from sqlalchemy.types import TypeEngine

from memalchemy.codec import vectors
from memalchemy.codec.field_terms import OTHERS, FieldTerms
from memalchemy.column_types import (
    NO_METADATA,
    ColumnTypes,
    Json,
    LogKey,
    Processor,
    Storage,
    StoredType,
    is_no_metadata,
    json_object,
    sorted_json,
    utc,
    vector_bytes,
    vector_floats,
)
from memalchemy.dialects import postgresql_citus as citus
from memalchemy.dialects.base import (
    DISTRIBUTED_BY,
    Cluster,
    Dialect,
    Failure,
    Maintenance,
    Statements,
    TenantWall,
    TextIndexes,
    Vectors,
    original,
    quoted,
    vector_index_name,
)
from memalchemy.dialects.namespace_range import Live, in_namespace
from memalchemy.dialects.postgresql_newest import newest_with_word
from memalchemy.dialects.postgresql_tenants import TENANT_NOT_SET, PostgreSQLTenantWall
from memalchemy.dialects.urls import (
    Target,
    display,
    flag,
    is_installed,
    refuse_unknown_parameters,
    require_driver,
    seconds,
    single_value,
)
from memalchemy.errors import DriverMissing, UnknownURL
from memalchemy.keys import encode_id
from memalchemy.schema import Base, CheckpointRow, DeltaRow, StoreItemRow, ThreadRow

# --- Column types --------------------------------------------------------------------------------


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
        return _VectorStorage(_pgvector().VECTOR(), _vector_list, _vector_of_driver)


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
def _pgvector() -> Any:
    """Return the module of pgvector's types, imported by the first statement that needs one."""
    try:
        from pgvector import sqlalchemy as types
    except ImportError as error:
        what = "package for vectors on PostgreSQL"
        raise DriverMissing("pgvector", "postgres", what=what) from error
    return types


def _utc(value: datetime | None) -> datetime | None:
    return None if value is None else utc(value)


def _utc_of_server(value: datetime | None) -> datetime | None:
    if value is not None and value.tzinfo is None:  # asyncpg makes infinity a naive time
        raise ValueError("a time without end is no time")
    return _utc(value)


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
    return _LARGE_SPELT.sub(_in_full, json.dumps(_marked(value)))


def _marked(value: Any) -> Any:
    """Return *value* with sorted keys, and large floats as texts marked by a character that JSONB
    refuses.
    """
    if isinstance(value, dict):
        return {key: _marked(value[key]) for key in sorted(value)}
    if isinstance(value, list):
        return [_marked(item) for item in value]
    if isinstance(value, float) and abs(value) >= _LARGE and math.isfinite(value):
        return f"{_LARGE_MARK}{value!r}"
    return value


def _in_full(match: re.Match[str]) -> str:
    return f"{Decimal(match[1]):f}.0"


# --- Statements ----------------------------------------------------------------------------------


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
        write: Processor = None
        if isinstance(self.of, Json):
            write = to_jsonb
        elif isinstance(self.of, StoredType):
            write = self.of.writer(dialect)
        elif isinstance(self.of, TypeDecorator):
            write = partial(self.of.process_bind_param, dialect=dialect)
        return value if write is None else list(map(write, value))


class _WithSchema(ColumnElement[Any]):
    """A subquery of ON CONFLICT, in which SQLAlchemy would leave out the schema of its table."""

    inherit_cache = True
    _traverse_internals: Any = (("subquery", InternalTraversal.dp_clauseelement),)

    def __init__(self, subquery: ColumnElement[Any]) -> None:
        self.subquery: ColumnElement[Any] = subquery
        self.type = subquery.type


@compiles(_WithSchema)
def _compile_with_schema(element: _WithSchema, compiler: Any, **given: Any) -> str:
    given.pop("use_schema", None)
    return str(compiler.process(element.subquery, **given))


class PostgreSQLStatements(Statements):
    """Upserts, row locks, unnested arrays and JSONB."""

    has_arrays: ClassVar[bool] = True
    has_custom_plans: ClassVar[bool] = True

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

    def is_as_seen(self, table: Table, key: ColumnElement[bool]) -> ColumnElement[bool]:
        # A statement that waits for a row goes on with its new version, and with its old snapshot.
        # Each version has a place of its own.
        seen: Select[Any] = select(literal_column("ctid")).select_from(table).where(key)
        row = _WithSchema(seen.correlate(None).scalar_subquery())
        return literal_column(f"{table.name}.ctid") == row

    def rows_from_arrays(self, prefix: str, columns: Mapping[str, Any]) -> FromClause:
        lists = [bindparam(f"{prefix}_{name}", type_=_Array(t)) for name, t in columns.items()]
        names = [column(name, type_) for name, type_ in columns.items()]
        # Keys are compared with columns of one collation; an array's elements have the default.
        given = func.unnest(*lists).table_valued(*names).render_derived(name=f"{prefix}_given")
        read = [
            cast(given.c[name], JSONB).label(name) if isinstance(type_, Json) else given.c[name]
            for name, type_ in columns.items()
        ]
        return select(*read).cte(f"{prefix}_rows")

    def rows_from_list(self, parameter: str, columns: Sequence[str]) -> FromClause:
        # In the collation of the key columns: texts of two collations cannot be compared.
        fields = ", ".join(
            f"CAST(each.value ->> {at} AS uuid) AS log_id"
            if name == "log_id"
            else f'(each.value ->> {at}) COLLATE "C" AS {name}'
            for at, name in enumerate(columns)
        )
        rows = text(
            f"SELECT {fields} FROM json_array_elements(CAST(:{parameter} AS json)) AS each(value)"  # noqa: S608
        ).bindparams(bindparam(parameter, type_=Text))
        made = (column(name, LogKey if name == "log_id" else None) for name in columns)
        return rows.columns(*made).subquery("listed")

    def materialized(self, rows: Select[Any], name: str) -> CTE:
        return rows.cte(name, nesting=True).prefix_with("MATERIALIZED")

    def hide_from_planner(self, value: ColumnElement[Any]) -> ColumnElement[Any]:
        # A subquery is computed when the statement runs. Then neither a plan for the values nor a
        # generic plan costs less than the other, so the generic plan is made once and kept.
        return _subquery(value)

    def json_equals(self, owner: Table, kind: str) -> ColumnElement[bool]:
        meta = owner.c.meta
        key = self.hide_from_planner(cast(bindparam("match_key", type_=Text), Text))
        value = self.hide_from_planner(cast(bindparam("match_value", type_=Text), JSONB))
        # The GIN index answers containment; equality is what was asked for.
        return and_(
            _is_indexed(meta),
            meta.bool_op("@>")(func.jsonb_build_object(key, value)),
            func.jsonb_extract_path(meta, key) == value,
        )

    def json_equals_binds(self, key: str, value: Any, kind: str) -> dict[str, Any]:
        return {"match_key": key, "match_value": orjson.dumps(value).decode()}

    def json_is_object(self, column: ColumnElement[Any]) -> ColumnElement[int]:
        is_object = func.jsonb_typeof(column) == literal_column("'object'")
        return case((is_object, literal_column("1", Integer)), else_=literal_column("0", Integer))


def _subquery(value: ColumnElement[Any]) -> ColumnElement[Any]:
    return select(value).scalar_subquery()


# --- Text indexes --------------------------------------------------------------------------------

_INDEXES = {
    "deltas_search": "ix_deltas_search_text",
    "checkpoints_meta": "ix_checkpoints_meta",
    "store_items_search": "ix_store_items_search",
}

_LIMIT_PENDING_LIST = text("set_config('gin_pending_list_limit', '384kB', true) IS NOT NULL")
"""The limit of what a GIN index holds unmerged when a save puts words in it, unless the index sets
one itself. Each search reads all of that; the server's own 4 MB are 2,000 messages.
"""


def _is_indexed(meta: ColumnElement[Any]) -> ColumnElement[bool]:
    """Return the condition of the partial index on metadata, without which it is not used."""
    return meta != literal_column("'{}'::jsonb")


class PostgreSQLTextIndexes(TextIndexes):
    """GIN indexes of tsvectors, and of the metadata as JSONB."""

    finds_last_stored: ClassVar[bool] = True

    def terms(self, phrases: Sequence[Sequence[str]]) -> Any:
        # A quoted lexeme is data to to_tsquery; tokens hold neither quotes nor backslashes.
        return [" <-> ".join(f"'{token}'" for token in phrase) for phrase in phrases]

    def log_hits(self, below: bool = False) -> FromClause:
        terms = _terms(cast(bindparam("terms", type_=ARRAY(Text)), ARRAY(Text)))
        deltas, threads = DeltaRow.__table__, ThreadRow.__table__
        found = (
            select(terms.c.term.label("term"), deltas.c.log_id, deltas.c.seq)
            .select_from(terms.join(deltas, _text_vector(deltas).bool_op("@@")(terms.c.query)))
            .where(deltas.c.search_text.is_not(None))
            .where(deltas.c.tenant == bindparam("k_tenant", type_=deltas.c.tenant.type))
        )
        if below:
            # A fence: the planner takes any range of namespaces for few, and would look at the text
            # of each row in them.
            found = found.offset(literal_column("0"))
        rows = found.subquery("found")
        return (
            select(rows)
            .join(threads, threads.c.log_id == rows.c.log_id)
            .where(in_namespace(threads, below))
            .cte("hits")
        )

    def last_stored(self, below: bool, live: Live) -> FromClause:
        return newest_with_word(below, live).cte("hits")

    def are_newest_checkpoints(self, below: bool) -> ColumnElement[int]:
        return literal_column("1", Integer)  # the others are left out

    def item_hits(self, below: bool, columns: Sequence[str]) -> FromClause:
        return self._item_hits(columns)

    def _item_hits(self, columns: Sequence[str], *more: ColumnElement[bool]) -> FromClause:
        given = cast(bindparam("terms", type_=ARRAY(Text)), ARRAY(Text))
        terms = _terms(_subquery(given), within=_scope())
        items = StoreItemRow.__table__
        return (
            select(terms.c.term.label("term"), *(items.c[name] for name in columns))
            .select_from(terms.join(items, _item_vector(items).bool_op("@@")(terms.c.query)))
            # True of every term. Of an array that it does not see the planner expects ten terms,
            # for which it may compile the plan with LLVM, and that takes longer than the search.
            .where(func.length(terms.c.term).between(1, 2**31 - 1), *more)
            .cte("hits")
        )

    def items_in_scope(self, below: bool) -> FromClause:
        return self._items_in_scope()

    def _items_in_scope(self, *more: ColumnElement[bool]) -> FromClause:
        items = StoreItemRow.__table__
        within = _item_vector(items).bool_op("@@")(_scope())
        # Materialised: below a limit that it does not know, a generic plan would scan the table.
        found = select(items.c.namespace, items.c.key, items.c.updated_at).where(within, *more)
        return found.cte("within", nesting=True).prefix_with("MATERIALIZED")

    def item_scope_binds(
        self, tenant: str, path: str, below: bool, fields: Sequence[FieldTerms]
    ) -> Mapping[str, Any]:
        # The word that the index has for a tenant's namespace; in quotes it is data to a tsquery.
        word = f"\x1f{encode_id(tenant)}\x1f{path}".replace("\\", "\\\\").replace("'", "''")
        conditions = [f"'{word}'{':*' if below else ''}"]
        conditions += (f"({' | '.join(_alternatives(one))})" for one in fields)
        return {"scope": " & ".join(conditions)}

    def limit_pending(self, rows: Select[Any]) -> Select[Any]:
        # The setting is the transaction's, and is made before the row is inserted.
        return rows.where(_LIMIT_PENDING_LIST)

    def index_name(self, index: str, schema: str | None) -> str | None:
        return f"{quoted(schema)}.{_INDEXES[index]}" if schema else _INDEXES[index]

    def index_state(self) -> Executable | None:
        # A failed CREATE or REINDEX CONCURRENTLY leaves an invalid index, which no query uses.
        return text(
            "SELECT CASE WHEN indisvalid AND indisready AND indislive THEN 1 ELSE 0 END "
            "AS in_use FROM pg_index WHERE indexrelid = to_regclass(:p_index)"
        )

    def unindexed_rows(self, index: str) -> Executable | None:
        if index == "store_items_search":
            return _unindexed_items()
        owner = (DeltaRow if index == "deltas_search" else CheckpointRow).__table__
        row, found = owner.alias("row_here"), owner.alias("found")
        if index == "deltas_search":
            words = func.substring(row.c.search_text, literal_column("'^(?:\\S+ ){0,7}\\S+'"))
            query = func.plainto_tsquery(literal_column("'simple'"), words)
            there: list[Any] = [
                row.c.search_text.is_not(None),
                _text_vector(row).bool_op("@@")(query),
            ]
            hit: list[ColumnElement[bool]] = [found.c.search_text.is_not(None)]
            hit.append(_text_vector(found).bool_op("@@")(query))
        else:
            there = [_is_indexed(row.c.meta)]
            hit = [_is_indexed(found.c.meta), found.c.meta.bool_op("@>")(row.c.meta)]
        # The primary key does not serve IS NOT DISTINCT FROM, so the index has to find the row.
        same = [found.c[name].is_not_distinct_from(row.c[name]) for name in ("log_id", "seq")]
        return (
            select(row.c.seq)
            .where(row.c.log_id == bindparam("k_log_id", type_=row.c.log_id.type))
            .where(row.c.seq.between(bindparam("p_low"), bindparam("p_high")), *there)
            .where(~select(literal_column("1")).where(*hit, *same).exists())
            .order_by(row.c.seq)
        )

    def force_index(self) -> Executable | None:
        kinds = ("seqscan", "indexscan", "indexonlyscan", "hashjoin", "mergejoin", "material")
        off = ", ".join(f"set_config('enable_{kind}', 'off', true)" for kind in kinds)
        return text(f"SELECT {off}")

    def rebuild(self, index: str) -> Sequence[Executable]:
        return (_Reindex(_INDEXES[index]),)

    def repair_advice(self, index: str, schema: str | None) -> str:
        return f"as the owner run: REINDEX INDEX CONCURRENTLY {self.index_name(index, schema)}"


def _alternatives(field: FieldTerms) -> Iterator[str]:
    """Yield the tsqueries of which an item matches one, if its field may be as wanted."""
    yield from field.words
    yield from (f"{prefix}:*" for prefix in field.prefixes)
    yield f"({OTHERS} & !{field.mark})"


def _terms(given: ColumnElement[Any], within: ColumnElement[Any] | None = None) -> Subquery:
    """Return the terms of an array with their tsqueries, which are *within* another if given.

    The limit keeps the planner from computing these in the condition that an index answers: below
    row-level security no index is used for what calls a function that may leak.
    """
    terms = func.unnest(given).table_valued("term", name="terms").render_derived()
    query: ColumnElement[Any] = func.to_tsquery(
        literal_column("'simple'"), terms.c.term, type_=TSQUERY
    )
    if within is not None:
        query = within.op("&&")(query)
    return select(terms.c.term, query.label("query")).offset(literal_column("0")).subquery("asked")


def _scope() -> ColumnElement[Any]:
    return cast(bindparam("scope", type_=Text), TSQUERY)


def _text_vector(deltas: Any) -> ColumnElement[Any]:
    """Return the expression that the index of the deltas' texts is on."""
    return func.to_tsvector(literal_column("'simple'"), deltas.c.search_text)


def _item_vector(items: Any) -> ColumnElement[Any]:
    """Return the expression that the index of items is on."""
    simple: ColumnElement[str] = literal_column("'simple'")
    nothing: ColumnElement[str] = literal_column("''")
    mark: ColumnElement[str] = literal_column("chr(31)")
    scope = mark.op("||")(items.c.tenant).op("||")(mark).op("||")(items.c.namespace)

    def or_nothing(column: ColumnElement[Any]) -> ColumnElement[Any]:
        # Below row-level security coalesce() counts as a function that may leak.
        return case((column.is_(None), nothing), else_=column)

    words = func.to_tsvector(simple, or_nothing(items.c.search_text))
    fields = func.to_tsvector(simple, or_nothing(items.c.field_terms))
    return words.op("||")(fields).op("||")(func.array_to_tsvector(array([scope])))


def _unindexed_items() -> Executable:
    """Query the items that their index does not find; see `TextIndexes.unindexed_rows`."""
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


class _Reindex(Executable, ClauseElement):
    """Build an index anew without keeping others from writing; not in a transaction."""

    inherit_cache = False

    def __init__(self, index: str) -> None:
        # A table, because SQLAlchemy puts the schema before the names of tables.
        self.index = Table(index, MetaData())


@compiles(_Reindex)
def _reindex(element: _Reindex, compiler: Any, **kw: Any) -> str:
    return f"REINDEX INDEX CONCURRENTLY {compiler.preparer.format_table(element.index)}"


# --- Vectors -------------------------------------------------------------------------------------

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


class PostgreSQLVectors(Vectors):
    """pgvector's column, distances and HNSW indexes, or bytes without it."""

    install_commands: ClassVar[tuple[str, ...]] = ("CREATE EXTENSION IF NOT EXISTS vector",)
    may_be_bytes: ClassVar[bool] = True

    def ensure_type(self, connection: Connection) -> bool:
        installed = text("SELECT 1 FROM pg_extension WHERE extname = 'vector'")
        if connection.scalar(installed):
            return True
        available = text("SELECT 1 FROM pg_available_extensions WHERE name = 'vector'")
        if not connection.scalar(available):
            return False
        try:
            with connection.begin_nested():
                connection.execute(text("CREATE EXTENSION IF NOT EXISTS vector"))
        except DBAPIError as error:
            if _classify(error)[0] is Failure.PERMISSION:
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
            .values({"native": cast(bindparam("floats", type_=Text), _pgvector().VECTOR)})
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
        half = _pgvector().HALFVEC(int(dimensions))
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
        return _on_our_tables(
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
        return _on_our_tables(
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
        return [f"{_vector_index(name, table, metric, dimensions)};"]


def _bound_vector(name: str) -> ColumnElement[Any]:
    """Return a vector that is bound as its text, so that no driver has to know the native type.

    An array of numbers would cost a driver more than the server saves by reading them in binary.
    """
    return cast(bindparam(name, type_=Text), _pgvector().VECTOR)


def _distance(vector: Any, metric: str, wanted: ColumnElement[Any]) -> ColumnElement[float]:
    # A subquery: a generic plan would compute the wanted vector again for each row.
    distance: ColumnElement[float] = getattr(vector, _DISTANCES[metric])(_subquery(wanted))
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
    return _vector_index(name, table, element.metric, element.dimensions)


def _vector_index(name: str, table: str, metric: str, dimensions: int) -> str:
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


# --- Maintenance ---------------------------------------------------------------------------------


class PostgreSQLMaintenance(Maintenance):
    """Advisory locks, the catalogue's sizes, VACUUM, pg_dump and roles."""

    server_version: ClassVar[str] = "SHOW server_version"
    byte_literal: ClassVar[str] = "'\\x2d'"

    def lock_migrations(self, connection: Connection, schema: str | None) -> None:
        # Held by the transaction and not by the session, so that it holds behind PgBouncer, too.
        key = int.from_bytes(
            blake2b(f"memalchemy {schema or ''}".encode(), digest_size=8).digest(), signed=True
        )
        connection.execute(text("SELECT pg_advisory_xact_lock(:key)"), {"key": key})

    def schema_of_visible_table(self, connection: Connection, table: str) -> str | None:
        query = text(
            "SELECT n.nspname FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace "
            "WHERE c.relname = :table AND pg_table_is_visible(c.oid)"
        )
        schema: str | None = connection.scalar(query, {"table": table})
        return schema

    def sizes(self, exact: bool) -> Executable | None:
        if not exact:
            return None
        return _on_our_tables(
            "SELECT made.relname AS name, made.relname AS owner, 'table' AS kind, "
            "pg_table_size(made.oid) AS bytes FROM made UNION ALL "
            "SELECT indexes.relname, made.relname, 'index', pg_relation_size(indexes.oid) "
            "FROM made JOIN pg_index ON pg_index.indrelid = made.oid "
            "JOIN pg_class AS indexes ON indexes.oid = pg_index.indexrelid"
        )

    def step(self, what: str) -> Executable | None:
        if what != "tables":
            return None
        return _on_our_tables(
            "SELECT made.relname AS name, coalesce(seen.n_live_tup, 0) AS live, "
            "coalesce(seen.n_dead_tup, 0) AS dead, pg_total_relation_size(made.oid) AS bytes, "
            "CASE WHEN pg_has_role(made.relowner, 'USAGE') THEN 1 ELSE 0 END AS owned "
            "FROM made LEFT JOIN pg_stat_all_tables AS seen ON seen.relid = made.oid"
        )

    def vacuum(self, table: Table, full: bool) -> Executable | None:
        return _Vacuum(table, full)

    def shrink_commands(self, table: str, schema: str | None, full: bool) -> list[str]:
        name = f"{quoted(schema)}.{table}" if schema else table
        return [f"VACUUM ({'FULL, ' if full else ''}ANALYZE) {name};"]

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

    def distribution_commands(self, schema: str | None, parts: int | None) -> list[str]:
        return citus.distribution_commands(schema, parts)


class _Vacuum(Executable, ClauseElement):
    """VACUUM of a table, in the schema that the connection's tables are in."""

    inherit_cache = False

    def __init__(self, table: Table, full: bool) -> None:
        self.table, self.full = table, full


@compiles(_Vacuum)
def _vacuum(element: _Vacuum, compiler: Any, **_: Any) -> str:
    options = "FULL, ANALYZE" if element.full else "ANALYZE"
    return f"VACUUM ({options}) {compiler.preparer.format_table(element.table)}"


def _on_our_tables(query: str) -> Executable:
    """Return *query* on ``made``: our tables in ``:p_schema``, or in the connection's schema."""
    names = ", ".join(f"'{name}'" for name in Base.metadata.tables)
    made = (
        "SELECT pg_class.oid, pg_class.relname, pg_class.relowner FROM pg_class "  # noqa: S608
        "JOIN pg_namespace ON pg_namespace.oid = pg_class.relnamespace "
        "WHERE pg_namespace.nspname = coalesce(CAST(:p_schema AS text), current_schema()) "
        f"AND pg_class.relkind IN ('r', 'p') AND pg_class.relname IN ({names})"
    )
    return text(f"WITH made AS ({made}) {query}").bindparams(bindparam("p_schema", type_=Text))


# --- The dialect ---------------------------------------------------------------------------------

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
    TENANT_NOT_SET: Failure.TENANT_NOT_SET,
    "XX001": Failure.CORRUPT,
    "XX002": Failure.CORRUPT,
}

_SSL_MODES = {"disable", "allow", "prefer", "require", "verify-ca", "verify-full"}

_READ_ONLY = "default_transaction_read_only"

_NAME_PGBOUNCER = (
    "If the URL leads to PgBouncer in transaction mode, add pgbouncer=true to the URL, or open "
    "Database(url, pgbouncer=True)."
)

CITUS = "citus"
"""The `Dialect.variant` of a database whose tables are distributed by Citus."""


class _CitusStatements(PostgreSQLStatements):
    """Statements that Citus sends to one node.

    It pulls an INSERT … SELECT of arrays to the coordinator, and cannot infer the type of a bind
    in its ON CONFLICT. A subquery in a LIMIT is refused.
    """

    has_arrays: ClassVar[bool] = False
    has_custom_plans: ClassVar[bool] = False

    def hide_from_planner(self, value: ColumnElement[Any]) -> ColumnElement[Any]:
        return value


class _CitusTextIndexes(PostgreSQLTextIndexes):
    """Searches that name their namespace, and so are sent to the node that has it.

    The word by which the index knows the namespace is a text like any other to Citus. It refuses
    the subqueries in limits by which the rows that were stored last are found.
    """

    finds_last_stored: ClassVar[bool] = False

    def unindexed_rows(self, index: str) -> Executable | None:
        return None  # no setting of the coordinator's makes a node use an index

    def item_hits(self, below: bool, columns: Sequence[str]) -> FromClause:
        return self._item_hits(columns, *self._routed(below))

    def items_in_scope(self, below: bool) -> FromClause:
        return self._items_in_scope(*self._routed(below))

    def _routed(self, below: bool) -> list[ColumnElement[bool]]:
        items = StoreItemRow.__table__
        here = bindparam("k_namespace", type_=items.c.namespace.type)
        return [] if below else [items.c.namespace == here]


_SIZES_OF_SHARD = (
    "SELECT json_agg(pieces) FROM ("
    "SELECT NULL AS name, ''table'' AS kind, pg_table_size(''%1$s'') AS bytes UNION ALL "
    "SELECT regexp_replace(relname, ''_[0-9]+$'', ''''), ''index'', pg_relation_size(pg_class.oid) "
    "FROM pg_index JOIN pg_class ON pg_class.oid = indexrelid "
    "WHERE indrelid = CAST(''%1$s'' AS regclass)) AS pieces"
)
_ROWS_OF_SHARD = (
    "SELECT json_agg(found) FROM (SELECT n_live_tup AS live, n_dead_tup AS dead, "
    "pg_total_relation_size(relid) AS bytes FROM pg_stat_all_tables "
    "WHERE relid = CAST(''%1$s'' AS regclass)) AS found"
)


class _CitusMaintenance(PostgreSQLMaintenance):
    """Sizes and numbers of rows that the nodes tell of their shards.

    The coordinator's own tables and indexes are empty. It passes VACUUM on.
    """

    def sizes(self, exact: bool) -> Executable | None:
        if not exact:
            return None
        return _on_our_tables(
            "SELECT coalesce(piece.name, made.relname) AS name, "  # noqa: S608
            "made.relname AS owner, piece.kind, "
            "CAST(sum(piece.bytes) AS bigint) AS bytes FROM made, "
            f"{_of_shards(_SIZES_OF_SHARD, 'name text, kind text, bytes bigint')} "
            "GROUP BY piece.name, made.relname, piece.kind"
        )

    def step(self, what: str) -> Executable | None:
        if what != "tables":
            return None
        return _on_our_tables(
            "SELECT made.relname AS name, CAST(sum(piece.live) AS bigint) AS live, "  # noqa: S608
            "CAST(sum(piece.dead) AS bigint) AS dead, CAST(sum(piece.bytes) AS bigint) AS bytes, "
            "CASE WHEN pg_has_role(made.relowner, 'USAGE') THEN 1 ELSE 0 END AS owned FROM made, "
            f"{_of_shards(_ROWS_OF_SHARD, 'live bigint, dead bigint, bytes bigint')} "
            "GROUP BY made.relname, made.relowner"
        )


def _of_shards(command: str, columns: str) -> str:
    """Return a source of ``piece``: the rows, as JSON, of a command on each shard of ``made``."""
    return (
        f"LATERAL run_command_on_shards(CAST(made.oid AS regclass), '{command}') AS shard, "
        f"LATERAL json_to_recordset(CAST(shard.result AS json)) AS piece({columns})"
    )


_CITUS_CAPABILITIES: Mapping[str, Any] = {
    "distributed": True,
    # Citus pulls a statement to the coordinator whose CTE writes, and lets no transaction of one
    # statement span two nodes without a commit of two phases.
    "single_statement_save": False,
    "groups_saves": False,
    # A node was lost while it committed its part.
    "unknown_commits": frozenset({"XX000"}),
    "statements": _CitusStatements(),
    "text": _CitusTextIndexes(),
    "maintenance": _CitusMaintenance(),
}


def is_distributed(connection: Connection, schema: str | None) -> bool:
    """Return whether Citus has distributed the tables in *schema*; one query on other servers."""
    if not connection.scalar(text("SELECT to_regclass('pg_catalog.pg_dist_partition')")):
        return False
    prefix = f"{quoted(schema)}." if schema else ""
    query = text(
        "SELECT count(*) FROM pg_catalog.pg_dist_partition "
        "WHERE partmethod = 'h' AND logicalrelid = to_regclass(:p_table)"
    )
    return any(
        connection.scalar(query, {"p_table": f"{prefix}{table}"}) for table in DISTRIBUTED_BY
    )


def distribute(dialect: PostgreSQL) -> None:
    """Give *dialect* the capabilities and parts for tables that Citus has distributed."""
    vars(dialect).update(_CITUS_CAPABILITIES)


_decode_first_value = json.JSONDecoder().raw_decode


class PostgreSQL(Dialect):
    """PostgreSQL through asyncpg or psycopg."""

    name: ClassVar[str] = "postgresql"
    sqlalchemy_name: ClassVar[str] = "postgresql"
    single_statement_save: ClassVar[bool] = True
    groups_saves: ClassVar[bool] = True
    snapshot_isolation: ClassVar[str | None] = "REPEATABLE READ"
    advice: ClassVar[Mapping[str, str]] = {
        "3D000": "The server runs, and has no database of that name: create it.",
        # A startup parameter that PgBouncer does not take; a prepared statement that is not on the
        # server's connection, or that another client's has.
        **dict.fromkeys(("08P01", "26000", "42P05"), _NAME_PGBOUNCER),
    }

    column_types: ColumnTypes = PostgreSQLColumnTypes()
    statements: Statements = PostgreSQLStatements()
    text: TextIndexes = PostgreSQLTextIndexes()
    vectors: Vectors = PostgreSQLVectors()
    maintenance: Maintenance = PostgreSQLMaintenance()
    tenant_wall: TenantWall | None = PostgreSQLTenantWall()
    cluster: Cluster | None = citus.Citus()

    @property
    def variant(self) -> str:
        return CITUS if self.distributed else self.name

    def for_database(self) -> Dialect:
        own = copy(self)
        own.has_to_learn = True
        return own

    def learn(self, connection: Connection, schema: str | None) -> None:
        if self.has_to_learn and is_distributed(connection, schema):
            distribute(self)
        self.has_to_learn = False

    def read_url(self, url: URL, driver: str) -> Target:
        driver = driver or (
            "psycopg" if not is_installed("asyncpg") and is_installed("psycopg") else "asyncpg"
        )
        if driver not in ("asyncpg", "psycopg"):
            raise UnknownURL(
                f"memalchemy uses postgresql+asyncpg or postgresql+psycopg, not {driver!r}"
            )
        require_driver(driver, "postgres" if driver == "asyncpg" else "psycopg")
        url = url.set(drivername=f"{self.sqlalchemy_name}+{driver}")
        pgbouncer = flag("pgbouncer", single_value("pgbouncer", url.query.get("pgbouncer", "no")))
        url = url.difference_update_query(["pgbouncer"])
        connect_args: dict[str, Any] = {}
        if driver == "asyncpg":
            # libpq's parameters that asyncpg does not know, or calls otherwise.
            query = dict(url.query)
            mode = query.pop("sslmode", None)
            if mode is not None:
                if mode not in _SSL_MODES:
                    raise UnknownURL(f"sslmode={mode!r} is none of {', '.join(sorted(_SSL_MODES))}")
                query.setdefault("ssl", mode)
            query.pop("channel_binding", None)  # asyncpg negotiates it by itself
            if "connect_timeout" in query:
                connect_args["timeout"] = seconds(
                    "connect_timeout", str(query.pop("connect_timeout"))
                )
            settings = {k: query.pop(k) for k in ("application_name", "options") if k in query}
            if settings:
                connect_args["server_settings"] = settings
            refuse_unknown_parameters(query, "asyncpg", "connect")
            url = url.set(query=query)
        elif "options" in url.query:
            # Where a statement timeout joins them.
            connect_args["options"] = str(url.query["options"])
            url = url.difference_update_query(["options"])
        return Target(self.name, url, display(url), connect_args=connect_args, pgbouncer=pgbouncer)

    def engine_options(
        self,
        target: Target,
        *,
        pgbouncer: bool,
        connect_timeout: float,
        statement_timeout: float | None,
    ) -> dict[str, Any]:
        options: dict[str, Any] = {}
        connect_args, driver = dict(target.connect_args), target.url.get_driver_name()
        if driver == "asyncpg":
            options["json_deserializer"] = _read_json
            connect_args.setdefault("timeout", connect_timeout)
            if statement_timeout is not None:
                connect_args["command_timeout"] = statement_timeout
            if pgbouncer:
                # In transaction mode a statement may run on another server connection than the one
                # that prepared it: no caches, and names that never meet.
                connect_args["statement_cache_size"] = 0
                connect_args["prepared_statement_cache_size"] = 0
                connect_args["prepared_statement_name_func"] = _new_statement_name
        elif driver == "psycopg":
            connect_args.setdefault("connect_timeout", max(1, round(connect_timeout)))
            if pgbouncer:
                connect_args["prepare_threshold"] = None
            elif statement_timeout is not None:
                timeout = f"-c statement_timeout={round(statement_timeout * 1000)}"
                connect_args["options"] = f"{connect_args.get('options', '')} {timeout}".strip()
        return options | {"connect_args": connect_args}

    def read_only_options(
        self, options: dict[str, Any], target: Target, *, pgbouncer: bool
    ) -> dict[str, Any]:
        if pgbouncer:  # which takes no server options; every statement is in a transaction there
            return options | {"execution_options": {"postgresql_readonly": True}}
        connect_args = dict(options["connect_args"])
        if target.url.get_driver_name() == "asyncpg":
            settings = connect_args.get("server_settings", {})
            connect_args["server_settings"] = settings | {_READ_ONLY: "on"}
        else:
            given = connect_args.get("options", "")
            connect_args["options"] = f"{given} -c {_READ_ONLY}=on".strip()
        return options | {"connect_args": connect_args}

    def in_transaction(self, raw: Any) -> bool:
        if hasattr(raw, "is_in_transaction"):  # asyncpg
            return not raw.is_closed() and bool(raw.is_in_transaction())
        return raw.info.transaction_status.name in ("ACTIVE", "INTRANS", "INERROR")

    def interrupt(self, raw: Any) -> None:
        if hasattr(raw, "terminate"):  # asyncpg: the connection is lost for its user
            raw.terminate()
        else:
            raw.cancel()

    def abandon(self, raw: Any) -> bool:
        if hasattr(raw, "terminate"):  # asyncpg
            raw.terminate()
        elif self.at_work(raw):
            raw.cancel()  # to close it under a statement crashes psycopg
        else:
            raw.pgconn.finish()
        return True

    def at_work(self, raw: Any) -> bool:
        return not hasattr(raw, "terminate") and raw.info.transaction_status.name == "ACTIVE"

    def classify(self, error: BaseException) -> tuple[Failure, str | None]:
        return _classify(error)


def _classify(error: BaseException) -> tuple[Failure, str | None]:
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
    if "InterfaceError" in kinds and "another operation is in progress" in str(cause):
        return Failure.IN_USE, None  # asyncpg's own text: it has no code for it
    if "DataError" in kinds and str(cause).startswith("timestamp too"):
        return Failure.CORRUPT, None  # psycopg, of a time that Python has not
    if "InternalClientError" in kinds:
        # What asyncpg says while the server's farewell is all that it has read.
        return Failure.DISCONNECTED, None
    if not kinds & {"InterfaceError", "OperationalError", "ConnectionDoesNotExistError"}:
        return Failure.OTHER, None
    # psycopg keeps the connection attempt that failed. libpq gives no SQLSTATE for it: this is
    # the one place where text is read, and in another language it is merely "unreachable".
    attempt = getattr(cause, "pgconn", None)
    if attempt is not None and ("authentication failed" in str(cause) or attempt.needs_password):
        return Failure.AUTHENTICATION, None
    if attempt is not None and "unsupported startup parameter" in str(cause):
        return Failure.DISCONNECTED, "08P01"  # PgBouncer's, as asyncpg reads it
    return Failure.DISCONNECTED, None


def _read_json(text: str) -> Any:
    """Return `json.loads` of *text*, faster: jsonb has no white space around it to skip."""
    try:
        return _decode_first_value(text)[0]
    except ValueError:
        return json.loads(text)


def _new_statement_name() -> str:
    return f"__asyncpg_{uuid.uuid4()}__"
