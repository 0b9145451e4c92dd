"""Conditions for the rows of one namespace of a tenant, or of it and all below it.

The same on every database.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeAlias

from sqlalchemy import ColumnElement, and_, bindparam

from memalchemy.keys import beyond_namespace

Live: TypeAlias = Callable[[Any], ColumnElement[bool]]
"""A function that returns the condition on a table of logs that they are live."""


def in_namespace(table: Any, below: bool) -> ColumnElement[bool]:
    """Return the condition that a row is in a namespace of a tenant, with *below* or under it.

    Its binds are those of `namespace_binds`.
    """
    tenant, path = table.c.tenant, table.c.namespace
    of_tenant = tenant == bindparam("k_tenant", type_=tenant.type)
    low = bindparam("k_namespace", type_=path.type)
    if not below:
        return and_(of_tenant, path == low)
    return and_(of_tenant, path >= low, path < bindparam("k_beyond", type_=path.type))


def namespace_binds(tenant: str, path: str, below: bool) -> dict[str, Any]:
    """Return the binds of `in_namespace` for an encoded namespace, with which all below begins."""
    binds: dict[str, Any] = {"k_tenant": tenant, "k_namespace": path}
    if below:
        binds["k_beyond"] = beyond_namespace(path)
    return binds
