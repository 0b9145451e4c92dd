"""PostgreSQL: upserts, locks, rows that are sent as arrays, and JSONB."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import partial
from typing import Any, ClassVar

import orjson
from sqlalchemy import (
    CTE,
    JSON,
    BinaryExpression,
    BindParameter,
    ColumnElement,
    FromClause,
    Insert,
    Integer,
    Select,
    String,
    Table,
    Text,
    TypeDecorator,
    and_,
    bindparam,
    case,
    cast,
    column,
    func,
    literal_column,
    select,
    text,
    true,
)
from sqlalchemy.dialects.postgresql import ARRAY, JSONB, insert  # noqa: TID251
from sqlalchemy.ext.compiler import compiles
from sqlalchemy.sql.selectable import NamedFromClause
from sqlalchemy.sql.visitors import InternalTraversal

from memalchemy.column_types import Json, LogKey, Processor, StoredType
from memalchemy.dialects.base import Statements
from memalchemy.dialects.postgresql.column_types import to_jsonb


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

    def computed_first(self, rows: Select[Any], name: str) -> FromClause:
        return self.materialized(rows, name)

    def join_by_key(
        self, rows: FromClause, table: NamedFromClause, same: ColumnElement[bool]
    ) -> tuple[FromClause, FromClause]:
        # The limit keeps the condition together. Of a tenant that has no statistics yet the planner
        # expects one row: in a plain join it would read all rows of the tenant for each of *rows*.
        row = select(table).where(same).limit(literal_column("1"))
        looked_up = row.lateral(f"{table.name}_looked_up")
        return rows.join(looked_up, true()), looked_up

    def hide_from_planner(self, value: ColumnElement[Any]) -> ColumnElement[Any]:
        # A subquery is computed when the statement runs. Then neither a plan for the values nor a
        # generic plan costs less than the other, so the generic plan is made once and kept.
        return computed_once(value)

    def json_equals(self, owner: Table, kind: str) -> ColumnElement[bool]:
        meta = owner.c.meta
        key = self.hide_from_planner(cast(bindparam("match_key", type_=Text), Text))
        if kind == "any":
            return func.jsonb_extract_path(meta, key).is_not(None)
        value = self.hide_from_planner(cast(bindparam("match_value", type_=Text), JSONB))
        # The GIN index answers containment; equality is what was asked for.
        return and_(
            is_indexed(meta),
            meta.bool_op("@>")(func.jsonb_build_object(key, value)),
            func.jsonb_extract_path(meta, key) == value,
        )

    def json_equals_binds(self, key: str, value: Any, kind: str) -> dict[str, Any]:
        return {"match_key": key, "match_value": orjson.dumps(value).decode()}

    def json_is(self, value: BinaryExpression[Any], kind: str) -> ColumnElement[bool]:
        name = {"text": "string"}.get(kind, kind)
        is_of_kind: ColumnElement[bool] = func.jsonb_typeof(value) == literal_column(f"'{name}'")
        return is_of_kind

    def keys_with_value(self, owner: Table, value: BindParameter[str]) -> Select[Any] | None:
        meta = owner.c.meta
        is_object = func.jsonb_typeof(meta) == literal_column("'object'")
        sound = case((is_object, meta), else_=literal_column("'{}'::jsonb"))
        each = func.jsonb_each(sound).table_valued("key", "value", name="each").render_derived()
        kind = func.jsonb_typeof(each.c.value)
        # Without a path it is the value itself, as text.
        as_text = each.c.value.op("#>>")(literal_column("'{}'"))
        return (
            select(each.c.key.label("key"))
            .distinct()
            .select_from(owner.join(each, true()))
            .where(kind.in_([literal_column("'string'"), literal_column("'number'")]))
            .where(as_text == cast(value, Text))
        )

    def json_is_object(self, column: ColumnElement[Any]) -> ColumnElement[int]:
        is_object = func.jsonb_typeof(column) == literal_column("'object'")
        return case((is_object, literal_column("1", Integer)), else_=literal_column("0", Integer))


def computed_once(value: ColumnElement[Any]) -> ColumnElement[Any]:
    """Return *value* as a subquery: it is not computed again for each row."""
    return select(value).scalar_subquery()


def is_indexed(meta: ColumnElement[Any]) -> ColumnElement[bool]:
    """Return the condition of the partial index on metadata, without which it is not used."""
    return meta != literal_column("'{}'::jsonb")
