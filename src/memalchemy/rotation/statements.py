"""The statements of a rotation: what is under which key, pages of it, and one row written anew.

A row is written anew only as long as it is what was read. That a row's key is the newest shows in
its codec's tag and the first bytes of its payload, so nothing is kept about how far a rotation is.
"""

from __future__ import annotations

from typing import Any

from sqlalchemy import (
    ColumnElement,
    Executable,
    Integer,
    Table,
    and_,
    bindparam,
    case,
    delete,
    func,
    literal_column,
    null,
    select,
    update,
)

from memalchemy.codec.items import OTHERS
from memalchemy.codec.sealing import LEADING, OVERHEAD, SUFFIX
from memalchemy.dialects import Dialect
from memalchemy.log.tables import CHECKPOINTS, DELTAS, THREADS, of_log, same_log
from memalchemy.search.scope import (
    EMBEDDINGS,
    HOUSE,
    ITEM_KEY,
    ITEMS,
    is_listed,
    not_of_the_house,
    of_item,
)
from memalchemy.statements import beyond, statement

KEYS: dict[str, tuple[str, ...]] = {"deltas": ("log_id", "seq"), "store_items": ITEM_KEY}
SCOPES = ("tenant", "all")
WORDS = ("kept", "dropped")
_TABLES: dict[str, Table] = {"deltas": DELTAS, "store_items": ITEMS}
_LOW, _HIGH = "p_low", "p_high"


def scope_of(tenant: str | None) -> tuple[str, dict[str, Any]]:
    """The variant for a tenant, or for all, and what it binds."""
    binds = {"k_house": HOUSE + "a", "k_house_end": HOUSE + "{"}
    return ("all", binds) if tenant is None else ("tenant", binds | {"k_tenant": tenant})


def _whose(table: Table, scope: str) -> ColumnElement[bool]:
    """The rows of a tenant or of all; not memalchemy's own."""
    if scope == "tenant":
        whose = table.c.tenant == bindparam("k_tenant", type_=table.c.tenant.type)
    else:
        whose = table.c.tenant != literal_column("'~'")
    return and_(whose, not_of_the_house(table)) if table is ITEMS else whose


def _states(d: Dialect, table: Table) -> dict[str, ColumnElement[Any]]:
    """How a row is stored: ``codec``; of a sealed one the bytes that it ``begins`` with; whether it
    ``has_words`` and ``has_fields`` that the database can read.
    """
    payload = table.c.payload if table is DELTAS else table.c.value
    yes, no = literal_column("1", Integer), literal_column("0", Integer)
    is_sealed = table.c.codec.like(literal_column(f"'%{SUFFIX}'"))
    fields: ColumnElement[Any] = no
    if table is ITEMS:
        # Equality is nothing that Oracle has for such a text; a field's word is longer than this.
        longer = d.statements.byte_length(ITEMS.c.field_terms) > literal_column(
            str(len(OTHERS)), Integer
        )
        fields = case((and_(ITEMS.c.field_terms.is_not(None), longer), yes), else_=no)
    return {
        "codec": table.c.codec,
        "begins": case((is_sealed, d.statements.leading_bytes(payload, LEADING))),
        "has_words": case((table.c.search_text.is_not(None), yes), else_=no),
        "has_fields": fields,
    }


@statement(table=tuple(KEYS), scope=SCOPES)
def count_rows(d: Dialect, table: str, scope: str) -> Executable:
    """How many rows are stored in which way."""
    states = {name: value.label(name) for name, value in _states(d, _TABLES[table]).items()}
    inner = select(*states.values()).where(_whose(_TABLES[table], scope)).subquery("stored")
    columns = [inner.c[name] for name in states]
    return select(*columns, func.count().label("number")).group_by(*columns)


@statement(table=tuple(KEYS), scope=SCOPES, after=(True, False))
def list_rows(d: Dialect, table: str, scope: str, after: bool) -> Executable:
    """A page of rows in the order of their keys: how each is stored, and how long it is."""
    source, key = _TABLES[table], KEYS[table]
    payload = source.c.payload if source is DELTAS else source.c.value
    names: list[Any] = [source.c.tenant]
    rows: Any = source
    if source is DELTAS:
        names += [THREADS.c.thread_id, THREADS.c.namespace]
        rows = source.outerjoin(THREADS, same_log(THREADS, source))
    query = (
        select(
            *(source.c[name] for name in key if name != "tenant"),
            *names,
            *(value.label(name) for name, value in _states(d, source).items()),
            d.statements.byte_length(payload).label("stored"),
        )
        .select_from(rows)
        .where(_whose(source, scope))
        .order_by(*(source.c[name] for name in key))
        .limit(bindparam("p_limit"))
    )
    compared = key[1:] if scope == "tenant" and key[0] == "tenant" else key
    return query.where(beyond(d, source, compared)) if after else query


@statement()
def read_payloads(d: Dialect) -> Executable:
    """The payloads of a range of positions of a log."""
    seq = DELTAS.c.seq
    return (
        select(seq, DELTAS.c.codec, DELTAS.c.checksum, DELTAS.c.payload)
        .where(of_log(DELTAS))
        .where(seq >= bindparam(_LOW, type_=seq.type), seq <= bindparam(_HIGH, type_=seq.type))
        .order_by(seq)
    )


@statement()
def read_values(d: Dialect) -> Executable:
    """The values of the items that ``p_keys`` lists, of one tenant; expired ones too."""
    columns = ("tenant", "namespace", "key", "version", "codec", "checksum", "value")
    tenant = ITEMS.c.tenant == bindparam("k_tenant", type_=ITEMS.c.tenant.type)
    return select(*(ITEMS.c[name] for name in columns)).where(tenant, is_listed(d, ITEMS))


def _was(table: Table) -> list[ColumnElement[bool]]:
    return [
        table.c[name] == bindparam(f"p_was_{name}", type_=table.c[name].type)
        for name in ("codec", "checksum")
    ]


def _new(table: Table, payload: str, words: str) -> dict[str, Any]:
    values: dict[str, Any] = {
        name: bindparam(f"p_{name}", type_=table.c[name].type)
        for name in ("codec", "checksum", payload)
    }
    return values if words == "kept" else values | {"search_text": null()}


@statement(words=WORDS)
def reseal_delta(d: Dialect, words: str) -> Executable:
    """Store a row of a log under another key, if it is what was read."""
    seq = DELTAS.c.seq == bindparam("p_seq", type_=DELTAS.c.seq.type)
    was = update(DELTAS).where(of_log(DELTAS), seq, *_was(DELTAS))
    return was.values(_new(DELTAS, "payload", words))


@statement()
def grow_size(d: Dialect) -> Executable:
    """What a checkpoint takes whose row was not sealed before."""
    more = literal_column(str(OVERHEAD), Integer)
    return (
        update(CHECKPOINTS)
        .where(
            of_log(CHECKPOINTS), CHECKPOINTS.c.seq == bindparam("p_seq", type_=DELTAS.c.seq.type)
        )
        .values(stored_size=CHECKPOINTS.c.stored_size + more)
    )


@statement(words=WORDS, fields=WORDS)
def reseal_item(d: Dialect, words: str, fields: str) -> Executable:
    """Store an item under another key, if it is what was read; its version stays."""
    version = ITEMS.c.version == bindparam("p_version", type_=ITEMS.c.version.type)
    values = _new(ITEMS, "value", words)
    if fields == "dropped":
        values["field_terms"] = bindparam("p_field_terms", type_=ITEMS.c.field_terms.type)
    return update(ITEMS).where(of_item(ITEMS), version, *_was(ITEMS)).values(values)


@statement(scope=SCOPES)
def count_vectors(d: Dialect, scope: str) -> Executable:
    """How many vectors there are."""
    return select(func.count()).select_from(EMBEDDINGS).where(_whose(EMBEDDINGS, scope))


@statement(scope=SCOPES)
def drop_vectors(d: Dialect, scope: str) -> Executable:
    """Remove all vectors."""
    return delete(EMBEDDINGS).where(_whose(EMBEDDINGS, scope))
