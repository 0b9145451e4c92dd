"""PostgreSQL: one statement per save, row locks, JSONB, tsvector, advisory locks.

Vectors are in `dialects.postgresql_vectors`, what verify and space ask in
`dialects.postgresql_upkeep`.
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from hashlib import blake2b
from typing import Any, ClassVar

import orjson
from sqlalchemy import (
    CTE,
    JSON,
    ColumnElement,
    Connection,
    FromClause,
    Insert,
    Integer,
    Select,
    String,
    Table,
    Text,
    TypeDecorator,
    bindparam,
    case,
    cast,
    column,
    func,
    literal_column,
    select,
    text,
)
from sqlalchemy.dialects.postgresql import ARRAY, JSONB, TSQUERY, insert  # noqa: TID251

from memalchemy.codec.field_terms import OTHERS, FieldTerms
from memalchemy.column_types import Json, LogKey, to_jsonb
from memalchemy.dialects.base import Failure, original, quoted
from memalchemy.dialects.postgresql_upkeep import Upkeep, item_vector, text_vector
from memalchemy.dialects.postgresql_vectors import Vectors
from memalchemy.dialects.reach import within
from memalchemy.keys import encode_id
from memalchemy.schema import DeltaRow, StoreItemRow, ThreadRow

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


_PUT_OFF = text("set_config('gin_pending_list_limit', '384kB', true) IS NOT NULL")
"""What a GIN index may hold unmerged when a save puts words in it, unless it says so itself. Each
search reads all of that; the server's own 4 MB are 2,000 messages.
"""


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
        if isinstance(self.of, Json):
            return [to_jsonb(one) for one in value]
        return [self.of.process_bind_param(one, dialect) for one in value]


class PostgreSQL(Vectors, Upkeep):
    name: ClassVar[str] = "postgresql"
    snapshot_isolation: ClassVar[str | None] = "REPEATABLE READ"
    vectors_may_be_bytes: ClassVar[bool] = True
    single_statement_save: ClassVar[bool] = True
    groups_saves: ClassVar[bool] = True
    takes_arrays: ClassVar[bool] = True
    plans_for_values: ClassVar[bool] = True
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

    def json_readable(self, column: ColumnElement[Any]) -> ColumnElement[int]:
        is_object = func.jsonb_typeof(column) == literal_column("'object'")
        return case((is_object, literal_column("1", Integer)), else_=literal_column("0", Integer))

    def listed(self, parameter: str, columns: Sequence[str]) -> FromClause:
        # Of the collation of the key columns: two that differ cannot be compared.
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

    def once(self, rows: Select[Any], name: str) -> CTE:
        return rows.cte(name, nesting=True).prefix_with("MATERIALIZED")

    def merging(self, rows: Select[Any]) -> Select[Any]:
        # For this transaction, and evaluated before the row that it goes with is inserted.
        return rows.where(_PUT_OFF)

    def unforeseen(self, value: ColumnElement[Any]) -> ColumnElement[Any]:
        # A query of its own is computed when the statement runs. Of a plan for the values and one
        # for all values neither then costs less, so the one for all is made once and kept.
        return select(value).scalar_subquery()

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

    def text_hits(self, below: bool = False) -> FromClause:
        terms = (
            func.unnest(cast(bindparam("terms", type_=ARRAY(Text)), ARRAY(Text)))
            .table_valued("term", name="terms")
            .render_derived()
        )
        deltas, threads = DeltaRow.__table__, ThreadRow.__table__
        vector = text_vector(deltas)
        query = func.to_tsquery(literal_column("'simple'"), terms.c.term)
        found = terms.join(deltas, vector.bool_op("@@")(query))
        return (
            select(terms.c.term.label("term"), deltas.c.log_id, deltas.c.seq)
            .select_from(found.join(threads, threads.c.log_id == deltas.c.log_id))
            .where(deltas.c.search_text.is_not(None))
            .where(deltas.c.tenant == bindparam("k_tenant", type_=deltas.c.tenant.type))
            .where(within(threads, below))
            .cte("hits")
        )

    def item_hits(self, below: bool) -> FromClause:
        given = cast(bindparam("terms", type_=ARRAY(Text)), ARRAY(Text))
        terms = (
            func.unnest(self.unforeseen(given)).table_valued("term", name="terms").render_derived()
        )
        items = StoreItemRow.__table__
        query = _scope().op("&&")(func.to_tsquery(literal_column("'simple'"), terms.c.term))
        return (
            select(
                terms.c.term.label("term"),
                *(items.c[name] for name in ("namespace", "key", "updated_at", "expires_at")),
            )
            .select_from(terms.join(items, item_vector(items).bool_op("@@")(query)))
            # All are. But of an array that it does not see the planner expects ten terms, and for
            # so many it may compile the plan, which takes longer than the search.
            .where(func.length(terms.c.term).between(1, 2**31 - 1))
            .cte("hits")
        )

    def items_within(self, below: bool) -> FromClause:
        items = StoreItemRow.__table__
        within = item_vector(items).bool_op("@@")(_scope())
        # Materialized: below a limit that it does not know, a generic plan would scan the table.
        return self.once(select(items.c.namespace, items.c.key).where(within), "within")

    def item_scope(
        self, tenant: str, path: str, below: bool, fields: Sequence[FieldTerms]
    ) -> Mapping[str, Any]:
        # As the index spells it; in a tsquery a lexeme in quotes is data.
        word = f"\x1f{encode_id(tenant)}\x1f{path}".replace("\\", "\\\\").replace("'", "''")
        conditions = [f"'{word}'{':*' if below else ''}"]
        conditions += (
            f"({' | '.join((*one.words, f'({OTHERS} & !{one.mark})'))})" for one in fields
        )
        return {"scope": " & ".join(conditions)}

    def text_terms(self, terms: Sequence[Sequence[str]]) -> Any:
        # A quoted lexeme is data to to_tsquery; tokens hold neither quotes nor backslashes.
        return [" <-> ".join(f"'{token}'" for token in phrase) for phrase in terms]

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

    def grants(self, role: str, schema: str | None, tables: Sequence[str]) -> list[str]:
        usage = [f"GRANT USAGE ON SCHEMA {quoted(schema or 'public')} TO {quoted(role)};"]
        return usage + super().grants(role, schema, tables)


def _scope() -> ColumnElement[Any]:
    return cast(bindparam("scope", type_=Text), TSQUERY)
