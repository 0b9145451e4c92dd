"""Upkeep on PostgreSQL: text indexes that find what they should, sizes, VACUUM, pg_dump.

Knows nothing of how rows are written, searched or locked: that is `dialects.postgresql`.
"""

from __future__ import annotations

import shlex
from collections.abc import Sequence
from typing import Any

from sqlalchemy import (
    ClauseElement,
    ColumnElement,
    Executable,
    MetaData,
    Select,
    Table,
    Text,
    bindparam,
    cast,
    func,
    literal_column,
    or_,
    select,
    text,
)
from sqlalchemy.dialects.postgresql import TSQUERY, array  # noqa: TID251
from sqlalchemy.engine import URL
from sqlalchemy.ext.compiler import compiles
from sqlalchemy.sql.compiler import SQLCompiler

from memalchemy.dialects.base import Dialect, quoted
from memalchemy.schema import Base, CheckpointRow, DeltaRow, StoreItemRow

_INDEXES = {
    "deltas_search": "ix_deltas_search_text",
    "checkpoints_meta": "ix_checkpoints_meta",
    "store_items_search": "ix_store_items_search",
}


class Upkeep(Dialect):
    """What `memalchemy.verify`, `memalchemy.space` and a backup ask of PostgreSQL."""

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
            there: list[Any] = [
                row.c.search_text.is_not(None),
                text_vector(row).bool_op("@@")(query),
            ]
            hit = [found.c.search_text.is_not(None), text_vector(found).bool_op("@@")(query)]
        else:
            there = [row.c.meta != literal_column("'{}'::jsonb")]
            hit = [found.c.meta.bool_op("@>")(row.c.meta)]
        # IS NOT DISTINCT FROM is no condition that the primary key could answer.
        same = [found.c[name].is_not_distinct_from(row.c[name]) for name in ("log_id", "seq")]
        return (
            select(row.c.seq)
            .where(row.c.log_id == bindparam("k_log_id", type_=row.c.log_id.type))
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
        return of_our_tables(
            "SELECT made.relname AS name, made.relname AS owner, 'table' AS kind, "
            "pg_table_size(made.oid) AS bytes FROM made UNION ALL "
            "SELECT indexes.relname, made.relname, 'index', pg_relation_size(indexes.oid) "
            "FROM made JOIN pg_index ON pg_index.indrelid = made.oid "
            "JOIN pg_class AS indexes ON indexes.oid = pg_index.indexrelid"
        )

    def maintenance(self, what: str) -> Executable | None:
        if what != "tables":
            return None
        return of_our_tables(
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


class Reindex(Executable, ClauseElement):
    """Build an index anew without keeping others from writing; not in a transaction."""

    inherit_cache = False

    def __init__(self, index: str) -> None:
        # As a table, because that is what a schema is put before when a statement is sent.
        self.index = Table(index, MetaData())


@compiles(Reindex, "postgresql")
def _reindex(element: Reindex, compiler: Any, **kw: Any) -> str:
    return f"REINDEX INDEX CONCURRENTLY {compiler.preparer.format_table(element.index)}"


def text_vector(deltas: Any) -> ColumnElement[Any]:
    """The expression that the text index is on."""
    return func.to_tsvector(literal_column("'simple'"), deltas.c.search_text)


def item_vector(items: Any) -> ColumnElement[Any]:
    """The expression that the index of items is on."""
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
        item_vector(found).bool_op("@@")(query), *same
    )
    low, high = (bindparam(name, type_=row.c.key.type) for name in ("p_low", "p_high"))
    return (
        select(row.c.key)
        .where(*(row.c[c] == bindparam(f"k_{c}") for c in ("tenant", "namespace")))
        .where(row.c.key.between(low, high), there, item_vector(row).bool_op("@@")(query))
        .where(~hit.exists())
        .order_by(row.c.key)
    )


class Vacuum(Executable, ClauseElement):
    """VACUUM of a table, in the schema that the connection's tables are in."""

    inherit_cache = False

    def __init__(self, table: Table, full: bool) -> None:
        self.table, self.full = table, full


@compiles(Vacuum)
def _vacuum(element: Vacuum, compiler: SQLCompiler, **_: Any) -> str:
    options = "FULL, ANALYZE" if element.full else "ANALYZE"
    return f"VACUUM ({options}) {compiler.preparer.format_table(element.table)}"


def of_our_tables(query: str) -> Executable:
    """*query* on ``made``: our tables in the schema ``:p_schema``, or in the connection's own."""
    names = ", ".join(f"'{name}'" for name in Base.metadata.tables)
    made = (
        "SELECT pg_class.oid, pg_class.relname, pg_class.relowner FROM pg_class "  # noqa: S608
        "JOIN pg_namespace ON pg_namespace.oid = pg_class.relnamespace "
        "WHERE pg_namespace.nspname = coalesce(CAST(:p_schema AS text), current_schema()) "
        f"AND pg_class.relkind IN ('r', 'p') AND pg_class.relname IN ({names})"
    )
    return text(f"WITH made AS ({made}) {query}").bindparams(bindparam("p_schema", type_=Text))
