"""`connect`: SQL over a database, from asynchronous programs and from others."""

from __future__ import annotations

from collections.abc import Coroutine
from typing import Any, overload

from memalchemy import sync
from memalchemy.analysis.analysis import Analysis
from memalchemy.analysis.connection import SQLConnection
from memalchemy.database import Database


@overload
def connect(db: Database, **options: Any) -> Coroutine[Any, Any, SQLConnection]: ...
@overload
def connect(db: sync.Database, **options: Any) -> SQLConnection: ...
def connect(
    db: Database | sync.Database, **options: Any
) -> Coroutine[Any, Any, SQLConnection] | SQLConnection:
    """Read a database into tables, and return a connection for SQL.

        connection = await connect(db)
        connection.execute("select role, count(*) from messages group by 1").df()

    Without ``await`` on a `memalchemy.sync.Database`.

    Args:
        options: those of `Analysis.connect`.

    Raises:
        DriverMissing, InvalidArgument, CapabilityMissing, Conflict, DatabaseUnreachable: as
            `Analysis.connect`.
    """
    if isinstance(db, sync.Database):
        connection: SQLConnection = sync.Analysis(db).connect(**options)
        return connection
    return Analysis(db).connect(**options)
