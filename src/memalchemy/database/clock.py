"""The time of the database server's clock."""

from __future__ import annotations

from sqlalchemy import Executable, literal_column, select

from memalchemy.column_types import UtcDateTime
from memalchemy.dialects import Dialect
from memalchemy.statements import statement


@statement()
def read_clock(dialect: Dialect) -> Executable | None:
    """Select the server's time; SQLite has no server."""
    if dialect.single_writer:
        return None
    return select(literal_column(dialect.maintenance.utc_now, UtcDateTime).label("now"))
