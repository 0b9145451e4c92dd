"""The capabilities of dialects that tests need: see the mark ``needs``.

A test that needs one is expected to fail where it is not, which proves that it is not there.
"""

from __future__ import annotations

from collections.abc import Callable

from memalchemy.dialects import DIALECTS, TEXT_INDEXES, Dialect

CAPABILITIES: dict[str, Callable[[Dialect], bool]] = {
    "a SQLAlchemy dialect of its own": lambda d: DIALECTS.on(d.sqlalchemy_name) == (d,),
    "an index of fields": lambda d: d.text.indexes_fields,
    "examined text indexes": lambda d: all(
        d.text.unindexed_rows(index) is not None for index in TEXT_INDEXES
    ),
    "space that is given back": lambda d: any(
        d.maintenance.step(first) is not None for first in ("pages", "tables")
    ),
}

_DIALECTS = {
    "sqlite-memory": "sqlite",
    "psycopg": "postgresql",
    "walled": "postgresql",
    "citus": "postgresql",
}
"""The dialects of the choices of ``--databases`` that are no dialect's name."""


def database_lacks(database: str | None, capability: str) -> bool:
    """Whether a choice of ``--databases``, if a test has one, is without a capability."""
    has = CAPABILITIES[capability]
    return database is not None and not has(DIALECTS[_DIALECTS.get(database, database)])
