"""Items that belong to one database, which a copy of it and a change of its keys leave alone."""

from __future__ import annotations

from sqlalchemy import ColumnElement, and_, literal_column

from memalchemy.database.key_registry import KEYS_NAMESPACE, SIGNING_NAMESPACE
from memalchemy.search.cache_versions import COUNTERS
from memalchemy.search.scope import ITEMS


def is_not_local() -> ColumnElement[bool]:
    """Return the condition that leaves out the counters of vectors and the registry of keys.

    Each database counts changes of its vectors itself, and registers the keys that it is written
    with. Other internal items are written as a user's are, encrypted with the tenant's key.
    """
    local: list[ColumnElement[str]] = [
        literal_column(f"'{name}'") for name in (COUNTERS, KEYS_NAMESPACE, SIGNING_NAMESPACE)
    ]
    return and_(*(ITEMS.c.namespace != name for name in local))
