"""Transactions that may be the host's."""

from __future__ import annotations

from contextlib import AbstractAsyncContextManager, nullcontext

from memalchemy.database import Database, HostConnection


def transaction_of(
    db: Database, connection: HostConnection | None
) -> AbstractAsyncContextManager[HostConnection]:
    """Return the transaction of the host's *connection*, or a new one of the database."""
    return db.transaction() if connection is None else nullcontext(connection)
