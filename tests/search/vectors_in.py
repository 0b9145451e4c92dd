"""Items with vectors put into a database, as a store writes them; and what is nearest, by hand."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from typing import Any

import numpy as np
from sqlalchemy import delete, insert

from memalchemy import Database
from memalchemy.database import WRITE
from memalchemy.keys import encode_namespace
from memalchemy.search.scope import EMBEDDINGS, ITEMS
from memalchemy.search.vectors import (
    Neighbour,
    VectorQuery,
    check_vector,
    count_change,
    has_native_vectors,
)
from memalchemy.statements import Program

NOW = datetime(2026, 5, 1, tzinfo=UTC)
Place = tuple[tuple[str, ...], str]
"""Namespace and key."""
Parts = Mapping[tuple[str, int], Any]
"""A vector for each field and part."""


async def put(
    db: Database,
    vectors: Mapping[Place, Any],
    *,
    model: str = "m",
    expires_at: datetime | None = None,
    connection: Any = None,
    removes: bool = False,
) -> None:
    """Put items, each with one vector or with `Parts`; what they had before goes."""
    items = {
        (encode_namespace(namespace), key): given
        if isinstance(given, Mapping)
        else {("", 0): given}
        for (namespace, key), given in vectors.items()
    }

    def program() -> Program[None]:
        native = yield from has_native_vectors(db)
        versions = yield from _counted(db, {path for path, _ in items}, removes)
        for path, key in items:
            yield _of_item(delete(ITEMS), ITEMS, db, path, key), None
        common = {"tenant": db.tenant, "meta": {}, "version": 1, "codec": "none", "checksum": 0}
        common |= {"created_at": NOW, "updated_at": NOW, "value": b"-", "expires_at": expires_at}
        yield (
            insert(ITEMS),
            [common | {"namespace": path, "key": key} for path, key in items],
        )
        rows = [
            {
                "tenant": db.tenant,
                "namespace": path,
                "key": key,
                "field": field,
                "model": model,
                "part": part,
                "dimensions": len(vector),
                "change": versions.get(path, 0),
                "p_vector": db.dialect.vectors.bind_value(
                    check_vector(vector).astype("<f4").tobytes(), native
                ),
            }
            for (path, key), parts in items.items()
            for (field, part), vector in parts.items()
        ]
        values = insert(EMBEDDINGS).values(vector=db.dialect.vectors.bind("p_vector", native))
        yield values, rows

    await db.run(program, WRITE, connection=connection)


async def remove(db: Database, places: Sequence[Place], *, connection: Any = None) -> None:
    """Remove items."""
    items = [(encode_namespace(namespace), key) for namespace, key in places]

    def program() -> Program[None]:
        yield from _counted(db, {path for path, _ in items}, True)
        for path, key in items:
            yield _of_item(delete(ITEMS), ITEMS, db, path, key), None

    await db.run(program, WRITE, connection=connection)


def _counted(db: Database, paths: set[str], removes: bool) -> Program[dict[str, int]]:
    versions = {}
    for path in sorted(paths) if db.dialect.vectors.counts_changes else ():
        versions[path] = yield from count_change(db.dialect, db.tenant, path, NOW, removes=removes)
    return versions


def _of_item(statement: Any, table: Any, db: Database, path: str, key: str) -> Any:
    return statement.where(
        table.c.tenant == db.tenant, table.c.namespace == path, table.c.key == key
    )


def wanted(db: Database, namespace: tuple[str, ...], vector: Any, **more: Any) -> VectorQuery:
    """A search for one vector."""
    given: dict[str, Any] = {"below": False, "model": "m"} | more
    return VectorQuery(db.tenant, encode_namespace(namespace), vector=check_vector(vector), **given)


def by_hand(
    vectors: Mapping[Place, Any], vector: Any, metric: str = "cosine"
) -> list[tuple[str, str]]:
    """The items, nearest first, as numpy has it in double precision."""
    one = np.asarray(vector, dtype=np.float64)
    ranked = []
    for (namespace, key), given in vectors.items():
        parts = list(given.values()) if isinstance(given, Mapping) else [given]
        rows = np.asarray([check_vector(part) for part in parts], dtype=np.float64)
        product = rows @ one
        if metric == "dot":
            far = -product
        elif metric == "l2":
            far = np.linalg.norm(rows - one, axis=1)
        else:
            far = 1 - product / np.linalg.norm(rows, axis=1) / np.linalg.norm(one)
        ranked.append((float(far.min()), encode_namespace(namespace), key))
    return [(path, key) for _, path, key in sorted(ranked)]


def places(found: Sequence[Neighbour]) -> list[tuple[str, str]]:
    """Which items they are."""
    return [(near.namespace, near.key) for near in found]
