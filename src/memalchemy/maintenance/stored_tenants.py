"""The tenants that have something stored."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import aclosing

from sqlalchemy import Executable, bindparam, func, literal_column, select

from memalchemy.database import Database
from memalchemy.dialects import Dialect
from memalchemy.keys import encode_id
from memalchemy.log.scan import scan
from memalchemy.log.tables import THREADS
from memalchemy.proofs import FOUND
from memalchemy.search.scope import ITEMS
from memalchemy.statements import statement


async def list_tenants(db: Database, *, most: int | None = None) -> list[str]:
    """List the tenants that have a thread or an item, in the order of the database.

    With *most* the first so many alone: each is a statement.
    """
    found: set[str] = set()
    for family in (next_tenant_of_logs, next_tenant_of_items):
        await add_tenants(db, family, found, most)
    return sorted(found, key=encode_id)[:most]


async def add_tenants(
    db: Database, family: Callable[..., Executable], found: set[str], most: int | None = None
) -> None:
    """Add the tenants that a statement finds to *found*, each as the next one after the last."""
    looked = 0
    pages = scan(
        db,
        lambda after: family(db.dialect, after=after),
        {},
        lambda last: {"k_tenant": last.tenant},
        size=1,
    )
    async with aclosing(pages):
        async for page in pages:
            if page[0].tenant is None:
                break  # there is no next one
            found.add(page[0].tenant)
            looked += 1
            if looked == most:
                break


# --- Statements ----------------------------------------------------------------------------------


@statement(unproven=FOUND, after=(True, False))
def next_tenant_of_logs(dialect: Dialect, after: bool) -> Executable:
    """Select the next tenant that has a thread, or NULL: a step along the index, not over rows."""
    query = select(func.min(THREADS.c.tenant).label("tenant"))
    return query.where(THREADS.c.tenant > bindparam("k_tenant")) if after else query


@statement(unproven=FOUND, after=(True, False))
def next_tenant_of_items(dialect: Dialect, after: bool) -> Executable:
    """Select the next tenant that has an item, or NULL; not memalchemy's own."""
    tenant = ITEMS.c.tenant
    query = select(func.min(tenant).label("tenant")).where(tenant != literal_column("'~'"))
    return query.where(tenant > bindparam("k_tenant", type_=tenant.type)) if after else query
