"""Conditions on items: in a namespace or in it and all below it, listed by key, not expired."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any

from sqlalchemy import ColumnElement, Select, Table, and_, bindparam, not_, or_, select, tuple_

from memalchemy.dialects import MAX_LISTED, Dialect
from memalchemy.keys import INTERNAL_RANGE, encode_id, is_internal
from memalchemy.rows import ITEM
from memalchemy.schema import EmbeddingRow, StoreItemRow
from memalchemy.variants import varies

ITEMS: Table = StoreItemRow.__table__  # type: ignore[assignment]
EMBEDDINGS: Table = EmbeddingRow.__table__  # type: ignore[assignment]

ITEM_KEY = ITEM.key

STORED = (
    "namespace",
    "key",
    "meta",
    "version",
    "codec",
    "checksum",
    "created_at",
    "updated_at",
    "expires_at",
    "lifetime",
    "signature",
    "value",
)
"""Columns of which an item consists."""

LIVES = {"store_items": (*ITEM_KEY, "version", "created_at")}
"""Columns that tell which state of which item was removed, for `statements.removal`."""


def in_scope(table: Any, below: bool) -> ColumnElement[bool]:
    """Return the condition on a namespace, or with *below* on it and all under it.

    Binds `scope_binds`.
    """
    tenant = table.c.tenant == bindparam("k_tenant", type_=ITEMS.c.tenant.type)
    if not below:
        return and_(tenant, table.c.namespace == namespace_bind("k_namespace"))
    return and_(
        tenant,
        table.c.namespace >= namespace_bind("k_namespace"),
        table.c.namespace < namespace_bind("k_beyond"),
        not_internal(table),
    )


@varies
def routed_items(dialect: Dialect, below: bool, *tables: Any) -> list[ColumnElement[bool]]:
    """Return the conditions on tables that a search of a namespace joins to its rows: none."""
    return []


def not_internal(table: Any) -> ColumnElement[bool]:
    """Return the condition that leaves out memalchemy's own namespaces, also under the root."""
    own = and_(
        table.c.namespace >= namespace_bind("k_internal"),
        table.c.namespace < namespace_bind("k_internal_end"),
    )
    return not_(own)


def is_in_scope(path: str, top: str) -> bool:
    """Return whether an encoded namespace is *top* or a user's namespace below it."""
    return path.startswith(top) and not is_internal(path)


def scope_binds(tenant: str, path: str, below: bool) -> dict[str, Any]:
    """Return the binds of `in_scope` for an encoded namespace, the prefix of all below it."""
    binds = {"k_tenant": tenant, "k_namespace": path}
    if below:
        binds |= {
            "k_beyond": path[:-1] + "0",
            "k_internal": INTERNAL_RANGE[0],
            "k_internal_end": INTERNAL_RANGE[1],
        }
    return binds


def stored(*, words: bool = False) -> list[ColumnElement[Any]]:
    """Return the columns of which an item consists, with those of its *words* if they are read."""
    return [ITEMS.c[name] for name in (*STORED, *(ITEM.words if words else ()))]


def of_item(table: Any) -> ColumnElement[bool]:
    """Return the condition on one item; binds ``k_tenant``, ``k_namespace``, ``k_key``."""
    return and_(
        *(table.c[name] == bindparam(f"k_{name}", type_=ITEMS.c[name].type) for name in ITEM_KEY)
    )


def same_item(a: Any, b: Any) -> ColumnElement[bool]:
    """Return the condition that joins rows of one item."""
    return and_(*(a.c[name] == b.c[name] for name in ITEM_KEY))


def live_item(table: Any = ITEMS) -> ColumnElement[bool]:
    """Return the condition that an item has not expired; binds ``p_now``."""
    now = bindparam("p_now", type_=ITEMS.c.expires_at.type)
    return or_(table.c.expires_at.is_(None), table.c.expires_at > now)


def expired_item() -> ColumnElement[bool]:
    """Return the condition that a tenant's item has expired; binds ``k_tenant``, ``p_now``."""
    tenant = ITEMS.c.tenant == bindparam("k_tenant", type_=ITEMS.c.tenant.type)
    return and_(tenant, ITEMS.c.expires_at <= bindparam("p_now", type_=ITEMS.c.expires_at.type))


Place = tuple[str, str]
"""An item's encoded namespace and its key."""


def key_lists(
    dialect: Dialect, places: Iterable[Place], most: int = MAX_LISTED
) -> Iterator[dict[str, Any]]:
    """Yield binds of `is_listed` for *places*, each for at most *most* of them."""
    return dialect.statements.list_batches(
        "p_keys", [(path, encode_id(key)) for path, key in places], most
    )


def is_listed(dialect: Dialect, table: Any) -> ColumnElement[bool]:
    """Return the condition that a row is of an item in ``p_keys``; see `key_lists`.

    It is not a join: without statistics SQLite would scan all items of the tenant, and the list for
    each of them.
    """
    named = dialect.statements.rows_from_list("p_keys", ("namespace", "key"))
    names: Select[Any] = select(named.c.namespace, named.c.key)
    return tuple_(table.c.namespace, table.c.key).in_(names)


def namespace_bind(name: str) -> Any:
    """Return the bind of an encoded namespace."""
    return bindparam(name, type_=ITEMS.c.namespace.type)
