"""Rows of one namespace of a tenant, or of it and all below it. The same on every database."""

from __future__ import annotations

from typing import Any

from sqlalchemy import ColumnElement, and_, bindparam


def within(table: Any, below: bool) -> ColumnElement[bool]:
    """The rows of a tenant in a namespace, with *below* also in those under it; binds `reach`."""
    tenant, path = table.c.tenant, table.c.namespace
    of_tenant = tenant == bindparam("k_tenant", type_=tenant.type)
    low = bindparam("k_namespace", type_=path.type)
    if not below:
        return and_(of_tenant, path == low)
    return and_(of_tenant, path >= low, path < bindparam("k_beyond", type_=path.type))


def reach(tenant: str, path: str, below: bool) -> dict[str, Any]:
    """What `within` binds, for an encoded namespace. All below it begins with it."""
    binds: dict[str, Any] = {"k_tenant": tenant, "k_namespace": path}
    if below:
        binds["k_beyond"] = path[:-1] + "0"  # the character after a slash
    return binds
