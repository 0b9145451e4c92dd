"""How a cache of a namespace's vectors learns that they have changed: a number beside them.

A house row for each namespace, in the transaction of whatever changes its vectors: a put counts,
and what is removed, by whomever, is counted by a trigger. Where the vectors are the database's own
to search there is no cache, and no row that all puts of a namespace would queue for.
"""

from __future__ import annotations

import secrets
from datetime import datetime
from typing import Any

from sqlalchemy import Executable, bindparam, literal_column, select

from memalchemy.dialects import Dialect
from memalchemy.search.scope import ITEM_KEY, ITEMS, of_item
from memalchemy.statements import statement

COUNTERS = "/~vectors/"
_LENGTH = 200
"""Paths that begin alike for so long share a counter: their caches look once more than needed."""


@statement()
def bump_vectors(d: Dialect) -> Executable | None:
    """Count a change of a namespace's vectors; returns ``version``, the number of it."""
    if not d.counts_vector_changes:
        return None
    now = bindparam("p_now", type_=ITEMS.c.updated_at.type)
    nonce = bindparam("p_nonce", type_=ITEMS.c.checksum.type)
    values: dict[str, Any] = {
        name: bindparam(f"k_{name}", type_=ITEMS.c[name].type) for name in ITEM_KEY
    }
    values |= {
        "meta": literal_column("'{}'"),
        "version": literal_column("1"),
        "codec": literal_column("'none'"),
        "checksum": nonce,
        "created_at": now,
        "updated_at": now,
        "value": literal_column(d.byte_literal),
    }
    counted = {"version": ITEMS.c.version + 1, "checksum": nonce}
    return d.upsert(ITEMS, values, ITEM_KEY, counted).returning(ITEMS.c.version)


@statement()
def read_counter(d: Dialect) -> Executable | None:
    """``version, nonce`` of a namespace's counter; no row if no vector was ever there."""
    if not d.counts_vector_changes:
        return None
    return select(ITEMS.c.version, ITEMS.c.checksum.label("nonce")).where(of_item(ITEMS))


def counter_of(tenant: str, path: str) -> dict[str, Any]:
    """The binds of the counter of an encoded namespace."""
    return {"k_tenant": tenant, "k_namespace": COUNTERS, "k_key": path[:_LENGTH]}


def bump_binds(tenant: str, path: str, now: datetime) -> dict[str, Any]:
    """What `bump_vectors` binds. The nonce tells histories apart that count alike."""
    return counter_of(tenant, path) | {"p_now": now, "p_nonce": secrets.randbits(53)}
