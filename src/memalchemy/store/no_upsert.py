"""Items where there is no upsert: one is updated, or else inserted."""

from __future__ import annotations

from collections.abc import Sequence

from sqlalchemy import Executable, insert

from memalchemy.dialects import Dialect
from memalchemy.errors import UniqueViolation
from memalchemy.proofs import REPLACED
from memalchemy.rows import ITEM
from memalchemy.search.scope import EMBEDDINGS, ITEMS
from memalchemy.statements import Program, statement
from memalchemy.store.write import (
    Revectored,
    Row,
    VectorName,
    VectorRow,
    delete_other_vectors,
    delete_vectors,
    insert_values,
    key_of,
    make_way_for,
    not_overwritten,
    put_alone,
    put_item,
    put_vector,
    updating,
    vector_values,
)
from memalchemy.variants import NO_UPSERT

delete_other_vectors.not_on(NO_UPSERT)


@put_item.on(NO_UPSERT)
def _put_item(dialect: Dialect, expected: str) -> Executable | None:
    return updating(expected) if expected in ("version", "item") else None


@statement(unproven=REPLACED, only_on=NO_UPSERT, expected=("any", "none"), writes=ITEM)
def update_item(dialect: Dialect, expected: str) -> Executable:
    """Update an existing item: the first half of `put_item`."""
    return updating(expected)  # type: ignore[no-any-return]


@statement(only_on=NO_UPSERT, writes=ITEM)
def insert_item(dialect: Dialect) -> Executable:
    """Insert a new item: the second half of `put_item`."""
    return insert(ITEMS).values(insert_values())


@put_alone.on(NO_UPSERT)
def _put_alone(dialect: Dialect, values: Row, which: str) -> Program[int | None]:
    if which in ("version", "item"):
        return (yield from put_alone.general(dialect, values, which))
    for _ in range(2):
        rows = yield update_item(dialect, expected=which), dict(values)
        if rows:
            return int(rows[0].version)
        try:
            yield insert_item(dialect), dict(values)
        except UniqueViolation:
            continue  # somebody else made it, or it is not as expected: look again
        return 1
    return None


@put_vector.on(NO_UPSERT)
def _put_vector(dialect: Dialect, native: bool) -> Executable | None:
    if not native and not dialect.vectors.may_be_bytes:
        return None
    return insert(EMBEDDINGS).values(vector_values(dialect, native))


@make_way_for.on(NO_UPSERT)
def _make_way_for(dialect: Dialect, item: Row, vectors: Sequence[VectorRow]) -> Program[None]:
    yield delete_vectors(dialect), key_of(item)


@not_overwritten.on(NO_UPSERT)
def _not_overwritten(dialect: Dialect, item: Revectored) -> list[VectorName]:
    return list(item.replaced)
