"""Check items that no read has found against the anchor of the database."""

from __future__ import annotations

from collections.abc import Iterable

from sqlalchemy import Executable, select

from memalchemy.codec.anchors import item_identity
from memalchemy.codec.signatures import SigningKeys
from memalchemy.codec.signed_rows import check_item
from memalchemy.dialects import Dialect
from memalchemy.protection.removals import hold_missing
from memalchemy.protection.signed_logs import errors_about
from memalchemy.search.scope import ITEMS, Place, of_item, stored
from memalchemy.statements import Program, statement


def hold_missing_items(
    dialect: Dialect, tenant: str, places: Iterable[Place], keys: SigningKeys
) -> Program[None]:
    """Check that items which no read has found may be missing, if *keys* have an anchor.

    It takes two statements for each item that the anchor has.

    Raises:
        Corrupt: the anchor has an item that has neither expired nor been removed with a key.
    """
    if keys.anchor is None:
        return
    for namespace, key in places:
        identity = item_identity(tenant, namespace, key)
        record = keys.anchor.find(tenant, identity)
        if record is None or record.is_gone:
            continue
        with errors_about(f"the item {key!r} in {namespace}"):
            binds = {"k_tenant": tenant, "k_namespace": namespace, "k_key": key}
            rows = yield read_any_item(dialect), binds
            if rows:  # it has expired, or was put meanwhile
                check_item(rows[0], tenant, keys)
            else:
                yield from hold_missing(dialect, tenant, identity, keys)


@statement(proves="item")
def read_any_item(dialect: Dialect) -> Executable:
    """Select an item, also one that has expired."""
    return select(*stored()).where(of_item(ITEMS))
