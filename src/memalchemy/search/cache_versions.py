"""Versions of the vectors of a namespace, by which a cache finds out what has changed.

Where the dialect `counts_vector_changes`, a program that writes or removes rows of embeddings calls
`count_change` first, in the same transaction, and writes the version that it returns as ``change``
of each row. A change of an item writes all of its rows of one model and size. So a row whose
``change`` is at most a version that was read is still as it was then, unless its item was written
since or rows were removed, and both raise the version.

A version is stored as an item in a namespace of memalchemy's own, which no user can name.
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
    delete,
    func,
    insert,
    or_,
    select,
    type_coerce,
    update,
)
from sqlalchemy.types import NULLTYPE

from memalchemy.dialects import Dialect
from memalchemy.errors import Corrupt
from memalchemy.keys import INTERNAL_PREFIX, encode_id
from memalchemy.proofs import OWN_ROWS
from memalchemy.rows import OWN_ITEM
from memalchemy.search.scope import ITEMS, is_in_scope
from memalchemy.statements import Program, statement

COUNTERS = f"{INTERNAL_PREFIX}vectors/"
"""Namespace of the items that hold the versions."""

MAX_KEY_LENGTH = 200


class VectorsVersion(NamedTuple):
    """The version of a namespace's vectors.

    ``nonce`` is random at each change, so that two histories differ: those of a file that was
    restored, or of a transaction that was rolled back. ``born`` is the time of the first change; it
    differs if the counter was removed and begun anew. ``removed`` is the version of the last change
    that may have removed rows.
    """

    path: str
    version: int
    nonce: int
    born: Any
    removed: int


def counter_key(path: str) -> str:
    """Return the key of the counter of an encoded namespace."""
    if len(encode_id(path)) <= MAX_KEY_LENGTH:
        return path
    return "#" + blake2b(path.encode(), digest_size=32).hexdigest()


def counter_binds(tenant: str, path: str) -> dict[str, Any]:
    """Return the binds of `bump_vectors` and `read_counter` for an encoded namespace."""
    return {"k_tenant": tenant, "k_counter": counter_key(path)}


def count_change(
    dialect: Dialect, tenant: str, path: str, now: datetime, *, removes: bool = True
) -> Program[int]:
    """Count a change of the vectors of an encoded namespace, and return the version for its rows.

    A change may be counted twice, for instance when it turns out that it removes rows: the higher
    version is as good for its rows as the lower.

    Args:
        removes: whether rows are removed. It may be false if the change writes other rows of the
            same item, model and size: searches then need not look for removed rows.
    """
    binds = counter_binds(tenant, path) | {"p_now": now, "p_nonce": secrets.randbits(63)}
    bumped = yield bump_vectors(dialect, removes=removes), binds
    if bumped:
        return int(bumped[0].version)
    yield begin_counting(dialect), binds | {"p_path": path.encode()}
    return 1


@statement(unproven=OWN_ROWS, removes=(False, True), changes=OWN_ITEM)
def bump_vectors(dialect: Dialect, removes: bool) -> Executable | None:
    """Count a change, and lock the counter; no row if this is the first change."""
    if not dialect.vectors.counts_changes:
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
    return update(ITEMS).where(_is_named_counter()).values(values).returning(ITEMS.c.version)


@statement(writes=OWN_ITEM)
def begin_counting(dialect: Dialect) -> Executable | None:
    """Count the first change of a namespace."""
    if not dialect.vectors.counts_changes:
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


@statement(unproven=OWN_ROWS)
def read_counter(dialect: Dialect) -> Executable | None:
    """The counter of one namespace; binds `counter_binds`."""
    if not dialect.vectors.counts_changes:
        return None
    return select(*_version_columns()).where(_is_named_counter())


@statement(unproven=OWN_ROWS)
def read_counters(dialect: Dialect) -> Executable | None:
    """Select the counters of changes of a namespace and of all below it.

    The key of a counter is the namespace, from ``p_from`` to before ``p_to``; of a long namespace
    it is a hash, and all of those are selected, from ``p_hash`` to before ``p_end``.
    """
    if not dialect.vectors.counts_changes:
        return None
    key = ITEMS.c.key
    bound = {
        name: bindparam(name, type_=key.type) for name in ("p_from", "p_to", "p_hash", "p_end")
    }
    return select(*_version_columns()).where(
        _is_counter(),
        or_(
            and_(key >= bound["p_from"], key < bound["p_to"]),
            and_(key >= bound["p_hash"], key < bound["p_end"]),
        ),
    )


def read_versions(
    dialect: Dialect, tenant: str, path: str, below: bool
) -> Program[dict[str, VectorsVersion]]:
    """Return the versions of a namespace, or of it and all below it, by encoded namespace."""
    if below:
        binds = {"k_tenant": tenant, "p_hash": "#", "p_end": "$"}
        binds |= {"p_from": path, "p_to": path[:-1] + "0"}
        rows = yield read_counters(dialect), binds
    else:
        rows = yield read_counter(dialect), counter_binds(tenant, path)
    found = (
        VectorsVersion(_path_of(row), row.version, row.nonce, row.born, row.removed) for row in rows
    )
    return {one.path: one for one in found if not below or is_in_scope(one.path, path)}


def _path_of(row: Any) -> str:
    try:
        return bytes(row.path).decode()
    except UnicodeDecodeError as error:
        raise Corrupt("a counter of changes of vectors does not name a namespace") from error


@statement()
def delete_counters(dialect: Dialect) -> Executable | None:
    """Delete the counters of a namespace and of all below it, which hold their names.

    A cache knows a counter that was begun anew by its ``born``. Binds `erased_binds`.
    """
    if not dialect.vectors.counts_changes:
        return None
    path = ITEMS.c.value
    low, high = (bindparam(name, type_=path.type) for name in ("p_from", "p_to"))
    return delete(ITEMS).where(_is_counter(), path >= low, path < high)


def erased_binds(tenant: str, path: str) -> dict[str, Any]:
    """Return the binds of `delete_counters` for an encoded namespace and all below it."""
    return {"k_tenant": tenant, "p_from": path.encode(), "p_to": path[:-1].encode() + b"0"}


def _version_columns() -> list[Any]:
    # Without conversion to Python types, because they are only compared.
    return [
        type_coerce(ITEMS.c.value, NULLTYPE).label("path"),
        ITEMS.c.version,
        func.json_extract(ITEMS.c.meta, "$.nonce").label("nonce"),
        type_coerce(ITEMS.c.created_at, NULLTYPE).label("born"),
        func.json_extract(ITEMS.c.meta, "$.removed").label("removed"),
    ]


def _is_counter() -> Any:
    tenant = ITEMS.c.tenant == bindparam("k_tenant", type_=ITEMS.c.tenant.type)
    return and_(tenant, ITEMS.c.namespace == COUNTERS)


def _is_named_counter() -> Any:
    return and_(_is_counter(), ITEMS.c.key == bindparam("k_counter", type_=ITEMS.c.key.type))
