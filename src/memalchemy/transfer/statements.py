"""The statements of a copy: pages of the five tables by their keys, look-ups, inserts."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from sqlalchemy import (
    ColumnElement,
    Executable,
    Table,
    and_,
    bindparam,
    delete,
    func,
    insert,
    literal_column,
    select,
)

from memalchemy.database.key_registry import KEYS_NAMESPACE
from memalchemy.dialects import Dialect
from memalchemy.log.tables import CHECKPOINTS, DELTAS, NAMES, THREADS, of_log
from memalchemy.schema import EmbeddingRow, StoreItemRow
from memalchemy.search.counting import COUNTERS
from memalchemy.statements import beyond, bound, statement

ITEMS: Table = StoreItemRow.__table__  # type: ignore[assignment]
EMBEDDINGS: Table = EmbeddingRow.__table__  # type: ignore[assignment]
ITEM_KEY = ("tenant", "namespace", "key")
HOUSE = "'~'"
"""The tenant of what the library keeps about the database itself, which is not copied."""

_LISTED: dict[str, tuple[Table, tuple[str, ...]]] = {
    "threads": (THREADS, NAMES),
    "store_items": (ITEMS, ITEM_KEY),
}
_OF_A_LOG: dict[str, Table] = {"checkpoints": CHECKPOINTS, "deltas": DELTAS}


def _whose(table: Table, scope: str) -> ColumnElement[bool]:
    whose = table.c.tenant == bindparam("k_tenant")
    if scope == "all":
        whose = table.c.tenant != literal_column(HOUSE)
    if table is not ITEMS:
        return whose
    # How often vectors were changed is counted by each database for itself; of a key that both
    # sides were written with each has a mark of its own.
    own: list[ColumnElement[str]] = [
        literal_column(f"'{name}'") for name in (COUNTERS, KEYS_NAMESPACE)
    ]
    return and_(whose, *(table.c.namespace != name for name in own))


def _of_item(table: Table) -> ColumnElement[bool]:
    return and_(*(table.c[name] == bound(table.c[name], "k") for name in ITEM_KEY))


@statement(scope=("tenant", "all"), after=(True, False))
def list_heads(d: Dialect, scope: str, after: bool) -> Executable:
    """A page of heads, tombstones included, in the order of their keys."""
    return _page(d, "threads", THREADS.c, scope, after)


@statement(scope=("tenant", "all"), after=(True, False))
def list_items(d: Dialect, scope: str, after: bool) -> Executable:
    """A page of the keys of items, in their order."""
    return _page(d, "store_items", [ITEMS.c[name] for name in ITEM_KEY], scope, after)


def _page(d: Dialect, listed: str, columns: Iterable[Any], scope: str, after: bool) -> Executable:
    table, key = _LISTED[listed]
    query = (
        select(*columns)
        .where(_whose(table, scope))
        .order_by(*(table.c[name] for name in key))
        .limit(bindparam("p_limit"))
    )
    # Of one tenant the rest of the key is compared, so that the index starts at the page.
    compared = key[1:] if scope == "tenant" else key
    return query.where(beyond(d, table, compared)) if after else query


@statement(table=tuple(_LISTED), scope=("tenant", "all"))
def count_rows(d: Dialect, table: str, scope: str) -> Executable:
    """How many logs or items there are to copy."""
    listed, _ = _LISTED[table]
    return select(func.count()).select_from(listed).where(_whose(listed, scope))


@statement()
def read_log_head(d: Dialect) -> Executable:
    """The whole head of a log."""
    return select(*THREADS.c).where(of_log(THREADS))


@statement(table=tuple(_OF_A_LOG))
def list_positions(d: Dialect, table: str) -> Executable:
    """The next positions of a log, and how many bytes each has."""
    rows = _OF_A_LOG[table]
    size = func.length(DELTAS.c.payload) if rows is DELTAS else literal_column("0")
    return (
        select(rows.c.seq, size.label("stored"))
        .where(of_log(rows), rows.c.seq > bindparam("p_after", type_=rows.c.seq.type))
        .order_by(rows.c.seq)
        .limit(bindparam("p_limit"))
    )


@statement(table=tuple(_OF_A_LOG))
def read_rows(d: Dialect, table: str) -> Executable:
    """The rows of a log after one position and up to another, payloads too."""
    rows = _OF_A_LOG[table]
    seq = rows.c.seq
    return (
        select(*rows.c)
        .where(
            of_log(rows),
            seq > bindparam("p_after", type_=seq.type),
            seq <= bindparam("p_until", type_=seq.type),
        )
        .order_by(seq)
    )


@statement()
def read_item(d: Dialect) -> Executable:
    """One item, whole."""
    return select(*ITEMS.c).where(_of_item(ITEMS))


@statement(native=(True, False))
def read_embeddings(d: Dialect, native: bool) -> Executable | None:
    """The vectors of one item."""
    if not native and not d.vectors.may_be_bytes:
        return None
    columns = [column for column in EMBEDDINGS.c if column.name != "vector"]
    vector = d.vectors.readable(EMBEDDINGS.c.vector, native).label("vector")
    key = (EMBEDDINGS.c[name] for name in ("field", "model", "part"))
    return select(*columns, vector).where(_of_item(EMBEDDINGS)).order_by(*key)


_FILLED: dict[str, Table] = {**_OF_A_LOG, "threads": THREADS, "store_items": ITEMS}


@statement(table=tuple(_FILLED))
def insert_row(d: Dialect, table: str) -> Executable:
    """Insert a row as it is in another database."""
    return insert(_FILLED[table]).values({c.name: bound(c, "p") for c in _FILLED[table].c})


@statement(native=(True, False))
def insert_embedding(d: Dialect, native: bool) -> Executable | None:
    """Insert a vector of an item."""
    if not native and not d.vectors.may_be_bytes:
        return None
    values: dict[str, Any] = {c.name: bound(c, "p") for c in EMBEDDINGS.c}
    return insert(EMBEDDINGS).values(values | {"vector": d.vectors.bind("p_vector", native)})


@statement()
def remove_item(d: Dialect) -> Executable:
    """Delete an item that is still at the version it was seen at; its vectors go with it."""
    version = ITEMS.c.version == bindparam("p_version", type_=ITEMS.c.version.type)
    return delete(ITEMS).where(_of_item(ITEMS), version)


@statement()
def remove_embeddings(d: Dialect) -> Executable:
    """Delete the vectors of an item."""
    return delete(EMBEDDINGS).where(_of_item(EMBEDDINGS))
