"""The rows that may lack words, and the statements that read them and give them words."""

from __future__ import annotations

from typing import Any

from sqlalchemy import (
    ColumnElement,
    Executable,
    Integer,
    Text,
    and_,
    bindparam,
    func,
    literal_column,
    not_,
    or_,
    select,
    update,
)

from memalchemy.codec.field_terms import OTHERS
from memalchemy.codec.search_text import MARK
from memalchemy.dialects import Dialect
from memalchemy.keys import INTERNAL_RANGE
from memalchemy.log.tables import (
    CHECKPOINTS,
    DELTAS,
    THREADS,
    column_binds,
    constants,
    of_log,
    same_log,
)
from memalchemy.proofs import REPORTED
from memalchemy.rows import DELTA, ITEM
from memalchemy.search.scope import ITEMS, is_listed, of_item
from memalchemy.statements import after_key, column_bind, statement

TABLES = ("deltas", "store_items")
SCOPES = ("tenant", "thread")


def _may_lack_words(dialect: Dialect, table: str, scope: str) -> ColumnElement[bool] | None:
    """Return the condition on rows that may lack words; ``None`` where there are none to look for.

    Items that are memalchemy's own have none.
    """
    if table == "deltas":
        names = ("tenant", "thread_id")[: 1 if scope == "tenant" else 2]
        return and_(
            *(THREADS.c[name] == column_bind(THREADS.c[name], "k") for name in names),
            _has_none_of_this_version(DELTAS),
            DELTAS.c.kind.not_in(constants("write")),
        )
    if scope == "thread":
        return None
    length = dialect.statements.byte_length(ITEMS.c.field_terms)
    own = and_(
        ITEMS.c.namespace >= literal_column(f"'{INTERNAL_RANGE[0]}'"),
        ITEMS.c.namespace < literal_column(f"'{INTERNAL_RANGE[1]}'"),
    )
    return and_(
        ITEMS.c.tenant == column_bind(ITEMS.c.tenant, "k"),
        not_(own),
        or_(
            _has_none_of_this_version(ITEMS),
            ITEMS.c.field_terms.is_(None),
            length <= literal_column(str(len(OTHERS)), Integer),
        ),
    )


def _has_none_of_this_version(table: Any) -> ColumnElement[bool]:
    """Return the condition that a row has no words by the rules of this release."""
    one = literal_column("1", Integer)
    first = func.substr(table.c.search_text, one, one, type_=Text)
    return or_(table.c.search_text.is_(None), first != literal_column(f"'{MARK}'", Text))


def _source_table(table: str) -> Any:
    return ITEMS if table == "store_items" else DELTAS.join(THREADS, same_log(THREADS, DELTAS))


@statement(table=TABLES, scope=SCOPES)
def count_wordless(dialect: Dialect, table: str, scope: str) -> Executable | None:
    """Count the rows that may lack words."""
    where = _may_lack_words(dialect, table, scope)
    return (
        None
        if where is None
        else select(func.count()).select_from(_source_table(table)).where(where)
    )


@statement(proves="changed row", table=TABLES, scope=SCOPES, after=(True, False))
def list_wordless(dialect: Dialect, table: str, scope: str, after: bool) -> Executable | None:
    """Select a page of the rows that may lack words of this version, in the order of their keys."""
    where = _may_lack_words(dialect, table, scope)
    if where is None:
        return None
    if table == "store_items":
        rows: Any = ITEMS
        key: tuple[str, ...] = ("namespace", "key")
        columns = [*(ITEMS.c[name] for name in key), ITEMS.c.value]
    else:
        at = and_(same_log(CHECKPOINTS, DELTAS), CHECKPOINTS.c.seq == DELTAS.c.seq)
        rows, key = _source_table(table).outerjoin(CHECKPOINTS, at), ("log_id", "seq")
        columns = [
            *(DELTAS.c[name] for name in (*key, "kind", "codec", "checksum")),
            *(THREADS.c[name] for name in ("thread_id", "namespace")),
            *(CHECKPOINTS.c[name] for name in ("checkpoint_id", "parent_id")),
            DELTAS.c.search_text,
            DELTAS.c.payload,
        ]
    stored = dialect.statements.byte_length(columns.pop()).label("stored")
    query = select(*columns, stored).select_from(rows).where(where)
    source = ITEMS if table == "store_items" else DELTAS
    if after:
        query = query.where(after_key(dialect, source, key))
    return query.order_by(*(source.c[name] for name in key)).limit(bindparam("p_limit"))


@statement(unproven=REPORTED, kind=("logs", "items"))
def find_words(dialect: Dialect, kind: str) -> Executable:
    """Select a row of a tenant that has words."""
    names, rows, words = ITEMS, _source_table("store_items"), ITEMS.c.search_text
    if kind == "logs":
        names, rows, words = THREADS, _source_table("deltas"), DELTAS.c.search_text
    here = names.c.tenant == column_bind(names.c.tenant, "k")
    found = select(names.c.namespace).select_from(rows).where(here, words.is_not(None))
    return found.limit(bindparam("p_limit"))


@statement(proves="changed row")
def read_entries_of_range(dialect: Dialect) -> Executable:
    """Select the entries of a range of positions of a log."""
    seq = DELTAS.c.seq
    low, high = (bindparam(name, type_=seq.type) for name in ("p_low", "p_high"))
    columns = (DELTAS.c[name] for name in ("seq", "codec", "checksum", "payload"))
    entries = DELTAS.c.kind.in_(constants("entry"))
    return select(*columns).where(of_log(DELTAS), entries, seq >= low, seq <= high).order_by(seq)


@statement(proves="changed row")
def read_wordless_items(dialect: Dialect) -> Executable:
    """Select the items of a tenant that ``p_keys`` lists, with their words, expired ones too."""
    columns = ("namespace", "key", "meta", "version", "codec", "checksum")
    tenant = ITEMS.c.tenant == column_bind(ITEMS.c.tenant, "k")
    return select(
        *(ITEMS.c[name] for name in (*columns, "search_text", "field_terms", "value"))
    ).where(tenant, is_listed(dialect, ITEMS))


def _is_as_read(table: Any) -> list[ColumnElement[bool]]:
    return [
        table.c[name] == bindparam(f"p_was_{name}", type_=table.c[name].type)
        for name in ("codec", "checksum")
    ]


@statement(changes=DELTA)
def give_delta_words(dialect: Dialect) -> Executable:
    """Set the words of a row of a log that has none of this version, if it is as it was read.

    The words that it takes over from pruned checkpoints make its text longer.
    """
    here = DELTAS.c.seq == column_bind(DELTAS.c.seq, "p")
    length = func.coalesce(func.length(DELTAS.c.search_text), literal_column("0", Integer))
    same_text = length == bindparam("p_was_length", type_=Integer)
    none = _has_none_of_this_version(DELTAS)
    changing = update(DELTAS).where(of_log(DELTAS), here, none, same_text, *_is_as_read(DELTAS))
    return changing.values(column_binds(DELTAS, ["search_text"]))


@statement(changes=ITEM)
def give_item_words(dialect: Dialect) -> Executable:
    """Set the words and field terms of an item, if it is still what was read."""
    version = ITEMS.c.version == column_bind(ITEMS.c.version, "p")
    changing = update(ITEMS).where(of_item(ITEMS), version, *_is_as_read(ITEMS))
    return changing.values(column_binds(ITEMS, ["search_text", "field_terms"]))
