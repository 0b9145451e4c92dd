"""Ends of lifetimes, and other columns of items, that a test sets behind the library's back."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from typing import Any

from sqlalchemy import Connection, select, update

from memalchemy import Database
from memalchemy.codec.signed_rows import item_content_of
from memalchemy.schema import StoreItemRow, ThreadRow

ITEMS: Any = StoreItemRow.__table__
THREADS: Any = ThreadRow.__table__

MOMENT = timedelta(microseconds=1)
"""A lifetime that is over when the call that gives it returns."""


async def rewrite_rows(db: Database, where: Sequence[Any] = (), **values: Any) -> None:
    """Set columns of the tenant's items behind the library's back, as if it had written them."""
    statement = update(ITEMS).where(ITEMS.c.tenant == db.tenant, *where).values(**values)
    await db.run_sync(lambda connection: connection.execute(statement))
    await db.run_sync(lambda connection: _sign_items(db, connection))


async def end_lifetimes(db: Database) -> None:
    """Let all items of the tenant that end have ended an hour ago.

    A test that first needs them alive gives them a long life and ends it so, or by the fixture
    `clock`: a short life would be over before its time wherever the machine stands still for a
    moment. One that needs them expired from the start gives them a `MOMENT`.
    """
    past = datetime.now(UTC) - timedelta(hours=1)
    await rewrite_rows(db, [ITEMS.c.expires_at.is_not(None)], expires_at=past)


async def end_lifetimes_of_threads(db: Database) -> None:
    """Let all threads of the tenant that end have ended an hour ago; see `end_lifetimes`."""
    past = datetime.now(UTC) - timedelta(hours=1)
    of_tenant = THREADS.c.tenant == db.tenant, THREADS.c.expires_at.is_not(None)
    statement = update(THREADS).where(*of_tenant).values(expires_at=past)
    await db.run_sync(lambda connection: connection.execute(statement))


def _sign_items(db: Database, connection: Connection) -> None:
    """Sign what is signed of the tenant's items once more, as it is now."""
    of_tenant = ITEMS.c.tenant == db.tenant, ITEMS.c.signature.is_not(None)
    for row in connection.execute(select(ITEMS).where(*of_tenant)).all():
        signature = db.signing.sign(
            item_content_of(row, db.tenant), (row.search_text, row.field_terms)
        )
        same = (ITEMS.c[name] == getattr(row, name) for name in ("tenant", "namespace", "key"))
        connection.execute(update(ITEMS).where(*same).values(signature=signature))
