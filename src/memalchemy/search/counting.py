"""Counters of changes: how a cache of a namespace's vectors knows what it has yet to read.

Where the dialect's vectors `counts_changes`, whoever writes or removes rows of embeddings calls
`count_change` first, in the same transaction, and writes the version it returns as ``change`` of
each row. A change of an item writes all of its rows of a model and size, not some of them. Then:
every row whose ``change`` is at most a version that was read is as it was when that version was
read, unless its item was written since, or rows were removed, and the counter says that too.

A counter is an item of memalchemy's own, in a namespace that no user can name.
"""

from __future__ import annotations

import secrets
from datetime import datetime
from hashlib import blake2b
from typing import Any, NamedTuple

from sqlalchemy import (
    BigInteger,
    Executable,
    and_,
    bindparam,
    func,
    insert,
    or_,
    select,
    type_coerce,
    update,
)
from sqlalchemy.types import NULLTYPE

from memalchemy.dialects import Dialect
from memalchemy.keys import encode_id
from memalchemy.search.scope import HOUSE, ITEMS, is_in_scope
from memalchemy.statements import Program, statement

COUNTERS = f"{HOUSE}vectors/"
"""The namespace of the counters."""

LONGEST_KEY = 200


class Count(NamedTuple):
    """A counter as it was read.

    ``nonce`` is random at each change, so that two histories of a file that was restored, or of a
    transaction that was rolled back, differ; ``born`` tells a counter from one that is gone.
    ``removed`` is the version of the last change that may have removed rows.
    """

    path: str
    version: int
    nonce: int
    born: Any
    removed: int


def counter_key(path: str) -> str:
    """The key of the counter of an encoded namespace."""
    if len(encode_id(path)) <= LONGEST_KEY:
        return path
    return "#" + blake2b(path.encode(), digest_size=32).hexdigest()


def counter_binds(tenant: str, path: str) -> dict[str, Any]:
    """What `bump_vectors` and `read_counter` bind for an encoded namespace."""
    return {"k_tenant": tenant, "k_counter": counter_key(path)}


def count_change(
    d: Dialect, tenant: str, path: str, now: datetime, *, removes: bool = True
) -> Program[int]:
    """Count a change of the vectors of an encoded namespace; the version for its rows.

    *removes* may be false if the only rows that go are of an item, model and size that the change
    itself writes rows of, whether in place or anew: then searches are spared looking for what is
    gone. A change may be counted twice, the second time when it turns out that rows went; the
    higher version is as good for its rows as the lower.
    """
    binds = counter_binds(tenant, path) | {"p_now": now, "p_nonce": secrets.randbits(63)}
    bumped = yield bump_vectors(d, removes=removes), binds
    if bumped:
        return int(bumped[0].version)
    yield begin_counting(d), binds | {"p_path": path.encode()}
    return 1


@statement(removes=(False, True))
def bump_vectors(d: Dialect, removes: bool) -> Executable | None:
    """Count a change; no row, if none was counted yet. It locks the counter."""
    if not d.vectors.counts_changes:
        return None
    version = ITEMS.c.version + 1
    nonce = bindparam("p_nonce", type_=BigInteger)
    if removes:
        meta = func.json_object("nonce", nonce, "removed", version)
    else:
        meta = func.json_set(ITEMS.c.meta, "$.nonce", nonce)
    values: dict[str, Any] = {
        "version": version,
        "meta": meta,
        "updated_at": bindparam("p_now", type_=ITEMS.c.updated_at.type),
    }
    return update(ITEMS).where(_counter()).values(values).returning(ITEMS.c.version)


@statement()
def begin_counting(d: Dialect) -> Executable | None:
    """The first change of a namespace."""
    if not d.vectors.counts_changes:
        return None
    now = bindparam("p_now", type_=ITEMS.c.updated_at.type)
    return insert(ITEMS).values(
        tenant=bindparam("k_tenant", type_=ITEMS.c.tenant.type),
        namespace=COUNTERS,
        key=bindparam("k_counter", type_=ITEMS.c.key.type),
        meta=func.json_object("nonce", bindparam("p_nonce", type_=BigInteger), "removed", 1),
        version=1,
        codec="none",
        checksum=0,
        created_at=now,
        updated_at=now,
        value=bindparam("p_path", type_=ITEMS.c.value.type),
    )


@statement()
def read_counter(d: Dialect) -> Executable | None:
    """The counter of one namespace; binds `counter_binds`."""
    if not d.vectors.counts_changes:
        return None
    return select(*_columns()).where(_counter())


@statement()
def read_counters(d: Dialect) -> Executable | None:
    """The counters of a namespace and of all below it; of others too, whose path is too long."""
    if not d.vectors.counts_changes:
        return None
    key = ITEMS.c.key
    bound = {
        name: bindparam(name, type_=key.type) for name in ("p_from", "p_to", "p_hash", "p_end")
    }
    return select(*_columns()).where(
        _counters(),
        or_(
            and_(key >= bound["p_from"], key < bound["p_to"]),
            and_(key >= bound["p_hash"], key < bound["p_end"]),
        ),
    )


def counts(d: Dialect, tenant: str, path: str, below: bool) -> Program[dict[str, Count]]:
    """The counters of a namespace, or of it and all below it, by their encoded namespaces."""
    if below:
        binds = {"k_tenant": tenant, "p_hash": "#", "p_end": "$"}
        binds |= {"p_from": path, "p_to": path[:-1] + "0"}
        rows = yield read_counters(d), binds
    else:
        rows = yield read_counter(d), counter_binds(tenant, path)
    found = (
        Count(bytes(row.path).decode(), row.version, row.nonce, row.born, row.removed)
        for row in rows
    )
    return {c.path: c for c in found if not below or is_in_scope(c.path, path)}


def _columns() -> list[Any]:
    # As the driver gives them: they are only compared.
    return [
        type_coerce(ITEMS.c.value, NULLTYPE).label("path"),
        ITEMS.c.version,
        func.json_extract(ITEMS.c.meta, "$.nonce").label("nonce"),
        type_coerce(ITEMS.c.created_at, NULLTYPE).label("born"),
        func.json_extract(ITEMS.c.meta, "$.removed").label("removed"),
    ]


def _counters() -> Any:
    tenant = ITEMS.c.tenant == bindparam("k_tenant", type_=ITEMS.c.tenant.type)
    return and_(tenant, ITEMS.c.namespace == COUNTERS)


def _counter() -> Any:
    return and_(_counters(), ITEMS.c.key == bindparam("k_counter", type_=ITEMS.c.key.type))
