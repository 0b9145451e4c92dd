"""The statements of a key rotation, and the tables whose rows are encrypted."""

from __future__ import annotations

from typing import Any, NamedTuple

from sqlalchemy import (
    ColumnElement,
    Executable,
    Integer,
    Table,
    and_,
    bindparam,
    case,
    func,
    literal_column,
    null,
    select,
    update,
)

from memalchemy.codec.encryption import (
    CODEC_SUFFIX,
    OVERHEAD,
    PREFIX_BYTES,
)
from memalchemy.codec.field_terms import OTHERS
from memalchemy.dialects import Dialect
from memalchemy.log.tables import CHECKPOINTS, DELTAS, THREADS, of_log, same_log
from memalchemy.maintenance.local_items import is_not_local
from memalchemy.proofs import COUNTED, REMOVED_BY_NAME, REPORTED
from memalchemy.rows import CHECKPOINT, DELTA, ITEM
from memalchemy.search.scope import (
    EMBEDDINGS,
    ITEM_KEY,
    ITEMS,
    is_listed,
    of_item,
)
from memalchemy.statements import after_key, statement

PAGE = 1000
"""The number of rows that are listed together."""


class Rotated(NamedTuple):
    """A table whose rows are encrypted."""

    table: Table
    key: tuple[str, ...]
    payload_bind: str


TABLES = {
    "deltas": Rotated(DELTAS, ("log_id", "seq"), "p_payload"),
    "store_items": Rotated(ITEMS, ITEM_KEY, "p_value"),
}
SCOPES = ("tenant", "all")
WORDS = ("kept", "dropped")


def _in_scope(table: Table, scope: str) -> ColumnElement[bool]:
    """The rows of a tenant or of all, without those that have no payload of a tenant's."""
    if scope == "tenant":
        of_tenant = table.c.tenant == bindparam("k_tenant", type_=table.c.tenant.type)
    else:
        of_tenant = table.c.tenant != literal_column("'~'")
    return and_(of_tenant, is_not_local()) if table is ITEMS else of_tenant


def _payload_column(table: Table) -> Any:
    return table.c.payload if table is DELTAS else table.c.value


def _state_columns(dialect: Dialect, table: Table) -> list[Any]:
    """Return columns that say how a row is stored.

    They are its ``codec``; of an encrypted one the bytes that it ``begins`` with; whether it
    ``has_words`` and ``has_fields`` that the database can read.
    """
    yes, no = literal_column("1", Integer), literal_column("0", Integer)
    is_encrypted = table.c.codec.like(literal_column(f"'%{CODEC_SUFFIX}'"))
    fields: ColumnElement[Any] = no
    if table is ITEMS:
        # Oracle cannot compare such a text for equality.
        others = ITEMS.c.field_terms.not_like(literal_column(f"'{OTHERS}'"))
        fields = case((and_(ITEMS.c.field_terms.is_not(None), others), yes), else_=no)
    return [
        table.c.codec.label("codec"),
        case(
            (is_encrypted, dialect.statements.leading_bytes(_payload_column(table), PREFIX_BYTES))
        ).label("begins"),
        case((table.c.search_text.is_not(None), yes), else_=no).label("has_words"),
        fields.label("has_fields"),
    ]


@statement(unproven=COUNTED, table=tuple(TABLES), scope=SCOPES)
def count_rows_by_encryption(dialect: Dialect, table: str, scope: str) -> Executable:
    """Count the rows of a table by how they are stored, see `_state_columns`."""
    source = TABLES[table].table
    inner = (
        select(*_state_columns(dialect, source)).where(_in_scope(source, scope)).subquery("stored")
    )
    columns = list(inner.c)
    return select(*columns, func.count().label("number")).group_by(*columns)


@statement(proves="changed row", table=tuple(TABLES), scope=SCOPES, after=(True, False))
def list_rows(dialect: Dialect, table: str, scope: str, after: bool) -> Executable:
    """Select a page of rows in the order of their keys: how each is stored, and its bytes."""
    source, key, _ = TABLES[table]
    names: list[Any] = [source.c.tenant]
    rows: Any = source
    if source is DELTAS:
        names += [THREADS.c.thread_id, THREADS.c.namespace]
        rows = source.outerjoin(THREADS, same_log(THREADS, source))
    query = (
        select(
            *(source.c[name] for name in key if name != "tenant"),
            *names,
            *_state_columns(dialect, source),
            dialect.statements.byte_length(_payload_column(source)).label("stored"),
        )
        .select_from(rows)
        .where(_in_scope(source, scope))
        .order_by(*(source.c[name] for name in key))
        .limit(bindparam("p_limit"))
    )
    compared = key[1:] if scope == "tenant" and key[0] == "tenant" else key
    return query.where(after_key(dialect, source, compared)) if after else query


@statement(unproven=REPORTED)
def list_strays(dialect: Dialect) -> Executable:
    """Select rows of the tenant's logs that name another tenant."""
    own = THREADS.c.tenant == bindparam("k_tenant", type_=THREADS.c.tenant.type)
    names = (THREADS.c.tenant, THREADS.c.thread_id, THREADS.c.namespace)
    return (
        select(DELTAS.c.log_id, DELTAS.c.seq, *names)
        .select_from(DELTAS.join(THREADS, same_log(THREADS, DELTAS)))
        .where(own, DELTAS.c.tenant != THREADS.c.tenant)
        .order_by(DELTAS.c.log_id, DELTAS.c.seq)
        .limit(literal_column(str(PAGE)))
    )


@statement(proves="changed row")
def read_payloads(dialect: Dialect) -> Executable:
    """Select the payloads of a range of positions of a log."""
    seq = DELTAS.c.seq
    return (
        select(
            *(DELTAS.c[name] for name in ("seq", "kind", "label", "codec", "checksum", "payload"))
        )
        .where(of_log(DELTAS))
        .where(
            seq >= bindparam("p_low", type_=seq.type), seq <= bindparam("p_high", type_=seq.type)
        )
        .order_by(seq)
    )


@statement(proves="changed row")
def read_values(dialect: Dialect) -> Executable:
    """Select the values of the items of a tenant that ``p_keys`` lists, expired ones too."""
    columns = ("tenant", "namespace", "key", "version", "codec", "checksum", "value")
    tenant = ITEMS.c.tenant == bindparam("k_tenant", type_=ITEMS.c.tenant.type)
    return select(*(ITEMS.c[name] for name in columns)).where(tenant, is_listed(dialect, ITEMS))


def _is_as_read(table: Table) -> list[ColumnElement[bool]]:
    return [
        table.c[name] == bindparam(f"p_was_{name}", type_=table.c[name].type)
        for name in ("codec", "checksum")
    ]


def _new_values(table: Table, payload: str, words: str) -> dict[str, Any]:
    values: dict[str, Any] = {
        name: bindparam(f"p_{name}", type_=table.c[name].type)
        for name in ("codec", "checksum", payload)
    }
    return values if words == "kept" else values | {"search_text": null()}


@statement(words=WORDS, changes=DELTA)
def reseal_delta(dialect: Dialect, words: str) -> Executable:
    """Store a row of a log under another key, if it is still what was read."""
    seq = DELTAS.c.seq == bindparam("p_seq", type_=DELTAS.c.seq.type)
    unchanged = update(DELTAS).where(of_log(DELTAS), seq, *_is_as_read(DELTAS))
    return unchanged.values(_new_values(DELTAS, "payload", words))


@statement(changes=CHECKPOINT)
def grow_size(dialect: Dialect) -> Executable:
    """Add what encryption adds to the size of a checkpoint."""
    more = literal_column(str(OVERHEAD), Integer)
    return (
        update(CHECKPOINTS)
        .where(
            of_log(CHECKPOINTS), CHECKPOINTS.c.seq == bindparam("p_seq", type_=DELTAS.c.seq.type)
        )
        .values(stored_size=CHECKPOINTS.c.stored_size + more)
    )


@statement(words=WORDS, fields=WORDS, changes=ITEM)
def reseal_item(dialect: Dialect, words: str, fields: str) -> Executable:
    """Store an item under another key, if it is still what was read; its version stays."""
    version = ITEMS.c.version == bindparam("p_version", type_=ITEMS.c.version.type)
    values = _new_values(ITEMS, "value", words)
    if fields == "dropped":
        values["field_terms"] = bindparam("p_field_terms", type_=ITEMS.c.field_terms.type)
    return update(ITEMS).where(of_item(ITEMS), version, *_is_as_read(ITEMS)).values(values)


@statement(scope=SCOPES)
def count_all_vectors(dialect: Dialect, scope: str) -> Executable:
    """Count the vectors."""
    return select(func.count()).select_from(EMBEDDINGS).where(_in_scope(EMBEDDINGS, scope))


@statement(unproven=REMOVED_BY_NAME, scope=SCOPES)
def list_items_with_vectors(dialect: Dialect, scope: str) -> Executable:
    """Select the first items that have vectors."""
    key = [EMBEDDINGS.c[name] for name in ("tenant", "namespace", "key")]
    query = select(*key).where(_in_scope(EMBEDDINGS, scope)).distinct()
    return query.order_by(*key).limit(bindparam("p_limit"))
