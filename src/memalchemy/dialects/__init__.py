"""What one database says differently. Nobody outside this room names a database."""

from __future__ import annotations

from memalchemy.dialects.base import Dialect, Failure
from memalchemy.dialects.oracle import Oracle
from memalchemy.dialects.postgresql import PostgreSQL
from memalchemy.dialects.sqlite import SQLite

DIALECTS: dict[str, Dialect] = {d.name: d for d in (SQLite(), PostgreSQL(), Oracle())}

__all__ = ["DIALECTS", "Dialect", "Failure"]
