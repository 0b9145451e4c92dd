"""The time of the database server's clock."""

from __future__ import annotations

from sqlalchemy import Executable, Integer, literal_column, select

from memalchemy.column_types import UtcDateTime
from memalchemy.dialects import Dialect
from memalchemy.statements import statement


@statement()
def read_clock(dialect: Dialect) -> Executable | None:
    """Select the server's time; SQLite has no server."""
    if dialect.single_writer:
        return None
    return select(literal_column(dialect.maintenance.utc_now, UtcDateTime).label("now"))


@statement()
def read_takes_writes(dialect: Dialect) -> Executable | None:
    """Select 1 where the server takes writes, and 0 on a replica; SQLite has no server."""
    takes_writes = dialect.maintenance.takes_writes
    if takes_writes is None:
        return None
    found = literal_column(f"CASE WHEN {takes_writes} THEN 1 ELSE 0 END", Integer).label("writes")
    return select(found)
