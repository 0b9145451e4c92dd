"""What `verify` asks of a store. Each statement sees one moment; see `queries`."""

from __future__ import annotations

from typing import Any

from sqlalchemy import (
    Executable,
    Integer,
    and_,
    bindparam,
    case,
    func,
    literal_column,
    or_,
    select,
    type_coerce,
)
from sqlalchemy.types import NULLTYPE

from memalchemy.dialects import Dialect
from memalchemy.search.scope import EMBEDDINGS, ITEMS, in_scope, same_item
from memalchemy.statements import statement


def _bind(name: str, column: Any) -> Any:
    return bindparam(name, type_=column.type)


@statement(after=(True, False))
def first_tenant(d: Dialect, after: bool) -> Executable:
    """The next tenant that has an item; not that of memalchemy's own."""
    tenant = ITEMS.c.tenant
    query = select(func.min(tenant).label("tenant")).where(tenant != literal_column("'~'"))
    return query.where(tenant > _bind("k_tenant", tenant)) if after else query


@statement()
def count_items(d: Dialect) -> Executable:
    """How many items a tenant has, expired ones too."""
    count = func.count().label("items")
    return select(count).select_from(ITEMS).where(in_scope(ITEMS, below=True))


@statement(after=(True, False))
def list_items(d: Dialect, after: bool) -> Executable:
    """The next items of a tenant in the order of their keys, and what reading each takes."""
    namespace, key = ITEMS.c.namespace, ITEMS.c.key
    numbers = select(func.coalesce(func.sum(EMBEDDINGS.c.dimensions), 0)).where(
        same_item(EMBEDDINGS, ITEMS)
    )
    query = select(
        namespace,
        key,
        d.statements.byte_length(ITEMS.c.value).label("stored"),
        numbers.scalar_subquery().label("numbers"),
    ).where(in_scope(ITEMS, below=True))
    if after:
        path, name = _bind("p_namespace", namespace), _bind("p_key", key)
        beyond = or_(namespace > path, and_(namespace == path, key > name))
        query = query.where(namespace >= path, beyond)
    return query.order_by(namespace, key).limit(bindparam("p_limit"))


def _in_range(table: Any) -> Any:
    return and_(
        in_scope(table, below=False),
        table.c.key >= _bind("p_low", table.c.key),
        table.c.key <= _bind("p_high", table.c.key),
    )


@statement()
def read_items(d: Dialect) -> Executable:
    """Items of a namespace from one key to another; metadata that is no JSON is left out."""
    readable = d.statements.json_is_object(ITEMS.c.meta) == literal_column("1", Integer)
    columns = (
        *("key", "version", "codec", "checksum", "search_text", "field_terms", "value"),
        # Looked at by being read.
        *("created_at", "updated_at", "expires_at", "lifetime"),
    )
    return (
        select(
            *(ITEMS.c[name] for name in columns),
            case((readable, ITEMS.c.meta)).label("meta"),
        )
        .where(_in_range(ITEMS))
        .order_by(ITEMS.c.key)
    )


@statement(native=(True, False))
def read_vectors(d: Dialect, native: bool) -> Executable | None:
    """The vectors of items of a namespace, from one key to another, as the driver has them."""
    if not native and not d.vectors.may_be_bytes:
        return None
    names = ("key", "field", "model", "part")
    vector = type_coerce(d.vectors.readable(EMBEDDINGS.c.vector, native), NULLTYPE).label("vector")
    return (
        select(*(EMBEDDINGS.c[name] for name in names), EMBEDDINGS.c.dimensions, vector)
        .where(_in_range(EMBEDDINGS))
        .order_by(*(EMBEDDINGS.c[name] for name in names))
    )


@statement()
def list_orphans(d: Dialect) -> Executable:
    """Items of a tenant that are not there, and have vectors."""
    there: Any = select(literal_column("1")).select_from(ITEMS).where(same_item(ITEMS, EMBEDDINGS))
    place = (EMBEDDINGS.c.namespace, EMBEDDINGS.c.key)
    return (
        select(*place, func.count(type_=Integer).label("orphans"))
        .where(EMBEDDINGS.c.tenant == _bind("k_tenant", EMBEDDINGS.c.tenant), ~there.exists())
        .group_by(*place)
        .order_by(*place)
        .limit(bindparam("p_limit"))
    )


@statement()
def list_changes(d: Dialect) -> Executable | None:
    """The next namespaces of a tenant that have vectors, and the last counted change of each."""
    if not d.vectors.counts_changes:
        return None
    namespace = EMBEDDINGS.c.namespace
    return (
        select(namespace, func.max(EMBEDDINGS.c.change).label("last_change"))
        .where(EMBEDDINGS.c.tenant == _bind("k_tenant", EMBEDDINGS.c.tenant))
        .where(namespace > _bind("p_namespace", namespace))
        .group_by(namespace)
        .order_by(namespace)
        .limit(bindparam("p_limit"))
    )
