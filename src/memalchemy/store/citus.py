"""Items that Citus has spread over nodes by their namespaces: see `memalchemy.log.citus`.

Those of several namespaces are locked one by one, in one order for everybody.
"""

from __future__ import annotations

from collections.abc import Iterable
from datetime import datetime

from sqlalchemy import Executable, and_, bindparam, not_, select

from memalchemy.dialects import Dialect
from memalchemy.search.scope import ITEMS, Place, live_item
from memalchemy.statements import Program
from memalchemy.store.read import column_bind_of, limited, list_paths
from memalchemy.store.write import Row, lock_item, lock_items, lock_listed
from memalchemy.variants import CITUS

lock_items.not_on(CITUS)


@lock_listed.on(CITUS)
def _lock_listed(
    dialect: Dialect, places: Iterable[Place], binds: Row
) -> Program[dict[Place, tuple[int, datetime]]]:
    found: dict[Place, tuple[int, datetime]] = {}
    for place in sorted(places):
        one = {"k_namespace": place[0], "k_key": place[1]}
        rows = yield lock_item(dialect), {**binds, **one}
        if rows:
            found[place] = int(rows[0].version), rows[0].created_at
    return found


@list_paths.on(CITUS)
def _list_paths(dialect: Dialect) -> Executable:
    # All items of the range are looked at, on every node.
    path = ITEMS.c.namespace
    internal = and_(
        path >= column_bind_of("internal", path), path < column_bind_of("internal_end", path)
    )
    tenant = ITEMS.c.tenant == bindparam("k_tenant", type_=ITEMS.c.tenant.type)
    here = and_(path >= column_bind_of("low", path), path < column_bind_of("high", path))
    paths = select(path.label("place")).where(tenant, here, not_(internal), live_item())
    return limited(paths.distinct().order_by(path))
