"""Items that belong to one database, which a copy of it and a change of its keys leave alone."""

from __future__ import annotations

from sqlalchemy import ColumnElement, and_, literal_column

from memalchemy.protection.key_registry import KEYS_NAMESPACE, SIGNING_NAMESPACE
from memalchemy.protection.removals import ANCHORS_NAMESPACE, REMOVALS_NAMESPACE
from memalchemy.search.cache_versions import COUNTERS
from memalchemy.search.scope import ITEMS


def is_not_local() -> ColumnElement[bool]:
    """Return the condition that leaves out counters of vectors, and what is registered of keys.

    Each database counts changes of its vectors itself, registers the keys that it is written with,
    and notes what was removed since its anchors. Other internal items are written as a user's are,
    encrypted with the tenant's key.
    """
    namespaces = (
        *(COUNTERS, KEYS_NAMESPACE, SIGNING_NAMESPACE),
        *(ANCHORS_NAMESPACE, REMOVALS_NAMESPACE),
    )
    local: list[ColumnElement[str]] = [literal_column(f"'{name}'") for name in namespaces]
    return and_(*(ITEMS.c.namespace != name for name in local))
