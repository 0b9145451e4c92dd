"""What one database says differently. Nobody outside this room names a database."""

from __future__ import annotations

from typing import Any

from memalchemy.dialects.base import Dialect, Failure
from memalchemy.dialects.oracle import Oracle
from memalchemy.dialects.postgresql import PostgreSQL
from memalchemy.dialects.sqlite import SQLite
from memalchemy.errors import UnknownURL

DIALECTS: dict[str, Dialect] = {d.name: d for d in (SQLite(), PostgreSQL(), Oracle())}


def dialect_of(bind: Any) -> Dialect:
    """The dialect of an engine or connection; raises `UnknownURL` for one that is not supported."""
    name: str = bind.dialect.name
    if name not in DIALECTS:
        raise UnknownURL(f"memalchemy does not work on {name!r}")
    return DIALECTS[name]


__all__ = ["DIALECTS", "Dialect", "Failure", "dialect_of"]
