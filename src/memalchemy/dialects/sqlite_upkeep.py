"""The upkeep of a SQLite file: whether it and its text indexes are whole, its size, free space.

Knows nothing of how rows are written, searched or locked: that is `dialects.sqlite`.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

from sqlalchemy import (
    ColumnElement,
    Executable,
    LargeBinary,
    String,
    Table,
    UniqueConstraint,
    bindparam,
    cast,
    column,
    func,
    text,
)

from memalchemy.column_types import LogKey
from memalchemy.dialects.base import TEXT_INDEXES, Dialect
from memalchemy.schema import NAME, TENANT, Base

META_TERMS = """(SELECT group_concat(lower(hex(key || char(31) || CASE
WHEN type = 'text' THEN 't' || substr(atom, 1, 120)
WHEN type IN ('integer', 'real') THEN 'n' || printf('%.12g', atom)
ELSE type END)), ' ') FROM json_each(checkpoints.meta))"""
"""What the triggers put into the index of metadata for a row."""

LOG_SCOPE = "'x' || lower(hex(deltas.tenant))"
"""What the triggers put into the index of search texts beside a row's text: its tenant."""

ITEM_SCOPE = "'x' || lower(hex(store_items.tenant || char(31) || store_items.namespace))"
ITEM_THERE = "(store_items.search_text IS NOT NULL OR store_items.field_terms IS NOT NULL)"
"""As the triggers have it."""

PAGES_AT_ONCE = 500
"""How many pages one step of giving space back may move or merge: some tens of milliseconds."""

_MAINTENANCE = {
    "pages": "SELECT p.page_count, f.freelist_count, s.page_size, a.auto_vacuum "
    "FROM pragma_page_count AS p, pragma_freelist_count AS f, pragma_page_size AS s, "
    "pragma_auto_vacuum AS a",
    "changes": "SELECT total_changes() AS changes",
    # A negative number starts a merge of everything, as 'optimize', but ends it after so many.
    **{
        f"{verb} {index}": f"INSERT INTO {index}({index}, rank) VALUES ('merge', {pages})"  # noqa: S608
        for index in TEXT_INDEXES
        for verb, pages in (("start", -PAGES_AT_ONCE), ("merge", PAGES_AT_ONCE))
    },
    "give": f"PRAGMA incremental_vacuum({PAGES_AT_ONCE})",
    "incremental": "PRAGMA auto_vacuum = INCREMENTAL",
    "whole": "VACUUM",
    # Emptying the log keeps writers out while it waits for readers.
    "patience": "PRAGMA busy_timeout = 100",
    "log": "PRAGMA wal_checkpoint(TRUNCATE)",
}


class Upkeep(Dialect):
    """What `memalchemy.verify` and `memalchemy.space` ask of SQLite."""

    def purge_text_index(self, index: str) -> Executable | None:
        # FTS5 only marks words as deleted; they stay in its segments until those are merged.
        return text(f"INSERT INTO {index}({index}) VALUES ('optimize')")  # noqa: S608

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

    def prove_text_index(self, index: str) -> Executable | None:
        # An INSERT, so it takes the write lock. Rank 1: with the rows too, not the structure alone.
        return text(f"INSERT INTO {index}({index}, rank) VALUES ('integrity-check', 1)")  # noqa: S608

    def text_unfindable(self, index: str) -> Executable | None:
        if index == "store_items_search":
            return _items_unfindable()
        if index == "deltas_search":
            owner, present = "deltas", "search_text IS NOT NULL"
            query = f"'scope : \"' || {LOG_SCOPE} || '\" AND search_text : ' || "
            query += _phrase("deltas.search_text")
        else:
            owner, present = "checkpoints", "meta <> '{}' AND json_valid(meta)"
            query = META_TERMS
        return text(
            f"SELECT {owner}.seq AS seq FROM {owner} "  # noqa: S608
            f"WHERE log_id = :k_log_id AND seq BETWEEN :p_low AND :p_high AND {present} "
            f"AND NOT EXISTS (SELECT 1 FROM {index} "
            f"WHERE {index}.rowid = {owner}.rowid AND {index} MATCH {query}) ORDER BY seq"
        ).bindparams(bindparam("k_log_id", type_=LogKey))

    def rebuild_text_index(self, index: str) -> Sequence[Executable]:
        # Not 'rebuild': an index that keeps no content of its own does not know it.
        fill = {
            "deltas_search": "INSERT INTO deltas_search(rowid, search_text, scope) "  # noqa: S608
            f"SELECT rowid, search_text, {LOG_SCOPE} FROM deltas WHERE search_text IS NOT NULL",
            "checkpoints_meta": "INSERT INTO checkpoints_meta(rowid, terms) "  # noqa: S608
            f"SELECT rowid, {META_TERMS} FROM checkpoints WHERE meta <> '{{}}'",
            "store_items_search": "INSERT INTO store_items_search"  # noqa: S608
            f"(rowid, scope, search_text, field_terms) SELECT rowid, {ITEM_SCOPE}, search_text, "
            f"field_terms FROM store_items WHERE {ITEM_THERE}",
        }[index]
        return (text(f"INSERT INTO {index}({index}) VALUES ('delete-all')"), text(fill))  # noqa: S608

    def byte_length(self, value: ColumnElement[Any]) -> ColumnElement[int]:
        # octet_length came with 3.43. A length of bytes is in the row's header, that of a text not.
        if isinstance(value.type, String):
            return func.length(cast(value, LargeBinary))
        return func.length(value)

    def sizes(self, exact: bool) -> Executable | None:
        counted = (
            "SELECT pages.name AS name, coalesce(made.tbl_name, pages.name) AS owner, "
            "coalesce(made.type, 'table') AS kind, pages.bytes AS bytes "
            "FROM (SELECT name, sum(pgsize) AS bytes FROM dbstat GROUP BY name) AS pages "
            "LEFT JOIN sqlite_schema AS made ON made.name = pages.name"
        )
        query = counted if exact else " UNION ALL ".join(_guesses())
        return text(query).columns(*(column(name) for name in ("name", "owner", "kind", "bytes")))

    def counts_pages(self) -> Executable | None:
        return text("SELECT count(*) FROM pragma_module_list WHERE name = 'dbstat'")

    def maintenance(self, what: str) -> Executable | None:
        return text(_MAINTENANCE[what]) if what in _MAINTENANCE else None


def _phrase(column: str) -> str:
    """The first words of a text as one phrase for FTS5."""
    # rtrim() by all characters but the space cuts the last word off, of which there may be a part.
    start = f"substr({column}, 1, 200)"
    cut = f"rtrim({start}, replace({start}, ' ', ''))"
    return f"'\"' || CASE WHEN length({column}) <= 200 THEN {column} ELSE {cut} END || '\"'"


def _items_unfindable() -> Executable:
    """`Dialect.text_unfindable` of the index of items."""
    wanted = f"'scope : \"' || {ITEM_SCOPE} || '\"'"
    for name in ("search_text", "field_terms"):
        column_ = f"store_items.{name}"
        wanted += f" || CASE WHEN {column_} IS NULL THEN '' ELSE ' AND {name} : ' || "
        wanted += f"{_phrase(column_)} END"
    return (
        text(
            "SELECT store_items.key AS key FROM store_items "  # noqa: S608
            "WHERE tenant = :k_tenant AND namespace = :k_namespace "
            f"AND key BETWEEN :p_low AND :p_high AND {ITEM_THERE} "
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


def _guesses() -> list[str]:
    """Sizes from the lengths of values, for a SQLite that was built without dbstat."""
    found = []
    for name, made in Base.metadata.tables.items():
        columns = " + ".join(f"coalesce(length({c.name}), 0)" for c in made.columns)
        indexes: list[Any] = [made.primary_key, *_by_name(made.indexes), *_by_name(_unique(made))]
        found.append(_guess(name, name, "table", columns))
        for index in indexes:
            if index.columns and getattr(index, "_ddl_if", None) is None:
                keys = " + ".join(f"coalesce(length({c.name}), 0)" for c in index.columns)
                found.append(_guess(str(index.name), name, "index", keys))
    for index_name, owner in TEXT_INDEXES.items():
        data = f"{index_name}_data"
        found.append(
            f"SELECT '{data}', '{owner}', 'index', coalesce(sum(length(block)), 0) FROM {data}"  # noqa: S608
        )
    return found


def _by_name(constructs: Iterable[Any]) -> list[Any]:
    return sorted(constructs, key=lambda one: str(one.name))


def _unique(made: Table) -> list[UniqueConstraint]:
    return [one for one in made.constraints if isinstance(one, UniqueConstraint)]


def _guess(name: str, owner: str, kind: str, lengths: str) -> str:
    # Beside the values a cell has a header, a rowid and its share of the page.
    return (
        f"SELECT '{name}' AS name, '{owner}' AS owner, '{kind}' AS kind, "  # noqa: S608
        f"coalesce(sum({lengths} + 16), 0) AS bytes FROM {owner}"
    )
