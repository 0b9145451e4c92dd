"""Which items a search is of: one namespace, or one and all below it; and only what is alive."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any

from sqlalchemy import ColumnElement, Select, Table, and_, bindparam, not_, or_, select, tuple_

from memalchemy.dialects import MAX_LISTED, Dialect
from memalchemy.keys import encode_id
from memalchemy.schema import EmbeddingRow, StoreItemRow

ITEMS: Table = StoreItemRow.__table__  # type: ignore[assignment]
EMBEDDINGS: Table = EmbeddingRow.__table__  # type: ignore[assignment]

ITEM_KEY = ("tenant", "namespace", "key")

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
    "value",
)
"""The columns that an item is made of."""

HOUSE = "/~"
"""How memalchemy's own namespaces begin. In a user's ``~`` is escaped, as ~0, ~1 or ~2."""

OWN = (HOUSE + "a", HOUSE + "{")
"""They lie from the first of these on, and before the second: a letter comes after the ``~``."""


def in_scope(table: Any, below: bool) -> ColumnElement[bool]:
    """The rows of a namespace; with *below* of those under it too. Binds `scope_binds`."""
    tenant = table.c.tenant == bindparam("k_tenant", type_=ITEMS.c.tenant.type)
    if not below:
        return and_(tenant, table.c.namespace == _path("k_namespace"))
    return and_(
        tenant,
        table.c.namespace >= _path("k_namespace"),
        table.c.namespace < _path("k_beyond"),
        not_of_the_house(table),
    )


def not_of_the_house(table: Any) -> ColumnElement[bool]:
    """Under the root lie memalchemy's own namespaces as well."""
    own = and_(table.c.namespace >= _path("k_house"), table.c.namespace < _path("k_house_end"))
    return not_(own)


def is_in_scope(path: str, top: str) -> bool:
    """`in_scope` of *top* and all below it, of an encoded namespace that was read."""
    return path.startswith(top) and not OWN[0] <= path < OWN[1]


def scope_binds(tenant: str, path: str, below: bool) -> dict[str, Any]:
    """What `in_scope` binds, for an encoded namespace. All below it begins with it."""
    binds = {"k_tenant": tenant, "k_namespace": path}
    if below:
        binds |= {"k_beyond": path[:-1] + "0", "k_house": OWN[0], "k_house_end": OWN[1]}
    return binds


def stored() -> list[ColumnElement[Any]]:
    """The columns that an item is made of."""
    return [ITEMS.c[name] for name in STORED]


def of_item(table: Any) -> ColumnElement[bool]:
    """The row, or rows, of one item; binds ``k_tenant``, ``k_namespace``, ``k_key``."""
    return and_(
        *(table.c[name] == bindparam(f"k_{name}", type_=ITEMS.c[name].type) for name in ITEM_KEY)
    )


def same_item(a: Any, b: Any) -> ColumnElement[bool]:
    return and_(*(a.c[name] == b.c[name] for name in ITEM_KEY))


def live_item(table: Any = ITEMS) -> ColumnElement[bool]:
    """Not expired; binds ``p_now``."""
    now = bindparam("p_now", type_=ITEMS.c.expires_at.type)
    return or_(table.c.expires_at.is_(None), table.c.expires_at > now)


Place = tuple[str, str]
"""An item's encoded namespace and its key."""


def key_lists(
    d: Dialect, places: Iterable[Place], most: int = MAX_LISTED
) -> Iterator[dict[str, Any]]:
    """The binds of `is_listed` for *places*, in as many lists as it takes: of *most* each, or
    fewer.
    """
    return d.statements.list_batches(
        "p_keys", [(path, encode_id(key)) for path, key in places], most
    )


def is_listed(d: Dialect, table: Any) -> ColumnElement[bool]:
    """Whether a row is of an item that ``p_keys`` names; see `key_lists`.

    Not a join: without statistics SQLite goes through all items of the tenant for that, and for
    each through the list.
    """
    named = d.statements.rows_from_list("p_keys", ("namespace", "key"))
    names: Select[Any] = select(named.c.namespace, named.c.key)
    return tuple_(table.c.namespace, table.c.key).in_(names)


def _path(name: str) -> Any:
    return bindparam(name, type_=ITEMS.c.namespace.type)
