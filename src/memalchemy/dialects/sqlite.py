"""SQLite: a file with one writer, FTS5, JSON as text, and a lock that is a write."""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Iterable, Iterator, Mapping, Sequence
from datetime import datetime
from itertools import accumulate
from typing import Any, ClassVar
from uuid import UUID

import orjson
from sqlalchemy import (
    CTE,
    BinaryExpression,
    BindParameter,
    ColumnClause,
    ColumnElement,
    Connection,
    Executable,
    FromClause,
    Index,
    Insert,
    Integer,
    LargeBinary,
    Select,
    String,
    Table,
    Text,
    UniqueConstraint,
    and_,
    bindparam,
    case,
    cast,
    column,
    create_mock_engine,
    func,
    literal_column,
    or_,
    select,
    table,
    text,
    update,
)
from sqlalchemy.dialects.sqlite import insert, pysqlite  # noqa: TID251
from sqlalchemy.engine import URL
from sqlalchemy.exc import DBAPIError
from sqlalchemy.schema import CreateIndex

from memalchemy.codec.field_terms import OTHERS, FieldTerms
from memalchemy.codec.search_text import MARK
from memalchemy.codec.tokens import Term
from memalchemy.column_types import LogKey, UtcDateTime
from memalchemy.dialects import sqlite_text_tables
from memalchemy.dialects.base import (
    LOCKS,
    TEXT_INDEXES,
    Dialect,
    Failure,
    Maintenance,
    Statements,
    TextIndexes,
    Vectors,
    original,
)
from memalchemy.dialects.namespace_range import Live
from memalchemy.dialects.urls import EXPECTED, Target, display_path, single_value
from memalchemy.dialects.views import SQLiteViews, Views
from memalchemy.errors import UnknownURL
from memalchemy.keys import encode_id
from memalchemy.schema import NAME, NAMESPACE, TENANT, Base

BUSY_TIMEOUT_SECONDS = 30

PAGES_PER_STEP = 500
"""The pages that one step of giving space back moves or merges at most: some tens of milliseconds.
"""

_DIALECT = pysqlite.dialect()

# --- Statements ----------------------------------------------------------------------------------


class SQLiteStatements(Statements):
    """Upserts and JSON functions as SQLite 3.35 has them; lists are bound as JSON."""

    has_arrays: ClassVar[bool] = True

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
            # Without a condition ON CONFLICT would be read as one of a join.
            statement = statement.from_select(list(values), source.where(literal_column("1")))
        return statement.on_conflict_do_update(index_elements=key, set_=set_, where=where)

    def excluded(self, table: Table, column: str) -> ColumnElement[Any]:
        return insert(table).excluded[column]

    def lock(
        self,
        table: Table,
        where: ColumnElement[bool],
        columns: Sequence[Any],
        *,
        skip_locked: bool = False,
    ) -> Executable:
        # There is no FOR UPDATE, and a deferred transaction that reads before it writes cannot be
        # upgraded once somebody else has written; a write that changes nothing takes the lock. The
        # lock is the whole database's, so nobody else has locked a row.
        same = table.c.version
        locking = update(table).where(where).values({same: same}).returning(*columns)
        return locking.execution_options(**{LOCKS: True})

    def rows_from_arrays(self, prefix: str, columns: Mapping[str, Any]) -> FromClause:
        # JSON has no bytes: they are sent in one piece, and each row says where its own are.
        read = []
        for at, (name, type_) in enumerate(columns.items()):
            value = f"json_extract(each.value, '$[{at}]')"
            if _is_bytes(type_):
                place = ", ".join(f"json_extract(each.value, '$[{at}][{n}]')" for n in (0, 1))
                value = f"substr(:{prefix}_bytes, {place})"
            read.append(f"{value} AS {name}")
        rows = text(f"SELECT {', '.join(read)} FROM json_each(:{prefix}_rows) AS each")  # noqa: S608
        named = (column(name, type_) for name, type_ in columns.items())
        return rows.columns(*named).subquery(f"{prefix}_given")

    def array_binds(
        self, prefix: str, columns: Mapping[str, Any], lists: Mapping[str, Sequence[Any]]
    ) -> dict[str, Any]:
        given: list[Iterable[Any]] = []
        pieces: list[bytes] = []
        end = 0
        for name, type_ in columns.items():
            values = lists[name]
            if _is_bytes(type_):
                ends = list(accumulate(map(len, values), initial=end))
                given.append(
                    (start + 1, len(one)) for start, one in zip(ends, values, strict=False)
                )
                pieces += values
                end = ends[-1]
            else:
                bind = type_.dialect_impl(_DIALECT).bind_processor(_DIALECT)
                given.append(values if bind is None else map(bind, values))
        rows = orjson.dumps(list(zip(*given, strict=True))).decode()
        return {f"{prefix}_rows": rows, f"{prefix}_bytes": b"".join(pieces)}

    def rows_from_list(self, parameter: str, columns: Sequence[str]) -> FromClause:
        # JSON has no bytes: keys of logs are sent in one piece beside it, 16 bytes each.
        fields = ", ".join(
            f"substr(:{parameter}_logs, 16 * each.key + 1, 16) AS log_id"
            if name == "log_id"
            else f"json_extract(each.value, '$[{at}]') AS {name}"
            for at, name in enumerate(columns)
        )
        rows = text(f"SELECT {fields} FROM json_each(:{parameter}) AS each")  # noqa: S608
        # Materialised, it is the outer loop: the planner takes any table to be shorter than a list.
        made = (column(name, LogKey if name == "log_id" else None) for name in columns)
        names = rows.columns(*made).subquery("each_listed")
        return self.materialized(select(names), "listed")

    def materialized(self, rows: Select[Any], name: str) -> CTE:
        return rows.cte(name, nesting=True).prefix_with("MATERIALIZED")

    def computed_first(self, rows: Select[Any], name: str) -> FromClause:
        return self.materialized(rows, name)

    def list_binds(self, parameter: str, rows: Sequence[Sequence[Any]]) -> dict[str, Any]:
        binds: dict[str, Any] = {parameter: orjson.dumps(rows).decode()}
        keys = [value.bytes for row in rows for value in row if isinstance(value, UUID)]
        return binds | ({f"{parameter}_logs": b"".join(keys)} if keys else {})

    def json_equals(self, owner: Table, kind: str) -> ColumnElement[bool]:
        each = func.json_each(owner.c.meta).table_valued(
            "key", "type", "atom", "value", name="each"
        )
        types = {"text": ["text"], "number": ["integer", "real"], "container": ["object", "array"]}
        match: list[ColumnElement[bool]] = [each.c.key == bindparam("match_key")]
        if kind != "any":
            names = types.get(kind, [kind])
            match.append(or_(*(each.c.type == literal_column(f"'{t}'") for t in names)))
        if kind in ("text", "number"):
            match.append(each.c.atom == bindparam("match_value"))
        elif kind == "container":
            wanted = func.json(bindparam("match_value"))
            match.append(or_(each.c.value == wanted, _same_trees(each.c.value, wanted)))
        return select(literal_column("1")).select_from(each).where(*match).exists()

    def json_may_equal(self, owner: Table, kind: str) -> ColumnElement[bool] | None:
        # The only table with an index of its metadata, under whatever name a query has it.
        if getattr(getattr(owner, "element", owner), "name", None) != "checkpoints":
            return None
        if kind == "any":
            return None
        index = table("checkpoints_meta", column("rowid"))
        wanted = select(index.c.rowid).where(
            literal_column("checkpoints_meta").bool_op("MATCH")(_metadata_term(kind))
        )
        return _rowid_of(owner).in_(wanted)

    def json_equals_binds(self, key: str, value: Any, kind: str) -> dict[str, Any]:
        parameters: dict[str, Any] = {"match_key": key}
        if kind == "container":
            # As SQLAlchemy's serialiser spells what is stored: the texts are compared.
            parameters["match_value"] = json.dumps(value, sort_keys=True)
        elif kind in ("text", "number"):
            parameters["match_value"] = value
        return parameters

    def json_is(self, value: BinaryExpression[Any], kind: str) -> ColumnElement[bool]:
        # Of the object and the path: extracted, true is 1.
        names = {"number": ["integer", "real"], "boolean": ["true", "false"]}.get(kind, [kind])
        return func.json_type(value.left, value.right).in_(
            [literal_column(f"'{name}'") for name in names]
        )

    def keys_with_value(self, owner: Table, value: BindParameter[str]) -> Select[Any] | None:
        meta = owner.c.meta
        sound = case((func.json_valid(meta) == literal_column("1"), meta), else_=text("'{}'"))
        each = func.json_each(sound).table_valued("key", "type", "atom", name="each")
        scalars = each.c.type.in_([literal_column(f"'{t}'") for t in ("text", "integer", "real")])
        return (
            select(each.c.key.label("key"))
            .distinct()
            .select_from(owner.join(each, literal_column("1")))
            .where(scalars, cast(each.c.atom, Text) == value)
        )

    def json_is_object(self, column: ColumnElement[Any]) -> ColumnElement[int]:
        one, none = literal_column("1", Integer), literal_column("0", Integer)
        is_object = func.json_type(column) == literal_column("'object'")
        # The type is asked for only where it is JSON: of anything else it is an error.
        return case((func.json_valid(column) == none, none), (is_object, one), else_=none)

    def byte_length(self, value: ColumnElement[Any]) -> ColumnElement[int]:
        # octet_length came with 3.43. A length of bytes is in the row's header, that of a text not.
        if isinstance(value.type, String):
            return func.length(cast(value, LargeBinary))
        return func.length(value)

    def rowid(self, table: Table) -> ColumnElement[int] | None:
        # Kept by VACUUM too, where a table has an index; and rows lie in this order.
        return literal_column(f"{table.name}.rowid", Integer)


def _rowid_of(owner: Any) -> ColumnElement[int]:
    """Return the rowid of a table or of an alias, which none of the mapped columns is."""
    rowid = column("rowid", Integer)
    rowid.table = owner
    return rowid


def _is_bytes(type_: Any) -> bool:
    return isinstance(getattr(type_, "impl", type_), LargeBinary)


def _same_trees(a: ColumnElement[Any], b: ColumnElement[Any]) -> ColumnElement[bool]:
    """Return the condition that two containers of JSON are equal, numbers compared as numbers."""
    stored, wanted = _nodes_of(a, "stored"), _nodes_of(b, "wanted")
    return and_(~stored.except_(wanted).exists(), ~wanted.except_(stored).exists())


def _nodes_of(value: ColumnElement[Any], name: str) -> Select[Any]:
    """Select the nodes of a container, with what tells them from those of another one."""
    tree = func.json_tree(value).table_valued("path", "key", "type", "atom", name=name)
    kind = case(
        (tree.c.type == literal_column("'integer'"), literal_column("'real'")), else_=tree.c.type
    )
    return select(tree.c.path, tree.c.key, kind, tree.c.atom)


def _metadata_term(kind: str) -> ColumnElement[str]:
    """Return the word of a key and a value in the index of metadata."""
    # The value itself is compared again, so that the digits of a number and the end of a text that
    # the word lacks only widen the search.
    value: Any
    if kind == "text":
        value = literal_column("'t'").op("||")(func.substr(bindparam("match_value"), 1, 120))
    elif kind == "number":
        value = literal_column("'n'").op("||")(func.printf("%.12g", bindparam("match_value")))
    elif kind == "container":
        value = func.json_type(bindparam("match_value"))
    else:
        value = literal_column(f"'{kind}'")
    separated = bindparam("match_key").op("||")(func.char(31)).op("||")(value)
    return (
        literal_column("'\"'")
        .op("||")(func.lower(func.hex(separated)))
        .op("||")(literal_column("'\"'"))
    )


# --- Text indexes --------------------------------------------------------------------------------

# What follows is spelt as the triggers of the schema's first revision spell it.

_METADATA_TERMS = """(SELECT group_concat(lower(hex(key || char(31) || CASE
WHEN type = 'text' THEN 't' || substr(atom, 1, 120)
WHEN type IN ('integer', 'real') THEN 'n' || printf('%.12g', atom)
ELSE type END)), ' ') FROM json_each(checkpoints.meta))"""
"""The words of a checkpoint's metadata in their index."""

_LOG_SCOPE = "'x' || lower(hex(deltas.tenant))"
"""The word for the tenant of a row, beside the words of its text."""

_ITEM_SCOPE = "'x' || lower(hex(store_items.tenant || char(31) || store_items.namespace))"
"""The word for the tenant and the namespace of an item."""

_ITEM_IS_INDEXED = "(store_items.search_text IS NOT NULL OR store_items.field_terms IS NOT NULL)"

_FEW_HITS = 200
"""Rows with a word up to which those of other scopes are read too, and then left out: the index
skips them in as much time for each hit, because the word for a scope is in very many rows."""


def _terms_of_search(index: str, scope: str, of_all: str = "''") -> str:
    """Return the terms of a search, and what each matches in an index: in a scope, or in all.

    *scope* and *of_all* are expressions of what else has to match, where a term has many hits and
    where it has few.
    """
    return f"""WITH given AS MATERIALIZED (
SELECT value AS query, (SELECT count(*) FROM (SELECT 1 FROM {index}
WHERE {index} MATCH 'search_text : ' || value LIMIT {_FEW_HITS}
)) < {_FEW_HITS} AS few
FROM json_each(:terms)), asked AS MATERIALIZED (
SELECT query, few, CASE WHEN few THEN {of_all} ELSE {scope} || ' AND ' END
|| 'search_text : ' || query AS wanted FROM given)"""  # noqa: S608


def _join_logs(rowid: str, below: bool) -> str:
    """Return the joins from the index of logs to their rows, and the condition on these."""
    return (
        f"CROSS JOIN deltas ON deltas.rowid = {rowid} "
        "CROSS JOIN threads ON threads.log_id = deltas.log_id "
        f"WHERE {_scope_condition('threads', below)}"
    )


def _scope_condition(table: str, below: bool) -> str:
    within = f"{table}.tenant = :k_tenant AND {table}.namespace "
    beyond = f">= :k_namespace AND {table}.namespace < :k_beyond"
    return within + (beyond if below else "= :k_namespace")


_LOG_TERMS = _terms_of_search("deltas_search", ":log_scope")
_ITEM_TERMS = _terms_of_search("store_items_search", ":scope", ":fields")

_ITEM_PATH: ColumnClause[str] = column("namespace", NAMESPACE)
_ITEM_NAME: ColumnClause[str] = column("key", NAME)
_ITEM_TIME: ColumnClause[datetime] = column("updated_at", UtcDateTime)


_MAYBE_OF_AN_INDEX = ("SQLITE_CORRUPT", "SQLITE_ERROR", "SQLITE_CONSTRAINT", "SQLITE_MISMATCH")
"""The codes of errors that damage to a table of FTS5 was seen to raise without naming it."""


class SQLiteTextIndexes(TextIndexes):
    """FTS5 tables without content, kept up to date by triggers, also for the metadata.

    They do not know where in a text a word stands, which would be most of what they store.
    """

    finds_last_stored: ClassVar[bool] = True

    def term(self, term: Term) -> str:
        # In quotes a token is data to FTS5; it holds none.
        return f'"{term.text}"{" *" if term.prefix else ""}'

    def log_hits(self, below: bool = False) -> FromClause:
        return (
            text(
                f"{_LOG_TERMS} SELECT asked.query AS term, deltas.log_id AS log_id, "  # noqa: S608
                "deltas.seq AS seq FROM asked CROSS JOIN deltas_search ON deltas_search "
                f"MATCH asked.wanted {_join_logs('deltas_search.rowid', below)}"
            )
            .bindparams(bindparam("k_tenant", type_=TENANT))
            .columns(column("term"), column("log_id", LogKey), column("seq", Integer))
            .cte("hits")
        )

    def last_stored(self, below: bool, live: Live) -> FromClause:
        return (
            text(
                f"{_LOG_TERMS}, found AS MATERIALIZED (SELECT rowid AS row_at "  # noqa: S608
                "FROM deltas_search WHERE deltas_search MATCH (SELECT wanted FROM asked) "
                "ORDER BY rowid DESC LIMIT :p_window) "
                "SELECT asked.query AS term, deltas.log_id AS log_id, deltas.seq AS seq, "
                "(SELECT count(*) FROM found) AS found_rows, "
                "(SELECT min(row_at) FROM found) AS first_row "
                f"FROM asked CROSS JOIN found {_join_logs('found.row_at', below)}"
            )
            .bindparams(bindparam("k_tenant", type_=TENANT))
            .columns(column("term"), column("log_id", LogKey), column("seq", Integer))
            .cte("hits")
        )

    def are_newest_checkpoints(self, below: bool) -> ColumnElement[int]:
        # What was stored before the window is newer than what is in it if its times came with it
        # from another database. Its log was then active later than that, to the second.
        return (
            text(
                "SELECT CASE WHEN (SELECT max(found_rows) FROM hits) < :p_window THEN 1 "  # noqa: S608
                "WHEN (SELECT count(*) FROM best) < :p_limit THEN 0 "
                "WHEN EXISTS (SELECT 1 FROM (SELECT min(created_at) AS moment FROM best) AS oldest "
                "CROSS JOIN threads ON threads.active_at > oldest.moment - 1000000 "
                f"AND {_scope_condition('threads', below)} WHERE "
                "(SELECT checkpoints.created_at FROM checkpoints "
                "WHERE checkpoints.log_id = threads.log_id AND checkpoints.seq <= "
                "(SELECT max(deltas.seq) FROM deltas WHERE deltas.log_id = threads.log_id "
                "AND deltas.rowid < (SELECT max(first_row) FROM hits)) "
                "ORDER BY checkpoints.seq DESC LIMIT 1) >= oldest.moment) THEN 0 ELSE 1 END "
                "AS are_newest"
            )
            .bindparams(bindparam("k_tenant", type_=TENANT))
            .columns(column("are_newest", Integer))
            .scalar_subquery()
        )

    def log_scope_binds(self, tenant: str) -> Mapping[str, Any]:
        return {"log_scope": f'scope : "x{encode_id(tenant).encode().hex()}"'}

    def item_hits(self, below: bool, columns: Sequence[ColumnElement[Any]]) -> FromClause:
        return (
            text(
                f"{_ITEM_TERMS} SELECT asked.query AS term, store_items_search.rowid AS row_at "  # noqa: S608
                "FROM asked CROSS JOIN store_items_search "
                "ON store_items_search MATCH asked.wanted "
                "WHERE NOT asked.few OR EXISTS (SELECT 1 FROM store_items "
                "WHERE store_items.rowid = store_items_search.rowid "
                f"AND {_scope_condition('store_items', below)})"
            )
            .bindparams(bindparam("k_tenant", type_=TENANT))
            .columns(column("term"), column("row_at"))
            .cte("hits")
        )

    def items_in_scope(self, below: bool) -> FromClause:
        return (
            text(
                "SELECT store_items.namespace AS namespace, store_items.key AS key, "
                "store_items.updated_at AS updated_at FROM store_items_search "
                "CROSS JOIN store_items ON store_items.rowid = store_items_search.rowid "
                "WHERE store_items_search MATCH :scope"
            )
            .columns(_ITEM_PATH, _ITEM_NAME, _ITEM_TIME)
            .cte("within")
        )

    def item_scope_binds(
        self, tenant: str, path: str, below: bool, fields: Sequence[FieldTerms]
    ) -> Mapping[str, Any]:
        # The path of a namespace begins those of all below it, in hexadecimal too.
        word = f"{encode_id(tenant)}\x1f{path}".encode().hex()
        scope = f'scope : "x{word}"{" *" if below else ""}'
        wanted = list(map(self.field_query, fields))
        return {
            "scope": " AND ".join([scope, *wanted]),
            "fields": "".join(f"{one} AND " for one in wanted),
        }

    def has_fields(self, items: Any, query: ColumnElement[str]) -> ColumnElement[bool]:
        index = table("store_items_search", column("rowid"))
        found = literal_column("store_items_search").bool_op("MATCH")(query)
        return _rowid_of(items).in_(select(index.c.rowid).where(found))

    def field_query(self, field: FieldTerms) -> str:
        return f"field_terms : ({' OR '.join(_queries_of_field(field))})"

    def purge(self, index: str) -> Executable | None:
        # FTS5 only marks words as deleted; they stay in its segments until those are merged.
        return text(f"INSERT INTO {index}({index}) VALUES ('optimize')")  # noqa: S608

    def index_name(self, index: str, schema: str | None) -> str | None:
        return index

    def index_state(self) -> Executable | None:
        return text(
            "SELECT (SELECT count(*) FROM sqlite_schema WHERE type = 'trigger' AND name IN "
            "(:p_index || '_insert', :p_index || '_delete', :p_index || '_update')) = 3 AS in_use "
            "FROM sqlite_schema WHERE type = 'table' AND name = :p_index"
        )

    def check_integrity(self, index: str) -> Sequence[Executable]:
        # An INSERT, so it takes the write lock. Rank 1: with the rows too, not the structure alone.
        whole = f"INSERT INTO {index}({index}, rank) VALUES ('integrity-check', 1)"  # noqa: S608
        return [text(sql) for sql in (whole, *sqlite_text_tables.try_out(index))]

    def unindexed_rows(self, index: str) -> Executable | None:
        if index == "store_items_search":
            return _unindexed_items()
        if index == "deltas_search":
            owner, present = "deltas", "search_text IS NOT NULL"
            query = f"'scope : \"' || {_LOG_SCOPE} || '\" AND search_text : ' || "
            query += _first_words_query("deltas.search_text")
        else:
            owner, present = "checkpoints", "meta <> '{}' AND json_valid(meta)"
            query = _METADATA_TERMS
        return text(
            f"SELECT {owner}.seq AS seq FROM {owner} "  # noqa: S608
            f"WHERE log_id = :k_log_id AND seq BETWEEN :p_low AND :p_high AND {present} "
            f"AND NOT EXISTS (SELECT 1 FROM {index} "
            f"WHERE {index}.rowid = {owner}.rowid AND {index} MATCH {query}) ORDER BY seq"
        ).bindparams(bindparam("k_log_id", type_=LogKey))

    def rebuild(self, index: str) -> Sequence[Executable]:
        # Not 'rebuild': an index that keeps no content of its own does not know it, and a damaged
        # one could not be opened.
        return [text(sql) for sql in sqlite_text_tables.remake(index)]

    def may_have_raised(self, error: BaseException | None) -> bool:
        cause = None if error is None else original(error)
        return getattr(cause, "sqlite_errorname", None) in _MAYBE_OF_AN_INDEX

    def set_aside_damaged(self, connection: Connection, *, some_is: bool) -> Sequence[str]:
        return sqlite_text_tables.set_aside_damaged(connection, some_is=some_is)

    def is_aside(self, index: str) -> Executable | None:
        there = f"SELECT 1 FROM sqlite_schema WHERE name = '{index}'"  # noqa: S608
        return text(f"SELECT 1 AS is_aside WHERE NOT EXISTS ({there})")


def _queries_of_field(field: FieldTerms) -> Iterator[str]:
    """Yield the queries of FTS5 of which an item answers one, if its field may be as wanted."""
    yield from (f'"{word}"' for word in field.words)
    yield from (f'"{prefix}" *' for prefix in field.prefixes)
    if field.mark is not None:
        yield f'("{OTHERS}" NOT "{field.mark}")'


def _first_words_query(column: str) -> str:
    """Return the query of FTS5 for the first words of a text."""
    # The marks of a search text are no words, and FTS5 finds nothing by a term without letters.
    start = f"replace(substr({column}, 1, 400), '{MARK}', '')"
    column = f"trim(replace({start}, '  ', ' '))"
    # rtrim() by all characters but the space cuts the last word off, of which there may be a part.
    start = f"substr({column}, 1, 200)"
    cut = f"rtrim({start}, replace({start}, ' ', ''))"
    words = f"CASE WHEN length({column}) <= 200 THEN {column} ELSE rtrim({cut}) END"
    return f"'(\"' || replace({words}, ' ', '\" AND \"') || '\")'"


def _unindexed_items() -> Executable:
    """Query the items that their index does not find; see `TextIndexes.unindexed_rows`."""
    wanted = f"'scope : \"' || {_ITEM_SCOPE} || '\"'"
    for name in ("search_text", "field_terms"):
        column_ = f"store_items.{name}"
        wanted += f" || CASE WHEN {column_} IS NULL THEN '' ELSE ' AND {name} : ' || "
        wanted += f"{_first_words_query(column_)} END"
    return (
        text(
            "SELECT store_items.key AS key FROM store_items "  # noqa: S608
            "WHERE tenant = :k_tenant AND namespace = :k_namespace "
            f"AND key BETWEEN :p_low AND :p_high AND {_ITEM_IS_INDEXED} "
            "AND NOT EXISTS (SELECT 1 FROM store_items_search "
            "WHERE store_items_search.rowid = store_items.rowid "
            f"AND store_items_search MATCH {wanted}) ORDER BY key"
        )
        .bindparams(
            bindparam("k_tenant", type_=TENANT),
            bindparam("p_low", type_=NAME),
            bindparam("p_high", type_=NAME),
        )
        .columns(column("key", NAME))
    )


# --- Vectors -------------------------------------------------------------------------------------


class SQLiteVectors(Vectors):
    """Bytes of float32, which this process compares: see `memalchemy.search`."""

    computes_distances: ClassVar[bool] = False
    counts_changes: ClassVar[bool] = True


# --- Maintenance ---------------------------------------------------------------------------------

_STEPS = {
    "pages": "SELECT p.page_count, f.freelist_count, s.page_size, a.auto_vacuum "
    "FROM pragma_page_count AS p, pragma_freelist_count AS f, pragma_page_size AS s, "
    "pragma_auto_vacuum AS a",
    "changes": "SELECT total_changes() AS changes",
    # A negative number starts a merge of everything, as 'optimize', but ends it after so many.
    **{
        f"{verb} {index}": f"INSERT INTO {index}({index}, rank) VALUES ('merge', {pages})"  # noqa: S608
        for index in TEXT_INDEXES
        for verb, pages in (("start", -PAGES_PER_STEP), ("merge", PAGES_PER_STEP))
    },
    "give": f"PRAGMA incremental_vacuum({PAGES_PER_STEP})",
    "incremental": "PRAGMA auto_vacuum = INCREMENTAL",
    "whole": "VACUUM",
    # Emptying the log keeps writers out while it waits for readers, so it waits briefly.
    "patience": "PRAGMA busy_timeout = 100",
    "log": "PRAGMA wal_checkpoint(TRUNCATE)",
}


class SQLiteMaintenance(Maintenance):
    """PRAGMAs, and VACUUM in steps that leave room for other writers."""

    server_version: ClassVar[str] = "SELECT sqlite_version()"
    utc_now: ClassVar[str] = "CAST(strftime('%s', 'now') AS INTEGER) * 1000000"
    byte_literal: ClassVar[str] = "X'2D'"

    def lock_migrations(self, connection: Connection, schema: str | None) -> None:
        # BEGIN IMMEDIATE is the lock. The writer's transactions start with it; a host's driver may
        # not have begun at all yet: Python's begins before DML only.
        if not connection.connection.driver_connection.in_transaction:  # type: ignore[union-attr]
            connection.exec_driver_sql("BEGIN IMMEDIATE")

    def storage_faults(self, which: str) -> Executable | None:
        if which == "pages":
            return text(
                "SELECT integrity_check AS fault FROM pragma_integrity_check(100) "
                "WHERE integrity_check <> 'ok'"
            )
        # Rows of a log without its head, and vectors without their item, are named one by one by
        # the library itself.
        return text(
            "SELECT count(*) || ' rows of ' || \"table\" || ' refer to rows of ' || \"parent\" "
            "|| ' that are not there' AS fault FROM pragma_foreign_key_check "
            'WHERE "parent" NOT IN (\'threads\', \'store_items\') GROUP BY "table", "parent"'
        )

    def sizes(self, exact: bool) -> Executable | None:
        counted = (
            "SELECT pages.name AS name, coalesce(made.tbl_name, pages.name) AS owner, "
            "coalesce(made.type, 'table') AS kind, pages.bytes AS bytes "
            "FROM (SELECT name, sum(pgsize) AS bytes FROM dbstat GROUP BY name) AS pages "
            "LEFT JOIN sqlite_schema AS made ON made.name = pages.name"
        )
        query = counted if exact else " UNION ALL ".join(_size_estimates())
        return text(query).columns(*(column(name) for name in ("name", "owner", "kind", "bytes")))

    def counts_pages(self) -> Executable | None:
        return text("SELECT count(*) FROM pragma_module_list WHERE name = 'dbstat'")

    def step(self, what: str) -> Executable | None:
        return text(_STEPS[what]) if what in _STEPS else None

    def grants(self, role: str, schema: str | None, tables: Sequence[str]) -> list[str]:
        return []


def _size_estimates() -> list[str]:
    """Return queries of sizes from the lengths of values, for a SQLite without dbstat."""
    found, indexes_here = [], _indexes_of_sqlite()
    for name, made in Base.metadata.tables.items():
        columns = " + ".join(f"coalesce(length({c.name}), 0)" for c in made.columns)
        indexes: list[Any] = [made.primary_key, *_by_name(made.indexes & indexes_here)]
        indexes += _by_name(_unique_constraints(made))
        found.append(_size_estimate(name, name, "table", columns))
        for index in indexes:
            if index.columns:
                keys = " + ".join(f"coalesce(length({c.name}), 0)" for c in index.columns)
                found.append(_size_estimate(str(index.name), name, "index", keys))
    for index_name, owner in TEXT_INDEXES.items():
        data = f"{index_name}_data"
        found.append(
            f"SELECT '{data}', '{owner}', 'index', coalesce(sum(length(block)), 0) FROM {data}"  # noqa: S608
        )
    return found


def _indexes_of_sqlite() -> set[Index]:
    """Return the indexes of the tables, without those of other databases alone."""
    made: list[Any] = []
    engine = create_mock_engine("sqlite://", lambda ddl, *_, **__: made.append(ddl))
    Base.metadata.create_all(engine, checkfirst=False)
    return {ddl.element for ddl in made if isinstance(ddl, CreateIndex)}


def _by_name(constructs: Iterable[Any]) -> list[Any]:
    return sorted(constructs, key=lambda one: str(one.name))


def _unique_constraints(made: Table) -> list[UniqueConstraint]:
    return [one for one in made.constraints if isinstance(one, UniqueConstraint)]


def _size_estimate(name: str, owner: str, kind: str, lengths: str) -> str:
    # Beside the values a cell has a header, a rowid and its share of the page.
    return (
        f"SELECT '{name}' AS name, '{owner}' AS owner, '{kind}' AS kind, "  # noqa: S608
        f"coalesce(sum({lengths} + 16), 0) AS bytes FROM {owner}"
    )


_PASSING = (sqlite3.SQLITE_BUSY, sqlite3.SQLITE_LOCKED, sqlite3.SQLITE_INTERRUPT)

# --- The dialect ---------------------------------------------------------------------------------


class SQLite(Dialect):
    """A SQLite file, or a database in memory, in this process."""

    name: ClassVar[str] = "sqlite"
    sqlalchemy_name: ClassVar[str] = "sqlite"
    single_writer: ClassVar[bool] = True
    dynamic_types: ClassVar[bool] = True
    driver_errors: ClassVar[tuple[type[Exception], ...]] = (sqlite3.Error,)

    statements: Statements = SQLiteStatements()
    text: TextIndexes = SQLiteTextIndexes()
    vectors: Vectors = SQLiteVectors()
    maintenance: Maintenance = SQLiteMaintenance()
    views: Views = SQLiteViews()

    def read_url(self, url: URL, driver: str) -> Target:
        if driver not in ("", "aiosqlite", "pysqlite"):
            raise UnknownURL(f"memalchemy does not use the SQLite driver {driver!r}; {EXPECTED}")
        if url.host:
            raise UnknownURL(
                f"{self.name}://{url.host}/… names a host; a relative file is "
                f"{self.name}:///{url.host}, an absolute one has four slashes"
            )
        if url.query.keys() - {"mode"}:
            raise UnknownURL(
                "a SQLite URL takes no parameters but mode=ro, got "
                f"{', '.join(sorted(url.query))}; durability= is an argument of Database"
            )
        mode = single_value("mode", url.query.get("mode", ""))
        if mode not in ("", "ro"):
            raise UnknownURL(
                "mode in a SQLite URL is ro, which opens the file read-only; without it the file "
                "is read and written"
            )
        path = None if url.database in (None, "", ":memory:") else url.database
        shown = display_path(self.name, path)
        return Target(
            self.name,
            URL.create(self.sqlalchemy_name, database=path),
            shown,
            path,
            read_only=mode == "ro",
        )

    def in_transaction(self, raw: Any) -> bool:
        try:
            return bool(raw.in_transaction)
        except ValueError:  # aiosqlite: it is closed
            return False

    def abandon(self, raw: Any) -> bool:
        if not hasattr(raw, "stop"):  # aiosqlite before 0.22.1
            return False
        raw.stop()  # it closes the connection in its own thread, behind what was asked of it
        return True

    def classify(self, error: BaseException) -> tuple[Failure, str | None]:
        cause = original(error)
        if not isinstance(cause, sqlite3.Error):
            return Failure.OTHER, None
        code = getattr(cause, "sqlite_errorcode", 0) or 0
        name = getattr(cause, "sqlite_errorname", None)
        primary = code & 0xFF
        if code == sqlite3.SQLITE_CORRUPT_VTAB or (
            primary not in _PASSING and sqlite_text_tables.names_text_index(str(cause))
        ):
            return Failure.TEXT_INDEX, name
        if code in (sqlite3.SQLITE_CONSTRAINT_UNIQUE, sqlite3.SQLITE_CONSTRAINT_PRIMARYKEY):
            return Failure.UNIQUE, name
        if code == sqlite3.SQLITE_IOERR_SHMSIZE:  # no room for the -shm file: opening wants 32 KB
            return Failure.FULL, name
        failure = {
            sqlite3.SQLITE_BUSY: Failure.BUSY,
            sqlite3.SQLITE_LOCKED: Failure.BUSY,
            sqlite3.SQLITE_INTERRUPT: Failure.BUSY,
            sqlite3.SQLITE_CANTOPEN: Failure.UNREACHABLE,
            sqlite3.SQLITE_READONLY: Failure.PERMISSION,
            sqlite3.SQLITE_PERM: Failure.PERMISSION,
            sqlite3.SQLITE_AUTH: Failure.PERMISSION,
            sqlite3.SQLITE_FULL: Failure.FULL,
            sqlite3.SQLITE_CORRUPT: Failure.CORRUPT,
            sqlite3.SQLITE_NOTADB: Failure.CORRUPT,
        }.get(primary)
        if failure is not None:
            return failure, name
        # SQLITE_ERROR covers every mistake in SQL; only the text tells a missing table apart.
        if isinstance(error, DBAPIError) and "no such table" in str(cause):
            return Failure.MISSING_TABLE, name
        return Failure.OTHER, name


def prepare_connection(
    connection: sqlite3.Connection,
    *,
    synchronous: str,
    read_only: bool = False,
    busy_timeout: float | None = None,
) -> None:
    """Set up a connection that memalchemy owns; *busy_timeout* is in seconds.

    auto_vacuum can be chosen only before the first page is written, so before WAL too.
    """
    if sqlite3.sqlite_version_info < (3, 35, 0):
        raise sqlite3.NotSupportedError(
            f"SQLite {sqlite3.sqlite_version} is too old: memalchemy needs 3.35 (RETURNING)"
        )
    seconds = BUSY_TIMEOUT_SECONDS if busy_timeout is None else busy_timeout
    connection.execute(f"PRAGMA busy_timeout = {max(1, round(seconds * 1000))}")
    connection.execute("PRAGMA foreign_keys = ON")
    if read_only:
        connection.execute("PRAGMA query_only = ON")
        return
    if connection.execute("PRAGMA page_count").fetchone() == (0,):
        connection.execute("PRAGMA auto_vacuum = INCREMENTAL")
    connection.execute("PRAGMA journal_mode = WAL")
    connection.execute(f"PRAGMA synchronous = {synchronous}")
    # Deleted rows are overwritten in pages that are written anyway. ON would overwrite pages that
    # become free, too, and makes a prune a quarter slower: `forget` cuts them off instead.
    connection.execute("PRAGMA secure_delete = FAST")
